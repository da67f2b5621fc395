"""Hooks hear of everything that a queue does, after it is committed, and can not break it."""

from __future__ import annotations

import dataclasses
import logging
from queue import Empty
from typing import Any

import pytest

from localqueue import (
    AtMostOnceDelivery,
    CallbackDispatcher,
    CallbackNotification,
    LeaseLost,
    MemoryQueueStore,
    PersistentQueue,
    PublishSubscribeRouting,
    StaticFanoutSubscriptions,
)
from localqueue.contracts import FakeClock
from localqueue.events import EVENT_TYPES, JOURNAL_TYPES, Event, LoggingHook
from localqueue.policies import BytesCodec, DropNewest, DropOldest, OverflowToQueue


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Any:
    with MemoryQueueStore(clock=clock) as opened:
        yield opened


@pytest.fixture
def heard() -> list[Event]:
    return []


def kinds(heard: list[Event]) -> list[str]:
    return [event.type for event in heard]


def test_an_event_is_a_frozen_value_that_can_be_printed() -> None:
    event = Event(type="acked", queue="jobs", at=1.0, message_id="m", data={"leased_at": 0.5})
    assert event.as_dict() == {
        "type": "acked",
        "queue": "jobs",
        "at": 1.0,
        "message_id": "m",
        "attempt": None,
        "worker": None,
        "error": None,
        "data": {"leased_at": 0.5},
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.type = "put"  # type: ignore[misc]
    assert set(JOURNAL_TYPES) < set(EVENT_TYPES)


def test_a_life_from_put_to_ack(store: Any, clock: FakeClock, heard: list[Event]) -> None:
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, hooks=heard.append)
    begin = clock()
    queue.put("work")
    clock.advance(1)
    message = queue.get_message(leased_by="w")
    clock.advance(1)
    renewed = queue.renew(message)
    assert renewed is not None
    clock.advance(1)
    assert queue.ack(renewed)
    assert kinds(heard) == ["enqueued", "leased", "renewed", "acked"]
    assert [event.at - begin for event in heard] == [0, 1, 2, 3]
    assert {(event.queue, event.message_id) for event in heard} == {("jobs", message.id)}
    assert [(event.attempt, event.worker) for event in heard[1:]] == [(1, "w")] * 3
    assert heard[-1].data == {"created_at": begin, "leased_at": begin + 1}


def test_each_of_several_hooks_is_called(store: Any, heard: list[Event]) -> None:
    others: list[Event] = []
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=[heard.append, others.append])
    queue.put(1)
    assert heard == others and len(heard) == 1


def test_hooks_are_added_and_removed_while_the_queue_is_used(store: Any, heard: list[Event]) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store)
    queue.put(1)
    queue.add_hook(heard.append)
    queue.put(2)
    assert len(queue.hooks) == 1
    queue.remove_hook(heard.append)
    queue.remove_hook(heard.append)
    queue.put(3)
    assert kinds(heard) == ["enqueued"]
    assert queue.hooks == ()


@pytest.mark.parametrize("hooks", [3, ["not callable"]])
def test_a_hook_that_can_not_be_called_is_refused(store: Any, hooks: Any) -> None:
    with pytest.raises(TypeError):
        PersistentQueue("jobs", store=store, hooks=hooks)


def test_batches_have_an_event_for_each_message(store: Any, heard: list[Event]) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=heard.append)
    queue.put_many([1, 2])
    queue.put_many([3], delay=0.0, headers={"a": "b"})
    messages = queue.get_messages(3)
    assert queue.ack_many([*messages, messages[0]]) == [True, True, True, False]
    assert kinds(heard) == ["enqueued"] * 3 + ["leased"] * 3 + ["acked"] * 3


def test_settles_and_operators(store: Any, clock: FakeClock, heard: list[Event]) -> None:
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, max_attempts=2, hooks=heard.append)
    queue.put("poison")
    for _ in range(2):
        clock.advance(1)
        queue.release(queue.get_message(leased_by="w"), error=ValueError("no"))
    assert kinds(heard) == ["enqueued", "leased", "released", "leased", "dead_lettered"]
    assert heard[-1].error == {"type": "ValueError", "module": "builtins", "message": "no"}
    assert (heard[-1].attempt, heard[-1].worker, heard[-1].data) == (2, "w", {"leased_at": clock()})
    heard.clear()
    queue.requeue_all_dead()
    queue.dead_letter(queue.get_message())
    (dead,) = queue.dead_letters()
    queue.requeue_dead(dead)
    queue.cancel(dead.id)
    assert kinds(heard) == ["requeued", "leased", "dead_lettered", "requeued", "cancelled"]
    heard.clear()
    queue.requeue_dead(dead)
    queue.dead_letter(dead.id)
    queue.prune_dead_letters(older_than=0)
    queue.put("last", run_id="r")
    queue.cancel_run("r")
    queue.purge()
    assert kinds(heard) == ["requeued", "dead_lettered", "pruned", "enqueued", "cancelled", "purged"]


def test_what_the_store_does_by_itself_while_it_claims(store: Any, clock: FakeClock, heard: list[Event]) -> None:
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store, max_attempts=1, hooks=heard.append)
    queue.put("lost")
    queue.get_message(leased_by="dead worker")
    queue.put("stale", ttl=5)
    clock.advance(60)
    heard.clear()
    queue.put("fresh")
    assert queue.get_message().value == "fresh"
    assert kinds(heard) == ["enqueued", "expired", "lease_expired", "dead_lettered", "leased"]
    assert heard[2].worker == "dead worker"
    assert heard[3].error is not None and heard[3].error["type"] == "AttemptsExhausted"


def test_queues_of_one_store_each_tell_their_own_hooks(store: Any, clock: FakeClock, heard: list[Event]) -> None:
    others: list[Event] = []
    one: PersistentQueue[int] = PersistentQueue("one", store=store, hooks=heard.append)
    two: PersistentQueue[int] = PersistentQueue("two", store=store, hooks=others.append)
    one.put(1, ttl=1)
    two.put(2, ttl=1)
    clock.advance(5)
    for queue in (one, two):
        with pytest.raises(Empty):
            queue.get_nowait()
    assert [(event.type, event.queue) for event in heard] == [("enqueued", "one"), ("expired", "one")]
    assert [(event.type, event.queue) for event in others] == [("enqueued", "two"), ("expired", "two")]


def test_a_transaction_tells_the_hooks_of_the_queues_it_changes(store: Any, heard: list[Event]) -> None:
    others: list[Event] = []
    jobs: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=heard.append)
    mails: PersistentQueue[int] = PersistentQueue("mails", store=store, hooks=others.append)
    jobs.put(1)
    message = jobs.get_message()
    heard.clear()
    with jobs.transaction() as transaction:
        transaction.ack(message)
        transaction.put(2, to=mails)
    assert kinds(heard) == ["acked"] and kinds(others) == ["enqueued"]
    with pytest.raises(LeaseLost), jobs.transaction() as transaction:
        transaction.put(3, to=mails)
        transaction.ack(message)
    assert kinds(heard) == ["acked"] and kinds(others) == ["enqueued"]


def test_lossy_queues_tell_what_was_dropped_and_where_it_went(store: Any, heard: list[Event]) -> None:
    newest: PersistentQueue[int] = PersistentQueue(
        "newest", store=store, backpressure=DropNewest(1), hooks=heard.append
    )
    oldest: PersistentQueue[int] = PersistentQueue(
        "oldest", store=store, backpressure=DropOldest(1), hooks=heard.append
    )
    spilling: PersistentQueue[int] = PersistentQueue(
        "spilling", store=store, backpressure=OverflowToQueue(1, queue="spare"), hooks=heard.append
    )
    for queue in (newest, oldest, spilling):
        queue.put(1)
        queue.put(2)
    assert [(event.type, event.queue) for event in heard] == [
        *(("enqueued", "newest"), ("dropped", "newest")),
        *(("enqueued", "oldest"), ("enqueued", "oldest"), ("dropped", "oldest")),
        *(("enqueued", "spilling"), ("enqueued", "spare")),
    ]


def test_a_duplicate_is_not_enqueued_twice(store: Any, heard: list[Event]) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=heard.append)
    queue.put(1, dedupe_key="k")
    queue.put(1, dedupe_key="k")
    assert kinds(heard) == ["enqueued"]


def test_at_most_once_delivery_is_lease_and_ack(store: Any, heard: list[Event]) -> None:
    queue: PersistentQueue[int] = PersistentQueue(
        "jobs", store=store, delivery_policy=AtMostOnceDelivery(), hooks=heard.append
    )
    queue.put(1)
    queue.get()
    assert kinds(heard) == ["enqueued", "leased", "acked"]


def test_a_message_that_can_not_be_read_is_told_as_a_dead_letter(store: Any, heard: list[Event]) -> None:
    PersistentQueue("jobs", store=store, codec=BytesCodec()).put(b"\xff")
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=heard.append)
    with pytest.raises(Empty):
        queue.get_nowait()
    assert kinds(heard) == ["leased", "dead_lettered"]


def test_publishing_tells_of_each_copy_and_a_subscribers_queue_has_the_same_hooks(
    store: Any, heard: list[Event]
) -> None:
    topic: PersistentQueue[int] = PersistentQueue(
        "news",
        store=store,
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=StaticFanoutSubscriptions(("a", "b")),
        hooks=heard.append,
    )
    topic.put(1)
    topic.subscriber_queue("a").get_message()
    assert [(event.type, event.queue) for event in heard] == [
        *(("enqueued", "news.a"), ("enqueued", "news.b"), ("leased", "news.a")),
    ]


def test_notifications_and_dispatches_and_their_failures(store: Any, heard: list[Event]) -> None:
    def fail(message: object) -> None:
        raise OSError("nobody listens")

    notifying: PersistentQueue[int] = PersistentQueue(
        "a", store=store, notification_policy=CallbackNotification(lambda message: None), hooks=heard.append
    )
    notifying.put(1)
    assert kinds(heard) == ["enqueued", "notified"]
    failing: PersistentQueue[int] = PersistentQueue(
        "b", store=store, notification_policy=CallbackNotification(fail), hooks=heard.append
    )
    with pytest.raises(OSError):
        failing.put(1)
    assert kinds(heard)[2:] == ["enqueued", "notification_failed"]
    assert heard[-1].error is not None and heard[-1].error["message"] == "nobody listens"
    dispatching: PersistentQueue[int] = PersistentQueue(
        "c", store=store, dispatch_policy=CallbackDispatcher((fail,)), hooks=heard.append
    )
    with pytest.raises(OSError):
        dispatching.put(1)
    assert kinds(heard)[4:] == ["enqueued", "dispatch_failed"]
    assert failing.qsize() == 1


def test_a_worker_can_tell_of_a_retry(store: Any, heard: list[Event]) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=heard.append)
    queue.put(1)
    message = queue.get_message(leased_by="w")
    queue.emit("retried", message, error=ValueError("again"), delay=3.0)
    retried = heard[-1]
    assert (retried.type, retried.attempt, retried.worker) == ("retried", 1, "w")
    assert retried.error is not None and retried.error["message"] == "again"
    assert retried.data["delay"] == 3.0
    PersistentQueue("jobs", store=store).emit("retried", message)


def test_a_hook_that_fails_is_logged_and_nothing_else(
    store: Any, heard: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: Event) -> None:
        raise RuntimeError(f"can not take {event.type}")

    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=[fail, heard.append])
    with caplog.at_level(logging.ERROR, "localqueue.events"):
        message = queue.put(1)
        assert queue.ack(queue.get_message())
    assert kinds(heard) == ["enqueued", "leased", "acked"]
    assert len(caplog.records) == 3
    assert message.id in caplog.records[0].getMessage() and "can not take enqueued" in caplog.text


def test_a_hook_fires_after_the_commit(store: Any) -> None:
    seen: list[int] = []
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store)
    queue.add_hook(lambda event: seen.append(queue.stats().total))
    queue.put(1)
    queue.ack(queue.get_message())
    assert seen == [1, 1, 0]


def test_the_logging_hook_writes_one_line_with_fields(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tests.queue")
    hook = LoggingHook(logger, logging.DEBUG, levels={"leased": None})
    queue: PersistentQueue[int] = PersistentQueue("jobs", store=store, hooks=hook)
    with caplog.at_level(logging.DEBUG, "tests.queue"):
        message = queue.put(1)
        queue.dead_letter(queue.get_message(leased_by="w"), error=ValueError("two\nlines"))
    put, dead = caplog.records
    assert put.getMessage() == f"enqueued queue=jobs message={message.id}"
    assert (put.levelno, dead.levelno) == (logging.DEBUG, logging.WARNING)
    assert (vars(dead)["event"], vars(dead)["queue"], vars(dead)["worker"]) == ("dead_lettered", "jobs", "w")
    assert vars(dead)["error"]["message"] == "two\nlines"
    assert "\n" not in dead.getMessage()


def test_the_journal_of_one_queue_is_read_through_it(store: Any) -> None:
    store.enable_journal()
    jobs: PersistentQueue[int] = PersistentQueue("jobs", store=store)
    other: PersistentQueue[int] = PersistentQueue("other", store=store)
    jobs.put(1)
    other.put(2)
    jobs.put(3)
    assert [event.payload for event in jobs.events()] == ["1", "3"]
    assert [event.payload for event in jobs.events(after=1, limit=1)] == ["3"]
    with pytest.raises(ValueError):
        jobs.events(limit=-1)
