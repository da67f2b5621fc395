"""Attempt stores: in memory, in a file of their own, or inside a queue store."""

from __future__ import annotations

import os
from typing import Any

from localqueue.errors import AttemptStoreLockedError
from localqueue.policies.codec import JSON_CODEC
from localqueue.retry.record import RetryRecord
from localqueue.stores.keyvalue.port import KeyedStore, Kind, check_key, to_json, until
from localqueue.stores.keyvalue.queue import InQueueStore
from localqueue.stores.port import QueueStore

_SCHEMA = """
CREATE TABLE attempt_records (
    key TEXT PRIMARY KEY,
    attempts INTEGER NOT NULL,
    first_attempt_at REAL NOT NULL,
    exhausted INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX exhausted_attempts ON attempt_records (first_attempt_at) WHERE exhausted = 1;
"""


def _encode(record: RetryRecord) -> str:
    attempts, first_attempt_at, exhausted = _to_row(record)
    fields = {"attempts": attempts, "first_attempt_at": first_attempt_at, "exhausted": bool(exhausted)}
    return to_json(fields, "retry records")


def _decode(text: str | bytes) -> RetryRecord:
    return RetryRecord(**JSON_CODEC.decode(text))


def _to_row(record: RetryRecord) -> tuple[Any, ...]:
    return record.attempts, float(record.first_attempt_at), int(record.exhausted)


def _from_row(row: tuple[Any, ...]) -> RetryRecord:
    attempts, first_attempt_at, exhausted = row
    return RetryRecord(attempts, first_attempt_at, bool(exhausted))


ATTEMPT: Kind[RetryRecord] = Kind(
    name="attempt",
    encode=_encode,
    decode=_decode,
    columns=("attempts", "first_attempt_at", "exhausted"),
    to_row=_to_row,
    from_row=_from_row,
    schema=_SCHEMA,
    application_id=0x6C71_6174,  # "lqat"
    locked=AttemptStoreLockedError,
    ended_at=lambda record: record.first_attempt_at if record.exhausted else None,
    ended_rows="exhausted = 1 AND first_attempt_at <= ?",
)


class _Attempts(KeyedStore[RetryRecord]):
    def load(self, key: str) -> RetryRecord | None:
        return self._records.get(check_key(key))

    def save(self, key: str, record: RetryRecord) -> None:
        self._records.put(check_key(key), record)

    def prune_exhausted(self, *, older_than: float, now: float) -> int:
        """Remove the exhausted records whose first attempt is at least `older_than` seconds ago; how many."""
        return self._records.prune(until(older_than=older_than, now=now))

    def count_exhausted_older_than(self, *, older_than: float, now: float) -> int:
        """How many records `prune_exhausted` would remove."""
        return self._records.prune(until(older_than=older_than, now=now), dry_run=True)


class MemoryAttemptStore(_Attempts):
    """Thread-safe in-memory attempt store for tests and local scenarios."""

    def __init__(self) -> None:
        from localqueue.stores.keyvalue.memory import MemoryRecords

        super().__init__(MemoryRecords(ATTEMPT))


class SQLiteAttemptStore(_Attempts):
    """Attempt store in a SQLite file of its own; the default.

    `timeout` is how long to wait for another process's write lock. Safe to share between threads, to open from many
    processes, and to carry over a fork.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float = 15.0, *, durability: str = "process") -> None:
        from localqueue.stores.keyvalue.sqlite import SQLiteRecords

        super().__init__(SQLiteRecords(ATTEMPT, path, timeout=timeout, durability=durability))


class LMDBAttemptStore(_Attempts):
    """Attempt store in an LMDB directory of its own; needs the extra `localqueue[lmdb]`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        map_size: int = 10**7,
        timeout: float = 15.0,
        durability: str = "process",
    ) -> None:
        from localqueue.stores.keyvalue.lmdb import LMDBRecords

        super().__init__(LMDBRecords(ATTEMPT, path, map_size=map_size, timeout=timeout, durability=durability))


class QueueAttemptStore(InQueueStore[RetryRecord], _Attempts):
    """Attempt records inside a queue store, which stays open when this is closed."""

    def __init__(self, store: QueueStore) -> None:
        super().__init__(ATTEMPT, store)
