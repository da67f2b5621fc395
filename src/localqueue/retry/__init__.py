"""Retries that survive a restart: Tenacity's strategies, counted by key in an attempt store.

Names are loaded when they are first used: importing this package does not import Tenacity.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from localqueue.errors import AttemptStoreLockedError, PersistentRetryExhausted

if TYPE_CHECKING:
    from localqueue.retry.default_store import (
        close_default_store,
        configure_default_store,
        configure_default_store_factory,
    )
    from localqueue.retry.keys import idempotency_key_from_id, key_from_argument, key_from_attr
    from localqueue.retry.plan import GiveUp, Retry, is_permanent, next_step, next_step_async
    from localqueue.retry.record import AttemptStore, RetryRecord
    from localqueue.retry.retrying import (
        PersistentAsyncRetrying,
        PersistentRetrying,
        persistent_async_retry,
        persistent_retry,
    )
    from localqueue.retry.stores import LMDBAttemptStore, MemoryAttemptStore, QueueAttemptStore, SQLiteAttemptStore

_HOMES = {
    "default_store": ("close_default_store", "configure_default_store", "configure_default_store_factory"),
    "keys": ("idempotency_key_from_id", "key_from_argument", "key_from_attr"),
    "plan": ("GiveUp", "Retry", "is_permanent", "next_step", "next_step_async"),
    "record": ("AttemptStore", "RetryRecord"),
    "retrying": ("PersistentAsyncRetrying", "PersistentRetrying", "persistent_async_retry", "persistent_retry"),
    "stores": ("LMDBAttemptStore", "MemoryAttemptStore", "QueueAttemptStore", "SQLiteAttemptStore"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AttemptStore",
    "AttemptStoreLockedError",
    "GiveUp",
    "LMDBAttemptStore",
    "MemoryAttemptStore",
    "PersistentAsyncRetrying",
    "PersistentRetryExhausted",
    "PersistentRetrying",
    "QueueAttemptStore",
    "Retry",
    "RetryRecord",
    "SQLiteAttemptStore",
    "close_default_store",
    "configure_default_store",
    "configure_default_store_factory",
    "idempotency_key_from_id",
    "is_permanent",
    "key_from_argument",
    "key_from_attr",
    "next_step",
    "next_step_async",
    "persistent_async_retry",
    "persistent_retry",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value
