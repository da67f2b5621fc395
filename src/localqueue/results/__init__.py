"""Results of handlers, kept by key so that a duplicate delivery can return them."""

from __future__ import annotations

from localqueue.errors import ResultStoreLockedError
from localqueue.results.stores import (
    LMDBResultStore,
    MemoryResultStore,
    QueueResultStore,
    ResultStore,
    SQLiteResultStore,
)

__all__ = [
    "LMDBResultStore",
    "MemoryResultStore",
    "QueueResultStore",
    "ResultStore",
    "ResultStoreLockedError",
    "SQLiteResultStore",
]
