"""A consumer is woken at once, loses no wake-up, and depends on none."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from localqueue import (
    AsyncNotification,
    CallbackNotification,
    InProcessNotification,
    MemoryQueueStore,
    NoNotification,
    PersistentQueue,
)
from localqueue.contracts.steps import MOMENT, PATIENCE, Background
from localqueue.errors import QueueStoreClosedError
from localqueue.queue.wait import WorkWait

POLICIES = [NoNotification, lambda: CallbackNotification(lambda m: None), InProcessNotification, AsyncNotification]


@pytest.fixture
def store() -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore() as opened:
        yield opened


@pytest.fixture(params=POLICIES, ids=["none", "callback", "thread event", "asyncio"])
def queue(request: pytest.FixtureRequest, store: MemoryQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, notification_policy=request.param())


def test_a_delayed_message_ends_the_wait_when_it_falls_due(queue: PersistentQueue[Any]) -> None:
    queue.put("x", delay=0.2)
    with queue.work_wait() as work:
        while queue.empty():
            assert work.wait(PATIENCE)
    assert queue.get_nowait() == "x"


def test_an_expired_lease_ends_the_wait(queue: PersistentQueue[Any], store: MemoryQueueStore) -> None:
    queue.put("x")
    PersistentQueue[Any]("jobs", store=store, lease_timeout=0.1).get_message()
    assert queue.wait_for_notification(PATIENCE)
    assert queue.get_nowait() == "x"


def test_a_wait_can_be_ended_from_another_thread(queue: PersistentQueue[Any]) -> None:
    ended: list[bool] = []
    threads = Background()
    with queue.work_wait() as work:
        threads.start(lambda: ended.append(work.wait()))
        work.wake()
        threads.join()
    assert ended == [False]


def test_a_wake_before_the_wait_ends_the_next_one_and_only_that(queue: PersistentQueue[Any]) -> None:
    with queue.work_wait() as work:
        work.wake()
        assert work.wait() is False
        queue.put("x")
        assert work.wait(PATIENCE) is True


def test_an_async_wait_can_be_ended_from_another_thread(queue: PersistentQueue[Any]) -> None:
    async def main() -> bool:
        with queue.work_wait() as work:
            waiting = asyncio.create_task(work.wait_async())
            await asyncio.sleep(0)
            await asyncio.to_thread(work.wake)
            return await waiting

    assert asyncio.run(main()) is False


def test_the_event_loop_runs_on_while_a_coroutine_waits(queue: PersistentQueue[Any]) -> None:
    async def main() -> tuple[bool, int]:
        waiting = asyncio.create_task(queue.wait_for_notification_async(PATIENCE))
        turns = 0
        while turns < 50:
            await asyncio.sleep(0.001)
            turns += 1
        assert not waiting.done()
        await asyncio.to_thread(queue.put, "x")
        return await waiting, turns

    assert asyncio.run(main()) == (True, 50)


class _SlowStore(MemoryQueueStore):
    """Listening blocks until it is let go, as on a disk that hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def listen(self, queues: Any, *, worker: str | None = None) -> Any:
        assert self.go_on.wait(PATIENCE)
        return super().listen(queues, worker=worker)


def test_a_hanging_store_does_not_hold_up_the_event_loop() -> None:
    async def main(queue: PersistentQueue[Any], store: _SlowStore) -> bool:
        waiting = asyncio.create_task(queue.wait_for_notification_async(PATIENCE))
        await asyncio.sleep(0.01)  # the loop turns although the store hangs
        assert not waiting.done()
        store.go_on.set()
        queue.put("x")
        return await waiting

    with _SlowStore() as store:
        assert asyncio.run(main(PersistentQueue("jobs", store=store), store))


def test_waiters_on_one_policy_do_not_take_each_others_wake_up(store: MemoryQueueStore) -> None:
    """One waiter clears and looks all the time; the other must still be woken by each put, and by nothing later."""
    policy = InProcessNotification()
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=policy)
    other: PersistentQueue[Any] = PersistentQueue("idle", store=store, notification_policy=policy)
    stop = threading.Event()

    def restless() -> None:
        with other.work_wait() as work:
            while not stop.is_set():
                work.wait(0.0001)

    threads = Background()
    threads.start(restless)
    threads.start(restless)
    with queue.work_wait() as work:
        for n in range(200):
            queue.put(n)
            assert work.wait(PATIENCE)
            queue.ack(queue.get_message(block=False))
    stop.set()
    threads.join()


def test_waiting_leaves_the_public_event_to_its_owner(store: MemoryQueueStore) -> None:
    policy = InProcessNotification()
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=policy)
    queue.put("x")
    assert queue.wait_for_notification(0)
    assert policy.event.is_set()


def test_a_closed_wait_listens_no_more(store: MemoryQueueStore) -> None:
    policy = InProcessNotification()
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=policy)
    work = queue.work_wait()
    work.wait(0)
    assert policy._listeners._callbacks
    work.close()
    work.close()
    assert policy._listeners._callbacks == ()


def test_a_policy_of_ones_own_may_wake_a_consumer(store: MemoryQueueStore) -> None:
    """A worker brings its own policy; it need not be the queue's."""
    own = InProcessNotification()
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    woken: list[bool] = []
    threads = Background()
    with WorkWait(queue, own) as work:
        threads.start(lambda: woken.append(work.wait(PATIENCE)))
        while not woken:
            own.notify(None)
            time.sleep(0)
        threads.join()
    assert woken == [True]


def test_a_queue_that_is_closed_can_not_be_waited_for(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    queue.close()
    with pytest.raises(QueueStoreClosedError):
        queue.wait_for_notification(MOMENT)


@pytest.mark.parametrize("timeout", [-1, "1"])
def test_a_timeout_is_a_number_of_seconds(queue: PersistentQueue[Any], timeout: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="'timeout' must be a non-negative number"):
        queue.wait_for_notification(timeout)
