from localqueue._version import __version__ as __version__
from localqueue.dispatch import (
    ThreadedDispatcher as ThreadedDispatcher,
)
from localqueue.dispatch import (
    WorkerPoolDispatcher as WorkerPoolDispatcher,
)
from localqueue.errors import (
    AttemptStoreLockedError as AttemptStoreLockedError,
)
from localqueue.errors import (
    CircularDependency as CircularDependency,
)
from localqueue.errors import (
    DedupeKeyInUse as DedupeKeyInUse,
)
from localqueue.errors import (
    IdempotencyStoreLockedError as IdempotencyStoreLockedError,
)
from localqueue.errors import (
    IncompatiblePolicies as IncompatiblePolicies,
)
from localqueue.errors import (
    LeaseLost as LeaseLost,
)
from localqueue.errors import (
    NotWaiting as NotWaiting,
)
from localqueue.errors import (
    PayloadError as PayloadError,
)
from localqueue.errors import (
    PersistentRetryExhausted as PersistentRetryExhausted,
)
from localqueue.errors import (
    QueueError as QueueError,
)
from localqueue.errors import (
    QueueFull as QueueFull,
)
from localqueue.errors import (
    QueueStoreClosedError as QueueStoreClosedError,
)
from localqueue.errors import (
    QueueStoreCorruptError as QueueStoreCorruptError,
)
from localqueue.errors import (
    QueueStoreError as QueueStoreError,
)
from localqueue.errors import (
    QueueStoreFullError as QueueStoreFullError,
)
from localqueue.errors import (
    QueueStoreLockedError as QueueStoreLockedError,
)
from localqueue.errors import (
    QueueStoreReadOnlyError as QueueStoreReadOnlyError,
)
from localqueue.errors import (
    QueueStoreUnavailableError as QueueStoreUnavailableError,
)
from localqueue.errors import (
    QueueStoreVersionError as QueueStoreVersionError,
)
from localqueue.errors import (
    RecordConflict as RecordConflict,
)
from localqueue.errors import (
    ResultStoreLockedError as ResultStoreLockedError,
)
from localqueue.errors import (
    RunCancelled as RunCancelled,
)
from localqueue.errors import (
    ScheduleExists as ScheduleExists,
)
from localqueue.errors import (
    UnknownMessage as UnknownMessage,
)
from localqueue.events import (
    AsyncHook as AsyncHook,
)
from localqueue.events import (
    Event as Event,
)
from localqueue.events import (
    JournalEvent as JournalEvent,
)
from localqueue.events import (
    LoggingHook as LoggingHook,
)
from localqueue.idempotency import (
    IdempotencyRecord as IdempotencyRecord,
)
from localqueue.idempotency import (
    IdempotencyStore as IdempotencyStore,
)
from localqueue.idempotency import (
    LMDBIdempotencyStore as LMDBIdempotencyStore,
)
from localqueue.idempotency import (
    MemoryIdempotencyStore as MemoryIdempotencyStore,
)
from localqueue.idempotency import (
    QueueIdempotencyStore as QueueIdempotencyStore,
)
from localqueue.idempotency import (
    SQLiteIdempotencyStore as SQLiteIdempotencyStore,
)
from localqueue.message import (
    QueueMessage as QueueMessage,
)
from localqueue.message import (
    QueueStats as QueueStats,
)
from localqueue.message import (
    RunStats as RunStats,
)
from localqueue.message import (
    UndecodablePayload as UndecodablePayload,
)
from localqueue.metrics import (
    OpenTelemetryMetrics as OpenTelemetryMetrics,
)
from localqueue.metrics import (
    PrometheusMetrics as PrometheusMetrics,
)
from localqueue.policies import (
    AT_LEAST_ONCE_DELIVERY as AT_LEAST_ONCE_DELIVERY,
)
from localqueue.policies import (
    DEAD_LETTER_QUEUE as DEAD_LETTER_QUEUE,
)
from localqueue.policies import (
    DEDUPE_KEY_SUPPORT as DEDUPE_KEY_SUPPORT,
)
from localqueue.policies import (
    EXPLICIT_ACKNOWLEDGEMENT as EXPLICIT_ACKNOWLEDGEMENT,
)
from localqueue.policies import (
    FIFO_READY_ORDERING as FIFO_READY_ORDERING,
)
from localqueue.policies import (
    FIXED_LEASE_TIMEOUT as FIXED_LEASE_TIMEOUT,
)
from localqueue.policies import (
    JSON_CODEC as JSON_CODEC,
)
from localqueue.policies import (
    LOCAL_AT_LEAST_ONCE as LOCAL_AT_LEAST_ONCE,
)
from localqueue.policies import (
    LOCAL_ATOMIC_COMMIT as LOCAL_ATOMIC_COMMIT,
)
from localqueue.policies import (
    LOCAL_QUEUE_PLACEMENT as LOCAL_QUEUE_PLACEMENT,
)
from localqueue.policies import (
    NO_DEDUPLICATION as NO_DEDUPLICATION,
)
from localqueue.policies import (
    NO_DISPATCHER as NO_DISPATCHER,
)
from localqueue.policies import (
    NO_NOTIFICATION as NO_NOTIFICATION,
)
from localqueue.policies import (
    NO_RESULT_POLICY as NO_RESULT_POLICY,
)
from localqueue.policies import (
    NO_SUBSCRIPTIONS as NO_SUBSCRIPTIONS,
)
from localqueue.policies import (
    POINT_TO_POINT_ROUTING as POINT_TO_POINT_ROUTING,
)
from localqueue.policies import (
    PULL_CONSUMPTION as PULL_CONSUMPTION,
)
from localqueue.policies import (
    RETURN_STORED_RESULT as RETURN_STORED_RESULT,
)
from localqueue.policies import (
    TRANSACTIONAL_OUTBOX_COMMIT as TRANSACTIONAL_OUTBOX_COMMIT,
)
from localqueue.policies import (
    TWO_PHASE_COMMIT as TWO_PHASE_COMMIT,
)
from localqueue.policies import (
    UNBOUNDED as UNBOUNDED,
)
from localqueue.policies import (
    AcknowledgementPolicy as AcknowledgementPolicy,
)
from localqueue.policies import (
    AsyncioNotification as AsyncioNotification,
)
from localqueue.policies import (
    AsyncNotification as AsyncNotification,
)
from localqueue.policies import (
    AtLeastOnceDelivery as AtLeastOnceDelivery,
)
from localqueue.policies import (
    AtMostOnceDelivery as AtMostOnceDelivery,
)
from localqueue.policies import (
    BackpressureStrategy as BackpressureStrategy,
)
from localqueue.policies import (
    BestEffortOrdering as BestEffortOrdering,
)
from localqueue.policies import (
    BoundedBackpressure as BoundedBackpressure,
)
from localqueue.policies import (
    BytesCodec as BytesCodec,
)
from localqueue.policies import (
    CallbackDispatcher as CallbackDispatcher,
)
from localqueue.policies import (
    CallbackNotification as CallbackNotification,
)
from localqueue.policies import (
    Codec as Codec,
)
from localqueue.policies import (
    CommitPolicy as CommitPolicy,
)
from localqueue.policies import (
    ConsumptionPolicy as ConsumptionPolicy,
)
from localqueue.policies import (
    DeadLetterPolicy as DeadLetterPolicy,
)
from localqueue.policies import (
    DeadLetterQueue as DeadLetterQueue,
)
from localqueue.policies import (
    DedupeKeySupport as DedupeKeySupport,
)
from localqueue.policies import (
    DeduplicationPolicy as DeduplicationPolicy,
)
from localqueue.policies import (
    DeliveryPolicy as DeliveryPolicy,
)
from localqueue.policies import (
    DispatchPolicy as DispatchPolicy,
)
from localqueue.policies import (
    DropNewest as DropNewest,
)
from localqueue.policies import (
    DropOldest as DropOldest,
)
from localqueue.policies import (
    EffectivelyOnceDelivery as EffectivelyOnceDelivery,
)
from localqueue.policies import (
    ExplicitAcknowledgement as ExplicitAcknowledgement,
)
from localqueue.policies import (
    FifoReadyOrdering as FifoReadyOrdering,
)
from localqueue.policies import (
    FixedLeaseTimeout as FixedLeaseTimeout,
)
from localqueue.policies import (
    InProcessNotification as InProcessNotification,
)
from localqueue.policies import (
    JsonCodec as JsonCodec,
)
from localqueue.policies import (
    LeasePolicy as LeasePolicy,
)
from localqueue.policies import (
    LocalAtomicCommit as LocalAtomicCommit,
)
from localqueue.policies import (
    LocalityPolicy as LocalityPolicy,
)
from localqueue.policies import (
    LocalQueuePlacement as LocalQueuePlacement,
)
from localqueue.policies import (
    MsgpackCodec as MsgpackCodec,
)
from localqueue.policies import (
    NoDeduplication as NoDeduplication,
)
from localqueue.policies import (
    NoDispatcher as NoDispatcher,
)
from localqueue.policies import (
    NoNotification as NoNotification,
)
from localqueue.policies import (
    NoResultPolicy as NoResultPolicy,
)
from localqueue.policies import (
    NoSubscriptions as NoSubscriptions,
)
from localqueue.policies import (
    NotificationPolicy as NotificationPolicy,
)
from localqueue.policies import (
    OrderingPolicy as OrderingPolicy,
)
from localqueue.policies import (
    OverflowToQueue as OverflowToQueue,
)
from localqueue.policies import (
    Participant as Participant,
)
from localqueue.policies import (
    PerKeyFifoOrdering as PerKeyFifoOrdering,
)
from localqueue.policies import (
    PickleCodec as PickleCodec,
)
from localqueue.policies import (
    PointToPointRouting as PointToPointRouting,
)
from localqueue.policies import (
    PriorityOrdering as PriorityOrdering,
)
from localqueue.policies import (
    PublishSubscribeRouting as PublishSubscribeRouting,
)
from localqueue.policies import (
    PullConsumption as PullConsumption,
)
from localqueue.policies import (
    PushConsumption as PushConsumption,
)
from localqueue.policies import (
    QueuePolicySet as QueuePolicySet,
)
from localqueue.policies import (
    QueueSemantics as QueueSemantics,
)
from localqueue.policies import (
    RejectingBackpressure as RejectingBackpressure,
)
from localqueue.policies import (
    RemoteQueuePlacement as RemoteQueuePlacement,
)
from localqueue.policies import (
    ResultPolicy as ResultPolicy,
)
from localqueue.policies import (
    ReturnStoredResult as ReturnStoredResult,
)
from localqueue.policies import (
    RoutingPolicy as RoutingPolicy,
)
from localqueue.policies import (
    SagaCommit as SagaCommit,
)
from localqueue.policies import (
    StaticFanoutSubscriptions as StaticFanoutSubscriptions,
)
from localqueue.policies import (
    StoredSubscriptions as StoredSubscriptions,
)
from localqueue.policies import (
    SubscriptionPolicy as SubscriptionPolicy,
)
from localqueue.policies import (
    Throttling as Throttling,
)
from localqueue.policies import (
    TransactionalOutboxCommit as TransactionalOutboxCommit,
)
from localqueue.policies import (
    TwoPhaseCommit as TwoPhaseCommit,
)
from localqueue.policies import (
    subscriber_queue_name as subscriber_queue_name,
)
from localqueue.queue import (
    PendingMessage as PendingMessage,
)
from localqueue.queue import (
    PersistentQueue as PersistentQueue,
)
from localqueue.queue import (
    Transaction as Transaction,
)
from localqueue.queue_copy import (
    CopyReport as CopyReport,
)
from localqueue.queue_copy import (
    copy_queue as copy_queue,
)
from localqueue.queue_copy import (
    forget_copies as forget_copies,
)
from localqueue.results import (
    LMDBResultStore as LMDBResultStore,
)
from localqueue.results import (
    MemoryResultStore as MemoryResultStore,
)
from localqueue.results import (
    QueueResultStore as QueueResultStore,
)
from localqueue.results import (
    ResultStore as ResultStore,
)
from localqueue.results import (
    SQLiteResultStore as SQLiteResultStore,
)
from localqueue.retry import (
    AttemptStore as AttemptStore,
)
from localqueue.retry import (
    LMDBAttemptStore as LMDBAttemptStore,
)
from localqueue.retry import (
    MemoryAttemptStore as MemoryAttemptStore,
)
from localqueue.retry import (
    PersistentAsyncRetrying as PersistentAsyncRetrying,
)
from localqueue.retry import (
    PersistentRetrying as PersistentRetrying,
)
from localqueue.retry import (
    QueueAttemptStore as QueueAttemptStore,
)
from localqueue.retry import (
    RetryRecord as RetryRecord,
)
from localqueue.retry import (
    SQLiteAttemptStore as SQLiteAttemptStore,
)
from localqueue.retry import (
    close_default_store as close_default_store,
)
from localqueue.retry import (
    configure_default_store as configure_default_store,
)
from localqueue.retry import (
    configure_default_store_factory as configure_default_store_factory,
)
from localqueue.retry import (
    idempotency_key_from_id as idempotency_key_from_id,
)
from localqueue.retry import (
    key_from_argument as key_from_argument,
)
from localqueue.retry import (
    key_from_attr as key_from_attr,
)
from localqueue.retry import (
    persistent_async_retry as persistent_async_retry,
)
from localqueue.retry import (
    persistent_retry as persistent_retry,
)
from localqueue.schedules import (
    CronSchedule as CronSchedule,
)
from localqueue.schedules import (
    PeriodicSchedule as PeriodicSchedule,
)
from localqueue.schedules import (
    Schedule as Schedule,
)
from localqueue.schedules import (
    Scheduler as Scheduler,
)
from localqueue.schedules import (
    ScheduleState as ScheduleState,
)
from localqueue.spec import (
    QoS as QoS,
)
from localqueue.spec import (
    QueueSpec as QueueSpec,
)
from localqueue.stores.default import (
    configure as configure,
)
from localqueue.stores.lmdb import (
    LMDBQueueStore as LMDBQueueStore,
)
from localqueue.stores.mongodb import (
    MongoDBQueueStore as MongoDBQueueStore,
)
from localqueue.stores.port import (
    QueueStore as QueueStore,
)
from localqueue.stores.postgres import (
    PostgresQueueStore as PostgresQueueStore,
)
from localqueue.stores.redis import (
    RedisQueueStore as RedisQueueStore,
)
from localqueue.stores.sqlite import (
    MemoryQueueStore as MemoryQueueStore,
)
from localqueue.stores.sqlite import (
    SQLiteQueueStore as SQLiteQueueStore,
)
from localqueue.stores.url import (
    open_store as open_store,
)
from localqueue.worker_config import (
    PersistentWorkerConfig as PersistentWorkerConfig,
)
from localqueue.workers import (
    AsyncWorker as AsyncWorker,
)
from localqueue.workers import (
    Job as Job,
)
from localqueue.workers import (
    OutboxRelay as OutboxRelay,
)
from localqueue.workers import (
    Settled as Settled,
)
from localqueue.workers import (
    Worker as Worker,
)
from localqueue.workers import (
    WorkerCounts as WorkerCounts,
)
from localqueue.workers import (
    current_job as current_job,
)
from localqueue.workers import (
    persistent_async_worker as persistent_async_worker,
)
from localqueue.workers import (
    persistent_worker as persistent_worker,
)
