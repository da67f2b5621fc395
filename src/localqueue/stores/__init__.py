"""Where messages live: the port, the stores that keep its contract, and `open_store(url)`."""

from localqueue.stores.port import QueueStore
from localqueue.stores.url import open_store

__all__ = ["QueueStore", "open_store"]
