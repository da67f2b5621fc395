"""The store port on a Redis server."""

from localqueue.stores.redis.store import RedisQueueStore

__all__ = ["RedisQueueStore"]
