"""Promises of the guarantee table that no other test would miss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import (
    AtMostOnceDelivery,
    BestEffortOrdering,
    CallbackDispatcher,
    EffectivelyOnceDelivery,
    ExplicitAcknowledgement,
    FixedLeaseTimeout,
    InProcessNotification,
    LMDBQueueStore,
    PersistentQueue,
    PriorityOrdering,
    QueueStore,
)
from localqueue.contracts.harness import FakeClock
from localqueue.policies import DropNewest, DropOldest, PerKeyFifoOrdering
from tests.stores import new_place


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "lmdb", "postgres", "redis", "mongodb"])
def store(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[QueueStore]:
    with new_place(request.param, tmp_path).open(clock=clock) as store:
        yield store


def values(queue: PersistentQueue[Any]) -> list[Any]:
    """What a consumer gets that acks everything."""
    seen = []
    while not queue.empty():
        message = queue.get_message(block=False)
        seen.append(message.value)
        queue.ack(message)
    return seen


class UntouchedLedger:
    """Fails whoever uses it."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):
            raise AssertionError(f"the queue used {name} of its idempotency store")
        return object.__getattribute__(self, name)


def test_effectively_once_delivery_redelivers_and_does_not_touch_the_ledger(
    store: QueueStore, clock: FakeClock
) -> None:
    delivery = EffectivelyOnceDelivery(idempotency_store=UntouchedLedger())
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, delivery_policy=delivery, lease_timeout=10)
    stored = queue.put("x", dedupe_key="k")
    assert queue.put("y", dedupe_key="k").id == stored.id
    queue.get_message(block=False)
    clock.advance(11)
    again = queue.get_message(block=False)
    assert (again.value, again.attempts) == ("x", 2)
    assert queue.ack(again)
    assert queue.stats().total == 0


def test_an_acked_key_can_be_put_again(store: QueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, delivery_policy=EffectivelyOnceDelivery())
    queue.put("first", dedupe_key="k")
    assert values(queue) == ["first"]
    queue.put("second", dedupe_key="k")
    assert values(queue) == ["second"]


def test_a_dispatched_message_still_waits_for_a_consumer(store: QueueStore) -> None:
    handled: list[Any] = []
    dispatch = CallbackDispatcher((lambda message: handled.append(message.value),))
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, dispatch_policy=dispatch)
    queue.put("x")
    assert handled == ["x"]
    assert values(queue) == ["x"]


def test_a_missed_or_doubled_notification_costs_no_message(store: QueueStore) -> None:
    wake = InProcessNotification()
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=wake)
    message = queue.put("missed")
    wake.clear()
    assert values(queue) == ["missed"]
    wake.notify(message)
    wake.notify(message)
    assert wake.wait(timeout=0)
    assert values(queue) == []


def test_a_flow_of_high_priorities_keeps_a_low_one_waiting(store: QueueStore, clock: FakeClock) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, ordering_policy=PriorityOrdering())
    queue.put("low")
    for number in range(20):
        clock.advance(60)
        queue.put(number, priority=1)
        message = queue.get_message(block=False)
        assert message.value == number
        queue.ack(message)
    assert values(queue) == ["low"]


def test_at_most_once_hands_out_the_next_of_a_key_at_once_and_in_order(store: QueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, ordering_policy=PerKeyFifoOrdering(), delivery_policy=AtMostOnceDelivery()
    )
    queue.put_many(range(5), ordering_key="k")
    assert [queue.get_message(block=False).value for _ in range(5)] == [0, 1, 2, 3, 4]


def test_drop_newest_leaves_a_gap_in_its_key_and_keeps_the_order(store: QueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, ordering_policy=PerKeyFifoOrdering(), backpressure=DropNewest(2)
    )
    states = [queue.put(number, ordering_key="k").state for number in range(3)]
    assert states == ["ready", "blocked", "dropped"]
    queue.ack(queue.get_message(block=False))
    queue.put(3, ordering_key="k")
    assert values(queue) == [1, 3]


def test_drop_oldest_takes_a_blocked_message_when_none_is_ready(store: QueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, ordering_policy=PerKeyFifoOrdering(), backpressure=DropOldest(1)
    )
    queue.put("leased", ordering_key="k")
    leased = queue.get_message(block=False)
    queue.put("blocked", ordering_key="k")
    queue.put("new", ordering_key="k")
    assert queue.stats().dropped == 1
    assert queue.ack(leased)
    assert values(queue) == ["new"]


def test_best_effort_ordering_delivers_every_message(store: QueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, ordering_policy=BestEffortOrdering())
    queue.put_many(range(20))
    assert sorted(values(queue)) == list(range(20))


@pytest.mark.parametrize(
    "policies",
    [
        {"lease_policy": FixedLeaseTimeout(10, uses_leases=False)},
        {"acknowledgement_policy": ExplicitAcknowledgement(acknowledgements=False), "lease_timeout": 10},
    ],
)
def test_a_policy_that_describes_itself_otherwise_still_leases_and_acks(
    store: QueueStore, clock: FakeClock, policies: dict[str, Any]
) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, **policies)
    queue.put("x")
    lost = queue.get_message(block=False)
    clock.advance(11)
    current = queue.get_message(block=False)
    assert not queue.ack(lost)
    assert queue.ack(current)


@pytest.mark.parametrize(("durability", "synced"), [("process", False), ("power", True)])
def test_lmdb_syncs_its_commits_with_power_durability_only(tmp_path: Path, durability: str, synced: bool) -> None:
    with LMDBQueueStore(tmp_path, durability=durability) as store:
        assert store._environment.handle().flags()["sync"] is synced
