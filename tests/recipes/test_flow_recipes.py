"""Recipes for capacity, fan-out and wake-ups: each test is the recipe, with its failure window acted out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Full
from typing import Any

import pytest

from localqueue import (
    BoundedBackpressure,
    CallbackDispatcher,
    CallbackNotification,
    InProcessNotification,
    PersistentQueue,
    PublishSubscribeRouting,
    PushConsumption,
    RejectingBackpressure,
    RemoteQueuePlacement,
    SQLiteQueueStore,
    StaticFanoutSubscriptions,
)
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.policies import DropOldest, OverflowToQueue, StoredSubscriptions


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteQueueStore]:
    with SQLiteQueueStore(tmp_path / "queue.db") as opened:
        yield opened


def test_a_bounded_queue_makes_its_producer_wait(store: SQLiteQueueStore) -> None:
    """Guarantee: never more than `maxsize` ready messages; a blocked put goes on when a consumer makes room.

    Failure window: leased messages do not count, so a release can bring the queue above its limit.
    """
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, backpressure=BoundedBackpressure(2))
    background = Background()
    background.start(lambda: [queue.put(n) for n in range(10)])
    seen = []
    for _ in range(10):
        message = queue.get_message(timeout=PATIENCE)
        seen.append(message.value)
        assert queue.qsize() <= 2
        queue.ack(message)
    background.join()
    assert seen == list(range(10))
    queue.put_many(["a", "b"])
    leased = queue.get_message()
    queue.put("c")
    queue.release(leased)
    assert queue.qsize() == 3


def test_a_bounded_queue_refuses_its_producer(store: SQLiteQueueStore) -> None:
    """Guarantee: put answers at once; what it refused is not stored.

    Failure window: until the producer tries again, a refused message exists only in the producer.
    """
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, backpressure=RejectingBackpressure(1))
    queue.put("accepted")
    with pytest.raises(Full):
        queue.put("refused")
    assert [m.value for m in queue.messages()] == ["accepted"]


def test_a_lossy_queue_counts_what_it_lost(store: SQLiteQueueStore) -> None:
    """Guarantee: the newest messages are kept, and put never waits.

    Failure window: the policy's `data_loss` names it: the oldest ready message when the queue is full.
    """
    policy = DropOldest(2)
    queue: PersistentQueue[Any] = PersistentQueue("frames", store=store, backpressure=policy)
    for frame in range(5):
        queue.put(frame)
    assert policy.data_loss == "the oldest ready message when the queue is full"
    assert [m.value for m in queue.messages()] == [3, 4]
    assert queue.stats().dropped == 3


def test_an_overflowing_queue_keeps_the_rest_elsewhere(store: SQLiteQueueStore) -> None:
    """Guarantee: nothing is lost and put never waits.

    Failure window: messages in the overflow queue wait until somebody consumes that one too.
    """
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, backpressure=OverflowToQueue(1, queue="jobs-overflow")
    )
    overflow: PersistentQueue[Any] = PersistentQueue("jobs-overflow", store=store)
    queue.put_many([1, 2, 3])
    assert [m.value for m in queue.messages()] == [1]
    assert [overflow.get() for _ in range(2)] == [2, 3]


def test_publish_and_subscribe_with_named_subscribers(store: SQLiteQueueStore) -> None:
    """Guarantee: every subscriber gets its own copy, all of them or none, and settles it on its own.

    Failure window: one full subscriber holds the message back from all.
    """
    orders: PersistentQueue[Any] = PersistentQueue(
        "orders",
        store=store,
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=StaticFanoutSubscriptions(("billing", "audit")),
        backpressure=RejectingBackpressure(1),
    )
    billing, audit = orders.subscriber_queue("billing"), orders.subscriber_queue("audit")
    orders.put("order 1")
    billing.ack(billing.get_message())
    with pytest.raises(Full):  # audit has not caught up
        orders.put("order 2")
    assert billing.empty()
    audit.dead_letter(audit.get_message(), error="unreadable")
    orders.put("order 2")
    assert (billing.get(), audit.get()) == ("order 2", "order 2")
    assert len(audit.dead_letters()) == 1


def test_subscribers_that_come_and_go(store: SQLiteQueueStore) -> None:
    """Guarantee: a publish reaches whoever is subscribed in the transaction that stores it.

    Failure window: a subscriber gets nothing that was published before it joined.
    """
    news: PersistentQueue[Any] = PersistentQueue(
        "news", store=store, routing_policy=PublishSubscribeRouting(), subscription_policy=StoredSubscriptions()
    )
    news.subscribe("ann")
    news.put("first")
    news.subscribe("bob")
    news.put("second")
    assert [m.value for m in news.subscriber_queue("ann").messages()] == ["first", "second"]
    assert [m.value for m in news.subscriber_queue("bob").messages()] == ["second"]


def test_local_push_with_a_notification(store: SQLiteQueueStore) -> None:
    """Guarantee: the message is stored before the worker is woken; the worker leases it like any other.

    Failure window: the wake-up is a hint for this process only; a lost one costs latency, never a message.
    """
    wake = InProcessNotification()
    queue: PersistentQueue[Any] = PersistentQueue(
        "mail", store=store, consumption_policy=PushConsumption(), notification_policy=wake
    )
    sent: list[Any] = []
    finished = threading.Event()

    def work() -> None:
        while not finished.is_set():
            wake.wait(timeout=0.2)
            wake.clear()
            while not queue.empty():
                message = queue.get_message()
                sent.append(message.value)
                queue.ack(message)
                if message.value == "last":
                    finished.set()

    background = Background()
    background.start(work)
    queue.put("welcome")
    PersistentQueue("mail", store=store).put("last")  # a producer that notifies nobody
    background.join()
    assert sent == ["welcome", "last"]


def test_local_push_with_a_failing_listener(store: SQLiteQueueStore) -> None:
    """Guarantee: a message whose notification failed is stored all the same.

    Failure window: put raises although the message will be delivered; a producer that tries again needs a dedupe key.
    """

    def unreachable(message: Any) -> None:
        raise ConnectionError("no listener")

    queue: PersistentQueue[Any] = PersistentQueue(
        "mail", store=store, notification_policy=CallbackNotification(unreachable)
    )
    with pytest.raises(ConnectionError):
        queue.put("welcome", dedupe_key="welcome-7")
    assert queue.put("welcome", dedupe_key="welcome-7").state == "ready"
    assert queue.stats().total == 1


def test_inline_dispatch_runs_the_handler_in_the_producer(store: SQLiteQueueStore) -> None:
    """Guarantee: the handler runs after the message is stored, in the producer's thread.

    Failure window: a handler that fails makes put raise; the message stays and waits for a consumer.
    """
    handled: list[Any] = []

    def handle(message: Any) -> None:
        if message.value == "bad":
            raise ValueError("bad")
        leased = queue.get_message(block=False)
        handled.append(leased.value)
        queue.ack(leased)

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, consumption_policy=PushConsumption(), dispatch_policy=CallbackDispatcher((handle,))
    )
    queue.put("good")
    with pytest.raises(ValueError, match="bad"):
        queue.put("bad")
    assert handled == ["good"]
    assert [m.value for m in queue.messages()] == ["bad"]


def test_a_remote_boundary_is_named_and_nothing_more(store: SQLiteQueueStore) -> None:
    """Guarantee: none beyond the attached store; the policy only names the boundary.

    Failure window: that of the network, which the attached store and notification have to answer for.
    """
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, locality_policy=RemoteQueuePlacement())
    assert queue.semantics.locality == "remote"
    assert "descriptive" in {row.level for row in queue.guarantees()}
    queue.put("x")
    assert queue.get() == "x"
