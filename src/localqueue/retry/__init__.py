"""Retries that survive a restart: Tenacity's strategies, counted by key in an attempt store.

Names are loaded when they are first used: importing this package does not import Tenacity. Type checkers read them from
`__init__.pyi`.
"""

from localqueue._exports import lazy

_HOMES = {
    "localqueue.errors": (
        "AttemptStoreLockedError",
        "PersistentRetryExhausted",
    ),
    "localqueue.retry.default_store": (
        "close_default_store",
        "configure_default_store",
        "configure_default_store_factory",
    ),
    "localqueue.retry.keys": (
        "idempotency_key_from_id",
        "key_from_argument",
        "key_from_attr",
    ),
    "localqueue.retry.options": ("RetryOptions",),
    "localqueue.retry.plan": (
        "GiveUp",
        "Retry",
        "is_permanent",
        "next_step",
        "next_step_async",
    ),
    "localqueue.retry.record": (
        "AttemptStore",
        "RetryRecord",
    ),
    "localqueue.retry.retryers": (
        "PersistentAsyncRetrying",
        "PersistentRetrying",
        "persistent_async_retry",
        "persistent_retry",
    ),
    "localqueue.retry.settings": (
        "RetrySettings",
        "retry_settings",
    ),
    "localqueue.retry.stores": (
        "LMDBAttemptStore",
        "MemoryAttemptStore",
        "QueueAttemptStore",
        "RemoteAttemptStore",
        "SQLiteAttemptStore",
        "open_attempt_store",
    ),
}

__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
