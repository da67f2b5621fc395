"""Result stores: in memory, in a file of their own, or inside a queue store."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Protocol

from localqueue.errors import ResultStoreLockedError
from localqueue.policies.codec import JSON_CODEC
from localqueue.stores.keyvalue.port import KeyedStore, Kind, check_key, to_json
from localqueue.stores.keyvalue.queue import InQueueStore
from localqueue.stores.port import QueueStore, RecordWrite

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


class Stored(NamedTuple):
    """A result that is there, be it None."""

    value: Any


def _encode(stored: Stored) -> str:
    return to_json(stored.value, "results")


def _decode(text: str | bytes) -> Stored:
    return Stored(JSON_CODEC.decode(text))


RESULT: Kind[Stored] = Kind(
    name="result",
    encode=_encode,
    decode=_decode,
    columns=("value",),
    to_row=lambda stored: (_encode(stored),),
    from_row=lambda row: _decode(row[0]),
    schema=_SCHEMA,
    application_id=0x6C71_7273,  # "lqrs"
    locked=ResultStoreLockedError,
)


class _Results(KeyedStore[Stored]):
    def load(self, key: str) -> Any:
        """The result, or None when there is none; `contains` tells that from a result that is None."""
        found = self._records.get(check_key(key))
        return None if found is None else found.value

    def save(self, key: str, value: Any) -> None:
        self._records.put(check_key(key), Stored(value))

    def contains(self, key: str) -> bool:
        return self._records.get(check_key(key)) is not None

    def find(self, key: str) -> tuple[bool, Any]:
        """Whether there is a result, and which, in one read."""
        found = self._records.get(check_key(key))
        return (False, None) if found is None else (True, found.value)

    def keys(self, prefix: str = "") -> list[str]:
        """The keys that begin with `prefix`, sorted."""
        return self._records.keys(prefix)


class MemoryResultStore(_Results):
    """Thread-safe in-memory result store for tests. Takes any object that can be copied."""

    def __init__(self) -> None:
        from localqueue.stores.keyvalue.memory import MemoryRecords

        super().__init__(MemoryRecords(RESULT))


class SQLiteResultStore(_Results):
    """Results as JSON in a SQLite file of its own.

    `timeout` is how long to wait for another process's write lock. Safe to share between threads, to open from many
    processes, and to carry over a fork.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float = 15.0, *, durability: str = "process") -> None:
        from localqueue.stores.keyvalue.sqlite import SQLiteRecords

        super().__init__(SQLiteRecords(RESULT, path, timeout=timeout, durability=durability))


class LMDBResultStore(_Results):
    """Results as JSON in an LMDB directory of its own; needs the extra `localqueue[lmdb]`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        map_size: int = 10**7,
        timeout: float = 15.0,
        durability: str = "process",
    ) -> None:
        from localqueue.stores.keyvalue.lmdb import LMDBRecords

        super().__init__(LMDBRecords(RESULT, path, map_size=map_size, timeout=timeout, durability=durability))


class QueueResultStore(InQueueStore[Stored], _Results):
    """Results inside a queue store, so that a result and an ack are one commit. The queue store stays its owner's."""

    def __init__(self, store: QueueStore) -> None:
        super().__init__(RESULT, store)

    def versioned(self, key: str) -> tuple[Any, int]:
        """The result and its version; version 0 says that there is none, any other that the result may be None."""
        found, version = super().versioned(key)
        return (None if found is None else found.value), version

    def write(self, key: str, value: Any, *, expect: int | None = None) -> RecordWrite:
        """The write of a result, also of None, to put into a commit of the queue store. `erase` deletes."""
        return super().write(key, Stored(value), expect=expect)
