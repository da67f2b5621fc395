"""Recipes for delivery and order: each test is the recipe, with its failure window acted out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from localqueue import AtMostOnceDelivery, LeaseLost, PersistentQueue, PriorityOrdering, SQLiteQueueStore
from localqueue.contracts.harness import FakeClock
from localqueue.policies import PerKeyFifoOrdering


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[SQLiteQueueStore]:
    with SQLiteQueueStore(tmp_path / "queue.db", clock=clock) as opened:
        yield opened


def test_a_simple_local_queue_delivers_at_least_once(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Guarantee: what was put is delivered until it is acked.

    Failure window: the consumer did the work and died before its ack, so the work is done twice.
    """
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, lease_timeout=30)
    work_done = []
    queue.put("pay invoice 7")
    work_done.append(queue.get_message().value)  # ... and the consumer dies here, before ack
    clock.advance(31)
    message = queue.get_message()
    work_done.append(message.value)
    assert queue.ack(message)
    assert work_done == ["pay invoice 7", "pay invoice 7"]
    assert queue.stats().total == 0


def test_at_most_once_delivery_loses_rather_than_repeats(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Guarantee: no message is delivered twice.

    Failure window: the consumer dies after `get` returned; the message is gone.
    """
    queue: PersistentQueue[Any] = PersistentQueue("metrics", store=store, delivery_policy=AtMostOnceDelivery())
    queue.put({"cpu": 0.7})
    queue.get()  # ... and the consumer dies here
    clock.advance(3600)
    with pytest.raises(Empty):
        queue.get(block=False)
    assert queue.stats().total == 0


def test_competing_consumers_share_the_work(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Guarantee: one consumer at a time has a message, and only it can settle it.

    Failure window: a consumer slower than its lease works on beside the next one; its ack is refused.
    """
    ann: PersistentQueue[Any] = PersistentQueue("jobs", store=store, lease_timeout=10)
    bob: PersistentQueue[Any] = PersistentQueue("jobs", store=store, lease_timeout=10)
    ann.put_many(["a", "b"])
    slow, other = ann.get_message(leased_by="ann"), bob.get_message(leased_by="bob")
    assert (slow.value, other.value) == ("a", "b")
    assert bob.ack(other)
    clock.advance(11)
    taken_over = bob.get_message(leased_by="bob")
    assert taken_over.value == "a"
    assert not ann.ack(slow)
    assert bob.ack(taken_over)


def test_a_slow_worker_keeps_its_message_by_renewing(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Guarantee: a renewed lease is not redelivered.

    Failure window: a worker that stops renewing (or dies) loses the message at the end of the last renewal.
    """
    queue: PersistentQueue[Any] = PersistentQueue("videos", store=store, lease_timeout=10)
    queue.put("two-hour film")
    message = queue.get_message()
    for _ in range(3):
        clock.advance(9)
        assert queue.renew(message)
        assert queue.empty()
    clock.advance(11)
    assert queue.get_message().attempts == 2
    assert queue.renew(message) is None


def test_a_pull_worker_recovers_leases_and_sets_poison_aside(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Guarantee: a message is tried `max_attempts` times, then kept as a dead letter; nothing loops for ever.

    Failure window: until the lease of a dead worker ends, its message waits.
    """
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, lease_timeout=10, max_attempts=2)
    queue.put("poison")
    queue.get_message()  # the worker is killed
    clock.advance(5)
    assert queue.empty()
    clock.advance(6)
    queue.get_message()  # and another one
    clock.advance(11)
    with pytest.raises(Empty):
        queue.get_message(block=False)
    (dead,) = queue.dead_letters()
    assert (dead.value, dead.attempts) == ("poison", 2)
    assert queue.requeue_dead(dead)
    assert queue.ack(queue.get_message())


def test_a_priority_queue_serves_the_urgent_first(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Guarantee: of what is ready, the highest priority comes first, equal ones in the order they were put.

    Failure window: while urgent messages keep coming, the others wait; a leased one is never interrupted.
    """
    queue: PersistentQueue[Any] = PersistentQueue("alerts", store=store, ordering_policy=PriorityOrdering())
    queue.put("routine")
    for n in range(3):
        clock.advance(1)
        queue.put(f"urgent {n}", priority=9)
    assert queue.get() == "urgent 0"
    queue.put("urgent 3", priority=9)
    assert [queue.get() for _ in range(4)] == ["urgent 1", "urgent 2", "urgent 3", "routine"]


def test_the_messages_of_a_customer_stay_in_order(store: SQLiteQueueStore) -> None:
    """Guarantee: messages of one key are in flight one at a time and in order; other keys run beside them.

    Failure window: a retried message holds up its own key; a dead-lettered one lets the next through.
    """
    queue: PersistentQueue[Any] = PersistentQueue("orders", store=store, ordering_policy=PerKeyFifoOrdering())
    queue.put("charge 7", ordering_key="7")
    queue.put("ship 7", ordering_key="7")
    queue.put("charge 8", ordering_key="8")
    charge, other = queue.get_messages(10)
    assert (charge.value, other.value) == ("charge 7", "charge 8")
    queue.release(charge, delay=60)
    assert queue.empty()
    queue.dead_letter(charge.id, error="card declined")
    assert queue.get() == "ship 7"


def test_an_ack_and_its_follow_up_are_one_step(store: SQLiteQueueStore, clock: FakeClock) -> None:
    """Guarantee: the ack and the message that follows from it happen together or not at all.

    Failure window: what the handler did outside the store is not undone when its lease was lost.
    """
    orders: PersistentQueue[Any] = PersistentQueue("orders", store=store, lease_timeout=10)
    mails: PersistentQueue[Any] = PersistentQueue("mails", store=store)
    orders.put("order 1")
    late = orders.get_message()
    clock.advance(11)
    current = orders.get_message()
    with pytest.raises(LeaseLost), orders.transaction() as transaction:
        transaction.ack(late)
        transaction.put("thank you", to=mails)
    assert mails.empty()
    with orders.transaction() as transaction:
        transaction.ack(current)
        transaction.put("thank you", to=mails)
    assert (orders.stats().total, mails.get()) == (0, "thank you")
