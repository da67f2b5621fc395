"""A worker takes messages, runs the handler, settles by what it does, and stops when it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from localqueue import AtMostOnceDelivery, PersistentQueue, QueueError
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import QueueStoreClosedError
from localqueue.policies import PerKeyFifoOrdering
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, QueueStore
from localqueue.workers import Worker, current_job
from localqueue.workers.lane import Lane
from tests.unit.worker_steps import STORES, Gate, Log, Running, eventually, open_store

pytestmark = pytest.mark.by_turns


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueStore]:
    opened = open_store(request.param, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def queue(store: QueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


def test_run_until_empty_handles_everything_that_is_ready_and_returns_what_it_did(queue: PersistentQueue[Any]) -> None:
    seen: list[int] = []
    queue.put_many(range(10))
    counts = Worker(queue, seen.append).run_until_empty()
    assert seen == list(range(10))
    assert (counts.acked, counts.total) == (10, 10)
    assert queue.stats().total == 0


@pytest.mark.parametrize("concurrency", [1, 4])
def test_run_until_empty_also_handles_what_handlers_put(queue: PersistentQueue[Any], concurrency: int) -> None:
    seen: list[int] = []

    def handler(value: int) -> None:
        seen.append(value)
        if value < 20:
            current_job().put(value + 1)
        if value == 5:
            queue.put(100)

    queue.put(0)
    counts = Worker(queue, handler, concurrency=concurrency).run_until_empty()
    assert sorted(seen) == [*range(21), 100]
    assert counts.acked == 22


def test_a_thread_that_is_told_of_the_end_while_it_looks_for_itself_ends_at_once(
    queue: PersistentQueue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localqueue.workers.worker._LOOK_AGAIN", 10 * PATIENCE)
    looks, told = threading.Event(), threading.Event()
    is_expected, wake, start = Worker._is_work_expected, Lane.wake, Worker._start_lane

    def look_when_told(worker: Worker) -> bool:
        """The first thread finds nothing to do, and goes on when the second one has ended the run."""
        if not looks.is_set():
            looks.set()
            assert told.wait(PATIENCE)
        return is_expected(worker)

    def tell(lane: Lane) -> None:
        wake(lane)
        if lane is not threading.current_thread():
            told.set()

    def start_second(worker: Worker, number: int, outcomes: Sequence[Any] = ()) -> None:
        assert number == 0 or looks.wait(PATIENCE)
        start(worker, number, outcomes)

    monkeypatch.setattr(Worker, "_is_work_expected", look_when_told)
    monkeypatch.setattr(Worker, "_start_lane", start_second)
    monkeypatch.setattr(Lane, "wake", tell)
    queue.put_many(range(3))
    worker, runs = Worker(queue, lambda value: None, concurrency=2), Background()
    ended = threading.Event()
    runs.start(lambda: (worker.run_until_empty(), ended.set()))
    try:
        assert ended.wait(PATIENCE)
    finally:
        worker.stop()
        runs.join()


def test_run_until_empty_also_handles_what_is_put_when_a_message_is_settled(queue: PersistentQueue[Any]) -> None:
    seen: list[int] = []
    queue.put(0)

    def settled(one: Any) -> None:
        if one.message.value < 5:
            queue.put(one.message.value + 1)

    Worker(queue, seen.append, on_settled=settled).run_until_empty()
    assert seen == list(range(6))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_run_until_empty_leaves_delayed_messages_unless_asked_to_wait(
    queue: PersistentQueue[Any], concurrency: int
) -> None:
    seen: list[str] = []
    later = queue.put("later", delay=3600)
    worker = Worker(queue, seen.append, concurrency=concurrency)
    worker.run_until_empty()
    assert seen == []
    queue.cancel(later)
    queue.put("soon", delay=0.3)
    worker.run_until_empty(wait_for_delayed=True)
    assert seen == ["soon"]


def test_waiting_for_delayed_messages_ends_when_somebody_else_takes_them(queue: PersistentQueue[Any]) -> None:
    message = queue.put("later", delay=3600)
    worker = Worker(queue, lambda value: None, concurrency=2)
    threads = Background()
    threads.start(lambda: worker.run_until_empty(wait_for_delayed=True))
    eventually(lambda: worker.worker_id in queue.stats().last_seen_by_worker_id)
    queue.cancel(message.id)
    threads.join()


def test_messages_that_can_not_be_read_do_not_end_run_until_empty(
    queue: PersistentQueue[Any], store: QueueStore
) -> None:
    broken = [NewMessage(message_id, "jobs", "no json") for message_id in store.mint(3)]
    store.commit(Changes(enqueue=broken))
    queue.put("good")
    seen: list[str] = []
    Worker(queue, seen.append).run_until_empty()
    assert seen == ["good"]
    assert queue.stats().dead == 3


def test_stop_from_another_thread_ends_a_worker_that_waits(queue: PersistentQueue[Any]) -> None:
    worker = Worker(queue, lambda value: None, concurrency=3)
    with Running(worker) as running:
        eventually(lambda: worker.worker_id in queue.stats().last_seen_by_worker_id)
        worker.stop()
        running.join()


def test_stop_from_a_handler_finishes_that_message_and_takes_no_other(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(5))

    def handler(value: int) -> None:
        worker.stop()

    worker = Worker(queue, handler)
    assert worker.run().acked == 1
    assert queue.stats().ready == 4


def test_a_worker_that_was_stopped_before_it_ran_returns_at_once_and_then_runs(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    worker = Worker(queue, lambda value: None)
    worker.stop()
    assert worker.run().total == 0
    assert worker.run_until_empty().acked == 1


def test_a_worker_can_run_again_and_counts_each_run_by_itself(queue: PersistentQueue[Any]) -> None:
    worker = Worker(queue, lambda value: None, concurrency=2)
    for expected in (3, 2):
        queue.put_many(range(expected))
        assert worker.run_until_empty().acked == worker.counts.acked == expected


def test_a_worker_does_not_run_twice_at_a_time(queue: PersistentQueue[Any]) -> None:
    worker = Worker(queue, lambda value: None)
    with Running(worker):
        eventually(lambda: worker.worker_id in queue.stats().last_seen_by_worker_id)
        with pytest.raises(QueueError, match="running already"):
            worker.run()


@pytest.mark.parametrize("prefetch", [1, 3])
def test_handlers_run_at_the_same_time(queue: PersistentQueue[Any], prefetch: int) -> None:
    meeting, here = threading.Barrier(4), threading.local()

    def meet_once(value: int) -> None:
        """Each thread waits with its first message for the others; how the rest is shared out is left to the store."""
        if not hasattr(here, "met"):
            here.met = True
            meeting.wait(PATIENCE)

    queue.put_many(range(4 * prefetch))
    worker = Worker(queue, meet_once, concurrency=4, prefetch=prefetch)
    assert worker.run_until_empty().acked == 4 * prefetch


def test_prefetched_messages_are_leased_together_and_given_back_unharmed(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(10))
    gate, log = Gate(), Log()
    worker = Worker(queue, gate, prefetch=5, on_settled=log)
    with Running(worker) as running:
        gate.wait_for_entry()
        assert queue.stats().inflight == 5
        worker.stop()
        gate.open()
        running.join()
    assert gate.seen == [0]
    assert log.states == ["acked", "released", "released", "released", "released"]
    again = queue.get_messages(9)
    assert [message.value for message in again] == list(range(1, 10))
    assert [message.tries for message in again] == [1] * 9
    assert [message.last_error for message in again] == [None] * 9


def test_prefetched_messages_are_given_back_when_the_worker_does_not_wait_for_its_handlers(
    queue: PersistentQueue[Any],
) -> None:
    queue.put_many(range(5))
    gate = Gate()
    worker = Worker(queue, gate, prefetch=5, shutdown_timeout=0.01)
    with Running(worker) as running:
        gate.wait_for_entry()
        worker.stop()
        running.join()
        assert queue.stats().ready == 4
        gate.open()
    assert [message.value for message in queue.get_messages(4)] == [1, 2, 3, 4]


def test_a_handler_left_behind_by_one_run_does_not_disturb_the_next(queue: PersistentQueue[Any]) -> None:
    queue.put("slow")
    gate = Gate()
    worker = Worker(queue, lambda value: gate(value) if value == "slow" else None, shutdown_timeout=0.01)
    with Running(worker) as first:
        gate.wait_for_entry()
        worker.stop()
        first.join()
    log = Log()
    worker._on_settled = log
    with Running(worker):
        gate.open()
        queue.put("quick")
        eventually(lambda: log.states == ["acked"])


def test_on_settled_is_told_the_result_and_may_fail(queue: PersistentQueue[Any]) -> None:
    log = Log()

    def settled(one: Any) -> None:
        log(one)
        raise ValueError("not the worker's problem")

    queue.put_many([1, 2])
    Worker(queue, lambda value: value * 10, on_settled=settled).run_until_empty()
    assert [(one.message.value, one.state, one.result, one.error) for one in log.settled] == [
        (1, "acked", 10, None),
        (2, "acked", 20, None),
    ]


def test_a_worker_is_seen_in_stats(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    gate = Gate()
    with Running(Worker(queue, gate, worker_id="alice")):
        gate.wait_for_entry()
        eventually(lambda: "alice" in queue.stats().last_seen_by_worker_id)
        assert queue.stats().by_worker_id == {"alice": 1}
        gate.open()
    assert queue.stats().leases_by_worker_id == {"alice": 1}


def test_at_most_once_runs_each_message_once_and_never_again(store: QueueStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, delivery_policy=AtMostOnceDelivery())
    queue.put_many(range(6))
    log = Log()

    def handler(value: int) -> None:
        if value % 2:
            raise ValueError(value)

    counts = Worker(queue, handler, concurrency=2, on_settled=log).run_until_empty()
    assert (counts.acked, counts.lost) == (3, 3)
    assert queue.stats().total == 0


@pytest.mark.parametrize("pace", [{}, {"min_interval": 0.05}])
def test_at_most_once_loses_nothing_when_it_stops(store: QueueStore, pace: dict[str, Any]) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, delivery_policy=AtMostOnceDelivery())
    queue.put_many(range(9))
    seen: list[int] = []

    def handler(value: int) -> None:
        seen.append(value)
        worker.stop()

    worker = Worker(queue, handler, prefetch=5, **pace)
    while queue.stats().ready:
        worker.run()
    assert seen == list(range(9))


def test_messages_of_one_key_run_in_order_and_one_at_a_time(store: QueueStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, ordering_policy=PerKeyFifoOrdering())
    for number in range(40):
        queue.put(number, ordering_key=str(number % 3))
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    busy = {0: threading.Lock(), 1: threading.Lock(), 2: threading.Lock()}
    tries: set[int] = set()

    def handler(number: int) -> None:
        assert busy[number % 3].acquire(blocking=False), "two messages of one key at a time"
        try:
            if number % 7 == 0 and number not in tries:
                tries.add(number)
                raise ValueError("once more")
            seen[number % 3].append(number)
        finally:
            busy[number % 3].release()

    Worker(queue, handler, concurrency=4, prefetch=2, wait=None).run_until_empty()
    for key, numbers in seen.items():
        assert numbers == list(range(key, 40, 3))


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    queue.pause()
    log = Log()
    worker = Worker(queue, lambda value: None, concurrency=2, on_settled=log)
    assert worker.run_until_empty().total == 0
    with Running(worker):
        eventually(lambda: worker.worker_id in queue.stats().last_seen_by_worker_id)
        assert log.states == []
        queue.resume()
        eventually(lambda: log.states == ["acked"])


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_store_that_is_closed_raises_out_of_run(
    store: QueueStore, queue: PersistentQueue[Any], concurrency: int
) -> None:
    worker = Worker(queue, lambda value: None, concurrency=concurrency)
    with pytest.raises(QueueStoreClosedError), Running(worker) as running:
        eventually(lambda: worker.worker_id in queue.stats().last_seen_by_worker_id)
        store.close()
        running.join()


def test_two_workers_share_a_queue_and_neither_sees_the_others_messages(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(60))
    logs = Log(), Log()
    threads = Background()
    for name, log in zip("ab", logs, strict=True):
        worker = Worker(queue, lambda value: None, concurrency=2, prefetch=3, worker_id=name, on_settled=log)
        threads.start(worker.run_until_empty)
    threads.join()
    values = [one.message.value for log in logs for one in log.settled]
    assert sorted(values) == list(range(60))


def test_a_failing_store_call_of_another_consumer_is_not_needed_to_see_what_it_left(
    queue: PersistentQueue[Any], store: QueueStore
) -> None:
    queue.put("x")
    store.lease(LeaseRequest("jobs", 1, 0.1, "somebody who died"))
    log = Log()
    with Running(Worker(queue, lambda value: None, on_settled=log)):
        eventually(lambda: log.states == ["acked"])
    assert log.settled[0].message.tries == 2
