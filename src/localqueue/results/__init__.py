"""Results of handlers, kept by key so that a duplicate delivery can return them."""

from __future__ import annotations

from localqueue.errors import ResultStoreLockedError
from localqueue.results.stores import (
    LMDBResultStore,
    MemoryResultStore,
    QueueResultStore,
    RemoteResultStore,
    ResultStore,
    SQLiteResultStore,
    open_result_store,
)

__all__ = [
    "LMDBResultStore",
    "MemoryResultStore",
    "QueueResultStore",
    "RemoteResultStore",
    "ResultStore",
    "ResultStoreLockedError",
    "SQLiteResultStore",
    "open_result_store",
]
