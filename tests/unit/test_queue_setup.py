"""The constructor resolves its options in a fixed order, or refuses them with the exact reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localqueue import (
    AT_LEAST_ONCE_DELIVERY,
    DEAD_LETTER_QUEUE,
    DEDUPE_KEY_SUPPORT,
    EXPLICIT_ACKNOWLEDGEMENT,
    FIFO_READY_ORDERING,
    LOCAL_AT_LEAST_ONCE,
    LOCAL_QUEUE_PLACEMENT,
    NO_DEDUPLICATION,
    NO_DISPATCHER,
    NO_NOTIFICATION,
    NO_SUBSCRIPTIONS,
    POINT_TO_POINT_ROUTING,
    PULL_CONSUMPTION,
    AtMostOnceDelivery,
    BestEffortOrdering,
    BoundedBackpressure,
    CallbackDispatcher,
    CallbackNotification,
    EffectivelyOnceDelivery,
    FixedLeaseTimeout,
    InProcessNotification,
    MemoryQueueStore,
    PersistentQueue,
    PersistentWorkerConfig,
    PriorityOrdering,
    PublishSubscribeRouting,
    PushConsumption,
    QoS,
    QueuePolicySet,
    QueueSemantics,
    QueueSpec,
    RejectingBackpressure,
    RemoteQueuePlacement,
    StaticFanoutSubscriptions,
)
from localqueue.errors import IncompatiblePolicies
from localqueue.policies import JSON_CODEC


def refused(error: type[Exception], message: str, *args: Any, **options: Any) -> None:
    with pytest.raises(error) as caught:
        PersistentQueue(*args, **options)
    assert str(caught.value) == message


def a_store() -> Any:
    return object()


def test_a_queue_needs_a_name_or_a_spec() -> None:
    refused(ValueError, "pass either name= or spec=")


def test_a_store_and_a_path_exclude_each_other() -> None:
    refused(
        ValueError, "pass either store= or store_path=, not both", "jobs", store=a_store(), store_path="somewhere.db"
    )


POLICIES: dict[str, Any] = {
    "semantics": LOCAL_AT_LEAST_ONCE,
    "locality_policy": LOCAL_QUEUE_PLACEMENT,
    "lease_policy": FixedLeaseTimeout(),
    "acknowledgement_policy": EXPLICIT_ACKNOWLEDGEMENT,
    "dead_letter_policy": DEAD_LETTER_QUEUE,
    "deduplication_policy": DEDUPE_KEY_SUPPORT,
    "consumption_policy": PULL_CONSUMPTION,
    "delivery_policy": AT_LEAST_ONCE_DELIVERY,
    "dispatch_policy": NO_DISPATCHER,
    "notification_policy": NO_NOTIFICATION,
    "ordering_policy": FIFO_READY_ORDERING,
    "routing_policy": POINT_TO_POINT_ROUTING,
    "subscription_policy": NO_SUBSCRIPTIONS,
    "backpressure": BoundedBackpressure(),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_comes_from_the_set_or_from_its_own_option(name: str) -> None:
    policy = POLICIES[name]
    refused(
        ValueError,
        f"pass either {name}= or policy_set.{name}, not both",
        "jobs",
        policy_set=QueuePolicySet(**{name: policy}),
        **{name: policy},
    )
    assert getattr(PersistentQueue("jobs", **{name: policy}), name) == policy
    assert getattr(PersistentQueue("jobs", policy_set=QueuePolicySet(**{name: policy})), name) == policy


def test_a_capacity_comes_from_one_place() -> None:
    refused(
        ValueError,
        "pass either maxsize= or policy_set.backpressure, not both",
        "jobs",
        maxsize=1,
        policy_set=QueuePolicySet(backpressure=BoundedBackpressure(1)),
    )
    refused(
        ValueError,
        "pass either maxsize= or backpressure=, not both",
        "jobs",
        maxsize=1,
        backpressure=BoundedBackpressure(1),
    )


@pytest.mark.parametrize(
    "options",
    [{"lease_policy": FixedLeaseTimeout(5)}, {"policy_set": QueuePolicySet(lease_policy=FixedLeaseTimeout(5))}],
    ids=["own option", "policy set"],
)
def test_a_lease_timeout_comes_from_one_place(options: dict[str, Any]) -> None:
    refused(ValueError, "pass either lease_timeout= or lease_policy=, not both", "jobs", lease_timeout=4.0, **options)
    assert PersistentQueue("jobs", lease_timeout=30.0, **options).lease_timeout == 5


@pytest.mark.parametrize("timeout", [0, -1, -0.5, float("nan")])
def test_a_lease_timeout_is_positive(timeout: float) -> None:
    refused(ValueError, "lease_timeout must be greater than zero", "jobs", lease_timeout=timeout)


def test_a_capacity_is_not_negative() -> None:
    refused(ValueError, "maxsize cannot be negative", "jobs", maxsize=-1)


@pytest.mark.parametrize("max_tries", [0, -1, "3", 1.5, True])
def test_retry_defaults_count_tries_in_positive_integers(max_tries: Any) -> None:
    message = f"retry_defaults max_tries must be a positive integer, not {max_tries!r}"
    refused(ValueError, message, "jobs", retry_defaults={"max_tries": max_tries})


def test_retry_defaults_are_a_mapping_that_stops_in_one_way() -> None:
    refused(TypeError, "retry_defaults must be a mapping", "jobs", retry_defaults=[("max_tries", 3)])
    refused(
        ValueError,
        "retry_defaults cannot set both max_tries and stop",
        "jobs",
        retry_defaults={"max_tries": 3, "stop": object()},
    )


def test_retry_defaults_are_settings_that_workers_know() -> None:
    refused(
        TypeError,
        "retry_defaults has no setting 'max_trys'; did you mean 'max_tries'?",
        "jobs",
        retry_defaults={"max_trys": 3},
    )
    refused(
        TypeError,
        "retry_defaults wait must be a number of seconds, such as 0.5, or a Tenacity strategy, such as "
        "wait_exponential(), not '1s'",
        "jobs",
        retry_defaults={"wait": "1s"},
    )


@pytest.mark.parametrize(
    ("field", "value", "source"),
    [
        ("locality", "remote", "locality_policy locality"),
        ("leases", False, "lease_policy uses_leases"),
        ("acknowledgements", False, "acknowledgement_policy acknowledgements"),
        ("dead_letters", False, "dead_letter_policy dead_letters"),
        ("deduplication", False, "deduplication_policy deduplication"),
        ("subscriptions", True, "subscription_policy subscriptions"),
        ("notifications", True, "notification_policy notifies"),
        ("delivery", "at-most-once", "delivery_policy guarantee"),
        ("consumption", "push", "consumption_policy pattern"),
        ("ordering", "priority", "ordering_policy guarantee"),
        ("routing", "publish-subscribe", "routing_policy pattern"),
    ],
)
def test_semantics_that_contradict_a_policy_are_refused(field: str, value: Any, source: str) -> None:
    refused(ValueError, f"semantics {field} must match {source}", "jobs", semantics=QueueSemantics(**{field: value}))


def test_the_checks_come_in_the_documented_order() -> None:
    """Each step removes the complaint before it, and the next one in the documented order appears."""
    options: dict[str, Any] = {
        "store": a_store(),
        "store_path": "x.db",
        "policy_set": QueuePolicySet(dispatch_policy=NO_DISPATCHER),
        "dispatch_policy": NO_DISPATCHER,
        "backpressure": BoundedBackpressure(1),
        "maxsize": -1,
        "lease_policy": FixedLeaseTimeout(5),
        "lease_timeout": 0,
        "retry_defaults": {"max_tries": 0},
        "semantics": QueueSemantics(locality="remote", leases=False, delivery="none", routing="none"),
    }
    complaints = []

    def complain() -> None:
        with pytest.raises(ValueError) as caught:
            PersistentQueue(**options)
        complaints.append(str(caught.value))

    complain()
    options["name"] = "jobs"
    complain()
    del options["store_path"]
    complain()
    del options["dispatch_policy"]
    complain()
    del options["backpressure"]
    complain()
    del options["lease_policy"]
    complain()
    del options["lease_timeout"]
    complain()
    del options["maxsize"]
    complain()
    del options["retry_defaults"]
    complain()
    options["semantics"] = QueueSemantics(leases=False, delivery="none", routing="none")
    complain()
    options["semantics"] = QueueSemantics(delivery="none", routing="none")
    complain()
    options["semantics"] = QueueSemantics(routing="none")
    complain()
    assert complaints == [
        "pass either name= or spec=",
        "pass either store= or store_path=, not both",
        "pass either dispatch_policy= or policy_set.dispatch_policy, not both",
        "pass either maxsize= or backpressure=, not both",
        "pass either lease_timeout= or lease_policy=, not both",
        "lease_timeout must be greater than zero",
        "maxsize cannot be negative",
        "retry_defaults max_tries must be a positive integer, not 0",
        "semantics locality must match locality_policy locality",
        "semantics leases must match lease_policy uses_leases",
        "semantics delivery must match delivery_policy guarantee",
        "semantics routing must match routing_policy pattern",
    ]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("", ValueError, "queue name cannot be empty"),
        ("a:b", ValueError, "queue name cannot contain ':'"),
        ("a\0b", ValueError, "queue name cannot contain a NUL character"),
        (7, TypeError, "queue name must be a string, not 7"),
    ],
)
def test_a_queue_name_is_checked_when_the_queue_is_made(name: Any, error: type[Exception], message: str) -> None:
    refused(error, message, name)


def test_a_queue_name_can_be_stored_as_text() -> None:
    with pytest.raises(ValueError, match="not valid Unicode"):
        PersistentQueue("a\ud800")
    with pytest.raises(ValueError, match="longer than 512"):
        PersistentQueue("x" * 513)


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), ("3", TypeError)])
def test_max_attempts_is_a_positive_integer(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="max_attempts must be"):
        PersistentQueue("jobs", max_attempts=value)


def test_durability_is_one_of_two_names_and_belongs_to_a_store_that_is_opened_here() -> None:
    refused(ValueError, "durability must be 'process' or 'power', not 'full'", "jobs", durability="full")
    with pytest.raises(ValueError, match="pass either store= or durability=, not both"):
        PersistentQueue("jobs", store=a_store(), durability="power")


@pytest.mark.parametrize(
    "options",
    [
        {"consumption_policy": PushConsumption()},
        {"routing_policy": PublishSubscribeRouting()},
        {"subscription_policy": StaticFanoutSubscriptions(("a",))},
        {"delivery_policy": EffectivelyOnceDelivery(), "deduplication_policy": NO_DEDUPLICATION},
        {"delivery_policy": AtMostOnceDelivery(), "max_attempts": 3},
    ],
    ids=["push alone", "publish to nobody", "subscribers of nothing", "effectively-once, no keys", "one attempt of 3"],
)
def test_a_combination_that_can_not_be_kept_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(IncompatiblePolicies):
        PersistentQueue("jobs", **options)


def test_the_default_queue_has_the_default_policies_and_is_quiet() -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs")
    assert queue.name == "jobs"
    assert queue.lease_timeout == 30.0
    assert queue.lease_policy == FixedLeaseTimeout(30.0)
    assert queue.acknowledgement_policy == EXPLICIT_ACKNOWLEDGEMENT
    assert queue.dead_letter_policy == DEAD_LETTER_QUEUE
    assert queue.deduplication_policy == DEDUPE_KEY_SUPPORT
    assert queue.maxsize == 0
    assert queue.semantics == LOCAL_AT_LEAST_ONCE
    assert queue.locality_policy == LOCAL_QUEUE_PLACEMENT
    assert queue.consumption_policy == PULL_CONSUMPTION
    assert queue.delivery_policy == AT_LEAST_ONCE_DELIVERY
    assert queue.dispatch_policy == NO_DISPATCHER
    assert queue.notification_policy == NO_NOTIFICATION
    assert queue.ordering_policy == FIFO_READY_ORDERING
    assert queue.routing_policy == POINT_TO_POINT_ROUTING
    assert queue.subscription_policy == NO_SUBSCRIPTIONS
    assert queue.backpressure == BoundedBackpressure(0)
    assert queue.retry_defaults == {}
    assert queue.max_attempts is None
    assert queue.codec == JSON_CODEC


def test_the_short_options_become_policies() -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", lease_timeout=5, maxsize=3)
    assert queue.lease_policy == FixedLeaseTimeout(5)
    assert queue.backpressure == BoundedBackpressure(3)
    bounded: PersistentQueue[Any] = PersistentQueue("jobs", backpressure=RejectingBackpressure(4))
    assert bounded.maxsize == 4
    assert PersistentQueue("jobs", lease_policy=FixedLeaseTimeout(7)).lease_timeout == 7


def test_retry_defaults_are_copied() -> None:
    given = {"max_tries": 3}
    queue: PersistentQueue[Any] = PersistentQueue("jobs", retry_defaults=given)
    given["max_tries"] = 9
    assert queue.retry_defaults == {"max_tries": 3}
    assert type(queue.retry_defaults) is dict


def test_semantics_are_derived_from_the_policies() -> None:
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        locality_policy=RemoteQueuePlacement(),
        delivery_policy=AtMostOnceDelivery(),
        consumption_policy=PushConsumption(),
        dispatch_policy=CallbackDispatcher((print,)),
        notification_policy=CallbackNotification(print),
        ordering_policy=PriorityOrdering(),
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=StaticFanoutSubscriptions(("a",)),
        deduplication_policy=NO_DEDUPLICATION,
    )
    assert queue.semantics == QueueSemantics(
        locality="remote",
        delivery="at-most-once",
        routing="publish-subscribe",
        consumption="push",
        ordering="priority",
        leases=True,
        deduplication=False,
        subscriptions=True,
        notifications=True,
    )


def test_semantics_that_agree_are_kept() -> None:
    semantics = QueueSemantics(ordering="best-effort")
    queue: PersistentQueue[Any] = PersistentQueue("jobs", semantics=semantics, ordering_policy=BestEffortOrdering())
    assert queue.semantics is semantics


def test_a_queue_can_say_what_it_guarantees() -> None:
    rows = PersistentQueue("jobs").guarantees()
    assert "at-least-once" in {row.level for row in rows}
    assert {row.refused_at for row in rows if row.level == "refused"} == {"put"}


SPEC = QueueSpec("jobs").with_qos(QoS.AT_MOST_ONCE).with_retry(max_retries=4).with_release_delay(2.5)


def test_a_spec_gives_name_policies_and_retry_settings() -> None:
    queue: PersistentQueue[Any] = PersistentQueue(spec=SPEC)
    assert queue.name == "jobs"
    assert queue.delivery_policy == AtMostOnceDelivery()
    assert queue.retry_defaults == {"max_tries": 4}


def test_a_name_beside_a_spec_renames_the_queue_and_not_the_spec() -> None:
    assert PersistentQueue("mails", spec=SPEC).name == "mails"
    assert SPEC.name == "jobs"


def test_explicit_settings_beside_a_spec_win() -> None:
    queue: PersistentQueue[Any] = PersistentQueue(
        spec=SPEC, policy_set=QueuePolicySet(ordering_policy=PriorityOrdering()), retry_defaults={"max_tries": 1}
    )
    assert queue.delivery_policy == AT_LEAST_ONCE_DELIVERY
    assert queue.ordering_policy == PriorityOrdering()
    assert queue.retry_defaults == {"max_tries": 1}


def test_a_policy_of_the_spec_can_not_be_passed_again() -> None:
    refused(
        ValueError,
        "pass either delivery_policy= or policy_set.delivery_policy, not both",
        spec=SPEC,
        delivery_policy=AtMostOnceDelivery(),
    )


def test_a_queue_is_built_from_a_spec_in_three_ways() -> None:
    store = MemoryQueueStore()
    built = [
        PersistentQueue(spec=SPEC, store=store),
        PersistentQueue.from_spec(SPEC, store=store),
        SPEC.build_queue(store=store),
    ]
    assert {(queue.name, queue.delivery_policy, queue.store) for queue in built} == {
        ("jobs", AtMostOnceDelivery(), store)
    }
    store.close()


def test_a_spec_refuses_settings_that_would_silently_replace_its_own() -> None:
    with pytest.raises(ValueError, match=r"pass queue policies via QueueSpec or build_queue\(policy_set=\), not both"):
        SPEC.build_queue(policy_set=QueuePolicySet())
    with pytest.raises(ValueError, match=r"pass retry settings via QueueSpec.with_retry\(\) or build_queue"):
        SPEC.build_queue(retry_defaults={})


def test_worker_settings_come_from_the_spec_or_are_plain() -> None:
    assert PersistentQueue(spec=SPEC).build_worker_config(min_interval=1) == SPEC.build_worker_config(min_interval=1)
    assert PersistentQueue("jobs").build_worker_config(max_tries=2) == PersistentWorkerConfig(max_tries=2)


def test_conflicting_notification_policies_are_refused_cleanly() -> None:
    """Seed 000: policy-set composition rejects notification conflicts."""
    refused(
        ValueError,
        "pass either notification_policy= or policy_set.notification_policy, not both",
        "jobs",
        notification_policy=CallbackNotification(print),
        policy_set=QueuePolicySet(notification_policy=InProcessNotification()),
    )


def test_making_a_queue_touches_no_file(tmp_path: Path) -> None:
    PersistentQueue("jobs", store_path=tmp_path / "deep" / "q.db")
    assert list(tmp_path.iterdir()) == []
