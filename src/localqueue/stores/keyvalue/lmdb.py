"""Records in an LMDB environment of their own, opened the way `LMDBQueueStore` opens its environment.

The key of an entry is the record's key, cut and completed by a digest where it is longer than LMDB allows; the value
holds the key whole, then the record as text.
"""

from __future__ import annotations

import os
import struct
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from localqueue.errors import QueueStoreError, QueueStoreVersionError
from localqueue.stores.keyvalue.port import Kind, Records
from localqueue.stores.lmdb import keys, registry
from localqueue.stores.lmdb.driver import Txn

T = TypeVar("T")
V = TypeVar("V")

VERSION = 1

_META = struct.Struct(">32sI")
_KEY_LENGTH = struct.Struct(">I")
_RECORD = b"k"


class LMDBRecords(Records[V]):
    """`map_size` is where the map starts: it grows by itself. Processes should agree on `durability`."""

    def __init__(
        self,
        kind: Kind[V],
        path: str | os.PathLike[str],
        *,
        map_size: int,
        timeout: float = 15.0,
        durability: str = "process",
    ) -> None:
        if durability not in ("process", "power"):
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if map_size <= 0:
            raise ValueError(f"map_size must be positive, not {map_size!r}")
        self.kind = kind
        self.path = os.path.realpath(path)
        self._timeout = timeout
        self._mark = _META.pack(f"localqueue {kind.name}".encode(), VERSION)
        with self._worded():
            self._environment = registry.acquire(self.path, map_size=map_size, sync=durability == "power")
        self._finalizer = weakref.finalize(self, registry.release, self._environment)
        self._finalizer.atexit = False  # the end of the process closes everything, without waiting for its threads
        try:
            if not self._read(self._is_ours):
                self._write(self._claim)
        except BaseException:
            self._finalizer()
            raise

    def __repr__(self) -> str:
        return repr(self.path)

    def get(self, key: str) -> V | None:
        entry = self._read(lambda txn: txn.get(_entry(key)))
        return None if entry is None else self._record(entry)

    def put(self, key: str, value: V) -> None:
        packed = self._pack(key, value)
        self._write(lambda txn: txn.put(_entry(key), packed))

    def put_unless(self, key: str, value: V, blocks: Callable[[V], bool]) -> V | None:
        packed = self._pack(key, value)

        def work(txn: Txn) -> V | None:
            entry = txn.get(_entry(key))
            there = None if entry is None else self._record(entry)
            if there is not None and blocks(there):
                return there
            txn.put(_entry(key), packed)
            return None

        return self._write(work)

    def delete(self, key: str) -> None:
        self._write(lambda txn: txn.delete(_entry(key)))

    def keys(self, prefix: str = "") -> list[str]:
        start = _RECORD + keys.encoded(prefix)[: keys.LONGEST_TEXT]
        found = self._read(lambda txn: [_key(entry) for _, entry in keys.walk(txn, start)])
        return sorted(key for key in found if key.startswith(prefix))

    def prune(self, until: float, *, dry_run: bool = False) -> int:
        def ended(txn: Txn) -> list[bytes]:
            found = ((key, self.kind.ended_at(self._record(entry))) for key, entry in keys.walk(txn, _RECORD))
            return [key for key, ended_at in found if ended_at is not None and ended_at <= until]

        def work(txn: Txn) -> int:
            return sum(txn.delete(key) for key in ended(txn))

        return self._read(lambda txn: len(ended(txn))) if dry_run else self._write(work)

    def _pack(self, key: str, value: V) -> bytes:
        raw = keys.encoded(key)
        return _KEY_LENGTH.pack(len(raw)) + raw + self.kind.encode(value).encode()

    def _record(self, entry: bytes) -> V:
        (length,) = _KEY_LENGTH.unpack_from(entry)
        return self.kind.decode(entry[_KEY_LENGTH.size + length :])

    # life

    def _is_ours(self, txn: Txn) -> bool:
        """Whether the environment is marked as ours; False when it is empty. Refuses any other."""
        mark = txn.get(keys.META)
        if mark is None and not txn.cursor().first():
            return False
        if mark is None or len(mark) != _META.size or mark[:32] != self._mark[:32]:
            raise QueueStoreVersionError(
                f"{self.path!r} is an LMDB environment of another program or another kind of store; nothing was "
                f"changed, choose another path for the {self.kind.name} store",
                path=self.path,
            )
        version = _META.unpack(mark)[1]
        if version > VERSION:
            raise QueueStoreVersionError(
                f"unsupported LMDB {self.kind.name} schema version: {version}; expected at most {VERSION}: "
                f"{self.path!r} was written by a newer localqueue, upgrade this one",
                path=self.path,
            )
        return True

    def _claim(self, txn: Txn) -> None:
        if not self._is_ours(txn):
            txn.put(keys.META, self._mark)

    def _read(self, work: Callable[[Txn], T]) -> T:
        with self._worded():
            self._require_open()
            return self._environment.read(work)

    def _write(self, work: Callable[[Txn], T]) -> T:
        with self._worded():
            self._require_open()
            return self._environment.writer.run(lambda txn, _: work(txn), clock=time.time, timeout=self._timeout)

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise self.kind.closed(self.path)

    @contextmanager
    def _worded(self) -> Iterator[None]:
        try:
            yield
        except QueueStoreError as error:
            raise self.kind.reword(error) from error.__cause__

    def close(self) -> None:
        if self._finalizer.alive:
            self._finalizer()


def _entry(key: str) -> bytes:
    return _RECORD + keys.text_key(key)


def _key(entry: bytes) -> str:
    (length,) = _KEY_LENGTH.unpack_from(entry)
    return entry[_KEY_LENGTH.size : _KEY_LENGTH.size + length].decode()
