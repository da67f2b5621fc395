"""Which message comes next: ready order, priority on a real clock, and one at a time per key."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest

from localqueue import BestEffortOrdering, MemoryQueueStore, PersistentQueue, PriorityOrdering, SQLiteQueueStore
from localqueue.contracts.harness import FakeClock
from localqueue.policies import PerKeyFifoOrdering


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as opened:
        yield opened


def drain(queue: PersistentQueue[Any]) -> list[Any]:
    seen = []
    try:
        while True:
            message = queue.get_message(block=False)
            seen.append(message.value)
            queue.ack(message)
    except Empty:
        return seen


def test_messages_of_one_moment_keep_the_order_they_were_put_in(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    for n in range(20):
        queue.put(n)
    queue.put_many(range(20, 40))
    assert drain(queue) == list(range(40))


def test_a_message_takes_its_place_when_it_becomes_available(store: MemoryQueueStore, clock: FakeClock) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    queue.put("delayed by 5", delay=5)
    queue.put("delayed by 2", delay=2)
    queue.put("now")
    clock.advance(3)
    queue.put("at 3")
    clock.advance(3)
    queue.put("at 6")
    assert drain(queue) == ["now", "delayed by 2", "at 3", "delayed by 5", "at 6"]


def test_a_redelivered_message_goes_behind_those_that_were_ready_before(
    store: MemoryQueueStore, clock: FakeClock
) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, lease_timeout=10)
    queue.put_many(["a", "b"])
    queue.get_message(block=False)
    clock.advance(11)
    queue.put("c")
    assert drain(queue) == ["b", "a", "c"]


def test_the_highest_priority_is_delivered_first_on_a_real_clock(tmp_path: Any) -> None:
    with SQLiteQueueStore(tmp_path / "q.db") as store:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, ordering_policy=PriorityOrdering())
        for priority in (1, 5, 3, 0, 9):
            assert queue.put(priority, priority=priority).priority == priority
        assert drain(queue) == [9, 5, 3, 1, 0]


def test_equal_priorities_keep_their_order(store: MemoryQueueStore, clock: FakeClock) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, ordering_policy=PriorityOrdering())
    for n in range(6):
        queue.put(n, priority=n % 2)
        clock.advance(0.5)
    assert drain(queue) == [1, 3, 5, 0, 2, 4]
    queue.put_many(["a", "b"], priority=1)
    queue.put_many(["c", "d"], priority=2)
    assert [m.value for m in queue.get_messages(4)] == ["c", "d", "a", "b"]


def test_a_delayed_message_has_no_priority_until_it_is_due(store: MemoryQueueStore, clock: FakeClock) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, ordering_policy=PriorityOrdering())
    queue.put("urgent, later", priority=9, delay=5)
    queue.put("a", priority=1)
    queue.put("b", priority=1)
    assert queue.get_nowait() == "a"
    clock.advance(5)
    assert queue.get_nowait() == "urgent, later"


def test_a_released_message_keeps_its_priority(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, ordering_policy=PriorityOrdering())
    queue.put("low")
    queue.put("high", priority=5)
    queue.release(queue.get_message(block=False))
    assert drain(queue) == ["high", "low"]


@pytest.mark.parametrize("policy", [BestEffortOrdering(), PerKeyFifoOrdering()])
def test_priority_needs_its_ordering_policy(store: MemoryQueueStore, policy: Any) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, ordering_policy=policy)
    with pytest.raises(ValueError, match="priority requires PriorityOrdering"):
        queue.put("x", priority=1)


@pytest.fixture
def keyed(store: MemoryQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, ordering_policy=PerKeyFifoOrdering(), lease_timeout=10)


def test_messages_of_one_key_are_in_flight_one_at_a_time_and_other_keys_go_on(keyed: PersistentQueue[Any]) -> None:
    for step in (1, 2):
        for key in ("ann", "bob"):
            keyed.put(f"{key} {step}", ordering_key=key)
    keyed.put("no key 1")
    keyed.put("no key 2")
    assert (keyed.stats().ready, keyed.stats().blocked) == (4, 2)
    first = keyed.get_messages(10)
    assert [m.value for m in first] == ["ann 1", "bob 1", "no key 1", "no key 2"]
    assert first[0].ordering_key == "ann"
    with pytest.raises(Empty):
        keyed.get_nowait()
    keyed.ack(first[0])
    assert keyed.get_nowait() == "ann 2"
    with pytest.raises(Empty):
        keyed.get_nowait()


def test_a_blocked_message_says_so(keyed: PersistentQueue[Any]) -> None:
    keyed.put("a", ordering_key="k")
    second = keyed.put("b", ordering_key="k")
    assert second.state == "blocked"
    seen = keyed.inspect(second.id)
    assert seen is not None
    assert (seen.state, seen.ordering_key) == ("blocked", "k")


@pytest.mark.parametrize("fail", ["release", "release with a delay", "lease runs out"])
def test_a_retry_holds_up_its_own_key_and_no_other(keyed: PersistentQueue[Any], clock: FakeClock, fail: str) -> None:
    keyed.put("a1", ordering_key="a")
    keyed.put("a2", ordering_key="a")
    keyed.put("b1", ordering_key="b")
    message = keyed.get_message(block=False)
    if fail == "lease runs out":
        clock.advance(11)
    else:
        keyed.release(message, delay=5 if "delay" in fail else 0)
    seen = [keyed.get_message(block=False).value]
    if fail == "release with a delay":
        with pytest.raises(Empty):
            keyed.get_nowait()
        clock.advance(5)
    retried = keyed.get_message(block=False)
    assert sorted([*seen, retried.value]) == ["a1", "b1"]
    with pytest.raises(Empty):
        keyed.get_nowait()


@pytest.mark.parametrize("end", ["ack", "dead_letter", "cancel"])
def test_a_message_that_leaves_delivery_lets_the_next_of_its_key_through(keyed: PersistentQueue[Any], end: str) -> None:
    keyed.put("a", ordering_key="k")
    keyed.put("b", ordering_key="k")
    getattr(keyed, end)(keyed.get_message(block=False))
    assert keyed.get_nowait() == "b"


def test_a_delayed_message_keeps_its_place_in_its_key(keyed: PersistentQueue[Any], clock: FakeClock) -> None:
    keyed.put("first", ordering_key="k", delay=5)
    keyed.put("second", ordering_key="k")
    assert keyed.empty()
    clock.advance(5)
    assert drain(keyed) == ["first", "second"]


def test_a_long_backlog_of_one_key_comes_out_in_order(keyed: PersistentQueue[Any]) -> None:
    keyed.put_many(range(50), ordering_key="k")
    assert drain(keyed) == list(range(50))


def test_blocked_messages_count_against_capacity(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, ordering_policy=PerKeyFifoOrdering(), maxsize=2)
    queue.put("a", ordering_key="k")
    queue.put("b", ordering_key="k")
    assert queue.full()
    assert queue.qsize() == 1
