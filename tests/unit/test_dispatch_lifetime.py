"""A dispatcher belongs to one queue, starts late and ends in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, QueueMessage, ThreadedDispatcher
from localqueue.contracts.dispatchers import Calls, Gate
from localqueue.contracts.steps import PATIENCE
from localqueue.dispatch import WorkerPoolDispatcher
from tests.unit.worker_steps import eventually


@pytest.fixture
def store() -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore() as opened:
        yield opened


def threads_of_localqueue() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("localqueue")}


@pytest.mark.parametrize(
    ("dispatcher", "printed"),
    [
        (
            ThreadedDispatcher((print,)),
            {"type": "threaded", "maxsize": 1, "dispatches": True, "dispatches_on_put": True, "handler_count": 1},
        ),
        (
            WorkerPoolDispatcher([print, repr], workers=8, maxsize=2),
            {
                "type": "worker-pool",
                "workers": 8,
                "maxsize": 2,
                "dispatches": True,
                "dispatches_on_put": True,
                "handler_count": 2,
            },
        ),
    ],
)
def test_a_dispatcher_prints_its_contract(dispatcher: Any, printed: dict[str, Any]) -> None:
    assert list(dispatcher.as_dict().items()) == list(printed.items())
    assert type(dispatcher).__name__ in repr(dispatcher) and "maxsize" in repr(dispatcher)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ThreadedDispatcher(()), ValueError, "^handlers cannot be empty$"),
        (lambda: ThreadedDispatcher(print), TypeError, "handlers must be a tuple of callables"),  # type: ignore[arg-type]
        (lambda: WorkerPoolDispatcher((1,)), TypeError, "handlers must be callable, got 1"),  # type: ignore[arg-type]
        (lambda: WorkerPoolDispatcher((print,), workers=0), ValueError, "workers must be at least 1, got 0"),
        (lambda: WorkerPoolDispatcher((print,), workers=True), TypeError, "workers must be an integer, got True"),
        (lambda: ThreadedDispatcher((print,), maxsize=0), ValueError, "maxsize must be at least 1, got 0"),
    ],
)
def test_a_dispatcher_that_could_not_work_is_refused(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_no_thread_starts_before_the_first_put(store: MemoryQueueStore) -> None:
    before = threads_of_localqueue()  # of tests that ran here earlier, which may end meanwhile
    calls = Calls()
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=ThreadedDispatcher((calls,))) as queue:
        assert threads_of_localqueue() <= before
        queue.put("x")
        calls.next()
        assert threads_of_localqueue() - before
    assert threads_of_localqueue() <= before


def test_start_takes_messages_of_an_earlier_process_without_a_put(tmp_path: Path) -> None:
    with PersistentQueue[Any]("jobs", store_path=tmp_path / "q.db") as earlier:
        earlier.put_many(["a", "b"])
    calls = Calls()
    dispatcher = ThreadedDispatcher((calls,))
    with PersistentQueue[Any]("jobs", store_path=tmp_path / "q.db", dispatch_policy=dispatcher) as queue:
        dispatcher.start()
        assert calls.values(2) == ["a", "b"]
        assert dispatcher.drain(PATIENCE)
        assert queue.empty()


def test_close_finishes_what_runs_and_gives_back_what_is_buffered(store: MemoryQueueStore) -> None:
    gate, calls = Gate(), Calls()
    dispatcher = ThreadedDispatcher((gate, calls), maxsize=3)
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, dispatch_policy=dispatcher, max_attempts=1)
    queue.put_many(range(10))
    gate.wait_for_entry()
    closing = threading.Thread(target=dispatcher.close)
    closing.start()
    eventually(lambda: store.stats("jobs").ready == 9)
    gate.open()
    closing.join(PATIENCE)
    assert calls.values(1) == [0] and calls.none_left()
    stats = queue.stats()
    assert (stats.ready, stats.inflight, stats.dead) == (9, 0, 0)
    assert all(message.last_error is None for message in queue.messages())
    queue.close()


def test_closing_the_queue_ends_its_dispatcher_before_the_store(tmp_path: Path) -> None:
    gate, settled = Gate(), threading.Event()
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store_path=tmp_path / "q.db", dispatch_policy=ThreadedDispatcher((gate, lambda m: settled.set()))
    )
    queue.put("x")
    gate.wait_for_entry()
    closing = threading.Thread(target=queue.close)
    closing.start()
    gate.open()
    closing.join(PATIENCE)
    assert settled.is_set()
    with PersistentQueue[Any]("jobs", store_path=tmp_path / "q.db") as again:
        assert again.stats().total == 0


def test_a_close_that_may_not_wait_says_that_handlers_still_run(
    store: MemoryQueueStore, caplog: pytest.LogCaptureFixture
) -> None:
    gate, calls = Gate(), Calls()
    dispatcher = ThreadedDispatcher((gate, calls))
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue:
        queue.put("x")
        gate.wait_for_entry()
        with caplog.at_level(logging.WARNING, "localqueue.dispatch"):
            assert dispatcher.close(timeout=0.01) is False
        assert "still run" in caplog.text
        gate.open()
        calls.next()


def test_drain_waits_for_what_is_ready_and_says_when_it_could_not(store: MemoryQueueStore) -> None:
    gate, calls = Gate(), Calls()
    dispatcher = WorkerPoolDispatcher((gate, calls), workers=2)
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue:
        queue.put_many(range(20))
        queue.put("later", delay=60)
        gate.wait_for_entry()
        assert dispatcher.drain(0.05) is False
        gate.open()
        assert dispatcher.drain(PATIENCE) is True
        assert sorted(calls.values(20)) == list(range(20)) and calls.none_left()
        assert queue.stats().delayed == 1


def test_a_dispatcher_is_its_own_context(store: MemoryQueueStore) -> None:
    calls = Calls()
    with (
        ThreadedDispatcher((calls,)) as dispatcher,
        PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue,
    ):
        queue.put("x")
        calls.next()
    assert dispatcher.queue is None


def test_a_put_after_the_dispatcher_was_closed_is_stored(store: MemoryQueueStore) -> None:
    calls = Calls()
    dispatcher = ThreadedDispatcher((calls,))
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue:
        dispatcher.close()
        queue.put("x")
        assert queue.qsize() == 1 and calls.none_left()


def test_one_dispatcher_serves_one_queue_at_a_time(store: MemoryQueueStore) -> None:
    calls = Calls()
    dispatcher = ThreadedDispatcher((calls,))
    with PersistentQueue[Any]("first", store=store, dispatch_policy=dispatcher) as first:
        with pytest.raises(ValueError, match="serves queue 'first' already; make another one for queue 'second'"):
            PersistentQueue("second", store=store, dispatch_policy=dispatcher)
        assert dispatcher.queue is first
    with PersistentQueue[Any]("second", store=store, dispatch_policy=dispatcher) as second:
        first.close()
        second.put("x")
        assert calls.next().queue == "second"


def test_a_dispatcher_without_a_queue_says_so() -> None:
    for use in (ThreadedDispatcher((print,)).start, ThreadedDispatcher((print,)).drain):
        with pytest.raises(ValueError, match="serves no queue; pass it as dispatch_policy="):
            use()


def test_a_handler_may_close_its_queue(store: MemoryQueueStore) -> None:
    closed = threading.Event()

    def close(message: QueueMessage[Any]) -> None:
        queue.close()
        closed.set()

    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, dispatch_policy=ThreadedDispatcher((close,)))
    queue.put("x")
    assert closed.wait(PATIENCE)


def test_a_handler_may_put_into_its_own_queue(store: MemoryQueueStore) -> None:
    calls = Calls()

    def count_down(message: QueueMessage[Any]) -> None:
        if message.value:
            queue.put(message.value - 1)

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, dispatch_policy=ThreadedDispatcher((count_down, calls))
    )
    with queue:
        queue.put(5)
        assert calls.values(6) == [5, 4, 3, 2, 1, 0]


def test_a_store_closed_by_its_owner_ends_the_dispatcher(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls()
    store = MemoryQueueStore()
    dispatcher = ThreadedDispatcher((calls,))
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, dispatch_policy=dispatcher)
    queue.put("x")
    calls.next()
    assert dispatcher.drain(PATIENCE)
    with caplog.at_level(logging.WARNING, "localqueue.dispatch"):
        store.close()
        assert dispatcher.close(PATIENCE)
    queue.close()
