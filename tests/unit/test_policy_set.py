"""A policy set bundles choices and leaves the rest open."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from localqueue.policies import (
    LOCAL_AT_LEAST_ONCE,
    AtLeastOnceDelivery,
    AtMostOnceDelivery,
    BoundedBackpressure,
    EffectivelyOnceDelivery,
    NoDeduplication,
    PriorityOrdering,
    QueuePolicySet,
    ReturnStoredResult,
    SagaCommit,
)

KEYS = [
    "semantics",
    "locality_policy",
    "lease_policy",
    "acknowledgement_policy",
    "dead_letter_policy",
    "deduplication_policy",
    "delivery_policy",
    "consumption_policy",
    "dispatch_policy",
    "notification_policy",
    "ordering_policy",
    "routing_policy",
    "subscription_policy",
    "backpressure",
]


def test_an_empty_set_leaves_everything_open() -> None:
    assert QueuePolicySet().as_dict() == dict.fromkeys(KEYS)
    assert list(QueuePolicySet().as_dict()) == KEYS == [f.name for f in fields(QueuePolicySet)]


def test_a_set_prints_its_policies() -> None:
    printed = QueuePolicySet(semantics=LOCAL_AT_LEAST_ONCE, backpressure=BoundedBackpressure(3)).as_dict()
    assert printed["semantics"] == LOCAL_AT_LEAST_ONCE.as_dict()
    assert printed["backpressure"] == {"type": "bounded", "maxsize": 3, "overflow": "block"}


def test_sets_compare_by_value() -> None:
    assert QueuePolicySet.at_most_once() == QueuePolicySet(delivery_policy=AtMostOnceDelivery())
    assert QueuePolicySet.at_most_once() != QueuePolicySet.at_least_once()


@pytest.mark.parametrize(
    ("factory", "delivery"),
    [
        (QueuePolicySet.at_least_once, AtLeastOnceDelivery()),
        (QueuePolicySet.at_most_once, AtMostOnceDelivery()),
        (QueuePolicySet.effectively_once, EffectivelyOnceDelivery()),
    ],
)
def test_a_factory_chooses_delivery_and_takes_the_other_policies(factory: Any, delivery: Any) -> None:
    bundle = factory(ordering_policy=PriorityOrdering(), deduplication_policy=NoDeduplication())
    assert bundle.delivery_policy == delivery
    assert bundle.ordering_policy == PriorityOrdering()
    assert bundle.deduplication_policy == NoDeduplication()
    assert bundle.routing_policy is None


def test_effectively_once_takes_its_parts() -> None:
    ledger = object()
    bundle = QueuePolicySet.effectively_once(
        idempotency_store=ledger, result_policy=ReturnStoredResult(), commit_policy=SagaCommit()
    )
    assert bundle.delivery_policy == EffectivelyOnceDelivery(
        idempotency_store=ledger, result_policy=ReturnStoredResult(), commit_policy=SagaCommit()
    )


@pytest.mark.parametrize("option", ["delivery_policy", "nonsense"])
def test_a_factory_refuses_what_it_decides_itself_or_does_not_know(option: str) -> None:
    factory: Any = QueuePolicySet.at_least_once
    with pytest.raises(TypeError):
        factory(**{option: None})
