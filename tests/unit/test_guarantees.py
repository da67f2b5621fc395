"""The guarantee table refuses what it says it refuses, and says it everywhere alike."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.contracts import SharedStoreContract
from localqueue.errors import IncompatiblePolicies
from localqueue.guarantees import (
    LEVELS,
    RULES,
    Configuration,
    Guarantee,
    as_dict,
    as_markdown,
    check,
    check_semantics,
    derive_semantics,
    guarantees_of,
    rule,
)
from localqueue.policies import (
    LOCAL_AT_LEAST_ONCE,
    AtMostOnceDelivery,
    BestEffortOrdering,
    BoundedBackpressure,
    CallbackDispatcher,
    DeadLetterQueue,
    DropNewest,
    DropOldest,
    EffectivelyOnceDelivery,
    ExplicitAcknowledgement,
    FixedLeaseTimeout,
    InProcessNotification,
    NoDeduplication,
    OverflowToQueue,
    PerKeyFifoOrdering,
    PickleCodec,
    PriorityOrdering,
    PublishSubscribeRouting,
    PushConsumption,
    QueueSemantics,
    RemoteQueuePlacement,
    SagaCommit,
    StaticFanoutSubscriptions,
    StoredSubscriptions,
    SubscriptionPolicy,
    Throttling,
    TransactionalOutboxCommit,
    TwoPhaseCommit,
)

ROOT = Path(__file__).parents[2]


def refused(rule_id: str, **policies: Any) -> None:
    configuration = Configuration(**{"name": "jobs", **policies})
    with pytest.raises(IncompatiblePolicies) as caught:
        check(configuration)
    assert str(caught.value) == rule(rule_id).message
    assert rule_id in ids(configuration)


def accepted(**policies: Any) -> set[str]:
    configuration = Configuration(**{"name": "jobs", **policies})
    check(configuration)
    return ids(configuration)


def ids(configuration: Configuration) -> set[str]:
    return {row.id for row in guarantees_of(configuration)}


def test_the_default_configuration_is_accepted_and_at_least_once() -> None:
    assert {"at-least-once", "point-to-point", "fifo-ready", "codec"} <= accepted()


def test_push_needs_a_wake_or_a_handler() -> None:
    refused("push-needs-a-wake-or-a-handler", consumption_policy=PushConsumption())


@pytest.mark.parametrize(
    "policies",
    [
        {"dispatch_policy": CallbackDispatcher((print,))},
        {"notification_policy": InProcessNotification()},
    ],
)
def test_push_with_a_wake_or_a_handler_is_accepted(policies: dict[str, Any]) -> None:
    assert "push" in accepted(consumption_policy=PushConsumption(), **policies)


def test_dispatch_beside_pull_is_accepted_as_local() -> None:
    assert "dispatch-with-pull" in accepted(dispatch_policy=CallbackDispatcher((print,)))
    assert rule("dispatch-with-pull").level == "local"


def test_publishing_needs_subscribers() -> None:
    refused("publish-needs-subscribers", routing_policy=PublishSubscribeRouting())
    assert rule("publish-needs-subscribers").message.startswith(
        "publish-subscribe routing requires configured subscribers"
    )


@pytest.mark.parametrize("subscriptions", [StaticFanoutSubscriptions(("a",)), StoredSubscriptions()])
def test_subscribers_need_publish_subscribe_routing(subscriptions: Any) -> None:
    refused("subscribers-need-publish", subscription_policy=subscriptions)
    assert "publish-subscribe" in accepted(subscription_policy=subscriptions, routing_policy=PublishSubscribeRouting())


def test_a_queue_can_not_overflow_into_itself() -> None:
    refused("overflow-into-itself", backpressure=OverflowToQueue(5, queue="jobs"))
    assert "overflow-queue" in accepted(backpressure=OverflowToQueue(5, queue="spare"))


@pytest.mark.parametrize("subscriptions", [StaticFanoutSubscriptions(("audit",)), StoredSubscriptions()])
def test_an_overflow_queue_would_mix_subscribers(subscriptions: SubscriptionPolicy) -> None:
    refused(
        "overflow-mixes-subscribers",
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=subscriptions,
        backpressure=OverflowToQueue(5, queue="spare"),
    )


def test_an_overflow_queue_would_split_a_key() -> None:
    refused(
        "overflow-splits-a-key",
        ordering_policy=PerKeyFifoOrdering(),
        backpressure=OverflowToQueue(5, queue="spare"),
    )


def test_at_most_once_takes_no_max_attempts() -> None:
    refused("at-most-once-has-one-attempt", delivery_policy=AtMostOnceDelivery(), max_attempts=3)
    assert "at-most-once" in accepted(delivery_policy=AtMostOnceDelivery())


def test_max_attempts_need_dead_letters() -> None:
    refused(
        "max-attempts-need-dead-letters",
        dead_letter_policy=DeadLetterQueue(dead_letters=False),
        max_attempts=3,
    )
    accepted(max_attempts=3)


def test_effectively_once_needs_dedupe_keys() -> None:
    refused(
        "effectively-once-needs-dedupe",
        delivery_policy=EffectivelyOnceDelivery(),
        deduplication_policy=NoDeduplication(),
    )


@pytest.mark.parametrize("backpressure", [DropNewest(5), DropOldest(5)])
def test_effectively_once_refuses_to_drop(backpressure: Any) -> None:
    refused(
        "effectively-once-drops-nothing",
        delivery_policy=EffectivelyOnceDelivery(),
        backpressure=backpressure,
    )
    assert "dropping" in accepted(backpressure=backpressure)


def test_effectively_once_says_where_its_ledger_is() -> None:
    inside, outside = "effectively-once", "effectively-once-external-ledger"
    own = accepted(delivery_policy=EffectivelyOnceDelivery())
    external = accepted(delivery_policy=EffectivelyOnceDelivery(idempotency_store=object()))
    assert (inside in own, outside in own) == (True, False)
    assert (inside in external, outside in external) == (False, True)
    assert rule(inside).level == rule(outside).level == "effectively-once"


@pytest.mark.parametrize(
    ("commit", "row", "level"),
    [
        (TransactionalOutboxCommit(), "outbox", "at-least-once"),
        (TransactionalOutboxCommit(outbox_store=object()), "outbox-apart", "at-least-once"),
        (TwoPhaseCommit(), "two-phase", "effectively-once"),
        (SagaCommit(), "saga", "at-least-once"),
    ],
)
def test_a_commit_policy_says_what_it_adds(commit: Any, row: str, level: str) -> None:
    rows = accepted(delivery_policy=EffectivelyOnceDelivery(commit_policy=commit))
    assert row in rows
    assert rule(row).level == level
    assert {"outbox", "outbox-apart", "two-phase", "saga"} & set(rows) == {row}


def test_remote_placement_only_names_the_boundary() -> None:
    rows = accepted(locality_policy=RemoteQueuePlacement())
    assert {"remote-placement", "distributed-coordination"} <= rows
    assert rule("remote-placement").level == "descriptive"


def test_overridden_descriptions_are_only_descriptive() -> None:
    assert "overridden-descriptions" in accepted(lease_policy=FixedLeaseTimeout(uses_leases=False))
    quiet = ExplicitAcknowledgement(acknowledgements=False)
    assert "overridden-descriptions" in accepted(acknowledgement_policy=quiet)


@pytest.mark.parametrize(
    ("rule_id", "policies"),
    [
        ("fifo-per-key", {"ordering_policy": PerKeyFifoOrdering()}),
        (
            "fifo-per-key-dropping",
            {"ordering_policy": PerKeyFifoOrdering(), "backpressure": DropOldest(3)},
        ),
        (
            "fifo-per-key-at-most-once",
            {"ordering_policy": PerKeyFifoOrdering(), "delivery_policy": AtMostOnceDelivery()},
        ),
        ("priority", {"ordering_policy": PriorityOrdering()}),
        ("best-effort-ordering", {"ordering_policy": BestEffortOrdering()}),
        ("bounded", {"backpressure": BoundedBackpressure(3)}),
        ("throttling", {"backpressure": Throttling(3)}),
        ("notification", {"notification_policy": InProcessNotification()}),
        ("pickle", {"codec": PickleCodec(trusted=True)}),
    ],
)
def test_a_row_appears_only_where_it_applies(rule_id: str, policies: dict[str, Any]) -> None:
    assert rule_id in accepted(**policies)
    assert rule_id not in accepted()


@pytest.mark.parametrize(
    ("rule_id", "message", "lifted_by"),
    [
        (
            "priority-needs-priority-ordering",
            "priority requires PriorityOrdering",
            {"ordering_policy": PriorityOrdering()},
        ),
        (
            "ordering-key-needs-per-key-ordering",
            "ordering_key requires PerKeyFifoOrdering; pass ordering_policy=PerKeyFifoOrdering()",
            {"ordering_policy": PerKeyFifoOrdering()},
        ),
    ],
)
def test_a_put_time_row_does_not_refuse_the_queue(rule_id: str, message: str, lifted_by: dict[str, Any]) -> None:
    assert rule(rule_id).message == message
    assert rule_id in accepted()
    assert rule_id not in accepted(**lifted_by)


PUT_TIME_REFUSALS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("priority-needs-priority-ordering", {}, {"priority": 1}),
    ("ordering-key-needs-per-key-ordering", {}, {"ordering_key": "k"}),
    ("dedupe-key-needs-support", {"deduplication_policy": NoDeduplication()}, {"dedupe_key": "k"}),
    ("effectively-once-needs-a-key", {"delivery_policy": EffectivelyOnceDelivery()}, {}),
]


@pytest.mark.parametrize(("rule_id", "policies", "options"), PUT_TIME_REFUSALS)
def test_a_put_time_row_says_what_put_says(rule_id: str, policies: dict[str, Any], options: dict[str, Any]) -> None:
    with MemoryQueueStore() as store:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, **policies)
        with pytest.raises(ValueError) as caught:
            queue.put("x", **options)
        assert str(caught.value) == rule(rule_id).message
        assert rule_id in {row.id for row in queue.guarantees()}
        assert queue.stats().total == 0


def test_every_put_time_row_is_tried() -> None:
    assert {case[0] for case in PUT_TIME_REFUSALS} == {
        row.guarantee.id for row in RULES if row.guarantee.refused_at == "put"
    }


def test_the_default_semantics_are_derived_from_the_default_policies() -> None:
    assert derive_semantics(Configuration()) == LOCAL_AT_LEAST_ONCE


def test_derived_semantics_never_disagree_with_their_configuration() -> None:
    configuration = Configuration(
        locality_policy=RemoteQueuePlacement(),
        delivery_policy=AtMostOnceDelivery(),
        notification_policy=InProcessNotification(),
    )
    semantics = derive_semantics(configuration)
    assert (semantics.locality, semantics.delivery) == ("remote", "at-most-once")
    assert semantics.notifications and semantics.leases
    check_semantics(semantics, configuration)


SEMANTICS_ERRORS = [
    ("locality", "remote", "semantics locality must match locality_policy locality"),
    ("leases", False, "semantics leases must match lease_policy uses_leases"),
    (
        "acknowledgements",
        False,
        "semantics acknowledgements must match acknowledgement_policy acknowledgements",
    ),
    ("dead_letters", False, "semantics dead_letters must match dead_letter_policy dead_letters"),
    (
        "deduplication",
        False,
        "semantics deduplication must match deduplication_policy deduplication",
    ),
    ("subscriptions", True, "semantics subscriptions must match subscription_policy subscriptions"),
    ("notifications", True, "semantics notifications must match notification_policy notifies"),
    ("delivery", "at-most-once", "semantics delivery must match delivery_policy guarantee"),
    ("consumption", "push", "semantics consumption must match consumption_policy pattern"),
    ("ordering", "priority", "semantics ordering must match ordering_policy guarantee"),
    ("routing", "publish-subscribe", "semantics routing must match routing_policy pattern"),
]


@pytest.mark.parametrize(("field", "value", "message"), SEMANTICS_ERRORS)
def test_semantics_that_disagree_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_semantics(QueueSemantics(**{field: value}), Configuration())
    assert str(caught.value) == message


def test_semantics_are_checked_in_a_fixed_order() -> None:
    wrong: dict[str, Any] = {}
    for field, value, message in reversed(SEMANTICS_ERRORS):
        wrong[field] = value
        with pytest.raises(ValueError) as caught:
            check_semantics(QueueSemantics(**wrong), Configuration())
        assert str(caught.value) == message


def test_every_row_has_its_own_id_a_known_level_and_a_reason() -> None:
    rows = [row.guarantee for row in RULES]
    assert len({row.id for row in rows}) == len(rows)
    for row in rows:
        assert row.level in LEVELS and row.reason and row.combination
        assert (row.refused_at is not None) == (row.level == "refused")
        if row.refused_at == "construction":
            assert row.way_out


@pytest.mark.parametrize(
    "row",
    [row.guarantee for row in RULES if row.guarantee.level not in ("descriptive", "out-of-scope")],
    ids=lambda row: row.id,
)
def test_a_promise_names_the_tests_that_would_fail_if_it_were_false(row: Guarantee) -> None:
    assert row.proof


@pytest.mark.parametrize("node", sorted({node for row in RULES for node in row.guarantee.proof}))
def test_every_named_proof_exists(node: str) -> None:
    path, *classes, name = node.split("::")
    assert name.startswith("test_")
    scope: list[ast.stmt] = ast.parse((ROOT / path).read_text()).body
    for wanted in classes:
        (found,) = (one for one in scope if isinstance(one, ast.ClassDef) and one.name == wanted)
        scope = found.body
    assert name in {one.name for one in scope if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(
    "node", sorted({n for row in RULES for n in row.guarantee.proof if n.startswith("src/localqueue/contracts/")})
)
def test_every_proof_of_the_contract_runs_for_a_shared_store(node: str) -> None:
    _, contract, name = node.split("::")
    assert contract in {base.__name__ for base in SharedStoreContract.__mro__}
    assert hasattr(SharedStoreContract, name)


def test_every_link_of_the_docs_page_leads_to_a_file() -> None:
    targets = set(re.findall(r"\]\(([^)]+)\)", as_markdown()))
    assert {f"../{node.split('::')[0]}" for row in RULES for node in row.guarantee.proof} == targets
    assert all((ROOT / "docs" / target).is_file() for target in targets)


def test_the_machine_readable_table_has_every_row() -> None:
    table = as_dict()
    assert set(table["levels"]) == set(LEVELS)
    assert [row["id"] for row in table["rules"]] == [row.guarantee.id for row in RULES]


def test_the_docs_page_is_the_printed_table() -> None:
    assert (ROOT / "docs" / "guarantees.md").read_text() == as_markdown()


def test_the_module_prints_the_page() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "localqueue.guarantees"], capture_output=True, text=True, check=True
    )
    assert printed.stdout == as_markdown()
