"""A durable queue that is one line on SQLite and keeps the same contract on every store.

>>> from localqueue import PersistentQueue
>>> queue = PersistentQueue("jobs")

Here is what an ordinary day needs, and every name of the first API. The rest is in its package: `localqueue.policies`,
`localqueue.errors`, `localqueue.stores`, `localqueue.schedules`, `localqueue.events` and so on.

Names are loaded when they are first used, so that importing the package costs a script next to nothing. Type checkers
read them from `__init__.pyi`; a test holds the two together.
"""

from localqueue._exports import lazy
from localqueue._version import __version__

_EVERY_DAY = {
    "localqueue.aio": ("AsyncQueue",),
    "localqueue.errors": (
        "LeaseLost",
        "PayloadError",
        "QueueError",
        "QueueFull",
    ),
    "localqueue.message": (
        "QueueMessage",
        "QueueStats",
    ),
    "localqueue.queue": ("PersistentQueue",),
    "localqueue.stores.default": ("configure",),
    "localqueue.stores.sqlite": (
        "MemoryQueueStore",
        "SQLiteQueueStore",
    ),
    "localqueue.stores.url": ("open_store",),
    "localqueue.tasks": ("Tasks",),
    "localqueue.worker_config": ("PersistentWorkerConfig",),
    "localqueue.workers": (
        "AsyncWorker",
        "Job",
        "Worker",
        "current_job",
        "persistent_async_worker",
        "persistent_worker",
    ),
}

# Programs written for the first API import these from here. What was added later is in its package only.
_FIRST_API = {
    "localqueue.dispatch": ("ThreadedDispatcher",),
    "localqueue.errors": (
        "AttemptStoreLockedError",
        "IdempotencyStoreLockedError",
        "PersistentRetryExhausted",
        "QueueStoreLockedError",
        "ResultStoreLockedError",
    ),
    "localqueue.idempotency": (
        "IdempotencyRecord",
        "IdempotencyStore",
        "LMDBIdempotencyStore",
        "MemoryIdempotencyStore",
        "SQLiteIdempotencyStore",
    ),
    "localqueue.notifications": ("WebSocketNotification",),
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
        "CallbackDispatcher",
        "CallbackNotification",
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
        "EXPLICIT_ACKNOWLEDGEMENT",
        "EffectivelyOnceDelivery",
        "ExplicitAcknowledgement",
        "FIFO_READY_ORDERING",
        "FIXED_LEASE_TIMEOUT",
        "FifoReadyOrdering",
        "FixedLeaseTimeout",
        "InProcessNotification",
        "LOCAL_ATOMIC_COMMIT",
        "LOCAL_AT_LEAST_ONCE",
        "LOCAL_QUEUE_PLACEMENT",
        "LeasePolicy",
        "LocalAtomicCommit",
        "LocalQueuePlacement",
        "LocalityPolicy",
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
        "POINT_TO_POINT_ROUTING",
        "PULL_CONSUMPTION",
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
        "SubscriptionPolicy",
        "TWO_PHASE_COMMIT",
        "TransactionalOutboxCommit",
        "TwoPhaseCommit",
        "subscriber_queue_name",
    ),
    "localqueue.results": (
        "LMDBResultStore",
        "MemoryResultStore",
        "ResultStore",
        "SQLiteResultStore",
    ),
    "localqueue.retry": (
        "AttemptStore",
        "LMDBAttemptStore",
        "MemoryAttemptStore",
        "PersistentAsyncRetrying",
        "PersistentRetrying",
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
    "localqueue.spec": (
        "QoS",
        "QueueSpec",
    ),
    "localqueue.stores.lmdb": ("LMDBQueueStore",),
    "localqueue.stores.port": ("QueueStore",),
}

_offered, __getattr__, __dir__ = lazy(__name__, _EVERY_DAY, _FIRST_API)
__all__ = ["__version__", *_offered]  # noqa: PLE0604
