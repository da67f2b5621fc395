"""A durable queue that is one line on SQLite and keeps the same contract on every store.

>>> from localqueue import PersistentQueue
>>> queue = PersistentQueue("jobs")

Names are loaded when they are first used, so that importing the package costs a script next to nothing. Type checkers
read them from `__init__.pyi`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from localqueue._version import __version__

_HOMES = {
    "localqueue.dispatch": (
        "ThreadedDispatcher",
        "WorkerPoolDispatcher",
    ),
    "localqueue.errors": (
        "AttemptStoreLockedError",
        "CircularDependency",
        "DedupeKeyInUse",
        "IdempotencyStoreLockedError",
        "IncompatiblePolicies",
        "LeaseLost",
        "NotWaiting",
        "PayloadError",
        "PersistentRetryExhausted",
        "QueueError",
        "QueueFull",
        "QueueStoreClosedError",
        "QueueStoreCorruptError",
        "QueueStoreError",
        "QueueStoreFullError",
        "QueueStoreLockedError",
        "QueueStoreReadOnlyError",
        "QueueStoreVersionError",
        "RecordConflict",
        "ResultStoreLockedError",
        "RunCancelled",
        "ScheduleExists",
        "UnknownMessage",
    ),
    "localqueue.events": (
        "AsyncHook",
        "Event",
        "JournalEvent",
        "LoggingHook",
    ),
    "localqueue.idempotency": (
        "IdempotencyRecord",
        "IdempotencyStore",
        "LMDBIdempotencyStore",
        "MemoryIdempotencyStore",
        "QueueIdempotencyStore",
        "SQLiteIdempotencyStore",
    ),
    "localqueue.message": (
        "QueueMessage",
        "QueueStats",
        "RunStats",
        "UndecodablePayload",
    ),
    "localqueue.metrics": (
        "OpenTelemetryMetrics",
        "PrometheusMetrics",
    ),
    "localqueue.policies": (
        "AT_LEAST_ONCE_DELIVERY",
        "AcknowledgementPolicy",
        "AsyncNotification",
        "AsyncioNotification",
        "AtLeastOnceDelivery",
        "AtMostOnceDelivery",
        "BackpressureStrategy",
        "BestEffortOrdering",
        "BoundedBackpressure",
        "BytesCodec",
        "CallbackDispatcher",
        "CallbackNotification",
        "Codec",
        "CommitPolicy",
        "ConsumptionPolicy",
        "DEAD_LETTER_QUEUE",
        "DEDUPE_KEY_SUPPORT",
        "DeadLetterPolicy",
        "DeadLetterQueue",
        "DedupeKeySupport",
        "DeduplicationPolicy",
        "DeliveryPolicy",
        "DispatchPolicy",
        "DropNewest",
        "DropOldest",
        "EXPLICIT_ACKNOWLEDGEMENT",
        "EffectivelyOnceDelivery",
        "ExplicitAcknowledgement",
        "FIFO_READY_ORDERING",
        "FIXED_LEASE_TIMEOUT",
        "FifoReadyOrdering",
        "FixedLeaseTimeout",
        "InProcessNotification",
        "JSON_CODEC",
        "JsonCodec",
        "LOCAL_ATOMIC_COMMIT",
        "LOCAL_AT_LEAST_ONCE",
        "LOCAL_QUEUE_PLACEMENT",
        "LeasePolicy",
        "LocalAtomicCommit",
        "LocalQueuePlacement",
        "LocalityPolicy",
        "MsgpackCodec",
        "NO_DEDUPLICATION",
        "NO_DISPATCHER",
        "NO_NOTIFICATION",
        "NO_RESULT_POLICY",
        "NO_SUBSCRIPTIONS",
        "NoDeduplication",
        "NoDispatcher",
        "NoNotification",
        "NoResultPolicy",
        "NoSubscriptions",
        "NotificationPolicy",
        "OrderingPolicy",
        "OverflowToQueue",
        "Participant",
        "POINT_TO_POINT_ROUTING",
        "PULL_CONSUMPTION",
        "PerKeyFifoOrdering",
        "PickleCodec",
        "PointToPointRouting",
        "PriorityOrdering",
        "PublishSubscribeRouting",
        "PullConsumption",
        "PushConsumption",
        "QueuePolicySet",
        "QueueSemantics",
        "RETURN_STORED_RESULT",
        "RejectingBackpressure",
        "RemoteQueuePlacement",
        "ResultPolicy",
        "ReturnStoredResult",
        "RoutingPolicy",
        "SagaCommit",
        "StaticFanoutSubscriptions",
        "StoredSubscriptions",
        "SubscriptionPolicy",
        "TRANSACTIONAL_OUTBOX_COMMIT",
        "TWO_PHASE_COMMIT",
        "Throttling",
        "TransactionalOutboxCommit",
        "TwoPhaseCommit",
        "UNBOUNDED",
        "subscriber_queue_name",
    ),
    "localqueue.queue": (
        "PendingMessage",
        "PersistentQueue",
        "Transaction",
    ),
    "localqueue.results": (
        "LMDBResultStore",
        "MemoryResultStore",
        "QueueResultStore",
        "ResultStore",
        "SQLiteResultStore",
    ),
    "localqueue.retry": (
        "AttemptStore",
        "LMDBAttemptStore",
        "MemoryAttemptStore",
        "PersistentAsyncRetrying",
        "PersistentRetrying",
        "QueueAttemptStore",
        "RetryRecord",
        "SQLiteAttemptStore",
        "close_default_store",
        "configure_default_store",
        "configure_default_store_factory",
        "idempotency_key_from_id",
        "key_from_argument",
        "key_from_attr",
        "persistent_async_retry",
        "persistent_retry",
    ),
    "localqueue.schedules": (
        "CronSchedule",
        "PeriodicSchedule",
        "Schedule",
        "ScheduleState",
        "Scheduler",
    ),
    "localqueue.spec": (
        "QoS",
        "QueueSpec",
    ),
    "localqueue.stores.lmdb": ("LMDBQueueStore",),
    "localqueue.stores.port": ("QueueStore",),
    "localqueue.stores.sqlite": (
        "MemoryQueueStore",
        "SQLiteQueueStore",
    ),
    "localqueue.stores.url": ("open_store",),
    "localqueue.worker_config": ("PersistentWorkerConfig",),
    "localqueue.workers": (
        "AsyncWorker",
        "Job",
        "OutboxRelay",
        "Settled",
        "Worker",
        "WorkerCounts",
        "current_job",
        "persistent_async_worker",
        "persistent_worker",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
