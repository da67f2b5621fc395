"""What a dispatcher promises: handlers are called about stored messages, and no failure loses one."""

from __future__ import annotations

import json
import queue as stdlib_queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import PATIENCE, stored
from localqueue.message import QueueMessage
from localqueue.queue import PersistentQueue
from localqueue.stores.port import QueueStore
from localqueue.stores.sqlite import MemoryQueueStore

MakeDispatcher = Callable[..., Any]
OpenQueue = Callable[..., PersistentQueue[Any]]


class HandlerFailed(Exception):
    """What the handlers of these tests fail with."""


class Calls:
    """A handler that remembers what it was called with, in any thread."""

    def __init__(self) -> None:
        self._calls: stdlib_queue.SimpleQueue[QueueMessage[Any]] = stdlib_queue.SimpleQueue()

    def __call__(self, message: QueueMessage[Any]) -> None:
        self._calls.put(message)

    def next(self) -> QueueMessage[Any]:
        return self._calls.get(timeout=PATIENCE)

    def values(self, count: int) -> list[Any]:
        return [self.next().value for _ in range(count)]

    def none_left(self) -> bool:
        return self._calls.empty()


class Gate:
    """A handler that stays inside until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._open = threading.Event()

    def __call__(self, message: QueueMessage[Any]) -> None:
        self.entered.release()
        assert self._open.wait(PATIENCE), "a test left its gate closed"

    def wait_for_entry(self) -> None:
        assert self.entered.acquire(timeout=PATIENCE), "no handler was called"

    def open(self) -> None:
        self._open.set()


def _wait_for_renewal(store: QueueStore, message_id: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while (stored(store, message_id).leased_until or 0.0) < store.now() + 0.45:
        assert time.monotonic() < deadline, "the lease was not renewed"
        time.sleep(0.002)


class DispatchContract:
    """What every dispatcher promises. Subclass it as `Test...` and provide the fixture `make_dispatcher`, a callable
    that returns a dispatcher for the handlers it is given."""

    @pytest.fixture
    def make_dispatcher(self) -> MakeDispatcher:
        raise NotImplementedError("a subclass of DispatchContract provides the fixture `make_dispatcher`")

    @pytest.fixture
    def shared(self) -> Iterator[QueueStore]:
        with MemoryQueueStore() as store:
            yield store

    @pytest.fixture
    def open_queue(self, make_dispatcher: MakeDispatcher, shared: QueueStore) -> Iterator[OpenQueue]:
        """Opens a queue whose dispatcher has these handlers, and closes it when the test ends."""
        opened: list[PersistentQueue[Any]] = []

        def open_queue(*handlers: Any, **options: Any) -> PersistentQueue[Any]:
            opened.append(PersistentQueue("jobs", store=shared, dispatch_policy=make_dispatcher(*handlers), **options))
            return opened[-1]

        yield open_queue
        for queue in opened:
            queue.close()

    def test_it_prints_what_it_does(self, make_dispatcher: MakeDispatcher) -> None:
        policy = make_dispatcher(Calls(), Calls())
        printed = json.loads(json.dumps(policy.as_dict()))
        assert printed["dispatches"] is policy.dispatches is True
        assert printed["dispatches_on_put"] is policy.dispatches_on_put
        assert printed["handler_count"] == 2

    def test_handlers_are_called_about_a_stored_message(self, open_queue: OpenQueue, shared: QueueStore) -> None:
        seen, calls = Calls(), Calls()

        def look(message: QueueMessage[Any]) -> None:
            if shared.get("jobs", message.id) is not None:
                seen(message)

        queue = open_queue(look, calls)
        put = queue.put({"n": 1}, headers={"h": "1"})
        for called in (seen.next(), calls.next()):
            assert (called.id, called.value, called.headers) == (put.id, {"n": 1}, {"h": "1"})

    def test_every_handler_is_called_in_order_for_each_message(self, open_queue: OpenQueue) -> None:
        calls = Calls()
        order: dict[str, list[str]] = {}
        first = lambda m: order.setdefault(m.id, []).append("first")  # noqa: E731
        second = lambda m: order.setdefault(m.id, []).append("second")  # noqa: E731
        queue = open_queue(first, second, calls)
        queue.put("x")
        queue.put_many(["y", "z"])
        assert sorted(calls.values(3)) == ["x", "y", "z"]
        assert list(order.values()) == [["first", "second"]] * 3

    def test_a_failing_handler_stops_those_behind_it_and_loses_no_message(
        self, open_queue: OpenQueue, shared: QueueStore
    ) -> None:
        failed, behind = threading.Event(), Calls()

        def fail(message: QueueMessage[Any]) -> None:
            failed.set()
            raise HandlerFailed("as expected")

        queue = open_queue(fail, behind)
        with suppress(HandlerFailed):
            queue.put("x")
        assert failed.wait(PATIENCE)
        queue.close()
        assert behind.none_left()
        assert shared.stats("jobs").total == 1

    def test_a_duplicate_is_not_dispatched_again(self, open_queue: OpenQueue) -> None:
        """A dispatcher that leases does not see the delayed message yet; one that does not is called about it."""
        calls = Calls()
        queue = open_queue(calls)
        queue.put("x", dedupe_key="k", delay=60)
        queue.put("again", dedupe_key="k")
        queue.put("last")
        values = calls.values(1)
        while values[-1] != "last":
            values += calls.values(1)
        assert values in (["x", "last"], ["last"])

    def test_dispatch_pending_calls_the_handlers_here_and_acks(self, open_queue: OpenQueue, shared: QueueStore) -> None:
        with PersistentQueue[Any]("jobs", store=shared) as earlier:
            earlier.put_many(["a", "b"])
        threads: list[threading.Thread] = []
        calls = Calls()
        queue = open_queue(lambda message: threads.append(threading.current_thread()), calls)
        assert queue.dispatch_pending() == 2
        assert threads == [threading.current_thread()] * 2
        assert calls.values(2) == ["a", "b"]
        assert shared.stats("jobs").total == 0


class LeasingDispatchContract(DispatchContract):
    """For a dispatcher that delivers: it leases from the store, calls handlers in other threads, and settles."""

    def test_the_producer_does_not_wait_for_handlers(self, open_queue: OpenQueue) -> None:
        gate, calls = Gate(), Calls()
        queue = open_queue(gate, calls)
        queue.put_many(range(50))  # more than any buffer in front of the handlers: the rest waits in the store
        gate.wait_for_entry()
        queue.put(50)
        gate.open()
        assert sorted(calls.values(51)) == list(range(51))

    def test_a_message_is_leased_during_the_call_and_gone_after_it(
        self, open_queue: OpenQueue, shared: QueueStore
    ) -> None:
        gate, calls = Gate(), Calls()
        queue = open_queue(gate, calls)
        put = queue.put("x")
        gate.wait_for_entry()
        held = queue.inspect(put.id)
        assert held is not None and (held.state, held.attempts) == ("inflight", 1)
        gate.open()
        assert calls.next().state == "inflight"
        queue.close()
        assert shared.get("jobs", put.id) is None

    def test_a_failure_is_recorded_and_the_message_is_tried_again(self, open_queue: OpenQueue) -> None:
        calls = Calls()

        def fail_once(message: QueueMessage[Any]) -> None:
            if message.attempts == 1:
                raise HandlerFailed("not yet")

        open_queue(fail_once, calls).put("x")
        message = calls.next()
        assert message.attempts == 2
        assert message.last_error is not None
        assert (message.last_error["type"], message.last_error["message"]) == ("HandlerFailed", "not yet")

    def test_a_message_that_keeps_failing_becomes_a_dead_letter(
        self, open_queue: OpenQueue, shared: QueueStore
    ) -> None:
        calls = Calls()

        def fail(message: QueueMessage[Any]) -> None:
            calls(message)
            raise HandlerFailed("never")

        queue = open_queue(fail, max_attempts=2)
        put = queue.put("x")
        assert [calls.next().attempts for _ in range(2)] == [1, 2]
        queue.close()
        dead = shared.get("jobs", put.id)
        assert dead is not None and dead.last_error is not None
        assert (dead.state, dead.last_error["message"]) == ("dead", "never")

    def test_a_lease_outlasts_its_timeout_while_a_handler_runs(self, make_dispatcher: MakeDispatcher) -> None:
        clock = FakeClock()  # which goes on when the lease was renewed, however long that takes
        gate, calls = Gate(), Calls()
        options: Any = {"dispatch_policy": make_dispatcher(gate, calls), "lease_timeout": 0.5}
        with MemoryQueueStore(clock=clock) as store, PersistentQueue[Any]("jobs", store=store, **options) as queue:
            put = queue.put("x")
            gate.wait_for_entry()
            for _ in range(3):
                clock.advance(0.4)
                _wait_for_renewal(store, put.id)
            with PersistentQueue[Any]("jobs", store=store) as other, pytest.raises(stdlib_queue.Empty):
                other.get_nowait()
            gate.open()
            assert calls.next().attempts == 1
            queue.close()
            assert store.stats("jobs").total == 0

    def test_messages_that_were_there_before_are_taken(self, open_queue: OpenQueue, shared: QueueStore) -> None:
        with PersistentQueue[Any]("jobs", store=shared) as earlier:
            earlier.put_many(["a", "b"])
        calls = Calls()
        open_queue(calls).put("c")
        assert sorted(calls.values(3)) == ["a", "b", "c"]

    def test_messages_of_other_producers_are_taken(self, open_queue: OpenQueue, shared: QueueStore) -> None:
        calls = Calls()
        open_queue(calls).put("mine")
        assert calls.next().value == "mine"
        with PersistentQueue[Any]("jobs", store=shared) as other:
            other.put("theirs")
            other.put("delayed", delay=0.05)
        assert sorted(calls.values(2)) == ["delayed", "theirs"]

    def test_closing_finishes_what_runs_and_leaves_the_rest_ready(
        self, open_queue: OpenQueue, shared: QueueStore
    ) -> None:
        gate, calls = Gate(), Calls()
        queue = open_queue(gate, calls, max_attempts=1)
        queue.put_many(range(50))
        gate.wait_for_entry()
        closing = threading.Thread(target=queue.close)
        closing.start()
        gate.open()
        closing.join(PATIENCE)
        assert not closing.is_alive()
        finished = 0
        while not calls.none_left():
            calls.next()
            finished += 1
        stats = shared.stats("jobs")
        assert finished >= 1
        assert (stats.ready, stats.inflight, stats.dead) == (50 - finished, 0, 0)

    def test_a_queue_can_be_closed_twice_and_before_anything_was_put(self, open_queue: OpenQueue) -> None:
        queue = open_queue(Calls())
        queue.close()
        queue.close()
