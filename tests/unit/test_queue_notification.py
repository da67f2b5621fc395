"""Seed 000's test plan: storage persists, notification wakes, dispatch calls; in that order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localqueue import (
    NO_NOTIFICATION,
    AsyncNotification,
    CallbackDispatcher,
    CallbackNotification,
    InProcessNotification,
    MemoryQueueStore,
    NoNotification,
    PersistentQueue,
    PushConsumption,
    QueueMessage,
    QueuePolicySet,
)
from localqueue.contracts.steps import PATIENCE


@pytest.fixture
def store() -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore() as opened:
        yield opened


def test_a_queue_is_quiet_by_default(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    assert isinstance(queue.notification_policy, NoNotification)
    assert not queue.notification_policy.notifies_on_put
    assert queue.semantics.notifications is False
    assert queue.put("x").state == "ready"


@pytest.mark.parametrize(
    ("policy", "notifies"),
    [
        (NO_NOTIFICATION, False),
        (CallbackNotification(print), True),
        (InProcessNotification(), True),
        (AsyncNotification(), True),
    ],
    ids=["none", "callback", "thread event", "asyncio"],
)
def test_semantics_say_whether_a_notification_is_configured(policy: Any, notifies: bool) -> None:
    assert PersistentQueue("jobs", notification_policy=policy).semantics.notifications is notifies
    assert PersistentQueue("jobs", policy_set=QueuePolicySet(notification_policy=policy)).semantics.notifications is (
        notifies
    )


def test_a_notification_promises_nothing_beyond_this_process() -> None:
    assert CallbackNotification(print).as_dict()["scope"] == "in-process"
    assert InProcessNotification().as_dict()["scope"] == "in-process"


@pytest.mark.parametrize("put", ["put", "put with options", "put_many", "transaction"])
def test_a_message_is_stored_before_anybody_is_notified(store: MemoryQueueStore, put: str) -> None:
    """Another object that reads the store inside the callback already sees the message."""
    reader: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    seen: list[QueueMessage[Any] | None] = []
    told: list[QueueMessage[Any]] = []

    def look(message: QueueMessage[Any]) -> None:
        told.append(message)
        seen.append(reader.inspect(message.id))

    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=CallbackNotification(look))
    if put == "put":
        queue.put("x")
    elif put == "put with options":
        queue.put("x", delay=5, headers={"h": "1"})
    elif put == "put_many":
        queue.put_many(["x", "y"])
    else:
        with queue.transaction() as transaction:
            transaction.put("x")
            assert told == []
    assert [m.value for m in told] == (["x", "y"] if put == "put_many" else ["x"])
    assert seen == told


def test_notification_runs_before_dispatch(store: MemoryQueueStore) -> None:
    order: list[str] = []
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        store=store,
        consumption_policy=PushConsumption(),
        notification_policy=CallbackNotification(lambda m: order.append(f"notified of {m.value}")),
        dispatch_policy=CallbackDispatcher((lambda m: order.append(f"dispatched {m.value}"),)),
    )
    queue.put("x")
    assert order == ["notified of x", "dispatched x"]


def test_a_failing_notification_reaches_the_caller_and_the_message_stays(store: MemoryQueueStore) -> None:
    dispatched: list[Any] = []

    def fail(message: Any) -> None:
        raise ConnectionError("nobody there")

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        store=store,
        notification_policy=CallbackNotification(fail),
        dispatch_policy=CallbackDispatcher((dispatched.append,)),
    )
    with pytest.raises(ConnectionError, match="nobody there"):
        queue.put("x")
    assert dispatched == []
    assert queue.get_nowait() == "x"


def test_a_failing_notification_does_not_keep_the_other_messages_of_a_batch_from_being_told(
    store: MemoryQueueStore,
) -> None:
    told: list[Any] = []

    def fail_on_the_second(message: QueueMessage[Any]) -> None:
        if message.value == 2:
            raise ConnectionError("nobody there")
        told.append(message.value)

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, notification_policy=CallbackNotification(fail_on_the_second)
    )
    with pytest.raises(ConnectionError, match="nobody there"):
        queue.put_many([1, 2, 3])
    assert told == [1, 3]
    assert queue.qsize() == 3


def test_a_policy_set_and_the_constructor_can_not_both_name_a_notification() -> None:
    with pytest.raises(
        ValueError, match=r"^pass either notification_policy= or policy_set.notification_policy, not both$"
    ):
        PersistentQueue(
            "jobs",
            policy_set=QueuePolicySet(notification_policy=InProcessNotification()),
            notification_policy=InProcessNotification(),
        )


def test_a_failing_handler_reaches_the_caller_and_the_message_stays(store: MemoryQueueStore) -> None:
    notified: list[Any] = []

    def fail(message: Any) -> None:
        raise ConnectionError("broken handler")

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs",
        store=store,
        notification_policy=CallbackNotification(notified.append),
        dispatch_policy=CallbackDispatcher((fail,)),
    )
    with pytest.raises(ConnectionError, match="broken handler"):
        queue.put("x")
    assert len(notified) == 1
    assert queue.qsize() == 1


def test_a_callback_receives_the_stored_message(store: MemoryQueueStore) -> None:
    told: list[Any] = []
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, notification_policy=CallbackNotification([told.append, told.append])
    )
    put = queue.put({"n": 1}, headers={"h": "1"})
    assert told == [put, put]
    assert queue.get_message(block=False).id == put.id


def test_a_failed_put_notifies_nobody(store: MemoryQueueStore) -> None:
    told: list[Any] = []
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, maxsize=1, notification_policy=CallbackNotification(told.append)
    )
    queue.put("x")
    with pytest.raises(Exception, match="full"):
        queue.put_nowait("y")
    with pytest.raises(ValueError):
        queue.put({1})
    assert len(told) == 1


def test_the_thread_event_is_set_by_a_put_and_cleared_by_the_consumer(store: MemoryQueueStore) -> None:
    wake = InProcessNotification()
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=wake)
    assert wake.wait(0) is False
    queue.put("x")
    assert wake.wait(0) is True
    wake.clear()
    assert wake.wait(0) is False
    assert queue.get_nowait() == "x"


def test_a_thread_that_waits_for_the_event_gets_the_message(store: MemoryQueueStore) -> None:
    wake = InProcessNotification()
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=wake)
    got: list[Any] = []

    def consume() -> None:
        if wake.wait(PATIENCE):
            got.append(queue.get_nowait())

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    queue.put("x")
    thread.join(PATIENCE)
    assert got == ["x"]


def test_a_handler_may_settle_what_it_was_called_for(store: MemoryQueueStore) -> None:
    """Local push: the handler leases from the store like any consumer, so leases and retries stay in one place."""
    done: list[Any] = []

    def handle(message: Any) -> None:
        leased = queue.get_message(block=False)
        done.append(leased.value)
        assert queue.ack(leased)

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, consumption_policy=PushConsumption(), dispatch_policy=CallbackDispatcher((handle,))
    )
    queue.put("x")
    queue.put_many(["y", "z"])
    assert done == ["x", "y", "z"]
    assert queue.stats().total == 0
