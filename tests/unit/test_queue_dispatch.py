"""Handlers called on request, with leased messages, in the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest

from localqueue import (
    AtMostOnceDelivery,
    CallbackDispatcher,
    MemoryQueueStore,
    PersistentQueue,
    PublishSubscribeRouting,
    QueueMessage,
    StaticFanoutSubscriptions,
    ThreadedDispatcher,
)
from localqueue.contracts.dispatchers import Calls, HandlerFailed
from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import PATIENCE
from localqueue.dispatch import WorkerPoolDispatcher
from localqueue.errors import IncompatiblePolicies
from localqueue.guarantees import rule
from tests.unit.worker_steps import eventually, is_leased_anew


@pytest.fixture
def store() -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore() as opened:
        yield opened


def quiet(*handlers: Any) -> CallbackDispatcher:
    """Handlers that a put does not call."""
    return CallbackDispatcher(handlers, dispatches_on_put=False)


def test_what_is_ready_is_handed_to_the_handlers_here_and_acked(store: MemoryQueueStore) -> None:
    seen: list[tuple[Any, str, threading.Thread]] = []
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        store=store,
        dispatch_policy=quiet(lambda m: seen.append((m.value, m.state, threading.current_thread()))),
    )
    queue.put_many(["a", "b"])
    queue.put("later", delay=60)
    assert queue.dispatch_pending() == 2
    here = threading.current_thread()
    assert seen == [("a", "inflight", here), ("b", "inflight", here)]
    assert queue.dispatch_pending() == 0
    assert queue.stats().total == 1


def test_a_limit_leaves_the_rest(store: MemoryQueueStore) -> None:
    seen: list[Any] = []
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, dispatch_policy=quiet(lambda m: seen.append(m.value))
    )
    queue.put_many(range(5))
    assert queue.dispatch_pending(limit=2) == 2
    assert queue.dispatch_pending(limit=0) == 0
    assert queue.dispatch_pending(limit=100) == 3
    assert seen == [0, 1, 2, 3, 4]


def test_a_failure_is_recorded_and_the_next_message_is_taken(store: MemoryQueueStore) -> None:
    done: list[Any] = []

    def fail(message: QueueMessage[Any]) -> None:
        if message.value == "bad":
            raise HandlerFailed("no")

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, dispatch_policy=quiet(fail, lambda m: done.append(m.value))
    )
    bad = queue.put("bad")
    queue.put("good")
    assert queue.dispatch_pending() == 2
    assert done == ["good"]
    left = queue.inspect(bad.id)
    assert left is not None and left.last_error is not None
    assert (left.attempts, left.last_error["message"]) == (1, "no")
    assert left.available_at > store.now() - 1 and queue.stats().inflight == 0


def test_the_last_attempt_becomes_a_dead_letter(store: MemoryQueueStore) -> None:
    def fail(message: QueueMessage[Any]) -> None:
        raise HandlerFailed("no")

    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, dispatch_policy=quiet(fail), max_attempts=1)
    queue.put("x")
    assert queue.dispatch_pending() == 1
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None and dead.last_error["type"] == "HandlerFailed"


def test_what_a_handler_puts_is_left_for_the_next_call(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, dispatch_policy=quiet(lambda m: queue.put(m.value + 1))
    )
    queue.put(0)
    assert [queue.dispatch_pending() for _ in range(3)] == [1, 1, 1]
    assert queue.get_nowait() == 3


def test_an_interrupt_gives_the_message_back_and_goes_on_to_the_caller(store: MemoryQueueStore) -> None:
    def interrupt(message: QueueMessage[Any]) -> None:
        raise KeyboardInterrupt

    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, dispatch_policy=quiet(interrupt), max_attempts=1)
    queue.put("x")
    with pytest.raises(KeyboardInterrupt):
        queue.dispatch_pending()
    stats = queue.stats()
    assert (stats.ready, stats.inflight, stats.dead) == (1, 0, 0)


def test_a_handler_that_outlives_the_lease_keeps_it() -> None:
    clock = FakeClock()  # which goes on when the lease was renewed, however long that takes

    def outlive(message: QueueMessage[Any]) -> None:
        for _ in range(3):
            clock.advance(0.3)
            eventually(lambda: is_leased_anew(queue, message.id, clock))
        with pytest.raises(Empty):
            other.get_nowait()

    with MemoryQueueStore(clock=clock) as store:
        other: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
        queue: PersistentQueue[Any] = PersistentQueue(
            "jobs", store=store, lease_timeout=0.4, dispatch_policy=quiet(outlive), max_attempts=1
        )
        queue.put("x")
        assert queue.dispatch_pending() == 1
        assert queue.stats().total == 0


def test_at_most_once_messages_are_dispatched_and_gone(store: MemoryQueueStore) -> None:
    seen: list[Any] = []
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        store=store,
        delivery_policy=AtMostOnceDelivery(),
        dispatch_policy=quiet(lambda m: seen.append(m.value)),
    )
    queue.put_many(["a", "b"])
    assert queue.dispatch_pending() == 2
    assert seen == ["a", "b"] and queue.stats().total == 0


def test_a_paused_queue_dispatches_nothing(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, dispatch_policy=quiet(print))
    queue.put("x")
    queue.pause()
    assert queue.dispatch_pending() == 0


def test_wait_and_dispatch_make_a_consumer(store: MemoryQueueStore) -> None:
    calls = Calls()
    consumer: PersistentQueue[Any] = PersistentQueue("jobs", store=store, dispatch_policy=quiet(calls))
    producer: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    putting = threading.Thread(target=lambda: [producer.put(n) for n in range(20)])
    putting.start()
    handled = 0
    while handled < 20:
        assert consumer.wait_for_notification(PATIENCE)
        handled += consumer.dispatch_pending()
    putting.join()
    assert calls.values(20) == list(range(20))


def test_a_queue_without_handlers_says_what_to_do(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    with pytest.raises(ValueError, match="queue 'jobs' has no handlers to dispatch to; pass dispatch_policy="):
        queue.dispatch_pending()


@pytest.mark.parametrize(
    ("limit", "error", "text"),
    [(-1, ValueError, "limit cannot be negative"), (True, TypeError, "limit must be an integer, not True")],
)
def test_a_limit_is_a_count(store: MemoryQueueStore, limit: Any, error: type[Exception], text: str) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, dispatch_policy=quiet(print))
    with pytest.raises(error, match=text):
        queue.dispatch_pending(limit)


@pytest.mark.parametrize("make", [ThreadedDispatcher, WorkerPoolDispatcher])
def test_a_topic_takes_no_dispatcher_that_leases(store: MemoryQueueStore, make: Any) -> None:
    topic: dict[str, Any] = {
        "store": store,
        "routing_policy": PublishSubscribeRouting(),
        "subscription_policy": StaticFanoutSubscriptions(("mail",)),
    }
    with pytest.raises(IncompatiblePolicies) as caught:
        PersistentQueue("news", dispatch_policy=make((print,)), **topic)
    assert str(caught.value) == rule("dispatcher-on-a-topic").message
    calls = Calls()
    news: PersistentQueue[Any] = PersistentQueue("news", **topic)
    dispatcher = make((calls,))
    with PersistentQueue[Any](news.subscriber_queue_name("mail"), store=store, dispatch_policy=dispatcher):
        dispatcher.start()
        news.put("hello")
        assert calls.next().value == "hello"


def test_a_dispatcher_that_leases_is_told_apart_in_the_guarantees(store: MemoryQueueStore) -> None:
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=ThreadedDispatcher((print,))) as queue:
        rows = {row.id for row in queue.guarantees()}
    assert {"leasing-dispatch", "threaded-dispatch-order", "dispatch-shutdown"} <= rows
    assert "dispatch-with-pull" not in rows
    with PersistentQueue[Any]("jobs", store=store, dispatch_policy=WorkerPoolDispatcher((print,))) as queue:
        assert "threaded-dispatch-order" not in {row.id for row in queue.guarantees()}
