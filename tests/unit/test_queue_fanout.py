"""Publish/subscribe: one put, one copy for every subscriber, all of them or none."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from queue import Empty, Full
from typing import Any

import pytest

from localqueue import (
    CallbackDispatcher,
    CallbackNotification,
    MemoryQueueStore,
    PersistentQueue,
    PriorityOrdering,
    PublishSubscribeRouting,
    RejectingBackpressure,
    StaticFanoutSubscriptions,
    subscriber_queue_name,
)
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.policies import DropNewest, StoredSubscriptions, Throttling


@pytest.fixture
def store() -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore() as opened:
        yield opened


def topic(store: Any, *subscribers: str, **options: Any) -> PersistentQueue[Any]:
    return PersistentQueue(
        "events",
        store=store,
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=StaticFanoutSubscriptions(subscribers) if subscribers else StoredSubscriptions(),
        **options,
    )


def tell_when_waiting_for_capacity(store: Any) -> threading.Event:
    """An event that is set once a publisher has found a subscriber full and waits for room."""
    waiting, listen = threading.Event(), store.listen_capacity

    def listen_and_tell(limits: Any) -> Any:
        waiter = listen(limits)
        waiting.set()
        return waiter

    store.listen_capacity = listen_and_tell
    return waiting


def test_every_subscriber_gets_a_copy_and_the_topic_keeps_none(store: MemoryQueueStore) -> None:
    events = topic(store, "billing", "audit")
    published = events.put({"order": 1})
    assert published.queue == "events.billing"
    assert events.stats().total == 0
    for name in ("billing", "audit"):
        copy = events.subscriber_queue(name).get_message(block=False)
        assert (copy.queue, copy.value) == (f"events.{name}", {"order": 1})
        assert (copy.id == published.id) is (name == "billing")


def test_copies_carry_the_options_of_the_put(store: MemoryQueueStore) -> None:
    events = topic(store, "a", "b", ordering_policy=PriorityOrdering())
    events.put("x", priority=4, delay=30, ttl=60, headers={"h": "1"}, run_id="r", dedupe_key="k")
    for name in ("a", "b"):
        (copy,) = events.subscriber_queue(name).messages()
        assert (copy.priority, copy.headers, copy.run_id) == (4, {"h": "1"}, "r")
        assert copy.dedupe_key == f"k:{name}"
        assert copy.available_at == copy.created_at + 30
        assert copy.expires_at == copy.created_at + 60
    stats = events.run("r")
    assert stats is not None
    assert stats.total == 2


def test_a_batch_is_published_whole_and_returns_the_first_subscribers_messages(store: MemoryQueueStore) -> None:
    events = topic(store, "a", "b")
    published = events.put_many([1, 2, 3])
    assert [(m.queue, m.value) for m in published] == [("events.a", 1), ("events.a", 2), ("events.a", 3)]
    assert [m.value for m in events.subscriber_queue("b").get_messages(5)] == [1, 2, 3]


def test_subscribers_settle_retry_and_dead_letter_on_their_own(store: MemoryQueueStore) -> None:
    events = topic(store, "a", "b")
    events.put("x")
    a, b = events.subscriber_queue("a"), events.subscriber_queue("b")
    assert a.ack(a.get_message(block=False))
    b.dead_letter(b.get_message(block=False), error="no")
    assert (a.stats().total, a.dead_letters(), len(b.dead_letters())) == (0, [], 1)


def test_a_subscriber_queue_shares_store_and_policies_and_is_point_to_point(store: MemoryQueueStore) -> None:
    events = topic(store, "a", lease_timeout=5, maxsize=7, max_attempts=2, retry_defaults={"max_tries": 3})
    a = events.subscriber_queue("a")
    assert a is not events.subscriber_queue("a")
    assert (a.name, a.store, a.lease_timeout, a.maxsize, a.max_attempts) == ("events.a", store, 5, 7, 2)
    assert a.retry_defaults == {"max_tries": 3}
    assert a.semantics.routing == "point-to-point"
    assert not a.semantics.subscriptions


def test_a_subscriber_has_a_known_name(store: MemoryQueueStore) -> None:
    events = topic(store, "a")
    assert events.subscriber_queue_name("a") == "events.a" == subscriber_queue_name("events", "a")
    with pytest.raises(ValueError, match="unknown subscriber 'x'"):
        events.subscriber_queue("x")
    plain: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    with pytest.raises(ValueError, match="queue does not have configured subscribers"):
        plain.subscriber_queue("a")
    with pytest.raises(ValueError, match="subscriber cannot be empty"):
        subscriber_queue_name("events", "")


def test_a_full_subscriber_keeps_the_message_from_all_of_them(store: MemoryQueueStore) -> None:
    events = topic(store, "a", "b", backpressure=RejectingBackpressure(2))
    events.put(1)
    a, b = events.subscriber_queue("a"), events.subscriber_queue("b")
    a.ack(a.get_message(block=False))
    events.put(2)
    with pytest.raises(Full):
        events.put(3)
    assert ([m.value for m in a.messages()], [m.value for m in b.messages()]) == ([2], [1, 2])


def test_a_blocked_publish_raises_full_at_its_timeout(store: MemoryQueueStore) -> None:
    events = topic(store, "a", "b", maxsize=1)
    events.put(1)
    start = time.monotonic()
    with pytest.raises(Full):
        events.put(2, timeout=0.1)
    assert time.monotonic() - start >= 0.1


def test_a_blocked_publish_goes_on_when_every_subscriber_has_room(store: MemoryQueueStore) -> None:
    events = topic(store, "a", "b", maxsize=1)
    events.put(1)
    waiting = tell_when_waiting_for_capacity(store)
    background = Background()
    background.start(events.put, 2)
    assert waiting.wait(PATIENCE)
    events.subscriber_queue("b").get_message(block=False)
    assert events.subscriber_queue("b").qsize() == 0
    events.subscriber_queue("a").get_message(block=False)
    background.join()
    assert [events.subscriber_queue(name).get_nowait() for name in ("a", "b")] == [2, 2]


def test_a_blocked_publish_goes_on_when_the_full_subscriber_leaves(store: MemoryQueueStore) -> None:
    """A subscriber that died with a full queue can be taken out without restarting its publishers."""
    events = topic(store, maxsize=1)
    events.subscribe("alive")
    events.subscribe("dead")
    events.put(1)
    alive = events.subscriber_queue("alive")
    alive.ack(alive.get_message(block=False))
    waiting = tell_when_waiting_for_capacity(store)
    published = threading.Event()

    def publish() -> None:
        events.put(2)
        published.set()

    background = Background()
    background.start(publish)
    assert waiting.wait(PATIENCE)
    events.unsubscribe("dead")
    assert published.wait(PATIENCE)
    background.join()
    assert alive.get_nowait() == 2


def test_a_dropping_topic_drops_per_subscriber(store: MemoryQueueStore) -> None:
    events = topic(store, "a", "b", backpressure=DropNewest(1))
    events.put(1)
    a, b = events.subscriber_queue("a"), events.subscriber_queue("b")
    a.get_message(block=False)
    assert events.put(2).state == "ready"
    assert (a.stats().ready, b.stats().ready, b.stats().dropped) == (1, 1, 1)


def test_throttling_slows_a_publisher_too(store: MemoryQueueStore) -> None:
    """Or the constructor refuses the combination: a policy that does nothing would be a lie."""
    try:
        events = topic(store, "a", backpressure=Throttling(1, 0.05, 0.05))
    except ValueError:
        return
    events.put(1)
    start = time.monotonic()
    events.put(2)
    assert time.monotonic() - start >= 0.05


def test_dedupe_keys_are_kept_per_subscriber(store: MemoryQueueStore) -> None:
    events = topic(store, "a", "b")
    first = events.put("old", dedupe_key="k")
    a, b = events.subscriber_queue("a"), events.subscriber_queue("b")
    assert events.put("new", dedupe_key="k").id == first.id
    assert (a.qsize(), b.qsize()) == (1, 1)
    a.ack(a.get_message(block=False))
    events.put("third", dedupe_key="k")
    assert [m.value for m in a.messages()] == ["third"]
    assert [m.value for m in b.messages()] == ["old"]


def test_each_copy_is_notified_and_dispatched_once_in_the_order_of_subscribers(store: MemoryQueueStore) -> None:
    calls: list[tuple[str, str]] = []
    events = topic(
        store,
        "a",
        "b",
        notification_policy=CallbackNotification(lambda m: calls.append(("notify", m.queue))),
        dispatch_policy=CallbackDispatcher((lambda m: calls.append(("dispatch", m.queue)),)),
    )
    events.put("x", dedupe_key="k")
    once = [("notify", "events.a"), ("dispatch", "events.a"), ("notify", "events.b"), ("dispatch", "events.b")]
    assert calls == once
    events.put("x", dedupe_key="k")
    assert calls == once


def test_a_listener_that_fails_for_one_copy_does_not_silence_the_others(store: MemoryQueueStore) -> None:
    told: list[str] = []

    def tell(message: Any) -> None:
        told.append(message.queue)
        raise RuntimeError(message.queue)

    events = topic(store, "a", "b", notification_policy=CallbackNotification(tell))
    with pytest.raises(ExceptionGroup):
        events.put("x")
    assert told == ["events.a", "events.b"]
    assert [events.subscriber_queue(name).qsize() for name in ("a", "b")] == [1, 1]


def test_stored_subscribers_join_and_leave_while_the_topic_runs(store: MemoryQueueStore) -> None:
    events = topic(store)
    assert events.subscribers() == ()
    with pytest.raises(ValueError, match="publish-subscribe routing requires configured subscribers"):
        events.put("nobody")
    assert events.subscribe("a")
    assert not events.subscribe("a")
    events.put("first")
    assert events.subscribe("b")
    events.put("second")
    assert events.subscribers() == ("a", "b")
    a, b = events.subscriber_queue("a"), events.subscriber_queue("b")
    assert events.unsubscribe("a")
    assert not events.unsubscribe("a")
    events.put("third")
    assert [m.value for m in a.messages()] == ["first", "second"]
    assert [m.value for m in b.messages()] == ["second", "third"]


def test_stored_subscriptions_are_shared_by_every_object_of_the_topic(store: MemoryQueueStore) -> None:
    topic(store).subscribe("a")
    other = topic(store)
    assert other.subscribers() == ("a",)
    assert other.put("x").queue == "events.a"


def test_named_subscribers_are_there_beside_the_stored_ones(store: MemoryQueueStore) -> None:
    events: PersistentQueue[Any] = PersistentQueue(
        "events",
        store=store,
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=StoredSubscriptions(("always",)),
    )
    events.subscribe("later")
    events.put("x")
    assert events.subscribers() == ("always", "later")
    assert [events.subscriber_queue(name).get_nowait() for name in events.subscribers()] == ["x", "x"]


@pytest.mark.parametrize("name", ["", "a:b"])
def test_a_stored_subscriber_has_a_name_its_queue_can_have(store: MemoryQueueStore, name: str) -> None:
    events = topic(store)
    with pytest.raises(ValueError):
        events.subscribe(name)
    assert events.subscribers() == ()


def test_a_fixed_topic_takes_no_more_subscribers(store: MemoryQueueStore) -> None:
    events = topic(store, "a")
    with pytest.raises(ValueError, match="the subscribers of queue 'events' are fixed"):
        events.subscribe("b")
    with pytest.raises(ValueError, match="the subscribers of queue 'events' are fixed"):
        events.unsubscribe("a")


def test_a_publish_that_races_with_a_subscription_reaches_the_subscribers_of_its_commit(
    store: MemoryQueueStore,
) -> None:
    """The version of the subscriptions is a condition of the commit, so none is missed in between."""
    events = topic(store)
    events.subscribe("a")
    read = store.subscriptions

    def read_then_change(name: str) -> Any:
        found = read(name)
        if "late" not in found.subscribers:
            store.subscribe(name, "late")
        return found

    store.subscriptions = read_then_change  # type: ignore[method-assign]
    events.put("x")
    assert events.subscriber_queue("late").get_nowait() == "x"
    with pytest.raises(Empty):
        events.subscriber_queue("late").get_nowait()
