# ruff: isort: skip_file
# The names of `__init__.py`, for type checkers.
from localqueue.errors import (
    AttemptStoreLockedError as AttemptStoreLockedError,
    PersistentRetryExhausted as PersistentRetryExhausted,
)
from localqueue.retry.default_store import (
    close_default_store as close_default_store,
    configure_default_store as configure_default_store,
    configure_default_store_factory as configure_default_store_factory,
)
from localqueue.retry.keys import (
    idempotency_key_from_id as idempotency_key_from_id,
    key_from_argument as key_from_argument,
    key_from_attr as key_from_attr,
)
from localqueue.retry.options import (
    RetryOptions as RetryOptions,
)
from localqueue.retry.plan import (
    GiveUp as GiveUp,
    Retry as Retry,
    is_permanent as is_permanent,
    next_step as next_step,
    next_step_async as next_step_async,
)
from localqueue.retry.record import (
    AttemptStore as AttemptStore,
    RetryRecord as RetryRecord,
)
from localqueue.retry.retryers import (
    PersistentAsyncRetrying as PersistentAsyncRetrying,
    PersistentRetrying as PersistentRetrying,
    persistent_async_retry as persistent_async_retry,
    persistent_retry as persistent_retry,
)
from localqueue.retry.settings import (
    RetrySettings as RetrySettings,
    retry_settings as retry_settings,
)
from localqueue.retry.stores import (
    LMDBAttemptStore as LMDBAttemptStore,
    MemoryAttemptStore as MemoryAttemptStore,
    QueueAttemptStore as QueueAttemptStore,
    RemoteAttemptStore as RemoteAttemptStore,
    SQLiteAttemptStore as SQLiteAttemptStore,
    open_attempt_store as open_attempt_store,
)
