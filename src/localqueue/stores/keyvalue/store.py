"""What attempt, idempotency and result stores share: the store in front of the place that keeps its records.

A kind of store is a class with its `kind` and its own verbs; with each of the places below it is a store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from localqueue.stores.keyvalue.port import Kind, Records
from localqueue.stores.keyvalue.queue import QueueRecords
from localqueue.stores.port import QueueStore, Record, RecordWrite

V = TypeVar("V")
S = TypeVar("S")


class KeyedStore(Generic[V]):
    """A store of records by key."""

    kind: ClassVar[Kind[Any]]
    _records: Records[V]

    def load(self, key: str) -> V | None:
        """The record that was saved last, or None."""
        return self._records.find(check_key(key))[0]

    def save(self, key: str, record: V) -> None:
        self._records.put(check_key(key), record)

    def delete(self, key: str) -> None:
        """Forget the record; harmless when there is none."""
        self._records.delete(check_key(key))

    def _prune(self, older_than: float, now: float, *, dry_run: bool = False) -> int:
        if older_than < 0:
            raise ValueError("older_than cannot be negative")
        return self._records.prune(now - older_than, dry_run=dry_run)

    def close(self) -> None:
        """Give back what is open. Closing twice is harmless."""
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._records!r})"


class InMemory(KeyedStore[V]):
    def __init__(self) -> None:
        from localqueue.stores.keyvalue.memory import MemoryRecords

        self._records = MemoryRecords(self.kind)


class InSQLite(KeyedStore[V]):
    def __init__(self, path: str | os.PathLike[str], timeout: float = 15.0, *, durability: str = "process") -> None:
        """`timeout` is how long to wait for another process's write lock.

        Safe to share between threads, to open from many processes, and to carry over a fork.
        """
        from localqueue.stores.keyvalue.sqlite import SQLiteRecords

        self._records = SQLiteRecords(self.kind, path, timeout=timeout, durability=durability)


class InLMDB(KeyedStore[V]):
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        map_size: int = 10**7,
        timeout: float = 15.0,
        durability: str = "process",
    ) -> None:
        """Needs the extra `localqueue[lmdb]`."""
        from localqueue.stores.keyvalue.lmdb import LMDBRecords

        self._records = LMDBRecords(self.kind, path, map_size=map_size, timeout=timeout, durability=durability)


class InQueueStore(KeyedStore[V]):
    """A store whose records live in a queue store, and whose writes can go into a commit of it."""

    _records: QueueRecords[V]

    def __init__(self, store: QueueStore) -> None:
        self._records = QueueRecords(self.kind, store)

    @property
    def store(self) -> QueueStore:
        """The queue store that has the records."""
        return self._records.store

    def is_in(self, store: object) -> bool:
        """Whether the records are in this queue store, so that a commit of it can write them too."""
        return self._records.is_in(store)

    def now(self) -> float:
        """The time by the clock of the queue store, which all hosts share."""
        return self._records.now()

    def versioned(self, key: str) -> tuple[V | None, int]:
        """The record and its version, 0 when there is none."""
        return self._records.find(check_key(key))

    def read(self, found: Record | None) -> tuple[V | None, int]:
        """What a record of the queue store says, with its version; (None, 0) for none."""
        return self._records.read(found)

    def write(self, key: str, record: V | None, *, expect: int | None = None) -> RecordWrite:
        """The write of a record (with None: its deletion), to put into a commit of the queue store."""
        if record is None:
            return self.erase(key, expect=expect)
        return self._records.write(check_key(key), record, expect=expect)

    def erase(self, key: str, *, expect: int | None = None) -> RecordWrite:
        """The deletion of a record, to put into a commit of the queue store."""
        return self._records.erase(check_key(key), expect=expect)


class OnServer(InQueueStore[V]):
    """A store whose records live in a queue store that it opens by its address, and closes."""

    def __init__(self, url: str, *, namespace: str = "default", **options: Any) -> None:
        """`url` is that of a server, as `open_store` takes it; `options` go to the queue store, such as `timeout=`.

        Nothing is connected to before the first use, and nothing made before the first write. Safe to share between
        threads, to open from many processes, and to carry over a fork.
        """
        from localqueue.stores.keyvalue.remote import RemoteRecords

        self._records = RemoteRecords(self.kind, url, namespace=namespace, options=options)


def open_records(
    url: str,
    namespace: str,
    options: Mapping[str, Any],
    classes: Mapping[str, Callable[..., S]],
    on_server: Callable[..., S],
) -> S:
    """The store of records at an address, of the class for its backend or else of that for servers."""
    from localqueue.stores.address import shown
    from localqueue.stores.url import checked, path_of

    backend = checked(url)
    if backend not in classes:
        return on_server(url, namespace=namespace, **options)
    if namespace != "default":
        raise ValueError(
            f"can not open {shown(url)!r} with namespace={namespace!r}: only servers have them; choose another path"
        )
    return classes[backend](**options) if backend == "memory" else classes[backend](path_of(url), **options)


def now_of(store: object) -> float:
    """The time by which a store of records counts: that of its own clock if it has one, or else this machine's."""
    now: Callable[[], float] = getattr(store, "now", time.time)
    return now()


def check_key(key: str) -> str:
    """Return the key when every place can hold it."""
    if not isinstance(key, str):
        raise TypeError(f"key must be a string, not {key!r}")
    if not key:
        raise ValueError("key cannot be empty")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            raise ValueError(f"key {key!r} is not valid Unicode") from None
    if "\0" in key:
        raise ValueError(f"key {key!r} cannot contain a NUL character")
    return key
