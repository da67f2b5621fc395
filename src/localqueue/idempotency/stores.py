"""Idempotency stores: in memory, in a file of their own, on a server, or inside a queue store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localqueue.errors import IdempotencyStoreLockedError
from localqueue.idempotency.record import IdempotencyRecord, excludes
from localqueue.policies.codec import JSON_CODEC
from localqueue.stores.keyvalue.port import Kind
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

_SCHEMA = """
CREATE TABLE idempotency_records (
    key TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    first_seen_at REAL NOT NULL,
    completed_at REAL,
    result_key TEXT,
    metadata TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX completed_records ON idempotency_records (completed_at) WHERE status = 'succeeded';
"""


IDEMPOTENCY: Kind[IdempotencyRecord] = Kind(
    name="idempotency",
    make=IdempotencyRecord,
    columns={
        "status": None,
        "first_seen_at": None,
        "completed_at": None,
        "result_key": None,
        "metadata": JSON_CODEC.decode,
    },
    schema=_SCHEMA,
    application_id=0x6C71_6964,  # "lqid"
    locked=IdempotencyStoreLockedError,
    ended=("status", "succeeded", "completed_at"),
)


class _Ledger(KeyedStore[IdempotencyRecord]):
    kind = IDEMPOTENCY

    def begin(self, key: str, record: IdempotencyRecord, *, now: float) -> IdempotencyRecord | None:
        """Save the pending `record` and return None, unless the key has succeeded or is in progress elsewhere.

        Then nothing is changed and the record that is there comes back. In progress elsewhere means: pending, with
        another `metadata["owner"]`, and `metadata["until"]` later than `now`. Of any number of threads and processes
        that begin a key at once, one wins.
        """
        key, seen = check_key(key), None  # most keys are new, so that is tried before looking
        while not self._records.swap(key, record, seen):
            there, seen = self._records.find(key)
            if there is not None and excludes(there, record, now):
                return there
        return None

    def prune_completed(self, *, older_than: float, now: float) -> int:
        """Remove the succeeded records that were completed at least `older_than` seconds ago; how many."""
        return self._prune(older_than, now)

    def count_completed_older_than(self, *, older_than: float, now: float) -> int:
        """How many records `prune_completed` would remove."""
        return self._prune(older_than, now, dry_run=True)


class MemoryIdempotencyStore(_Ledger, InMemory[IdempotencyRecord]):
    """Thread-safe in-memory ledger for tests."""


class SQLiteIdempotencyStore(_Ledger, InSQLite[IdempotencyRecord]):
    """Ledger in a SQLite file of its own."""


class LMDBIdempotencyStore(_Ledger, InLMDB[IdempotencyRecord]):
    """Ledger in an LMDB directory of its own."""


class QueueIdempotencyStore(_Ledger, InQueueStore[IdempotencyRecord]):
    """Ledger inside a queue store, so that a record and an ack are one commit. The queue store stays its owner's."""


class RemoteIdempotencyStore(OnServer[IdempotencyRecord], QueueIdempotencyStore):
    """Ledger on a server, by its address. The queue store behind it is its own: `store` gives it to a queue that is to
    share commits, `close` closes it."""


OpenedIdempotencyStore = MemoryIdempotencyStore | SQLiteIdempotencyStore | LMDBIdempotencyStore | RemoteIdempotencyStore

_CLASSES: dict[str, Callable[..., OpenedIdempotencyStore]] = {
    "memory": MemoryIdempotencyStore,
    "sqlite": SQLiteIdempotencyStore,
    "lmdb": LMDBIdempotencyStore,
}


def open_idempotency_store(url: str, *, namespace: str = "default", **options: Any) -> OpenedIdempotencyStore:
    """Open the ledger at `url`, made by the first write.

    `sqlite:///ledger.db` and `lmdb:///ledger` have a file or directory of their own, `memory://` lives and dies with
    this process. On a server (`postgresql://...`, `redis://...`, `mongodb://...`) the records are in the tables that a
    queue in `namespace` uses. `options` go to the store: `timeout=`, `durability=`, and what it has of its own.
    """
    return open_records(url, namespace, options, _CLASSES, RemoteIdempotencyStore)
