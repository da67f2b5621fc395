"""Attempt stores: in memory, in a file of their own, on a server, or inside a queue store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localqueue.errors import AttemptStoreLockedError
from localqueue.retry.record import RetryRecord
from localqueue.stores.keyvalue.port import Kind
from localqueue.stores.keyvalue.store import (
    InLMDB,
    InMemory,
    InQueueStore,
    InSQLite,
    KeyedStore,
    OnServer,
    open_records,
)

_SCHEMA = """
CREATE TABLE attempt_records (
    key TEXT PRIMARY KEY,
    attempts INTEGER NOT NULL,
    first_attempt_at REAL NOT NULL,
    exhausted INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX exhausted_attempts ON attempt_records (first_attempt_at) WHERE exhausted = 1;
"""

ATTEMPT: Kind[RetryRecord] = Kind(
    name="attempt",
    make=RetryRecord,
    columns={"attempts": None, "first_attempt_at": None, "exhausted": bool},
    schema=_SCHEMA,
    application_id=0x6C71_6174,  # "lqat"
    locked=AttemptStoreLockedError,
    ended=("exhausted", 1, "first_attempt_at"),
)


class _Attempts(KeyedStore[RetryRecord]):
    kind = ATTEMPT

    def prune_exhausted(self, *, older_than: float, now: float) -> int:
        """Remove the exhausted records whose first attempt is at least `older_than` seconds ago; how many."""
        return self._prune(older_than, now)

    def count_exhausted_older_than(self, *, older_than: float, now: float) -> int:
        """How many records `prune_exhausted` would remove."""
        return self._prune(older_than, now, dry_run=True)


class MemoryAttemptStore(_Attempts, InMemory[RetryRecord]):
    """Thread-safe in-memory attempt store for tests and local scenarios."""


class SQLiteAttemptStore(_Attempts, InSQLite[RetryRecord]):
    """Attempt store in a SQLite file of its own; the default."""


class LMDBAttemptStore(_Attempts, InLMDB[RetryRecord]):
    """Attempt store in an LMDB directory of its own."""


class QueueAttemptStore(_Attempts, InQueueStore[RetryRecord]):
    """Attempt records inside a queue store, which stays open when this is closed."""


class RemoteAttemptStore(OnServer[RetryRecord], QueueAttemptStore):
    """Attempt records on a server, by its address. The queue store behind it is its own, and closed with it."""


OpenedAttemptStore = MemoryAttemptStore | SQLiteAttemptStore | LMDBAttemptStore | RemoteAttemptStore

_CLASSES: dict[str, Callable[..., OpenedAttemptStore]] = {
    "memory": MemoryAttemptStore,
    "sqlite": SQLiteAttemptStore,
    "lmdb": LMDBAttemptStore,
}


def open_attempt_store(url: str, *, namespace: str = "default", **options: Any) -> OpenedAttemptStore:
    """Open the attempt store at `url`, made by the first write.

    `sqlite:///attempts.db` and `lmdb:///attempts` have a file or directory of their own, `memory://` lives and dies
    with this process. On a server (`postgresql://...`, `redis://...`, `mongodb://...`) the records are in the tables
    that a queue in `namespace` uses. `options` go to the store: `timeout=`, `durability=`, and what it has of its own.
    """
    return open_records(url, namespace, options, _CLASSES, RemoteAttemptStore)
