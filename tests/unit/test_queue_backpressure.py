"""A full queue does what its backpressure policy names: wait, refuse, lose a message it names, slow down, divert."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from queue import Full
from typing import Any

import pytest

from localqueue import (
    BoundedBackpressure,
    CallbackNotification,
    MemoryQueueStore,
    PersistentQueue,
    PriorityOrdering,
    QueueFull,
    RejectingBackpressure,
    SQLiteQueueStore,
)
from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.policies import DropNewest, DropOldest, OverflowToQueue, PerKeyFifoOrdering, Throttling


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as opened:
        yield opened


def values(queue: PersistentQueue[Any]) -> list[Any]:
    return [m.value for m in queue.messages(state="ready")]


def tell_when_waiting_for_capacity(store: Any) -> threading.Event:
    """An event that is set once a producer has found the queue full and waits for room."""
    waiting, listen = threading.Event(), store.listen_capacity

    def listen_and_tell(limits: Any) -> Any:
        waiter = listen(limits)
        waiting.set()
        return waiter

    store.listen_capacity = listen_and_tell
    return waiting


def test_an_unbounded_queue_is_never_full(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store)
    queue.put_many(range(1000))
    assert not queue.full()


def test_a_queue_is_full_at_its_limit(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, maxsize=2)
    queue.put(1)
    assert not queue.full()
    queue.put(2)
    assert queue.full()
    with pytest.raises(Full):
        queue.put_nowait(3)
    with pytest.raises(Full):
        queue.put(3, block=False)
    with pytest.raises(Full):
        queue.put(3, timeout=0)
    assert queue.stats().total == 2


def test_full_names_the_queue_and_its_limit(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, maxsize=1)
    queue.put(1)
    with pytest.raises(QueueFull, match="queue 'jobs' is full: it admits 1 ready messages") as caught:
        queue.put_nowait(2)
    assert (caught.value.queue, caught.value.maxsize) == ("jobs", 1)


def test_only_messages_that_could_be_leased_count(store: MemoryQueueStore, clock: FakeClock) -> None:
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, maxsize=1, lease_timeout=10)
    queue.put("delayed", delay=100)
    queue.put("leased")
    queue.get_message(block=False)
    queue.put("ready")
    assert queue.full()
    assert queue.stats().total == 3


def test_a_lease_that_ran_out_counts_again(store: MemoryQueueStore, clock: FakeClock) -> None:
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, maxsize=1, lease_timeout=10)
    queue.put("a")
    queue.get_message(block=False)
    clock.advance(11)
    assert queue.full()
    with pytest.raises(Full):
        queue.put_nowait("b")


def test_a_put_waits_for_its_timeout_and_raises_full(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, maxsize=1)
    queue.put(1)
    start = time.monotonic()
    with pytest.raises(Full):
        queue.put(2, timeout=0.1)
    assert time.monotonic() - start >= 0.1
    assert queue.stats().total == 1


@pytest.mark.parametrize(
    "policy", [RejectingBackpressure(1), BoundedBackpressure(1, "reject")], ids=["rejecting", "bounded"]
)
def test_a_rejecting_queue_does_not_wait_even_when_asked_to(store: MemoryQueueStore, policy: Any) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, backpressure=policy)
    queue.put(1)
    waiting = tell_when_waiting_for_capacity(store)
    with pytest.raises(Full):
        queue.put(2, block=True, timeout=PATIENCE)
    with pytest.raises(Full):
        queue.put(2)
    assert not waiting.is_set()


@pytest.mark.parametrize("free", ["lease", "ack", "purge", "dead letter by an operator"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_blocked_put_goes_on_when_there_is_room(tmp_path: Any, free: str, kind: str) -> None:
    store = MemoryQueueStore() if kind == "memory" else SQLiteQueueStore(tmp_path / "q.db")
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, maxsize=1)
    first = queue.put("first")
    waiting = tell_when_waiting_for_capacity(store)
    background = Background()
    background.start(queue.put, "second")
    assert waiting.wait(PATIENCE)
    if free == "lease":
        queue.get_message(block=False)
    elif free == "ack":
        queue.ack(first)
    elif free == "purge":
        queue.purge()
    else:
        queue.dead_letter(first)
    background.join()
    assert values(queue) == ["second"]
    store.close()


def test_a_blocked_put_goes_on_when_the_message_in_its_way_expires() -> None:
    with MemoryQueueStore() as store:
        queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, maxsize=1)
        queue.put("short-lived", ttl=0.1)
        queue.put("next", timeout=PATIENCE)
        assert queue.get_nowait() == "next"


def test_a_batch_needs_room_for_all_of_it(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, maxsize=3)
    queue.put_many([1, 2])
    with pytest.raises(Full):
        queue.put_many([3, 4], block=False)
    assert values(queue) == [1, 2]
    queue.get_message(block=False)
    queue.put_many([3, 4], block=False)
    assert values(queue) == [2, 3, 4]


def test_a_blocked_batch_waits_until_all_of_it_fits(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, maxsize=3)
    queue.put_many([1, 2, 3])
    waiting = tell_when_waiting_for_capacity(store)
    background = Background()
    background.start(queue.put_many, [4, 5])
    assert waiting.wait(PATIENCE)
    queue.get_message(block=False)
    assert queue.stats().ready == 2
    queue.get_message(block=False)
    background.join()
    assert values(queue) == [3, 4, 5]


def test_a_batch_larger_than_the_queue_is_refused_instead_of_waiting_for_ever(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, maxsize=2)
    with pytest.raises(ValueError, match="a batch of 3 can never fit queue 'jobs'"):
        queue.put_many([1, 2, 3])


def test_producers_in_many_threads_never_pass_the_limit(tmp_path: Any) -> None:
    with SQLiteQueueStore(tmp_path / "q.db") as store:
        queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, maxsize=10)
        refused: list[int] = []

        def produce(n: int) -> None:
            for item in range(10):
                try:
                    queue.put(item, block=False)
                except Full:
                    refused.append(n)

        background = Background()
        for n in range(8):
            background.start(produce, n)
        background.join()
        assert queue.qsize() == 10
        assert len(refused) == 70


def test_drop_newest_loses_the_message_being_put_and_says_so(store: MemoryQueueStore) -> None:
    told: list[Any] = []
    queue: PersistentQueue[int] = PersistentQueue(
        "jobs",
        store=store,
        backpressure=DropNewest(2),
        notification_policy=CallbackNotification(lambda m: told.append(m.value)),
    )
    queue.put_many([1, 2])
    lost = queue.put(3)
    assert lost.state == "dropped"
    assert queue.inspect(lost.id) is None
    assert values(queue) == [1, 2]
    assert queue.stats().dropped == 1
    assert told == [1, 2]
    assert [m.state for m in queue.put_many([4, 5])] == ["dropped", "dropped"]
    assert queue.stats().dropped == 3


def test_drop_oldest_makes_room_by_losing_the_oldest_ready_message(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, backpressure=DropOldest(2))
    queue.put("leased")
    leased = queue.get_message(block=False)
    delayed = queue.put("delayed", delay=100)
    oldest = queue.put("a")
    queue.put("b")
    kept = queue.put("c")
    assert kept.state == "ready"
    assert values(queue) == ["b", "c"]
    assert queue.inspect(oldest.id) is None
    assert queue.inspect(delayed.id) is not None
    assert queue.ack(leased)
    assert queue.stats().dropped == 1


def test_drop_oldest_goes_by_age_and_not_by_priority(store: MemoryQueueStore, clock: FakeClock) -> None:
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, backpressure=DropOldest(2), ordering_policy=PriorityOrdering()
    )
    queue.put("old and urgent", priority=9)
    clock.advance(1)
    queue.put("newer")
    clock.advance(1)
    queue.put("newest")
    assert sorted(values(queue)) == ["newer", "newest"]


def test_drop_oldest_frees_the_dedupe_key_and_the_ordering_key(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, backpressure=DropOldest(2), ordering_policy=PerKeyFifoOrdering()
    )
    first = queue.put("a", dedupe_key="k", ordering_key="customer")
    queue.put("b", ordering_key="customer")
    queue.put("c")
    assert queue.inspect(first.id) is None
    assert {queue.get_nowait(), queue.get_nowait()} == {"b", "c"}
    assert queue.put("again", dedupe_key="k").value == "again"


def test_overflow_goes_to_the_other_queue_and_nothing_is_lost(store: MemoryQueueStore) -> None:
    told: list[Any] = []
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        store=store,
        backpressure=OverflowToQueue(1, queue="jobs.later"),
        notification_policy=CallbackNotification(lambda m: told.append(m.queue)),
    )
    later: PersistentQueue[Any] = PersistentQueue("jobs.later", store=store)
    kept = queue.put("a")
    diverted = queue.put("b", headers={"h": "1"})
    assert (kept.queue, diverted.queue, diverted.state) == ("jobs", "jobs.later", "ready")
    assert queue.inspect(diverted.id) is None
    assert later.inspect(diverted.id) == diverted
    assert told == ["jobs", "jobs.later"]
    assert queue.stats().dropped == 0
    queue.put_many(["c", "d"])
    assert [later.get_nowait() for _ in range(3)] == ["b", "c", "d"]


def test_throttling_slows_a_producer_and_loses_nothing(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, backpressure=Throttling(2, 0.05, 0.05))
    start = time.monotonic()
    queue.put(1)
    queue.put(2)
    assert queue.full()
    before_the_third = time.monotonic()
    queue.put(3)
    assert time.monotonic() - before_the_third >= 0.05
    assert before_the_third - start < PATIENCE
    assert values(queue) == [1, 2, 3]
    assert queue.stats().dropped == 0


def test_a_throttled_producer_that_will_not_wait_that_long_is_told_full(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, backpressure=Throttling(1, 30, 30))
    queue.put(1)
    with pytest.raises(Full):
        queue.put_nowait(2)
    with pytest.raises(Full):
        queue.put(2, timeout=1)
    assert values(queue) == [1]


def test_a_refused_message_leaves_nothing_behind(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, maxsize=1)
    queue.put("a")
    with pytest.raises(Full):
        queue.put("b", dedupe_key="k", run_id="r", block=False)
    assert queue.run("r") is None
    queue.get_message(block=False)
    assert queue.put("c", dedupe_key="k").value == "c"
