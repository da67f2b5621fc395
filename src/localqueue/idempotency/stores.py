"""Idempotency stores: in memory, in a file of their own, or inside a queue store."""

from __future__ import annotations

import os
from typing import Any

from localqueue.errors import IdempotencyStoreLockedError
from localqueue.idempotency.record import IdempotencyRecord, excludes
from localqueue.policies.codec import JSON_CODEC
from localqueue.stores.keyvalue.port import KeyedStore, Kind, check_key, to_json, until
from localqueue.stores.keyvalue.queue import InQueueStore
from localqueue.stores.port import QueueStore

_COLUMNS = ("status", "first_seen_at", "completed_at", "result_key", "metadata")
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


def _encode(record: IdempotencyRecord) -> str:
    return to_json({name: getattr(record, name) for name in _COLUMNS}, "idempotency records")


def _decode(text: str | bytes) -> IdempotencyRecord:
    return IdempotencyRecord(**JSON_CODEC.decode(text))


def _to_row(record: IdempotencyRecord) -> tuple[Any, ...]:
    metadata = to_json(record.metadata, "idempotency metadata") if record.metadata else "{}"
    return record.status, record.first_seen_at, record.completed_at, record.result_key, metadata


def _from_row(row: tuple[Any, ...]) -> IdempotencyRecord:
    status, first_seen_at, completed_at, result_key, metadata = row
    return IdempotencyRecord(status, first_seen_at, completed_at, result_key, JSON_CODEC.decode(metadata))


IDEMPOTENCY: Kind[IdempotencyRecord] = Kind(
    name="idempotency",
    encode=_encode,
    decode=_decode,
    columns=_COLUMNS,
    to_row=_to_row,
    from_row=_from_row,
    schema=_SCHEMA,
    application_id=0x6C71_6964,  # "lqid"
    locked=IdempotencyStoreLockedError,
    ended_at=lambda record: record.completed_at if record.status == "succeeded" else None,
    ended_rows="status = 'succeeded' AND completed_at <= ?",
)


class _Ledger(KeyedStore[IdempotencyRecord]):
    def load(self, key: str) -> IdempotencyRecord | None:
        return self._records.get(check_key(key))

    def save(self, key: str, record: IdempotencyRecord) -> None:
        self._records.put(check_key(key), record)

    def begin(self, key: str, record: IdempotencyRecord, *, now: float) -> IdempotencyRecord | None:
        """Save the pending `record` and return None, unless the key has succeeded or is in progress elsewhere.

        Then nothing is changed and the record that is there comes back. In progress elsewhere means: pending, with
        another `metadata["owner"]`, and `metadata["until"]` later than `now`. Of any number of threads and processes
        that begin a key at once, one wins.
        """
        return self._records.put_unless(check_key(key), record, lambda existing: excludes(existing, record, now))

    def prune_completed(self, *, older_than: float, now: float) -> int:
        """Remove the succeeded records that were completed at least `older_than` seconds ago; how many."""
        return self._records.prune(until(older_than=older_than, now=now))

    def count_completed_older_than(self, *, older_than: float, now: float) -> int:
        """How many records `prune_completed` would remove."""
        return self._records.prune(until(older_than=older_than, now=now), dry_run=True)


class MemoryIdempotencyStore(_Ledger):
    """Thread-safe in-memory ledger for tests."""

    def __init__(self) -> None:
        from localqueue.stores.keyvalue.memory import MemoryRecords

        super().__init__(MemoryRecords(IDEMPOTENCY))


class SQLiteIdempotencyStore(_Ledger):
    """Ledger in a SQLite file of its own.

    `timeout` is how long to wait for another process's write lock. Safe to share between threads, to open from many
    processes, and to carry over a fork.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float = 15.0, *, durability: str = "process") -> None:
        from localqueue.stores.keyvalue.sqlite import SQLiteRecords

        super().__init__(SQLiteRecords(IDEMPOTENCY, path, timeout=timeout, durability=durability))


class LMDBIdempotencyStore(_Ledger):
    """Ledger in an LMDB directory of its own; needs the extra `localqueue[lmdb]`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        map_size: int = 10**7,
        timeout: float = 15.0,
        durability: str = "process",
    ) -> None:
        from localqueue.stores.keyvalue.lmdb import LMDBRecords

        super().__init__(LMDBRecords(IDEMPOTENCY, path, map_size=map_size, timeout=timeout, durability=durability))


class QueueIdempotencyStore(InQueueStore[IdempotencyRecord], _Ledger):
    """Ledger inside a queue store, so that a record and an ack are one commit. The queue store stays its owner's."""

    def __init__(self, store: QueueStore) -> None:
        super().__init__(IDEMPOTENCY, store)
