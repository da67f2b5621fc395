"""A message with a time to live leaves delivery when it was not consumed in time; it stays countable and readable."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.contracts.harness import FakeClock
from localqueue.policies import PerKeyFifoOrdering


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as opened:
        yield opened


@pytest.fixture
def queue(store: MemoryQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, lease_timeout=10, ordering_policy=PerKeyFifoOrdering())


def test_a_message_says_when_it_expires(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    assert queue.put("x", ttl=5).expires_at == clock() + 5
    assert queue.put("y").expires_at is None
    assert queue.get_message(block=False).expires_at == clock() + 5


def test_a_message_in_time_is_delivered(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x", ttl=5)
    clock.advance(4.9)
    assert queue.get_nowait() == "x"


@pytest.mark.parametrize("options", [{}, {"delay": 3}, {"delay": 60}], ids=["ready", "due", "delayed past its life"])
def test_an_expired_message_is_not_delivered(
    queue: PersistentQueue[Any], clock: FakeClock, options: dict[str, Any]
) -> None:
    message = queue.put("x", ttl=5, **options)
    queue.put("y")
    clock.advance(5)
    assert queue.get_nowait() == "y"
    with pytest.raises(Empty):
        queue.get_nowait()
    stats = queue.stats()
    assert (stats.expired, stats.ready, stats.dead, stats.total) == (1, 0, 0, 2)
    expired = queue.inspect(message.id)
    assert expired is not None
    assert (expired.state, expired.value) == ("expired", "x")
    assert [m.id for m in queue.messages(state="expired")] == [message.id]
    assert queue.dead_letters() == []


def test_an_expired_message_is_counted_as_expired_before_anybody_looks_for_work(
    queue: PersistentQueue[Any], clock: FakeClock
) -> None:
    queue.put("x", ttl=5)
    clock.advance(5)
    assert (queue.qsize(), queue.empty()) == (0, True)
    assert (queue.stats().expired, queue.stats().ready) == (1, 0)


def test_a_lease_outlives_the_life_of_its_message(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x", ttl=5)
    message = queue.get_message(block=False)
    clock.advance(8)
    assert queue.ack(message)


@pytest.mark.parametrize("how", ["release", "lease runs out"])
def test_a_message_whose_life_ended_while_it_was_leased_does_not_come_back(
    queue: PersistentQueue[Any], clock: FakeClock, how: str
) -> None:
    queue.put("x", ttl=5)
    message = queue.get_message(block=False)
    if how == "release":
        clock.advance(6)
        assert queue.release(message)
    else:
        clock.advance(11)
    with pytest.raises(Empty):
        queue.get_nowait()
    assert queue.stats().expired == 1


def test_an_expired_message_lets_the_next_of_its_key_through(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("a", ttl=5, ordering_key="k")
    queue.put("b", ordering_key="k")
    clock.advance(6)
    assert queue.get_nowait() == "b"


def test_a_waiting_message_expires_too(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    upstream = queue.put("first")
    waiting = queue.put("second", ttl=5, after=[upstream])
    clock.advance(6)
    queue.ack(queue.get_message(block=False))
    with pytest.raises(Empty):
        queue.get_nowait()
    seen = queue.inspect(waiting.id)
    assert seen is not None
    assert seen.state == "expired"


def test_an_expired_message_can_be_sent_again_without_its_limit(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    message = queue.put("x", ttl=5)
    clock.advance(6)
    with pytest.raises(Empty):
        queue.get_nowait()
    assert queue.requeue_dead(message)
    clock.advance(100)
    assert queue.get_nowait() == "x"


def test_expired_messages_can_be_pruned_by_age(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x", ttl=5)
    clock.advance(5)
    with pytest.raises(Empty):
        queue.get_nowait()
    clock.advance(10)
    assert queue.prune_expired(older_than=10.5) == 0
    assert queue.prune_expired(older_than=10) == 1
    assert queue.stats().total == 0
