"""Queues in a PostgreSQL database. `PostgresQueueStore` needs the extra `localqueue[postgres]`."""

from localqueue.stores.postgres.store import PostgresQueueStore

__all__ = ["PostgresQueueStore"]
