"""The ledger of effectively-once work: which keys are in progress, and which have succeeded."""

from __future__ import annotations

from localqueue.errors import IdempotencyStoreLockedError
from localqueue.idempotency.record import IdempotencyRecord, IdempotencyStore, Status
from localqueue.idempotency.stores import (
    LMDBIdempotencyStore,
    MemoryIdempotencyStore,
    QueueIdempotencyStore,
    RemoteIdempotencyStore,
    SQLiteIdempotencyStore,
    open_idempotency_store,
)

__all__ = [
    "IdempotencyRecord",
    "IdempotencyStore",
    "IdempotencyStoreLockedError",
    "LMDBIdempotencyStore",
    "MemoryIdempotencyStore",
    "QueueIdempotencyStore",
    "RemoteIdempotencyStore",
    "SQLiteIdempotencyStore",
    "Status",
    "open_idempotency_store",
]
