# ruff: isort: skip_file
# The names of `__init__.py`, for type checkers.
from localqueue.policies.acknowledgement import (
    AcknowledgementPolicy as AcknowledgementPolicy,
    EXPLICIT_ACKNOWLEDGEMENT as EXPLICIT_ACKNOWLEDGEMENT,
    ExplicitAcknowledgement as ExplicitAcknowledgement,
)
from localqueue.policies.backpressure import (
    BackpressureStrategy as BackpressureStrategy,
    BoundedBackpressure as BoundedBackpressure,
    DropNewest as DropNewest,
    DropOldest as DropOldest,
    OverflowToQueue as OverflowToQueue,
    RejectingBackpressure as RejectingBackpressure,
    Throttling as Throttling,
    UNBOUNDED as UNBOUNDED,
)
from localqueue.policies.codec import (
    BytesCodec as BytesCodec,
    Codec as Codec,
    JSON_CODEC as JSON_CODEC,
    JsonCodec as JsonCodec,
    MsgpackCodec as MsgpackCodec,
    PickleCodec as PickleCodec,
)
from localqueue.policies.commits import (
    CommitPolicy as CommitPolicy,
    LOCAL_ATOMIC_COMMIT as LOCAL_ATOMIC_COMMIT,
    LocalAtomicCommit as LocalAtomicCommit,
    Participant as Participant,
    SagaCommit as SagaCommit,
    TRANSACTIONAL_OUTBOX_COMMIT as TRANSACTIONAL_OUTBOX_COMMIT,
    TWO_PHASE_COMMIT as TWO_PHASE_COMMIT,
    TransactionalOutboxCommit as TransactionalOutboxCommit,
    TwoPhaseCommit as TwoPhaseCommit,
)
from localqueue.policies.configuration import (
    Configuration as Configuration,
    check_semantics as check_semantics,
    derive_semantics as derive_semantics,
)
from localqueue.policies.consumption import (
    ConsumptionPolicy as ConsumptionPolicy,
    PULL_CONSUMPTION as PULL_CONSUMPTION,
    PullConsumption as PullConsumption,
    PushConsumption as PushConsumption,
)
from localqueue.policies.dead_letters import (
    DEAD_LETTER_QUEUE as DEAD_LETTER_QUEUE,
    DeadLetterPolicy as DeadLetterPolicy,
    DeadLetterQueue as DeadLetterQueue,
)
from localqueue.policies.deduplication import (
    DEDUPE_KEY_SUPPORT as DEDUPE_KEY_SUPPORT,
    DedupeKeySupport as DedupeKeySupport,
    DeduplicationPolicy as DeduplicationPolicy,
    NO_DEDUPLICATION as NO_DEDUPLICATION,
    NoDeduplication as NoDeduplication,
)
from localqueue.policies.delivery import (
    AT_LEAST_ONCE_DELIVERY as AT_LEAST_ONCE_DELIVERY,
    AtLeastOnceDelivery as AtLeastOnceDelivery,
    AtMostOnceDelivery as AtMostOnceDelivery,
    DeliveryPolicy as DeliveryPolicy,
    EffectivelyOnceDelivery as EffectivelyOnceDelivery,
)
from localqueue.policies.dispatch import (
    CallbackDispatcher as CallbackDispatcher,
    DispatchPolicy as DispatchPolicy,
    NO_DISPATCHER as NO_DISPATCHER,
    NoDispatcher as NoDispatcher,
)
from localqueue.policies.leases import (
    FIXED_LEASE_TIMEOUT as FIXED_LEASE_TIMEOUT,
    FixedLeaseTimeout as FixedLeaseTimeout,
    LeasePolicy as LeasePolicy,
)
from localqueue.policies.locality import (
    LOCAL_QUEUE_PLACEMENT as LOCAL_QUEUE_PLACEMENT,
    LocalQueuePlacement as LocalQueuePlacement,
    LocalityPolicy as LocalityPolicy,
    RemoteQueuePlacement as RemoteQueuePlacement,
)
from localqueue.policies.notification import (
    AsyncNotification as AsyncNotification,
    AsyncioNotification as AsyncioNotification,
    CallbackNotification as CallbackNotification,
    InProcessNotification as InProcessNotification,
    NO_NOTIFICATION as NO_NOTIFICATION,
    NoNotification as NoNotification,
    NotificationPolicy as NotificationPolicy,
)
from localqueue.policies.ordering import (
    BestEffortOrdering as BestEffortOrdering,
    FIFO_READY_ORDERING as FIFO_READY_ORDERING,
    FifoReadyOrdering as FifoReadyOrdering,
    OrderingPolicy as OrderingPolicy,
    PerKeyFifoOrdering as PerKeyFifoOrdering,
    PriorityOrdering as PriorityOrdering,
)
from localqueue.policies.policy_set import (
    QueuePolicySet as QueuePolicySet,
)
from localqueue.policies.results import (
    NO_RESULT_POLICY as NO_RESULT_POLICY,
    NoResultPolicy as NoResultPolicy,
    RETURN_STORED_RESULT as RETURN_STORED_RESULT,
    ResultPolicy as ResultPolicy,
    ReturnStoredResult as ReturnStoredResult,
)
from localqueue.policies.routing import (
    POINT_TO_POINT_ROUTING as POINT_TO_POINT_ROUTING,
    PointToPointRouting as PointToPointRouting,
    PublishSubscribeRouting as PublishSubscribeRouting,
    RoutingPolicy as RoutingPolicy,
)
from localqueue.policies.semantics import (
    LOCAL_AT_LEAST_ONCE as LOCAL_AT_LEAST_ONCE,
    QueueSemantics as QueueSemantics,
)
from localqueue.policies.subscriptions import (
    NO_SUBSCRIPTIONS as NO_SUBSCRIPTIONS,
    NoSubscriptions as NoSubscriptions,
    StaticFanoutSubscriptions as StaticFanoutSubscriptions,
    StoredSubscriptions as StoredSubscriptions,
    SubscriptionPolicy as SubscriptionPolicy,
    subscriber_queue_name as subscriber_queue_name,
)
