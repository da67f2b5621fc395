"""Dispatchers deliver from the store: lease, call, settle, and every failure is on its message."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest

from localqueue import AtMostOnceDelivery, MemoryQueueStore, PersistentQueue, QueueMessage, ThreadedDispatcher
from localqueue.contracts import FakeClock
from localqueue.contracts.dispatchers import Calls, Gate, HandlerFailed
from localqueue.contracts.steps import PATIENCE
from localqueue.dispatch import WorkerPoolDispatcher
from localqueue.dispatch.delivery import retry_delay
from localqueue.errors import QueueStoreError
from localqueue.policies import PerKeyFifoOrdering
from localqueue.stores.port import Changes, Committed, LeaseRequest, StoredMessage
from tests.unit.worker_steps import eventually, is_leased_anew


@pytest.fixture
def store() -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore() as opened:
        yield opened


def test_a_message_is_leased_while_its_handler_runs_and_acked_after(store: MemoryQueueStore) -> None:
    gate = Gate()
    dispatcher = ThreadedDispatcher((gate,))
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue:
        put = queue.put("x")
        gate.wait_for_entry()
        held = queue.inspect(put.id)
        assert held is not None and held.state == "inflight"
        gate.open()
        assert dispatcher.drain(PATIENCE)
        assert queue.inspect(put.id) is None


def test_one_thread_handles_messages_one_at_a_time_and_in_order(store: MemoryQueueStore) -> None:
    calls = Calls()
    inside = threading.Lock()
    threads: set[int] = set()

    def alone(message: QueueMessage[Any]) -> None:
        assert inside.acquire(blocking=False)
        threads.add(threading.get_ident())
        inside.release()

    dispatcher = ThreadedDispatcher((alone, calls), maxsize=7)
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue:
        for n in range(20):
            queue.put(n)
        queue.put_many(range(20, 100))
        assert calls.values(100) == list(range(100))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_a_pool_runs_as_many_handlers_side_by_side_as_it_has_threads(store: MemoryQueueStore) -> None:
    together = threading.Barrier(3, timeout=PATIENCE)
    dispatcher = WorkerPoolDispatcher((lambda message: together.wait(),), workers=3)
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue:
        queue.put_many(range(9))
        assert dispatcher.drain(PATIENCE)
        assert queue.stats().total == 0


def test_a_failing_handler_is_recorded_on_the_message_which_is_tried_again(
    store: MemoryQueueStore, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()

    def fail_twice(message: QueueMessage[Any]) -> None:
        if message.attempts < 3:
            raise HandlerFailed(f"attempt {message.attempts}")

    with (
        caplog.at_level(logging.ERROR, "localqueue.dispatch"),
        PersistentQueue[Any]("jobs", store=store, dispatch_policy=ThreadedDispatcher((fail_twice, calls))) as queue,
    ):
        queue.put("x")
        message = calls.next()
    assert message.attempts == 3
    released = [event["last_error"]["message"] for event in message.attempt_history if event["type"] == "released"]
    assert released == ["attempt 1", "attempt 2"]
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == released


def test_the_last_attempt_leaves_a_dead_letter(store: MemoryQueueStore) -> None:
    done = Calls()

    def fail(message: QueueMessage[Any]) -> None:
        if message.value == "poison":
            raise HandlerFailed("always")

    dispatcher = ThreadedDispatcher((fail, done))
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher, max_attempts=1) as queue:
        queue.put("poison")
        queue.put("good")
        assert done.next().value == "good"
        (dead,) = queue.dead_letters()
    assert dead.value == "poison" and dead.last_error is not None
    assert dead.last_error["type"] == "HandlerFailed"


def test_a_handler_that_calls_exit_fails_like_any_other(store: MemoryQueueStore) -> None:
    done = Calls()

    def leave(message: QueueMessage[Any]) -> None:
        if message.value == "exit":
            raise SystemExit(3)

    with PersistentQueue[Any](
        "jobs", store=store, dispatch_policy=ThreadedDispatcher((leave, done)), max_attempts=1
    ) as queue:
        queue.put("exit")
        queue.put("next")
        assert done.next().value == "next"
        (dead,) = queue.dead_letters()
    assert dead.last_error is not None and dead.last_error["type"] == "SystemExit"


def test_a_failing_message_holds_up_its_own_key_and_no_other(store: MemoryQueueStore) -> None:
    calls = Calls()

    def fail_first(message: QueueMessage[Any]) -> None:
        if message.value == "a1" and message.attempts == 1:
            raise HandlerFailed("not yet")

    with PersistentQueue[Any](
        "jobs",
        store=store,
        ordering_policy=PerKeyFifoOrdering(),
        dispatch_policy=ThreadedDispatcher((fail_first, calls)),
    ) as queue:
        with queue.transaction() as together:
            for value in ("a1", "a2", "b1"):
                together.put(value, ordering_key=value[0])
        assert calls.values(3) == ["b1", "a1", "a2"]


def test_a_lease_is_renewed_while_its_handler_runs() -> None:
    gate, clock = Gate(), FakeClock()
    dispatcher = ThreadedDispatcher((gate,))
    with (
        MemoryQueueStore(clock=clock) as store,
        PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher, lease_timeout=0.3) as queue,
    ):
        put = queue.put("x")
        gate.wait_for_entry()
        for _ in range(2):
            clock.advance(0.2)
            eventually(lambda: is_leased_anew(queue, put.id, clock))
        gate.open()
        assert dispatcher.drain(PATIENCE)
        assert queue.stats().total == 0


def test_a_buffered_message_keeps_its_lease_too() -> None:
    gate, calls, clock = Gate(), Calls(), FakeClock()
    dispatcher = ThreadedDispatcher((gate, calls), maxsize=5)
    with (
        MemoryQueueStore(clock=clock) as store,
        PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher, lease_timeout=0.3) as queue,
    ):
        put = queue.put_many(range(4))
        gate.wait_for_entry()
        other: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
        for _ in range(2):
            clock.advance(0.2)
            eventually(lambda: all(is_leased_anew(queue, one.id, clock) for one in put))
            with pytest.raises(Empty):
                other.get_message(block=False)
        gate.open()
        assert [calls.next().attempts for _ in range(4)] == [1, 1, 1, 1]


def test_a_full_buffer_leaves_the_rest_in_the_store(store: MemoryQueueStore) -> None:
    gate, calls = Gate(), Calls()
    with PersistentQueue[Any](
        "jobs", store=store, dispatch_policy=ThreadedDispatcher((gate, calls), maxsize=2)
    ) as queue:
        queue.put_many(range(10))
        gate.wait_for_entry()
        other: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
        taken = [message.value for message in other.get_messages(100, timeout=PATIENCE)]
        assert len(taken) >= 7 and queue.stats().inflight >= len(taken)
        gate.open()
        assert sorted(calls.values(10 - len(taken)) + taken) == list(range(10))


def test_at_most_once_delivery_loses_what_fails_and_says_so(
    store: MemoryQueueStore, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()

    def fail(message: QueueMessage[Any]) -> None:
        if message.value == "poison":
            raise HandlerFailed("once and never again")

    with (
        caplog.at_level(logging.ERROR, "localqueue.dispatch"),
        PersistentQueue[Any](
            "jobs",
            store=store,
            delivery_policy=AtMostOnceDelivery(),
            dispatch_policy=ThreadedDispatcher((fail, calls)),
        ) as queue,
    ):
        queue.put("poison")
        queue.put("good")
        assert calls.next().value == "good"
        assert queue.stats().total == 0
    assert "once and never again" in caplog.text


def test_closing_an_at_most_once_queue_handles_what_was_taken_from_the_store(store: MemoryQueueStore) -> None:
    gate, calls = Gate(), Calls()
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        store=store,
        delivery_policy=AtMostOnceDelivery(),
        dispatch_policy=ThreadedDispatcher((gate, calls), maxsize=3),
    )
    queue.put_many(range(10))
    gate.wait_for_entry()
    closing = threading.Thread(target=queue.close)
    closing.start()
    gate.open()
    closing.join(PATIENCE)
    handled = 0
    while not calls.none_left():
        assert calls.next().value == handled
        handled += 1
    assert handled >= 1
    assert store.stats("jobs").ready == 10 - handled


class _Outage(MemoryQueueStore):
    """A store that can be made to refuse everything a dispatcher asks of it."""

    def __init__(self) -> None:
        super().__init__()
        self.out = False
        self.refused = threading.Semaphore(0)

    def _refuse(self) -> None:
        if self.out:
            self.refused.release()
            raise QueueStoreError("the disk is gone")

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        self._refuse()
        return super().lease(request)

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        self._refuse()
        return super().ack_one(queue, message_id, token)

    def commit(self, changes: Changes) -> Committed:
        if changes.settle:
            self._refuse()
        return super().commit(changes)


def test_a_dispatcher_outlives_an_outage_of_the_store() -> None:
    gate, calls = Gate(), Calls()
    dispatcher = ThreadedDispatcher((gate, calls))
    with (
        _Outage() as store,
        PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue,
    ):
        queue.put_many(range(5))
        gate.wait_for_entry()
        store.out = True
        gate.open()
        for _ in range(3):  # the ack of the first message, and leases of others
            assert store.refused.acquire(timeout=PATIENCE)
        store.out = False
        assert [(m.value, m.attempts) for m in (calls.next() for _ in range(5))] == [(n, 1) for n in range(5)]
        assert dispatcher.drain(PATIENCE)
        assert queue.stats().total == 0


def test_a_poisoned_message_is_tried_at_growing_intervals() -> None:
    delays = [retry_delay(tries) for tries in (1, 2, 3, 20, 10_000)]
    assert delays == [0.1, 0.2, 0.4, 30.0, 30.0]


def test_dispatched_and_failed_messages_are_told_to_hooks(store: MemoryQueueStore) -> None:
    told: list[tuple[str, int | None]] = []
    calls = Calls()

    def fail_once(message: QueueMessage[Any]) -> None:
        if message.attempts == 1:
            raise HandlerFailed("not yet")

    dispatcher = ThreadedDispatcher((fail_once, calls))
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue:
        queue.add_hook(lambda event: told.append((event.type, event.attempt)))
        queue.put("x")
        calls.next()
    delivered = [one for one in told if one[0].startswith("dispatch") and one[1]]
    assert delivered == [("dispatch_failed", 1), ("dispatched", 2)]
