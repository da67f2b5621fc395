"""What a queue promises: small frozen objects, one family a file, each printable with `as_dict`.

A family is loaded when one of its names is first used. Type checkers read the names from `__init__.pyi`.
"""

from localqueue._exports import lazy

_FAMILIES = {
    "localqueue.policies.acknowledgement": (
        "AcknowledgementPolicy",
        "EXPLICIT_ACKNOWLEDGEMENT",
        "ExplicitAcknowledgement",
    ),
    "localqueue.policies.backpressure": (
        "BackpressureStrategy",
        "BoundedBackpressure",
        "DropNewest",
        "DropOldest",
        "OverflowToQueue",
        "RejectingBackpressure",
        "Throttling",
        "UNBOUNDED",
    ),
    "localqueue.policies.codec": (
        "BytesCodec",
        "Codec",
        "JSON_CODEC",
        "JsonCodec",
        "MsgpackCodec",
        "PickleCodec",
    ),
    "localqueue.policies.commits": (
        "CommitPolicy",
        "LOCAL_ATOMIC_COMMIT",
        "LocalAtomicCommit",
        "Participant",
        "SagaCommit",
        "TRANSACTIONAL_OUTBOX_COMMIT",
        "TWO_PHASE_COMMIT",
        "TransactionalOutboxCommit",
        "TwoPhaseCommit",
    ),
    "localqueue.policies.configuration": (
        "Configuration",
        "check_semantics",
        "derive_semantics",
    ),
    "localqueue.policies.consumption": (
        "ConsumptionPolicy",
        "PULL_CONSUMPTION",
        "PullConsumption",
        "PushConsumption",
    ),
    "localqueue.policies.dead_letters": (
        "DEAD_LETTER_QUEUE",
        "DeadLetterPolicy",
        "DeadLetterQueue",
    ),
    "localqueue.policies.deduplication": (
        "DEDUPE_KEY_SUPPORT",
        "DedupeKeySupport",
        "DeduplicationPolicy",
        "NO_DEDUPLICATION",
        "NoDeduplication",
    ),
    "localqueue.policies.delivery": (
        "AT_LEAST_ONCE_DELIVERY",
        "AtLeastOnceDelivery",
        "AtMostOnceDelivery",
        "DeliveryPolicy",
        "EffectivelyOnceDelivery",
    ),
    "localqueue.policies.dispatch": (
        "CallbackDispatcher",
        "DispatchPolicy",
        "NO_DISPATCHER",
        "NoDispatcher",
    ),
    "localqueue.policies.leases": (
        "FIXED_LEASE_TIMEOUT",
        "FixedLeaseTimeout",
        "LeasePolicy",
    ),
    "localqueue.policies.locality": (
        "LOCAL_QUEUE_PLACEMENT",
        "LocalQueuePlacement",
        "LocalityPolicy",
        "RemoteQueuePlacement",
    ),
    "localqueue.policies.notification": (
        "AsyncNotification",
        "AsyncioNotification",
        "CallbackNotification",
        "InProcessNotification",
        "NO_NOTIFICATION",
        "NoNotification",
        "NotificationPolicy",
    ),
    "localqueue.policies.ordering": (
        "BestEffortOrdering",
        "FIFO_READY_ORDERING",
        "FifoReadyOrdering",
        "OrderingPolicy",
        "PerKeyFifoOrdering",
        "PriorityOrdering",
    ),
    "localqueue.policies.policy_set": ("QueuePolicySet",),
    "localqueue.policies.results": (
        "NO_RESULT_POLICY",
        "NoResultPolicy",
        "RETURN_STORED_RESULT",
        "ResultPolicy",
        "ReturnStoredResult",
    ),
    "localqueue.policies.routing": (
        "POINT_TO_POINT_ROUTING",
        "PointToPointRouting",
        "PublishSubscribeRouting",
        "RoutingPolicy",
    ),
    "localqueue.policies.semantics": (
        "LOCAL_AT_LEAST_ONCE",
        "QueueSemantics",
    ),
    "localqueue.policies.subscriptions": (
        "NO_SUBSCRIPTIONS",
        "NoSubscriptions",
        "StaticFanoutSubscriptions",
        "StoredSubscriptions",
        "SubscriptionPolicy",
        "subscriber_queue_name",
    ),
}

__all__, __getattr__, __dir__ = lazy(__name__, _FAMILIES)
