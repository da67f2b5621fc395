"""What a notification promises: it wakes, it takes nothing, and nobody depends on it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from localqueue.contracts.steps import MOMENT, PATIENCE, Background
from localqueue.policies import NotificationPolicy
from localqueue.queue import PersistentQueue
from localqueue.stores.port import QueueStore
from localqueue.stores.sqlite import MemoryQueueStore


class _Witness:
    """Passes notifications on, and looks into the store at that moment."""

    def __init__(self, policy: NotificationPolicy, store: QueueStore) -> None:
        self._policy = policy
        self._store = store
        self.notifies = policy.notifies
        self.notifies_on_put = True
        self.saw: list[bool] = []

    def notify(self, message: Any) -> None:
        self.saw.append(self._store.get(message.queue, message.id) is not None)
        self._policy.notify(message)

    def as_dict(self) -> dict[str, Any]:
        return self._policy.as_dict()


class NotificationContract:
    """What every notification policy promises. Subclass it as `Test...` and provide the fixture `policy`."""

    @pytest.fixture
    def policy(self) -> Any:
        raise NotImplementedError("a subclass of NotificationContract provides the fixture `policy`")

    @pytest.fixture
    def shared(self) -> Iterator[QueueStore]:
        with MemoryQueueStore() as store:
            yield store

    @pytest.fixture
    def queue(self, policy: Any, shared: QueueStore) -> Iterator[PersistentQueue[Any]]:
        with PersistentQueue[Any]("jobs", store=shared, notification_policy=policy) as queue:
            yield queue

    def test_it_prints_what_it_does(self, policy: Any) -> None:
        printed = json.loads(json.dumps(policy.as_dict()))
        assert printed["notifies"] is policy.notifies
        assert printed["notifies_on_put"] is policy.notifies_on_put

    def test_the_queue_advertises_it(self, queue: PersistentQueue[Any], policy: Any) -> None:
        assert queue.notification_policy is policy
        assert queue.semantics.notifications is policy.notifies

    def test_a_message_is_stored_before_it_is_told_of(self, policy: Any, shared: QueueStore) -> None:
        witness = _Witness(policy, shared)
        with PersistentQueue[Any]("jobs", store=shared, notification_policy=witness) as queue:
            queue.put("x")
            queue.put("later", delay=60)
            queue.put_many(["y", "z"])
        assert witness.saw == [True] * 4

    def test_it_takes_no_message(self, queue: PersistentQueue[Any]) -> None:
        queue.put_many(range(3))
        for expected in range(3):
            message = queue.get_message(block=False)
            assert message.value == expected and message.attempts == 1
            assert queue.ack(message)

    def test_many_threads_may_notify_at_once(self, queue: PersistentQueue[Any]) -> None:
        threads = Background()
        for _ in range(4):
            threads.start(_put_each, queue, range(10))
        threads.join()
        assert queue.qsize() == 40

    def test_a_waiting_consumer_sees_a_put(self, queue: PersistentQueue[Any]) -> None:
        woken: list[bool] = []
        threads = Background()
        threads.start(lambda: woken.append(queue.wait_for_notification(PATIENCE)))
        queue.put("x")
        threads.join()
        assert woken == [True]
        assert queue.get_nowait() == "x"

    def test_a_waiting_consumer_sees_what_was_there_before(self, queue: PersistentQueue[Any]) -> None:
        queue.put("x")
        assert queue.wait_for_notification(0) is True

    def test_a_waiting_consumer_sees_what_nobody_told_it(self, queue: PersistentQueue[Any], shared: QueueStore) -> None:
        """A put through another queue object, as from another process, and the end of a lease."""
        quiet: PersistentQueue[Any] = PersistentQueue("jobs", store=shared, lease_timeout=0.05)
        assert queue.wait_for_notification(0) is False
        quiet.put("x")
        assert queue.wait_for_notification(PATIENCE)
        assert quiet.get_message(block=False).value == "x"
        assert queue.wait_for_notification(PATIENCE)
        assert queue.get_nowait() == "x"

    def test_a_consumer_waits_no_longer_than_it_said(self, queue: PersistentQueue[Any]) -> None:
        assert queue.wait_for_notification(MOMENT) is False
        assert queue.wait_for_notification(0) is False

    def test_a_waiting_coroutine_sees_a_put(self, queue: PersistentQueue[Any]) -> None:
        async def main() -> bool:
            waiting = asyncio.create_task(queue.wait_for_notification_async(PATIENCE))
            await asyncio.to_thread(queue.put, "x")
            return await waiting

        assert asyncio.run(main()) is True
        assert queue.get_nowait() == "x"


class WaitableNotificationContract(NotificationContract):
    """For a policy with `wait(timeout)` and `clear()`."""

    def test_nothing_is_told_before_the_first_notification(self, policy: Any) -> None:
        assert policy.wait(MOMENT) is False

    def test_a_notification_ends_the_wait_of_every_thread(self, policy: Any) -> None:
        woken: list[bool] = []
        threads = Background()
        for _ in range(3):
            threads.start(lambda: woken.append(policy.wait(PATIENCE)))
        policy.notify(None)
        threads.join()
        assert woken == [True] * 3

    def test_a_notification_before_the_wait_is_kept(self, policy: Any) -> None:
        policy.notify(None)
        policy.notify(None)
        assert policy.wait(PATIENCE) is True

    def test_a_cleared_notification_is_waited_for_again(self, policy: Any) -> None:
        policy.notify(None)
        assert policy.wait(PATIENCE)
        policy.clear()
        assert policy.wait(MOMENT) is False
        policy.notify(None)
        assert policy.wait(PATIENCE) is True

    def test_clearing_before_the_look_loses_no_wake_up(self, queue: PersistentQueue[Any], policy: Any) -> None:
        """A consumer that clears, looks and then waits takes everything, however the puts fall in between."""
        taken: list[Any] = []

        def consume() -> None:
            while len(taken) < 100:
                policy.clear()
                found = queue.get_messages(100, block=False) if queue.qsize() else []
                taken.extend(message.value for message in found)
                if not found:
                    assert policy.wait(PATIENCE), "a wake-up was lost"

        threads = Background()
        threads.start(consume)
        for n in range(100):
            queue.put(n)
        threads.join()
        assert taken == list(range(100))

    def test_two_consumers_share_it_and_both_are_woken(self, queue: PersistentQueue[Any]) -> None:
        """Each holds on to the first message it gets, so both messages are taken only if both are woken."""
        both = threading.Barrier(2, timeout=PATIENCE)

        def consume() -> None:
            with queue.work_wait() as work:
                while not queue.qsize():
                    assert work.wait(PATIENCE)
                message = queue.get_message(timeout=PATIENCE)
                both.wait()
                assert queue.ack(message)

        threads = Background()
        threads.start(consume)
        threads.start(consume)
        queue.put_many(["x", "y"])
        threads.join()
        assert queue.stats().total == 0


class AsyncNotificationContract(NotificationContract):
    """For a policy with `wait_async(timeout)` and `clear()`."""

    def test_no_coroutine_is_told_before_the_first_notification(self, policy: Any) -> None:
        assert asyncio.run(policy.wait_async(MOMENT)) is False
        assert asyncio.run(policy.wait_async(0)) is False

    def test_a_notification_from_any_thread_wakes_every_coroutine(self, policy: Any) -> None:
        async def main() -> list[Any]:
            waiting = [asyncio.create_task(policy.wait_async(PATIENCE)) for _ in range(3)]
            await asyncio.sleep(0)
            await asyncio.to_thread(policy.notify, None)
            return await asyncio.gather(*waiting)

        assert asyncio.run(main()) == [True] * 3

    def test_coroutines_of_several_event_loops_are_woken(self, policy: Any) -> None:
        waiting = threading.Barrier(3, timeout=PATIENCE)
        woken: list[bool] = []

        async def main() -> None:
            task = asyncio.create_task(policy.wait_async(PATIENCE))
            await asyncio.sleep(0)
            waiting.wait()
            woken.append(await task)

        threads = Background()
        threads.start(asyncio.run, main())
        threads.start(asyncio.run, main())
        waiting.wait()
        policy.notify(None)
        threads.join()
        assert woken == [True, True]

    def test_it_outlives_the_event_loop_it_was_used_on(self, policy: Any) -> None:
        assert asyncio.run(policy.wait_async(0)) is False
        policy.notify(None)
        assert asyncio.run(policy.wait_async(PATIENCE)) is True

    def test_a_cleared_notification_is_awaited_again(self, policy: Any) -> None:
        policy.notify(None)
        assert asyncio.run(policy.wait_async(PATIENCE))
        policy.clear()
        assert asyncio.run(policy.wait_async(MOMENT)) is False

    def test_a_cancelled_wait_leaves_the_others_alone(self, policy: Any) -> None:
        async def main() -> Any:
            given_up = asyncio.create_task(policy.wait_async(PATIENCE))
            waiting = asyncio.create_task(policy.wait_async(PATIENCE))
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            policy.notify(None)
            return await waiting

        assert asyncio.run(main()) is True

    def test_clearing_before_the_look_loses_no_wake_up_of_a_coroutine(
        self, queue: PersistentQueue[Any], policy: Any
    ) -> None:
        async def consume() -> list[Any]:
            taken: list[Any] = []
            while len(taken) < 100:
                policy.clear()
                found = queue.get_messages(100, block=False) if queue.qsize() else []
                taken.extend(message.value for message in found)
                if not found:
                    assert await policy.wait_async(PATIENCE), "a wake-up was lost"
            return taken

        threads = Background()
        threads.start(_put_each, queue, range(100))
        assert asyncio.run(consume()) == list(range(100))
        threads.join()


def _put_each(queue: PersistentQueue[Any], items: Iterable[Any]) -> None:
    for item in items:
        queue.put(item)
