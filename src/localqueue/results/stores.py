"""Result stores: in memory, in a file of their own, on a server, or inside a queue store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from localqueue.errors import ResultStoreLockedError
from localqueue.policies.codec import JSON_CODEC
from localqueue.stores.keyvalue.port import Kind, to_json
from localqueue.stores.keyvalue.store import (
    InLMDB,
    InMemory,
    InQueueStore,
    InSQLite,
    KeyedStore,
    OnServer,
    check_key,
    open_records,
)
from localqueue.stores.port import RecordWrite

_SCHEMA = """
CREATE TABLE result_records (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
"""


class ResultStore(Protocol):
    """Protocol for custom result stores. A store must be usable from any thread.

    The stores of this package also have `contains`, which tells a stored None from a missing result, and `keys`.
    """

    def load(self, key: str) -> Any: ...

    def save(self, key: str, value: Any) -> None: ...

    def delete(self, key: str) -> None: ...


class _Kind(Kind[Any]):
    """A result is any value, and not a record with fields."""

    def encode(self, record: Any) -> str:
        return to_json(record, "results")

    def decode(self, text: str | bytes) -> Any:
        return JSON_CODEC.decode(text)

    def to_row(self, record: Any) -> tuple[Any, ...]:
        return (self.encode(record),)


RESULT = _Kind(
    name="result",
    make=lambda value: value,
    columns={"value": JSON_CODEC.decode},
    schema=_SCHEMA,
    application_id=0x6C71_7273,  # "lqrs"
    locked=ResultStoreLockedError,
)


class _Results(KeyedStore[Any]):
    kind = RESULT

    def contains(self, key: str) -> bool:
        """Whether there is a result, be it None."""
        return self.find(key)[0]

    def find(self, key: str) -> tuple[bool, Any]:
        """Whether there is a result, and which, in one read."""
        value, seen = self._records.find(check_key(key))
        return bool(seen), value

    def keys(self, prefix: str = "") -> list[str]:
        """The keys that begin with `prefix`, sorted."""
        return self._records.keys(prefix)


class MemoryResultStore(_Results, InMemory[Any]):
    """Thread-safe in-memory result store for tests. Takes any object that can be copied."""


class SQLiteResultStore(_Results, InSQLite[Any]):
    """Results as JSON in a SQLite file of its own."""


class LMDBResultStore(_Results, InLMDB[Any]):
    """Results as JSON in an LMDB directory of its own."""


class QueueResultStore(_Results, InQueueStore[Any]):
    """Results inside a queue store, so that a result and an ack are one commit. The queue store stays its owner's."""

    def write(self, key: str, value: Any, *, expect: int | None = None) -> RecordWrite:
        """The write of a result, also of None, to put into a commit of the queue store. `erase` deletes."""
        return self._records.write(check_key(key), value, expect=expect)


class RemoteResultStore(OnServer[Any], QueueResultStore):
    """Results on a server, by its address. The queue store behind it is its own: `store` gives it to a queue that is to
    share commits, `close` closes it."""


OpenedResultStore = MemoryResultStore | SQLiteResultStore | LMDBResultStore | RemoteResultStore

_CLASSES: dict[str, Callable[..., OpenedResultStore]] = {
    "memory": MemoryResultStore,
    "sqlite": SQLiteResultStore,
    "lmdb": LMDBResultStore,
}


def open_result_store(url: str, *, namespace: str = "default", **options: Any) -> OpenedResultStore:
    """Open the result store at `url`, made by the first write.

    `sqlite:///results.db` and `lmdb:///results` have a file or directory of their own, `memory://` lives and dies with
    this process. On a server (`postgresql://...`, `redis://...`, `mongodb://...`) the records are in the tables that a
    queue in `namespace` uses. `options` go to the store: `timeout=`, `durability=`, and what it has of its own.
    """
    return open_records(url, namespace, options, _CLASSES, RemoteResultStore)
