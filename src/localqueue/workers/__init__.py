"""Consumers: lease a message, run a handler, settle the message."""

from localqueue.worker_config import PersistentWorkerConfig

__all__ = ["PersistentWorkerConfig"]
