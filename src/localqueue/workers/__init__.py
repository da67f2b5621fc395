"""Consumers: lease a message, run a handler, settle the message."""

from localqueue.workers.config import PersistentWorkerConfig

__all__ = ["PersistentWorkerConfig"]
