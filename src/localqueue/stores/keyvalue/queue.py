"""Records inside a queue store, so that a worker can write them in the commit that settles its message."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, TypeVar

from localqueue.errors import RecordConflict
from localqueue.stores.keyvalue.port import Kind, Records
from localqueue.stores.port import Changes, QueueStore, Record, RecordWrite

V = TypeVar("V")

_PAGE = 500


class QueueRecords(Records[V]):
    """Keeps records of the port's kind `kind.name`. The queue store stays its owner's: `close` does not close it."""

    def __init__(self, kind: Kind[V], store: QueueStore) -> None:
        self.kind = kind
        self._store = store

    def __repr__(self) -> str:
        return repr(self._store)

    @property
    def store(self) -> QueueStore:
        """Where records are written."""
        return self._store

    @property
    def reader(self) -> QueueStore:
        """Where they are read."""
        return self._store

    def is_in(self, store: object) -> bool:
        """Whether they are written to this queue store, so that its commits can write them too."""
        return self._store is store

    def now(self) -> float:
        return self._store.now()

    def find(self, key: str) -> tuple[V | None, int]:
        """The record and its version, which is 0 when there is none."""
        return self.read(self.reader.record(self.kind.name, key))

    def read(self, found: Record | None) -> tuple[V | None, int]:
        return (None, 0) if found is None else (self.kind.decode(found.value), found.version)

    def write(self, key: str, value: V, *, expect: int | None = None) -> RecordWrite:
        return RecordWrite(self.kind.name, key, self.kind.encode(value).encode(), expect)

    def erase(self, key: str, *, expect: int | None = None) -> RecordWrite:
        return RecordWrite(self.kind.name, key, None, expect)

    def put(self, key: str, value: V) -> None:
        self._commit(self.write(key, value))

    def swap(self, key: str, value: V, seen: Any) -> bool:
        return self._commits(self.write(key, value, expect=seen or 0))

    def delete(self, key: str) -> None:
        self._commit(self.erase(key))

    def keys(self, prefix: str = "") -> list[str]:
        itself = [prefix] if prefix and self.find(prefix)[1] else []
        later = (record.key for page in self._pages(after=prefix) for record in page)
        return itself + list(takewhile(lambda key: key.startswith(prefix), later))

    def prune(self, until: float, *, dry_run: bool = False) -> int:
        pruned = 0
        for page in self._pages():
            ended = [record for record in page if self.kind.has_ended(self.kind.decode(record.value), until)]
            pruned += len(ended) if dry_run else self._remove(ended)
        return pruned

    def _remove(self, records: list[Record]) -> int:
        """Remove those that nobody has changed since they were read: at once, or else one by one."""
        if not records or self._commits(*(self.erase(record.key, expect=record.version) for record in records)):
            return len(records)
        return sum(self._remove([record]) for record in records) if len(records) > 1 else 0

    def _pages(self, after: str = "") -> Iterator[list[Record]]:
        while page := self.reader.records(self.kind.name, after=after, limit=_PAGE):
            yield page
            after = page[-1].key

    def _commits(self, *writes: RecordWrite) -> bool:
        """Whether the records were as expected, and are now written."""
        try:
            self._commit(*writes)
        except RecordConflict:
            return False
        return True

    def _commit(self, *writes: RecordWrite) -> None:
        self.store.commit(Changes(records=writes))
