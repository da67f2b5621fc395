"""Queues in a MongoDB replica set. `MongoDBQueueStore` needs the extra `localqueue[mongodb]`."""

from localqueue.stores.mongodb import errors as errors  # first: it says how to install what is missing
from localqueue.stores.mongodb.store import MongoDBQueueStore

__all__ = ["MongoDBQueueStore"]
