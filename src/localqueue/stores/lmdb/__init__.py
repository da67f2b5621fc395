"""Queues in one LMDB environment. `LMDBQueueStore` needs the extra `localqueue[lmdb]`."""

from localqueue.stores.lmdb.store import LMDBQueueStore

__all__ = ["LMDBQueueStore"]
