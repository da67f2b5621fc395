"""What a queue promises: small frozen objects, one family a file, each printable with `as_dict`."""

from localqueue.policies.acknowledgement import (
    EXPLICIT_ACKNOWLEDGEMENT,
    AcknowledgementPolicy,
    ExplicitAcknowledgement,
)
from localqueue.policies.backpressure import (
    UNBOUNDED,
    BackpressureStrategy,
    BoundedBackpressure,
    DropNewest,
    DropOldest,
    OverflowToQueue,
    RejectingBackpressure,
    Throttling,
)
from localqueue.policies.codec import (
    JSON_CODEC,
    BytesCodec,
    Codec,
    JsonCodec,
    MsgpackCodec,
    PickleCodec,
)
from localqueue.policies.commits import (
    LOCAL_ATOMIC_COMMIT,
    TRANSACTIONAL_OUTBOX_COMMIT,
    TWO_PHASE_COMMIT,
    CommitPolicy,
    LocalAtomicCommit,
    Participant,
    SagaCommit,
    TransactionalOutboxCommit,
    TwoPhaseCommit,
)
from localqueue.policies.configuration import (
    Configuration,
    check_semantics,
    derive_semantics,
)
from localqueue.policies.consumption import (
    PULL_CONSUMPTION,
    ConsumptionPolicy,
    PullConsumption,
    PushConsumption,
)
from localqueue.policies.dead_letters import (
    DEAD_LETTER_QUEUE,
    DeadLetterPolicy,
    DeadLetterQueue,
)
from localqueue.policies.deduplication import (
    DEDUPE_KEY_SUPPORT,
    NO_DEDUPLICATION,
    DedupeKeySupport,
    DeduplicationPolicy,
    NoDeduplication,
)
from localqueue.policies.delivery import (
    AT_LEAST_ONCE_DELIVERY,
    AtLeastOnceDelivery,
    AtMostOnceDelivery,
    DeliveryPolicy,
    EffectivelyOnceDelivery,
)
from localqueue.policies.dispatch import (
    NO_DISPATCHER,
    CallbackDispatcher,
    DispatchPolicy,
    NoDispatcher,
)
from localqueue.policies.leases import (
    FIXED_LEASE_TIMEOUT,
    FixedLeaseTimeout,
    LeasePolicy,
)
from localqueue.policies.locality import (
    LOCAL_QUEUE_PLACEMENT,
    LocalityPolicy,
    LocalQueuePlacement,
    RemoteQueuePlacement,
)
from localqueue.policies.notification import (
    NO_NOTIFICATION,
    AsyncioNotification,
    AsyncNotification,
    CallbackNotification,
    InProcessNotification,
    NoNotification,
    NotificationPolicy,
)
from localqueue.policies.ordering import (
    FIFO_READY_ORDERING,
    BestEffortOrdering,
    FifoReadyOrdering,
    OrderingPolicy,
    PerKeyFifoOrdering,
    PriorityOrdering,
)
from localqueue.policies.policy_set import (
    QueuePolicySet,
)
from localqueue.policies.results import (
    NO_RESULT_POLICY,
    RETURN_STORED_RESULT,
    NoResultPolicy,
    ResultPolicy,
    ReturnStoredResult,
)
from localqueue.policies.routing import (
    POINT_TO_POINT_ROUTING,
    PointToPointRouting,
    PublishSubscribeRouting,
    RoutingPolicy,
)
from localqueue.policies.semantics import (
    LOCAL_AT_LEAST_ONCE,
    QueueSemantics,
)
from localqueue.policies.subscriptions import (
    NO_SUBSCRIPTIONS,
    NoSubscriptions,
    StaticFanoutSubscriptions,
    StoredSubscriptions,
    SubscriptionPolicy,
    subscriber_queue_name,
)

__all__ = [
    "AT_LEAST_ONCE_DELIVERY",
    "DEAD_LETTER_QUEUE",
    "DEDUPE_KEY_SUPPORT",
    "EXPLICIT_ACKNOWLEDGEMENT",
    "FIFO_READY_ORDERING",
    "FIXED_LEASE_TIMEOUT",
    "JSON_CODEC",
    "LOCAL_ATOMIC_COMMIT",
    "LOCAL_AT_LEAST_ONCE",
    "LOCAL_QUEUE_PLACEMENT",
    "NO_DEDUPLICATION",
    "NO_DISPATCHER",
    "NO_NOTIFICATION",
    "NO_RESULT_POLICY",
    "NO_SUBSCRIPTIONS",
    "POINT_TO_POINT_ROUTING",
    "PULL_CONSUMPTION",
    "RETURN_STORED_RESULT",
    "TRANSACTIONAL_OUTBOX_COMMIT",
    "TWO_PHASE_COMMIT",
    "UNBOUNDED",
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
    "Configuration",
    "ConsumptionPolicy",
    "DeadLetterPolicy",
    "DeadLetterQueue",
    "DedupeKeySupport",
    "DeduplicationPolicy",
    "DeliveryPolicy",
    "DispatchPolicy",
    "DropNewest",
    "DropOldest",
    "EffectivelyOnceDelivery",
    "ExplicitAcknowledgement",
    "FifoReadyOrdering",
    "FixedLeaseTimeout",
    "InProcessNotification",
    "JsonCodec",
    "LeasePolicy",
    "LocalAtomicCommit",
    "LocalQueuePlacement",
    "LocalityPolicy",
    "MsgpackCodec",
    "NoDeduplication",
    "NoDispatcher",
    "NoNotification",
    "NoResultPolicy",
    "NoSubscriptions",
    "NotificationPolicy",
    "OrderingPolicy",
    "OverflowToQueue",
    "Participant",
    "PerKeyFifoOrdering",
    "PickleCodec",
    "PointToPointRouting",
    "PriorityOrdering",
    "PublishSubscribeRouting",
    "PullConsumption",
    "PushConsumption",
    "QueuePolicySet",
    "QueueSemantics",
    "RejectingBackpressure",
    "RemoteQueuePlacement",
    "ResultPolicy",
    "ReturnStoredResult",
    "RoutingPolicy",
    "SagaCommit",
    "StaticFanoutSubscriptions",
    "StoredSubscriptions",
    "SubscriptionPolicy",
    "Throttling",
    "TransactionalOutboxCommit",
    "TwoPhaseCommit",
    "check_semantics",
    "derive_semantics",
    "subscriber_queue_name",
]
