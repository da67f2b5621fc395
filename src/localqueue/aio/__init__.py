"""`AsyncQueue`: a queue for the coroutines of an event loop."""

from localqueue.aio.queue import AsyncQueue

__all__ = ["AsyncQueue"]
