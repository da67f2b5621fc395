"""Every policy prints its contract, compares by value and can not be changed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

import localqueue.policies as policies
from localqueue.policies import (
    AtLeastOnceDelivery,
    AtMostOnceDelivery,
    BestEffortOrdering,
    CallbackDispatcher,
    DeadLetterQueue,
    DedupeKeySupport,
    EffectivelyOnceDelivery,
    ExplicitAcknowledgement,
    FifoReadyOrdering,
    FixedLeaseTimeout,
    LocalAtomicCommit,
    LocalQueuePlacement,
    NoDeduplication,
    NoDispatcher,
    NoResultPolicy,
    NoSubscriptions,
    PerKeyFifoOrdering,
    PointToPointRouting,
    PriorityOrdering,
    PublishSubscribeRouting,
    PullConsumption,
    PushConsumption,
    QueueSemantics,
    RemoteQueuePlacement,
    ResultPolicy,
    ReturnStoredResult,
    SagaCommit,
    StaticFanoutSubscriptions,
    StoredSubscriptions,
    TransactionalOutboxCommit,
    TwoPhaseCommit,
    subscriber_queue_name,
)


class Shelf:
    """Stands for any store: a policy only prints the name of its class."""


def ordering(guarantee: str, *flags: bool) -> dict[str, Any]:
    names = ("ready_before_delayed", "stable_for_same_timestamp", "priority_before_sequence")
    return {"guarantee": guarantee, **dict(zip(names, flags, strict=True))}


def delivery(guarantee: str, ack_timing: str, leases: bool) -> dict[str, Any]:
    return {
        "guarantee": guarantee,
        "ack_timing": ack_timing,
        "uses_leases": leases,
        "redelivers_expired_leases": leases,
    }


def commit(mode: str, local: bool, effects: bool, **stores: str | None) -> dict[str, Any]:
    return {"mode": mode, "local_commit": local, "coordinates_effects": effects, **stores}


PRINTED: list[tuple[Any, dict[str, Any]]] = [
    (
        LocalQueuePlacement(),
        {"locality": "local", "co_located_state": True, "crosses_network_boundary": False},
    ),
    (
        RemoteQueuePlacement(),
        {"locality": "remote", "co_located_state": False, "crosses_network_boundary": True},
    ),
    (
        FixedLeaseTimeout(5.0),
        {"type": "fixed-timeout", "timeout": 5.0, "uses_leases": True, "expires_inflight": True},
    ),
    (
        ExplicitAcknowledgement(),
        {"acknowledgements": True, "explicit_ack": True, "removes_on_ack": True},
    ),
    (
        DeadLetterQueue(),
        {"dead_letters": True, "stores_failures": True, "supports_requeue": True},
    ),
    (DedupeKeySupport(), {"deduplication": True, "accepts_dedupe_key": True}),
    (NoDeduplication(), {"deduplication": False, "accepts_dedupe_key": False}),
    (AtLeastOnceDelivery(), delivery("at-least-once", "after-success", True)),
    (AtMostOnceDelivery(), delivery("at-most-once", "before-delivery", False)),
    (
        EffectivelyOnceDelivery(idempotency_store=Shelf()),
        {
            **delivery("effectively-once", "after-success", True),
            "requires_dedupe_key": True,
            "idempotency_store": "Shelf",
            "result_policy": {
                "type": "none",
                "stores_result": False,
                "returns_cached_result": False,
            },
            "commit_policy": commit("local-atomic", True, False),
        },
    ),
    (LocalAtomicCommit(), commit("local-atomic", True, False)),
    (
        TransactionalOutboxCommit(outbox_store=Shelf()),
        commit("transactional-outbox", True, True, outbox_store="Shelf"),
    ),
    (
        TwoPhaseCommit(commit_store=Shelf()),
        commit("two-phase", False, True, prepare_store=None, commit_store="Shelf"),
    ),
    (SagaCommit(), commit("saga", False, True, saga_store=None)),
    (NoResultPolicy(), {"type": "none", "stores_result": False, "returns_cached_result": False}),
    (
        ReturnStoredResult(result_store=Shelf()),
        {
            "type": "return-stored",
            "stores_result": True,
            "returns_cached_result": True,
            "result_store": "Shelf",
        },
    ),
    (
        PullConsumption(),
        {"pattern": "pull", "consumer_requests_messages": True, "producer_invokes_handler": False},
    ),
    (
        PushConsumption(),
        {"pattern": "push", "consumer_requests_messages": False, "producer_invokes_handler": True},
    ),
    (NoDispatcher(), {"dispatches": False, "dispatches_on_put": False, "handler_count": 0}),
    (
        CallbackDispatcher((print, repr)),
        {"type": "callback", "dispatches": True, "dispatches_on_put": True, "handler_count": 2},
    ),
    (
        PointToPointRouting(),
        {"pattern": "point-to-point", "single_consumer_per_message": True, "fanout": False},
    ),
    (
        PublishSubscribeRouting(),
        {"pattern": "publish-subscribe", "single_consumer_per_message": False, "fanout": True},
    ),
    (NoSubscriptions(), {"subscriptions": False, "fanout": False, "subscriber_count": 0}),
    (
        StaticFanoutSubscriptions(("billing", "audit")),
        {
            "subscriptions": True,
            "fanout": True,
            "subscriber_count": 2,
            "subscribers": ["billing", "audit"],
        },
    ),
    (
        StoredSubscriptions(("audit",)),
        {"subscriptions": True, "fanout": True, "dynamic": True, "subscribers": ["audit"]},
    ),
    (FifoReadyOrdering(), ordering("fifo-ready", True, True, False)),
    (PriorityOrdering(), ordering("priority", True, True, True)),
    (BestEffortOrdering(), ordering("best-effort", False, False, False)),
    (
        PerKeyFifoOrdering(),
        {**ordering("fifo-per-key", True, True, False), "orders_by_key": True},
    ),
    (
        QueueSemantics(),
        {
            "locality": "local",
            "delivery": "at-least-once",
            "routing": "point-to-point",
            "consumption": "pull",
            "ordering": "fifo-ready",
            "leases": True,
            "acknowledgements": True,
            "dead_letters": True,
            "deduplication": True,
            "subscriptions": False,
            "notifications": False,
        },
    ),
]
NAMES = [type(policy).__name__ for policy, _ in PRINTED]


@pytest.mark.parametrize(("policy", "printed"), PRINTED, ids=NAMES)
def test_a_policy_prints_its_contract_in_a_fixed_order(policy: Any, printed: dict[str, Any]) -> None:
    assert list(policy.as_dict().items()) == list(printed.items())


@pytest.mark.parametrize("policy", [policy for policy, _ in PRINTED], ids=NAMES)
def test_a_policy_is_a_value(policy: Any) -> None:
    assert replace(policy) == policy
    assert hash(replace(policy)) == hash(policy)
    assert repr(policy).startswith(type(policy).__name__ + "(")
    assert not hasattr(policy, "__dict__")
    with pytest.raises(FrozenInstanceError):
        setattr(policy, fields(policy)[0].name, "changed")


def test_descriptive_fields_are_constructor_arguments() -> None:
    assert FixedLeaseTimeout(uses_leases=False).as_dict()["uses_leases"] is False
    assert LocalQueuePlacement(locality="rack").locality == "rack"
    assert ResultPolicy(True, False).as_dict() == {
        "stores_result": True,
        "returns_cached_result": False,
    }


@pytest.mark.parametrize(
    ("constant", "expected"),
    [
        ("AT_LEAST_ONCE_DELIVERY", AtLeastOnceDelivery()),
        ("DEAD_LETTER_QUEUE", DeadLetterQueue()),
        ("DEDUPE_KEY_SUPPORT", DedupeKeySupport()),
        ("EXPLICIT_ACKNOWLEDGEMENT", ExplicitAcknowledgement()),
        ("FIFO_READY_ORDERING", FifoReadyOrdering()),
        ("FIXED_LEASE_TIMEOUT", FixedLeaseTimeout()),
        ("LOCAL_AT_LEAST_ONCE", QueueSemantics()),
        ("LOCAL_ATOMIC_COMMIT", LocalAtomicCommit()),
        ("LOCAL_QUEUE_PLACEMENT", LocalQueuePlacement()),
        ("NO_DEDUPLICATION", NoDeduplication()),
        ("NO_DISPATCHER", NoDispatcher()),
        ("NO_NOTIFICATION", policies.NoNotification()),
        ("NO_RESULT_POLICY", NoResultPolicy()),
        ("NO_SUBSCRIPTIONS", NoSubscriptions()),
        ("POINT_TO_POINT_ROUTING", PointToPointRouting()),
        ("PULL_CONSUMPTION", PullConsumption()),
        ("RETURN_STORED_RESULT", ReturnStoredResult()),
        ("TRANSACTIONAL_OUTBOX_COMMIT", TransactionalOutboxCommit()),
        ("TWO_PHASE_COMMIT", TwoPhaseCommit()),
    ],
)
def test_a_constant_is_the_policy_with_its_defaults(constant: str, expected: Any) -> None:
    assert getattr(policies, constant) == expected
    assert constant in policies.__all__


def test_every_exported_name_exists() -> None:
    assert len(set(policies.__all__)) == len(policies.__all__)
    for name in policies.__all__:
        assert getattr(policies, name) is not None


@pytest.mark.parametrize("timeout", [0, -1, 0.0])
def test_a_lease_lasts_some_time(timeout: float) -> None:
    with pytest.raises(ValueError) as caught:
        FixedLeaseTimeout(timeout)
    assert str(caught.value) == "lease timeout must be greater than zero"


@pytest.mark.parametrize(
    ("timeout", "error"),
    [
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (True, TypeError),
        ("30", TypeError),
        (None, TypeError),
    ],
)
def test_a_lease_timeout_is_a_finite_number(timeout: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"lease timeout must be .*{timeout!r}"):
        FixedLeaseTimeout(timeout)


@pytest.mark.parametrize("policy", [StaticFanoutSubscriptions, StoredSubscriptions])
@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("billing", TypeError, r"pass \('billing',\)"),
        (("a", ""), ValueError, "^subscriber names cannot be empty$"),
        (("a", "a"), ValueError, "^subscriber names must be unique$"),
        (("a:b",), ValueError, "cannot contain ':'"),
        (("a", 1), TypeError, "must be strings, got 1"),
    ],
)
def test_subscribers_are_distinct_names(policy: Any, names: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        policy(names)


def test_a_static_fan_out_has_at_least_one_subscriber() -> None:
    with pytest.raises(ValueError, match=r"^subscribers cannot be empty$"):
        StaticFanoutSubscriptions(())
    assert StoredSubscriptions().subscribers == ()


def test_subscribers_may_come_from_any_iterable() -> None:
    assert StaticFanoutSubscriptions(["a", "b"]).subscribers == ("a", "b")  # type: ignore[arg-type]


def test_a_subscriber_queue_is_named_after_both() -> None:
    assert subscriber_queue_name("events", "billing") == "events.billing"
    with pytest.raises(ValueError, match=r"^subscriber cannot be empty$"):
        subscriber_queue_name("events", "")


def test_a_dispatcher_calls_its_handlers_in_order() -> None:
    calls: list[str] = []
    CallbackDispatcher((lambda message: calls.append(f"first {message}"), lambda _: calls.append("second"))).dispatch(
        "m"
    )
    assert calls == ["first m", "second"]


def test_a_failing_handler_reaches_the_caller_and_stops_the_rest() -> None:
    calls: list[str] = []

    def fail(_: object) -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        CallbackDispatcher((fail, calls.append)).dispatch("m")
    assert calls == []


@pytest.mark.parametrize(
    ("handlers", "error", "message"),
    [
        ((), ValueError, "^handlers cannot be empty$"),
        (print, TypeError, "tuple of callables"),
        ((1,), TypeError, "must be callable, got 1"),
    ],
)
def test_a_dispatcher_needs_handlers(handlers: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CallbackDispatcher(handlers)


def test_no_dispatcher_does_nothing() -> None:
    assert NoDispatcher().dispatch("m") is None  # type: ignore[func-returns-value]


def test_policies_load_neither_asyncio_nor_pickle() -> None:
    script = "import sys, localqueue.policies; print({'asyncio', 'pickle'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
