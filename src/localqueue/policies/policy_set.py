"""A reusable bundle of policies."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

from localqueue._dataclass import dataclass, field_names
from localqueue.policies.acknowledgement import AcknowledgementPolicy
from localqueue.policies.backpressure import BackpressureStrategy
from localqueue.policies.commits import LOCAL_ATOMIC_COMMIT, CommitPolicy
from localqueue.policies.consumption import ConsumptionPolicy
from localqueue.policies.dead_letters import DeadLetterPolicy
from localqueue.policies.deduplication import DeduplicationPolicy
from localqueue.policies.delivery import (
    AT_LEAST_ONCE_DELIVERY,
    AtMostOnceDelivery,
    DeliveryPolicy,
    EffectivelyOnceDelivery,
)
from localqueue.policies.dispatch import DispatchPolicy
from localqueue.policies.leases import LeasePolicy
from localqueue.policies.locality import LocalityPolicy
from localqueue.policies.notification import NotificationPolicy
from localqueue.policies.ordering import OrderingPolicy
from localqueue.policies.results import NO_RESULT_POLICY, ResultPolicy
from localqueue.policies.routing import RoutingPolicy
from localqueue.policies.semantics import QueueSemantics
from localqueue.policies.subscriptions import SubscriptionPolicy


class SharedPolicies(TypedDict, total=False):
    """The policies that may accompany any delivery guarantee."""

    locality_policy: LocalityPolicy | None
    lease_policy: LeasePolicy | None
    acknowledgement_policy: AcknowledgementPolicy | None
    dead_letter_policy: DeadLetterPolicy | None
    deduplication_policy: DeduplicationPolicy | None
    consumption_policy: ConsumptionPolicy | None
    dispatch_policy: DispatchPolicy | None
    notification_policy: NotificationPolicy | None
    ordering_policy: OrderingPolicy | None
    routing_policy: RoutingPolicy | None
    subscription_policy: SubscriptionPolicy | None
    backpressure: BackpressureStrategy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicySet:
    """Policies to hand to several queues as one value.

    A policy left None is the queue's default. The set checks nothing by itself: the queue that
    takes it does, and refuses a policy that is also passed on its own.
    """

    semantics: QueueSemantics | None = None
    locality_policy: LocalityPolicy | None = None
    lease_policy: LeasePolicy | None = None
    acknowledgement_policy: AcknowledgementPolicy | None = None
    dead_letter_policy: DeadLetterPolicy | None = None
    deduplication_policy: DeduplicationPolicy | None = None
    delivery_policy: DeliveryPolicy | None = None
    consumption_policy: ConsumptionPolicy | None = None
    dispatch_policy: DispatchPolicy | None = None
    notification_policy: NotificationPolicy | None = None
    ordering_policy: OrderingPolicy | None = None
    routing_policy: RoutingPolicy | None = None
    subscription_policy: SubscriptionPolicy | None = None
    backpressure: BackpressureStrategy | None = None

    @classmethod
    def at_least_once(cls, **policies: Unpack[SharedPolicies]) -> QueuePolicySet:
        """Redeliver until acknowledged."""
        return cls(delivery_policy=AT_LEAST_ONCE_DELIVERY, **policies)

    @classmethod
    def at_most_once(cls, **policies: Unpack[SharedPolicies]) -> QueuePolicySet:
        """Remove before delivery."""
        return cls(delivery_policy=AtMostOnceDelivery(), **policies)

    @classmethod
    def effectively_once(
        cls,
        *,
        idempotency_store: Any | None = None,
        result_policy: ResultPolicy = NO_RESULT_POLICY,
        commit_policy: CommitPolicy = LOCAL_ATOMIC_COMMIT,
        **policies: Unpack[SharedPolicies],
    ) -> QueuePolicySet:
        """Redeliver until acknowledged, and recognise what already succeeded by its key."""
        delivery = EffectivelyOnceDelivery(
            idempotency_store=idempotency_store,
            result_policy=result_policy,
            commit_policy=commit_policy,
        )
        return cls(delivery_policy=delivery, **policies)

    def as_dict(self) -> dict[str, Any]:
        policies = ((name, getattr(self, name)) for name in field_names(type(self)))
        return {name: None if policy is None else policy.as_dict() for name, policy in policies}
