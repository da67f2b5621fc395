"""Records on a server, by its address: in the tables that a queue on that server uses.

The queue store behind them is opened on first use, belongs to these records and is closed with them. Who only reads
has one that is opened to look, so that nothing is made: the first write does that.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from localqueue.errors import QueueStoreMissingError
from localqueue.stores import fork
from localqueue.stores.address import shown
from localqueue.stores.keyvalue.port import Kind
from localqueue.stores.keyvalue.queue import QueueRecords
from localqueue.stores.port import OpenedStore, RecordWrite
from localqueue.stores.url import checked, open_store

V = TypeVar("V")

_LOCAL = ("memory", "sqlite", "lmdb")


class RemoteRecords(QueueRecords[V]):
    """Reads of a store that is not there find nothing."""

    def __init__(self, kind: Kind[V], url: str, *, namespace: str, options: Mapping[str, Any]) -> None:
        if checked(url) in _LOCAL:
            raise ValueError(
                f"{shown(url)!r} is no server: open_{kind.name}_store() opens {kind.name} stores by any address"
            )
        self.kind = kind
        self.path = shown(url)
        self._place = {"url": url, "namespace": namespace, **options}
        self._lock = threading.Lock()
        self._looked_at: OpenedStore | None = None
        self._opened: OpenedStore | None = None
        self._closed = False
        fork.track(self)

    def __repr__(self) -> str:
        return repr(self.path)

    @property
    def store(self) -> OpenedStore:
        """The queue store that is written to, made if it was not there."""
        if self._opened is None:
            with self._lock, self.kind.worded():
                self._require_open()
                if self._opened is None:
                    self._opened = open_store(**self._place)
        self._require_open()
        return self._opened

    @property
    def reader(self) -> OpenedStore:
        """The one that is read: opened to look, until there was a write; `QueueStoreMissingError` if there is none."""
        found = self._opened or self._looked_at
        if found is None:
            with self._lock:
                self._require_open()
                found = self._looked_at = open_store(**self._place, read_only=True)
        self._require_open()
        return found

    def is_in(self, store: object) -> bool:
        return store is not None and self._opened is store

    def now(self) -> float:
        """The time by the server's clock. A store that is not there is made to ask: a write is to follow."""
        with self.kind.worded():
            try:
                return self.reader.now()
            except QueueStoreMissingError:
                return self.store.now()

    def find(self, key: str) -> tuple[V | None, int]:
        with self.kind.worded():
            try:
                return super().find(key)
            except QueueStoreMissingError:
                return None, 0

    def delete(self, key: str) -> None:
        with self.kind.worded(), suppress(QueueStoreMissingError):
            assert self.reader is not None
            super().delete(key)

    def keys(self, prefix: str = "") -> list[str]:
        with self.kind.worded():
            try:
                return super().keys(prefix)
            except QueueStoreMissingError:
                return []

    def prune(self, until: float, *, dry_run: bool = False) -> int:
        with self.kind.worded():
            try:
                return super().prune(until, dry_run=dry_run)
            except QueueStoreMissingError:
                return 0

    def _commit(self, *writes: RecordWrite) -> None:
        with self.kind.worded():
            super()._commit(*writes)

    def _require_open(self) -> None:
        if self._closed:
            raise self.kind.closed(self.path)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for store in (self._opened, self._looked_at):
                if store is not None:
                    store.close()

    # fork: the queue stores carry themselves over; only the lock may be held by a thread that the child has not

    def hold_for_fork(self) -> None:
        pass

    def go_on_after_fork(self) -> None:
        pass

    def close_in_child(self) -> None:
        pass

    def reopen_in_child(self) -> None:
        self._lock = threading.Lock()
