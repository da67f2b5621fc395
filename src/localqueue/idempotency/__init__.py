"""The ledger of effectively-once work: which keys are in progress, and which have succeeded."""

from __future__ import annotations

from localqueue.errors import IdempotencyStoreLockedError
from localqueue.idempotency.record import IdempotencyRecord, IdempotencyStore, Status
from localqueue.idempotency.stores import (
    LMDBIdempotencyStore,
    MemoryIdempotencyStore,
    QueueIdempotencyStore,
    SQLiteIdempotencyStore,
)

__all__ = [
    "IdempotencyRecord",
    "IdempotencyStore",
    "IdempotencyStoreLockedError",
    "LMDBIdempotencyStore",
    "MemoryIdempotencyStore",
    "QueueIdempotencyStore",
    "SQLiteIdempotencyStore",
    "Status",
]
