"""Queues in one SQLite file. `SQLiteQueueStore` is the default store."""

from localqueue.stores.sqlite.store import MemoryQueueStore, SQLiteQueueStore

__all__ = ["MemoryQueueStore", "SQLiteQueueStore"]
