"""Records in an LMDB environment of their own, opened the way `LMDBQueueStore` opens its environment.

The key of an entry is the record's key, cut and completed by a digest where it is longer than LMDB allows; the value
holds the key whole, then the record as text.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from localqueue.stores.keyvalue.port import VERSION, Kind, Records
from localqueue.stores.lmdb import connection, keys
from localqueue.stores.lmdb.keys import Txn
from localqueue.stores.path import require_path

T = TypeVar("T")
V = TypeVar("V")

_META = struct.Struct(">32sI")
_KEY_LENGTH = struct.Struct(">I")
_RECORD = b"k"


class LMDBRecords(Records[V]):
    """Reads of an environment that is not there find nothing; the first write makes it.

    `map_size` is where the map starts: it grows by itself. Processes should agree on `durability`.
    """

    def __init__(
        self, kind: Kind[V], path: str | os.PathLike[str], *, map_size: int, timeout: float, durability: str
    ) -> None:
        if durability not in ("process", "power"):
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if map_size <= 0:
            raise ValueError(f"map_size must be positive, not {map_size!r}")
        self.kind = kind
        self.path = os.path.realpath(require_path(path))
        self._timeout = timeout
        self._map_size = map_size
        self._sync = durability == "power"
        self._mark = _META.pack(f"localqueue {kind.name}".encode(), VERSION)
        self._opening = threading.Lock()
        self._closed = False
        self._environment: connection.Environment | None = None
        if connection.is_there(self.path) or (os.path.lexists(self.path) and not os.path.isdir(self.path)):
            self._open()

    def find(self, key: str) -> tuple[V | None, Any]:
        entry = self._read(lambda txn: txn.get(_entry(key)), None)
        return (None, None) if entry is None else (self._record(entry), entry)

    def put(self, key: str, value: V) -> None:
        packed = self._pack(key, value)
        self._write(lambda txn: txn.put(_entry(key), packed))

    def swap(self, key: str, value: V, seen: Any) -> bool:
        packed = self._pack(key, value)
        return self._write(lambda txn: txn.get(_entry(key)) == seen and txn.put(_entry(key), packed))

    def delete(self, key: str) -> None:
        if self._is_there():
            self._write(lambda txn: txn.delete(_entry(key)))

    def keys(self, prefix: str = "") -> list[str]:
        start = _RECORD + keys.encoded(prefix)[: keys.LONGEST_TEXT]
        none: list[str] = []
        found = self._read(lambda txn: [_split(entry)[0].decode() for _, entry in keys.walk(txn, start)], none)
        return sorted(key for key in found if key.startswith(prefix))

    def prune(self, until: float, *, dry_run: bool = False) -> int:
        def ended(txn: Txn) -> list[bytes]:
            return [key for key, entry in keys.walk(txn, _RECORD) if self.kind.has_ended(self._record(entry), until)]

        if dry_run or not self._is_there():
            return self._read(lambda txn: len(ended(txn)), 0)
        return self._write(lambda txn: sum(txn.delete(key) for key in ended(txn)))

    def _pack(self, key: str, value: V) -> bytes:
        raw = keys.encoded(key)
        return _KEY_LENGTH.pack(len(raw)) + raw + self.kind.encode(value).encode()

    def _record(self, entry: bytes) -> V:
        return self.kind.decode(_split(entry)[1])

    # life

    def _is_ours(self, txn: Txn) -> bool:
        """Whether the environment is marked as ours; False when it is empty. Refuses any other."""
        mark = txn.get(keys.META)
        if mark is None and not txn.cursor().first():
            return False
        if mark is None or len(mark) != _META.size or mark[:32] != self._mark[:32]:
            raise self.kind.foreign(self.path, "an LMDB environment")
        self.kind.check_version(_META.unpack(mark)[1], self.path, "LMDB")
        return True

    def _is_there(self) -> bool:
        return self._environment is not None or self._closed or connection.is_there(self.path)

    def _read(self, work: Callable[[Txn], T], nothing: T) -> T:
        if not self._is_there():
            return nothing
        environment = self._open()
        with self.kind.worded():
            return environment.read(work)

    def _write(self, work: Callable[[Txn], T]) -> T:
        environment = self._open()
        with self.kind.worded():
            return environment.writer.run(lambda txn, _: work(txn), clock=time.time, timeout=self._timeout)

    def _open(self) -> connection.Environment:
        """The environment, marked as ours; made if it was not there."""
        if self._closed:
            raise self.kind.closed(self.path)
        if self._environment is not None:
            return self._environment
        with self._opening, self.kind.worded():
            if self._environment is None:
                environment, finalizer = connection.acquire(self, self.path, map_size=self._map_size, sync=self._sync)
                try:
                    if not environment.read(self._is_ours):
                        environment.writer.run(self._mark_as_ours, clock=time.time, timeout=self._timeout)
                except BaseException:
                    finalizer()
                    raise
                self._finalizer, self._environment = finalizer, environment
            return self._environment

    def _mark_as_ours(self, txn: Txn, now: float) -> None:
        if not self._is_ours(txn):
            txn.put(keys.META, self._mark)

    def close(self) -> None:
        with self._opening:
            self._closed = True
            if self._environment is not None:
                self._finalizer()


def _entry(key: str) -> bytes:
    return _RECORD + keys.text_key(key)


def _split(entry: bytes) -> tuple[bytes, bytes]:
    """The key and the text of a record."""
    end = _KEY_LENGTH.size + _KEY_LENGTH.unpack_from(entry)[0]
    return entry[_KEY_LENGTH.size : end], entry[end:]
