"""All policies of one queue, complete, and the semantics they add up to."""

from __future__ import annotations

from localqueue._dataclass import dataclass
from localqueue.policies.acknowledgement import EXPLICIT_ACKNOWLEDGEMENT, AcknowledgementPolicy
from localqueue.policies.backpressure import UNBOUNDED, BackpressureStrategy
from localqueue.policies.codec import JSON_CODEC, Codec
from localqueue.policies.consumption import PULL_CONSUMPTION, ConsumptionPolicy
from localqueue.policies.dead_letters import DEAD_LETTER_QUEUE, DeadLetterPolicy
from localqueue.policies.deduplication import DEDUPE_KEY_SUPPORT, DeduplicationPolicy
from localqueue.policies.delivery import AT_LEAST_ONCE_DELIVERY, DeliveryPolicy
from localqueue.policies.dispatch import NO_DISPATCHER, DispatchPolicy
from localqueue.policies.leases import FIXED_LEASE_TIMEOUT, LeasePolicy
from localqueue.policies.locality import LOCAL_QUEUE_PLACEMENT, LocalityPolicy
from localqueue.policies.notification import NO_NOTIFICATION, NotificationPolicy
from localqueue.policies.ordering import FIFO_READY_ORDERING, OrderingPolicy
from localqueue.policies.routing import POINT_TO_POINT_ROUTING, RoutingPolicy
from localqueue.policies.semantics import QueueSemantics
from localqueue.policies.subscriptions import NO_SUBSCRIPTIONS, SubscriptionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What the rules look at: the queue's name and every policy, with the queue's defaults.

    `max_attempts` is how many leases a message gets before it is dead-lettered; None is no limit.
    """

    name: str = ""
    locality_policy: LocalityPolicy = LOCAL_QUEUE_PLACEMENT
    lease_policy: LeasePolicy = FIXED_LEASE_TIMEOUT
    acknowledgement_policy: AcknowledgementPolicy = EXPLICIT_ACKNOWLEDGEMENT
    dead_letter_policy: DeadLetterPolicy = DEAD_LETTER_QUEUE
    deduplication_policy: DeduplicationPolicy = DEDUPE_KEY_SUPPORT
    delivery_policy: DeliveryPolicy = AT_LEAST_ONCE_DELIVERY
    consumption_policy: ConsumptionPolicy = PULL_CONSUMPTION
    dispatch_policy: DispatchPolicy = NO_DISPATCHER
    notification_policy: NotificationPolicy = NO_NOTIFICATION
    ordering_policy: OrderingPolicy = FIFO_READY_ORDERING
    routing_policy: RoutingPolicy = POINT_TO_POINT_ROUTING
    subscription_policy: SubscriptionPolicy = NO_SUBSCRIPTIONS
    backpressure: BackpressureStrategy = UNBOUNDED
    codec: Codec = JSON_CODEC
    max_attempts: int | None = None

    @property
    def requires_dedupe_key(self) -> bool:
        """Whether every put must carry a key; a delivery policy that does not say does not ask."""
        return bool(getattr(self.delivery_policy, "requires_dedupe_key", False))

    @property
    def orders_by_key(self) -> bool:
        """Whether `ordering_key` means something to the ordering policy."""
        return bool(getattr(self.ordering_policy, "orders_by_key", False))

    @property
    def dispatcher_leases(self) -> bool:
        """Whether the dispatcher takes messages from the store and settles them."""
        return bool(getattr(self.dispatch_policy, "leases", False))

    @property
    def overflow_queue(self) -> str | None:
        """The queue that takes what does not fit, if the backpressure names one."""
        if self.backpressure.overflow != "overflow-queue":
            return None
        name: str | None = getattr(self.backpressure, "queue", None)
        return name


def derive_semantics(configuration: Configuration) -> QueueSemantics:
    """Describe what the policies say about themselves."""
    return QueueSemantics(
        locality=configuration.locality_policy.locality,
        delivery=configuration.delivery_policy.guarantee,
        routing=configuration.routing_policy.pattern,
        consumption=configuration.consumption_policy.pattern,
        ordering=configuration.ordering_policy.guarantee,
        leases=configuration.lease_policy.uses_leases,
        acknowledgements=configuration.acknowledgement_policy.acknowledgements,
        dead_letters=configuration.dead_letter_policy.dead_letters,
        deduplication=configuration.deduplication_policy.deduplication,
        subscriptions=configuration.subscription_policy.subscriptions,
        notifications=configuration.notification_policy.notifies,
    )


SEMANTICS_SOURCES = {
    "locality": "locality_policy locality",
    "leases": "lease_policy uses_leases",
    "acknowledgements": "acknowledgement_policy acknowledgements",
    "dead_letters": "dead_letter_policy dead_letters",
    "deduplication": "deduplication_policy deduplication",
    "subscriptions": "subscription_policy subscriptions",
    "notifications": "notification_policy notifies",
    "delivery": "delivery_policy guarantee",
    "consumption": "consumption_policy pattern",
    "ordering": "ordering_policy guarantee",
    "routing": "routing_policy pattern",
}
"""Where each field of QueueSemantics comes from, in the order they are checked."""


def check_semantics(semantics: QueueSemantics, configuration: Configuration) -> None:
    """Raise ValueError for the first field in which `semantics` contradicts the policies."""
    derived = derive_semantics(configuration)
    for name, source in SEMANTICS_SOURCES.items():
        if getattr(semantics, name) != getattr(derived, name):
            raise ValueError(f"semantics {name} must match {source}")
