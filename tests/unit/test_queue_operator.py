"""Looking at a queue and steering it: counts, ages, workers, dead letters, pruning, pausing."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, QueueStats
from localqueue.contracts.harness import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as opened:
        yield opened


@pytest.fixture
def queue(store: MemoryQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, lease_timeout=10)


def test_a_queue_that_was_never_used_is_empty(queue: PersistentQueue[Any], store: MemoryQueueStore) -> None:
    assert (queue.qsize(), queue.empty(), queue.full()) == (0, True, False)
    assert queue.stats() == QueueStats()
    assert queue.dead_letters() == queue.messages() == []
    assert queue.inspect("0" * 32) is None
    assert queue.purge() == 0
    assert not queue.is_paused()


def test_stats_count_every_state(queue: PersistentQueue[Any]) -> None:
    queue.put_many(["dead", "cancelled", "inflight", "ready", "ready"])
    queue.dead_letter(queue.get_message(block=False))
    queue.cancel(queue.get_message(block=False))
    leased = queue.get_message(block=False)
    queue.put("delayed", delay=50)
    queue.put("waiting", after=[leased])
    stats = queue.stats()
    assert (stats.ready, stats.delayed, stats.inflight, stats.dead) == (2, 1, 1, 1)
    assert (stats.waiting, stats.cancelled, stats.expired, stats.blocked, stats.dropped) == (1, 1, 0, 0, 0)
    assert stats.total == 7
    assert queue.qsize() == 2


def test_looking_changes_nothing(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x")
    leased = queue.get_message(block=False)
    clock.advance(11)
    for _ in range(2):
        assert (queue.stats().ready, queue.stats().inflight, queue.qsize()) == (1, 0, 1)
        assert not queue.empty()
    seen = queue.inspect(leased.id)
    assert seen is not None
    assert seen.attempts == 1


def test_ages_are_measured_from_availability_and_from_the_lease(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    stats = queue.stats()
    assert stats.oldest_ready_age_seconds is None
    assert stats.oldest_inflight_age_seconds is None
    assert stats.average_inflight_age_seconds is None
    queue.put("a")
    queue.put("b")
    queue.put("c", delay=2)
    clock.advance(1)
    queue.get_message(block=False)
    clock.advance(2)
    queue.get_message(block=False)
    clock.advance(1)
    stats = queue.stats()
    assert stats.oldest_ready_age_seconds == pytest.approx(2)
    assert stats.oldest_inflight_age_seconds == pytest.approx(3)
    assert stats.average_inflight_age_seconds == pytest.approx(2)


def test_an_age_is_never_negative(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put_many(["a", "b"])
    queue.get_message(block=False)
    clock.jump_back(100)
    stats = queue.stats()
    assert stats.oldest_ready_age_seconds == 0
    assert stats.oldest_inflight_age_seconds == 0
    assert stats.average_inflight_age_seconds == 0


def test_workers_are_counted_by_name_in_order(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put_many(range(5))
    done = queue.get_message(block=False, leased_by="zoe")
    queue.ack(done)
    for worker in ("zoe", "ann", "ann"):
        queue.get_message(block=False, leased_by=worker)
    queue.get_message(block=False)
    queue.record_worker_heartbeat("zoe")
    clock.advance(5)
    queue.record_worker_heartbeat("bob")
    stats = queue.stats()
    assert stats.inflight == 4
    assert list(stats.by_worker_id.items()) == [("ann", 2), ("zoe", 1)]
    assert list(stats.leases_by_worker_id.items()) == [("ann", 2), ("zoe", 2)]
    assert list(stats.last_seen_by_worker_id.items()) == [("bob", clock()), ("zoe", clock() - 5)]
    clock.advance(10)
    assert queue.stats().by_worker_id == {}
    assert queue.stats().leases_by_worker_id == {"ann": 2, "zoe": 2}


def test_a_heartbeat_needs_a_worker(queue: PersistentQueue[Any]) -> None:
    with pytest.raises(ValueError, match="worker_id cannot be empty"):
        queue.record_worker_heartbeat("")


def test_dead_letters_are_listed_in_the_order_they_died(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    messages = queue.put_many(range(5))
    queue.get_messages(5)
    for n in (3, 0, 4, 1):
        queue.dead_letter(messages[n])
        clock.advance(1)
    assert [m.value for m in queue.dead_letters()] == [3, 0, 4, 1]
    assert [m.value for m in queue.dead_letters(limit=2)] == [3, 0]
    assert queue.dead_letters(limit=0) == []
    with pytest.raises(ValueError, match="limit cannot be negative"):
        queue.dead_letters(limit=-1)


def test_dead_letters_of_one_moment_are_listed_by_age(queue: PersistentQueue[Any]) -> None:
    messages = queue.put_many(range(4))
    for message in reversed(messages):
        queue.dead_letter(message.id)
    assert [m.value for m in queue.dead_letters()] == [0, 1, 2, 3]


def test_a_requeued_dead_letter_is_delivered_again_with_its_past(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put("x")
    message = queue.get_message(block=False, leased_by="w")
    queue.dead_letter(message, error="broken")
    failed_at = clock()
    clock.advance(1)
    assert queue.requeue_dead(message, delay=5) is True
    assert queue.stats().delayed == 1
    clock.advance(5)
    again = queue.get_message(block=False)
    assert (again.id, again.attempts, again.failed_at) == (message.id, 2, failed_at)
    assert again.last_error is not None
    assert again.last_error["message"] == "broken"
    assert [e["type"] for e in again.attempt_history] == ["leased", "dead_lettered", "requeued", "leased"]


def test_only_a_message_that_left_delivery_is_requeued(queue: PersistentQueue[Any]) -> None:
    message = queue.put("x")
    assert queue.requeue_dead(message) is False
    leased = queue.get_message(block=False)
    assert queue.requeue_dead(leased.id) is False
    queue.ack(leased)
    assert queue.requeue_dead(leased) is False
    assert queue.requeue_dead("0" * 32) is False


def test_all_dead_letters_are_requeued_in_the_order_they_died(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    messages = queue.put_many(range(3))
    for n in (2, 0, 1):
        queue.dead_letter(messages[n].id)
        clock.advance(1)
    assert queue.requeue_all_dead() == 3
    assert (queue.qsize(), queue.dead_letters()) == (3, [])


def test_dead_letters_are_pruned_by_age_inclusively(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    queue.put_many(["old", "young", "alive"])
    queue.dead_letter(queue.get_message(block=False), error="x")
    clock.advance(10)
    queue.dead_letter(queue.get_message(block=False))
    clock.advance(5)
    for older_than, expected in ((15.5, 0), (15, 1), (5, 2), (0, 2)):
        assert queue.count_dead_letters_older_than(older_than=older_than) == expected
    assert queue.stats().dead == 2
    assert queue.prune_dead_letters(older_than=15) == 1
    assert [m.value for m in queue.dead_letters()] == ["young"]
    assert queue.prune_dead_letters(older_than=0) == 1
    assert (queue.stats().dead, queue.stats().total) == (0, 1)


@pytest.mark.parametrize("call", ["prune_dead_letters", "count_dead_letters_older_than", "prune_expired"])
def test_an_age_to_prune_by_is_not_negative(queue: PersistentQueue[Any], call: str) -> None:
    with pytest.raises(ValueError, match="older_than cannot be negative"):
        getattr(queue, call)(older_than=-1)
    with pytest.raises(TypeError, match="older_than must be a number of seconds"):
        getattr(queue, call)(older_than="1")


def test_purge_removes_everything_and_says_how_much(queue: PersistentQueue[Any], store: MemoryQueueStore) -> None:
    other: PersistentQueue[Any] = PersistentQueue("mails", store=store)
    other.put("kept")
    queue.put_many(["a", "b"], delay=0)
    queue.put("c", delay=50, dedupe_key="k")
    queue.dead_letter(queue.get_message(block=False, leased_by="w"))
    queue.record_worker_heartbeat("w")
    queue.get()
    assert queue.purge() == 3
    assert queue.stats() == QueueStats()
    assert queue.put("again", dedupe_key="k").value == "again"
    with pytest.raises(ValueError, match="too many times"):
        queue.task_done()
    assert other.qsize() == 1


def test_a_purged_message_can_not_be_settled(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    leased = queue.get_message(block=False)
    queue.purge()
    assert queue.ack(leased) is False
    assert queue.renew(leased) is None


def test_messages_can_be_read_page_by_page(queue: PersistentQueue[Any]) -> None:
    put = queue.put_many(range(5))
    queue.get_message(block=False)
    assert [m.value for m in queue.messages()] == [0, 1, 2, 3, 4]
    page = queue.messages(limit=2)
    assert [m.value for m in queue.messages(after=page[-1].id, limit=2)] == [2, 3]
    assert [m.value for m in queue.messages(state="ready", after=put[2].id)] == [3, 4]
    assert [m.value for m in queue.messages(state="inflight")] == [0]
    with pytest.raises(ValueError, match="state must be one of ready, delayed"):
        queue.messages(state="lost")


@pytest.mark.parametrize("limit", [1.5, "2", True])
def test_a_limit_is_an_integer(queue: PersistentQueue[Any], limit: Any) -> None:
    queue.put("x", run_id="r")
    for call in (queue.messages, queue.dead_letters, lambda limit: queue.run_messages("r", limit=limit)):
        with pytest.raises(TypeError, match="limit must be an integer"):
            call(limit=limit)


def test_dead_letters_can_be_read_page_by_page(queue: PersistentQueue[Any], clock: FakeClock) -> None:
    messages = queue.put_many(range(4))
    for n in (2, 0, 3, 1):
        queue.dead_letter(messages[n].id)
        clock.advance(1)
    first = queue.messages(state="dead", limit=2)
    rest = queue.messages(state="dead", after=first[-1].id)
    assert [m.value for m in [*first, *rest]] == [2, 0, 3, 1]


def test_a_paused_queue_hands_out_nothing_and_takes_everything(
    queue: PersistentQueue[Any], store: MemoryQueueStore, clock: FakeClock
) -> None:
    queue.put_many(["a", "b"])
    leased = queue.get_message(block=False)
    queue.pause()
    other: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    assert queue.is_paused()
    assert other.is_paused()
    assert other.stats().paused
    for get in (other.get_nowait, lambda: other.get_messages(5, block=False), lambda: other.get(timeout=0.01)):
        with pytest.raises(Empty):
            get()
    other.put("c")
    assert queue.ack(leased)
    assert other.qsize() == 2
    queue.resume()
    assert not other.is_paused()
    assert [m.value for m in other.get_messages(5)] == ["b", "c"]


def test_pausing_one_queue_leaves_the_others_running(queue: PersistentQueue[Any], store: MemoryQueueStore) -> None:
    other: PersistentQueue[Any] = PersistentQueue("mails", store=store)
    other.put("x")
    queue.pause()
    assert other.get_nowait() == "x"


def test_history_keeps_the_last_attempts_only(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    for attempt in range(1, 31):
        message = queue.get_message(block=False)
        assert message.attempts == attempt
        queue.release(message, error=f"failure {attempt}")
    seen = queue.inspect(message.id)
    assert seen is not None
    assert seen.attempts == 30
    assert [e["attempt"] for e in seen.attempt_history if e["type"] == "released"] == list(range(11, 31))
    assert seen.attempt_history[-1]["last_error"]["message"] == "failure 30"
