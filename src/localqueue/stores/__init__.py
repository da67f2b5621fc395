"""Where messages live: the port, the stores that keep its contract, and `open_store(url)`."""

from localqueue._exports import lazy

_OFFERED = {
    "localqueue.stores.port": ("QueueStore",),
    "localqueue.stores.url": ("open_store",),
}

__all__, __getattr__, __dir__ = lazy(__name__, _OFFERED)
