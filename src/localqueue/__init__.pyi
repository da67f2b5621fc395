# ruff: isort: skip_file
# The names of `__init__.py`, for type checkers.
from localqueue._version import __version__ as __version__
from localqueue.aio import (
    AsyncQueue as AsyncQueue,
)
from localqueue.dispatch import (
    ThreadedDispatcher as ThreadedDispatcher,
)
from localqueue.errors import (
    AttemptStoreLockedError as AttemptStoreLockedError,
    IdempotencyStoreLockedError as IdempotencyStoreLockedError,
    LeaseLost as LeaseLost,
    PayloadError as PayloadError,
    PersistentRetryExhausted as PersistentRetryExhausted,
    QueueError as QueueError,
    QueueFull as QueueFull,
    QueueStoreLockedError as QueueStoreLockedError,
    ResultStoreLockedError as ResultStoreLockedError,
)
from localqueue.idempotency import (
    IdempotencyRecord as IdempotencyRecord,
    IdempotencyStore as IdempotencyStore,
    LMDBIdempotencyStore as LMDBIdempotencyStore,
    MemoryIdempotencyStore as MemoryIdempotencyStore,
    SQLiteIdempotencyStore as SQLiteIdempotencyStore,
)
from localqueue.message import (
    QueueMessage as QueueMessage,
    QueueStats as QueueStats,
)
from localqueue.notifications import (
    WebSocketNotification as WebSocketNotification,
)
from localqueue.policies import (
    AT_LEAST_ONCE_DELIVERY as AT_LEAST_ONCE_DELIVERY,
    AcknowledgementPolicy as AcknowledgementPolicy,
    AsyncNotification as AsyncNotification,
    AsyncioNotification as AsyncioNotification,
    AtLeastOnceDelivery as AtLeastOnceDelivery,
    AtMostOnceDelivery as AtMostOnceDelivery,
    BackpressureStrategy as BackpressureStrategy,
    BestEffortOrdering as BestEffortOrdering,
    BoundedBackpressure as BoundedBackpressure,
    CallbackDispatcher as CallbackDispatcher,
    CallbackNotification as CallbackNotification,
    CommitPolicy as CommitPolicy,
    ConsumptionPolicy as ConsumptionPolicy,
    DEAD_LETTER_QUEUE as DEAD_LETTER_QUEUE,
    DEDUPE_KEY_SUPPORT as DEDUPE_KEY_SUPPORT,
    DeadLetterPolicy as DeadLetterPolicy,
    DeadLetterQueue as DeadLetterQueue,
    DedupeKeySupport as DedupeKeySupport,
    DeduplicationPolicy as DeduplicationPolicy,
    DeliveryPolicy as DeliveryPolicy,
    DispatchPolicy as DispatchPolicy,
    EXPLICIT_ACKNOWLEDGEMENT as EXPLICIT_ACKNOWLEDGEMENT,
    EffectivelyOnceDelivery as EffectivelyOnceDelivery,
    ExplicitAcknowledgement as ExplicitAcknowledgement,
    FIFO_READY_ORDERING as FIFO_READY_ORDERING,
    FIXED_LEASE_TIMEOUT as FIXED_LEASE_TIMEOUT,
    FifoReadyOrdering as FifoReadyOrdering,
    FixedLeaseTimeout as FixedLeaseTimeout,
    InProcessNotification as InProcessNotification,
    LOCAL_ATOMIC_COMMIT as LOCAL_ATOMIC_COMMIT,
    LOCAL_AT_LEAST_ONCE as LOCAL_AT_LEAST_ONCE,
    LOCAL_QUEUE_PLACEMENT as LOCAL_QUEUE_PLACEMENT,
    LeasePolicy as LeasePolicy,
    LocalAtomicCommit as LocalAtomicCommit,
    LocalQueuePlacement as LocalQueuePlacement,
    LocalityPolicy as LocalityPolicy,
    NO_DEDUPLICATION as NO_DEDUPLICATION,
    NO_DISPATCHER as NO_DISPATCHER,
    NO_NOTIFICATION as NO_NOTIFICATION,
    NO_RESULT_POLICY as NO_RESULT_POLICY,
    NO_SUBSCRIPTIONS as NO_SUBSCRIPTIONS,
    NoDeduplication as NoDeduplication,
    NoDispatcher as NoDispatcher,
    NoNotification as NoNotification,
    NoResultPolicy as NoResultPolicy,
    NoSubscriptions as NoSubscriptions,
    NotificationPolicy as NotificationPolicy,
    OrderingPolicy as OrderingPolicy,
    POINT_TO_POINT_ROUTING as POINT_TO_POINT_ROUTING,
    PULL_CONSUMPTION as PULL_CONSUMPTION,
    PointToPointRouting as PointToPointRouting,
    PriorityOrdering as PriorityOrdering,
    PublishSubscribeRouting as PublishSubscribeRouting,
    PullConsumption as PullConsumption,
    PushConsumption as PushConsumption,
    QueuePolicySet as QueuePolicySet,
    QueueSemantics as QueueSemantics,
    RETURN_STORED_RESULT as RETURN_STORED_RESULT,
    RejectingBackpressure as RejectingBackpressure,
    RemoteQueuePlacement as RemoteQueuePlacement,
    ResultPolicy as ResultPolicy,
    ReturnStoredResult as ReturnStoredResult,
    RoutingPolicy as RoutingPolicy,
    SagaCommit as SagaCommit,
    StaticFanoutSubscriptions as StaticFanoutSubscriptions,
    SubscriptionPolicy as SubscriptionPolicy,
    TWO_PHASE_COMMIT as TWO_PHASE_COMMIT,
    TransactionalOutboxCommit as TransactionalOutboxCommit,
    TwoPhaseCommit as TwoPhaseCommit,
    subscriber_queue_name as subscriber_queue_name,
)
from localqueue.queue import (
    PersistentQueue as PersistentQueue,
)
from localqueue.results import (
    LMDBResultStore as LMDBResultStore,
    MemoryResultStore as MemoryResultStore,
    ResultStore as ResultStore,
    SQLiteResultStore as SQLiteResultStore,
)
from localqueue.retry import (
    AttemptStore as AttemptStore,
    LMDBAttemptStore as LMDBAttemptStore,
    MemoryAttemptStore as MemoryAttemptStore,
    PersistentAsyncRetrying as PersistentAsyncRetrying,
    PersistentRetrying as PersistentRetrying,
    RetryRecord as RetryRecord,
    SQLiteAttemptStore as SQLiteAttemptStore,
    close_default_store as close_default_store,
    configure_default_store as configure_default_store,
    configure_default_store_factory as configure_default_store_factory,
    idempotency_key_from_id as idempotency_key_from_id,
    key_from_argument as key_from_argument,
    key_from_attr as key_from_attr,
    persistent_async_retry as persistent_async_retry,
    persistent_retry as persistent_retry,
)
from localqueue.spec import (
    QoS as QoS,
    QueueSpec as QueueSpec,
)
from localqueue.stores.default import (
    configure as configure,
)
from localqueue.stores.lmdb import (
    LMDBQueueStore as LMDBQueueStore,
)
from localqueue.stores.port import (
    QueueStore as QueueStore,
)
from localqueue.stores.sqlite import (
    MemoryQueueStore as MemoryQueueStore,
    SQLiteQueueStore as SQLiteQueueStore,
)
from localqueue.stores.url import (
    open_store as open_store,
)
from localqueue.tasks import (
    Tasks as Tasks,
)
from localqueue.worker_config import (
    PersistentWorkerConfig as PersistentWorkerConfig,
)
from localqueue.workers import (
    AsyncWorker as AsyncWorker,
    Job as Job,
    Worker as Worker,
    current_job as current_job,
    persistent_async_worker as persistent_async_worker,
    persistent_worker as persistent_worker,
)
