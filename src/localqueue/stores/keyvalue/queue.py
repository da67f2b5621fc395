"""Records inside a queue store, so that a worker can write them in the commit that settles its message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from localqueue.errors import RecordConflict
from localqueue.stores.keyvalue.port import KeyedStore, Kind, Records, check_key
from localqueue.stores.port import Changes, QueueStore, Record, RecordWrite

V = TypeVar("V")

_PAGE = 500


class QueueRecords(Records[V]):
    """Keeps records of the port's kind `kind.name`. The queue store stays its owner's: `close` does not close it."""

    def __init__(self, kind: Kind[V], store: QueueStore) -> None:
        self.kind = kind
        self.store = store

    def __repr__(self) -> str:
        return repr(self.store)

    def get(self, key: str) -> V | None:
        return self.versioned(key)[0]

    def versioned(self, key: str) -> tuple[V | None, int]:
        """The record and its version, which is 0 when there is none."""
        return self.read(self.store.record(self.kind.name, key))

    def read(self, found: Record | None) -> tuple[V | None, int]:
        return (None, 0) if found is None else (self.kind.decode(found.value), found.version)

    def write(self, key: str, value: V | None, *, expect: int | None = None) -> RecordWrite:
        encoded = None if value is None else self.kind.encode(value).encode()
        return RecordWrite(self.kind.name, key, encoded, expect)

    def put(self, key: str, value: V) -> None:
        self._commit(self.write(key, value))

    def put_unless(self, key: str, value: V, blocks: Callable[[V], bool]) -> V | None:
        while True:
            there, version = self.versioned(key)
            if there is not None and blocks(there):
                return there
            try:
                self._commit(self.write(key, value, expect=version))
                return None
            except RecordConflict:
                continue

    def delete(self, key: str) -> None:
        self._commit(self.write(key, None))

    def keys(self, prefix: str = "") -> list[str]:
        found = [] if not prefix or self.store.record(self.kind.name, prefix) is None else [prefix]
        for page in self._pages(after=prefix):
            found += [record.key for record in page if record.key.startswith(prefix)]
            if not page[-1].key.startswith(prefix):
                break
        return found

    def prune(self, until: float, *, dry_run: bool = False) -> int:
        pruned = 0
        for page in self._pages():
            ended = [record for record in page if self._ended_by(record, until)]
            pruned += len(ended) if dry_run else self._remove(ended)
        return pruned

    def _ended_by(self, record: Record, until: float) -> bool:
        ended_at = self.kind.ended_at(self.kind.decode(record.value))
        return ended_at is not None and ended_at <= until

    def _remove(self, records: list[Record]) -> int:
        """Remove those that nobody has changed since they were read: at once, or else one by one."""
        if not records:
            return 0
        try:
            self._commit(*(self.write(record.key, None, expect=record.version) for record in records))
        except RecordConflict:
            return sum(self._remove([record]) for record in records) if len(records) > 1 else 0
        return len(records)

    def _pages(self, after: str = "") -> Iterator[list[Record]]:
        while page := self.store.records(self.kind.name, after=after, limit=_PAGE):
            yield page
            after = page[-1].key

    def _commit(self, *writes: RecordWrite) -> None:
        self.store.commit(Changes(records=writes))


class InQueueStore(KeyedStore[V]):
    """A store whose records live in a queue store, and whose writes can go into a commit of it."""

    def __init__(self, kind: Kind[V], store: QueueStore) -> None:
        self._inside = QueueRecords(kind, store)
        self.store = store
        super().__init__(self._inside)

    def versioned(self, key: str) -> tuple[V | None, int]:
        """The record and its version, 0 when there is none."""
        return self._inside.versioned(check_key(key))

    def read(self, found: Record | None) -> tuple[V | None, int]:
        """What a record of the queue store says, with its version; (None, 0) for none."""
        return self._inside.read(found)

    def write(self, key: str, record: V | None, *, expect: int | None = None) -> RecordWrite:
        """The write of a record (with None: its deletion), to put into a commit of the queue store."""
        return self._inside.write(check_key(key), record, expect=expect)

    def erase(self, key: str, *, expect: int | None = None) -> RecordWrite:
        """The deletion of a record, to put into a commit of the queue store."""
        return self._inside.write(check_key(key), None, expect=expect)
