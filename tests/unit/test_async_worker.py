"""An async worker keeps the promises of a worker, with tasks of the event loop for handlers."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_fixed

from localqueue import AsyncNotification, AtMostOnceDelivery, MemoryQueueStore, PersistentQueue
from localqueue.contracts import FakeClock
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreClosedError
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, QueueStore
from localqueue.workers import AsyncWorker, current_job
from tests.unit.worker_steps import STORES, Log, is_leased_anew, open_store

pytestmark = pytest.mark.by_turns


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueStore]:
    opened = open_store(request.param, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def queue(store: QueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


@pytest.fixture
def quick() -> Iterator[PersistentQueue[Any]]:
    """A queue for what does not depend on the store."""
    with MemoryQueueStore() as store:
        yield PersistentQueue("jobs", store=store)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def in_time() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await work

    return asyncio.run(in_time())


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)


async def nothing(value: Any) -> None: ...


def test_a_hundred_handlers_that_wait_run_at_the_same_time(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(100))
    running = most = 0

    async def handler(value: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)
        await until(lambda: most == 100)
        running -= 1

    counts = run(AsyncWorker(queue, handler, concurrency=100).run_until_empty())
    assert (counts.acked, most) == (100, 100)


def test_no_more_handlers_run_than_allowed(quick: PersistentQueue[Any]) -> None:
    quick.put_many(range(30))
    running = most = 0

    async def handler(value: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    run(AsyncWorker(quick, handler, concurrency=3, prefetch=5).run_until_empty())
    assert most == 3


def test_run_until_empty_also_handles_what_handlers_and_observers_put(queue: PersistentQueue[Any]) -> None:
    seen: list[int] = []

    async def handler(value: int) -> None:
        seen.append(value)
        if value < 5:
            current_job().put(value + 1)

    def settled(one: Any) -> None:
        if one.message.value == 5:
            queue.put(100)

    queue.put(0)
    counts = run(AsyncWorker(queue, handler, on_settled=settled).run_until_empty())
    assert (seen, counts.acked) == ([0, 1, 2, 3, 4, 5, 100], 7)


def test_run_until_empty_leaves_delayed_messages_unless_asked_to_wait(queue: PersistentQueue[Any]) -> None:
    worker = AsyncWorker(queue, nothing)
    much_later = queue.put("much later", delay=3600)
    assert run(worker.run_until_empty()).total == 0
    queue.cancel(much_later)
    queue.put("later", delay=0.3)
    assert run(worker.run_until_empty(wait_for_delayed=True)).acked == 1


def test_waiting_for_delayed_messages_ends_when_somebody_else_takes_them(quick: PersistentQueue[Any]) -> None:
    message = quick.put("later", delay=3600)

    async def main() -> None:
        worker = AsyncWorker(quick, nothing)
        task = asyncio.create_task(worker.run_until_empty(wait_for_delayed=True))
        await until(lambda: worker.worker_id in quick.stats().last_seen_by_worker_id)
        quick.cancel(message.id)
        await task

    run(main())


def test_messages_that_can_not_be_read_do_not_end_run_until_empty(quick: PersistentQueue[Any]) -> None:
    broken = [NewMessage(message_id, "jobs", "no json") for message_id in quick.store.mint(3)]
    quick.store.commit(Changes(enqueue=broken))
    quick.put("good")
    assert run(AsyncWorker(quick, nothing, concurrency=1).run_until_empty()).acked == 1
    assert quick.stats().dead == 3


def test_an_open_breaker_does_not_end_run_until_empty(quick: PersistentQueue[Any]) -> None:
    quick.put_many(range(4))
    failures = iter([True, True, False, False])

    async def handler(value: int) -> None:
        if next(failures):
            raise ValueError(value)

    options: dict[str, Any] = {"circuit_breaker_failures": 2, "circuit_breaker_cooldown": 0.2, "max_tries": 1}
    counts = run(AsyncWorker(quick, handler, concurrency=1, **options).run_until_empty())
    assert (counts.acked, counts.dead_lettered) == (2, 2)


def test_stop_finishes_what_runs_and_gives_back_the_rest(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(10))
    log = Log()

    async def main() -> None:
        started, free = asyncio.Event(), asyncio.Event()

        async def handler(value: int) -> None:
            started.set()
            await free.wait()

        worker = AsyncWorker(queue, handler, concurrency=2, prefetch=4, on_settled=log)
        task = asyncio.create_task(worker.run())
        await started.wait()
        await until(lambda: queue.stats().inflight == 6)
        worker.stop()
        await until(lambda: queue.stats().ready == 8)
        free.set()
        assert (await task).acked == 2

    run(main())
    assert sorted(log.states) == ["acked"] * 2 + ["released"] * 4
    again = queue.get_messages(8)
    assert [message.value for message in again] == list(range(2, 10))
    assert {message.tries for message in again} == {1}


def test_a_worker_that_was_stopped_before_it_ran_returns_at_once_and_then_runs(quick: PersistentQueue[Any]) -> None:
    quick.put("x")
    worker = AsyncWorker(quick, nothing)
    worker.stop()
    assert run(worker.run()).total == 0
    assert run(worker.run_until_empty()).acked == 1


def test_a_handler_may_stop_the_worker(quick: PersistentQueue[Any]) -> None:
    quick.put_many(range(3))

    async def handler(value: int) -> None:
        worker.stop()

    worker = AsyncWorker(quick, handler, concurrency=1)
    assert run(worker.run()).acked == 1
    assert quick.stats().ready == 2


def test_a_run_that_is_cancelled_cancels_its_handlers_and_gives_the_messages_back(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(5))
    cancelled: list[int] = []

    async def main() -> None:
        started = asyncio.Event()

        async def handler(value: int) -> None:
            started.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append(value)
                raise

        task = asyncio.create_task(AsyncWorker(queue, handler, concurrency=3).run())
        await started.wait()
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert queue.stats().ready == 5

    run(main())
    assert set(cancelled) <= {0, 1, 2}


def test_the_end_of_the_loop_gives_the_messages_back(quick: PersistentQueue[Any]) -> None:
    quick.put_many(range(3))

    async def main() -> None:
        started = asyncio.Event()

        async def handler(value: int) -> None:
            started.set()
            await asyncio.sleep(3600)

        task = asyncio.create_task(AsyncWorker(quick, handler).run())
        await started.wait()
        assert not task.done()

    asyncio.run(main())
    assert quick.stats().ready == 3


def test_shutdown_timeout_cancels_handlers(quick: PersistentQueue[Any]) -> None:
    quick.put("x")

    async def handler(value: str) -> None:
        worker.stop()
        await asyncio.sleep(3600)

    worker = AsyncWorker(quick, handler, shutdown_timeout=0.05)
    assert run(worker.run()).released == 1
    assert quick.get_message().tries == 2


@pytest.mark.slow
def test_a_handler_that_refuses_to_be_cancelled_does_not_keep_the_worker(quick: PersistentQueue[Any]) -> None:
    quick.put("x")

    async def main() -> None:
        free = asyncio.Event()

        async def handler(value: str) -> None:
            worker.stop()
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    continue

        worker = AsyncWorker(quick, handler, shutdown_timeout=0.05)
        await worker.run()
        free.set()

    run(main())
    assert quick.stats().inflight == 1


def test_failures_are_retried_and_end_as_dead_letters(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    calls = 0

    async def handler(value: str) -> None:
        nonlocal calls
        calls += 1
        raise ValueError("no")

    counts = run(AsyncWorker(queue, handler, wait=None).run_until_empty())
    assert (calls, counts.released, counts.dead_lettered) == (3, 2, 1)


def test_between_tries_the_message_is_delayed_in_the_store() -> None:
    clock = FakeClock()
    with MemoryQueueStore(clock=clock) as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        message = queue.put("x")

        async def handler(value: str) -> None:
            raise ValueError("no")

        run(AsyncWorker(queue, handler, wait=wait_fixed(60)).run_until_empty())
        found = store.get("jobs", message.id)
        assert found is not None and (found.state, found.available_at) == ("delayed", clock() + 60)


def test_a_handler_that_takes_too_long_is_cancelled(quick: PersistentQueue[Any]) -> None:
    quick.put("x")
    cancelled: list[str] = []

    async def handler(value: str) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(value)
            raise

    run(AsyncWorker(quick, handler, timeout=0.05, max_tries=1).run_until_empty())
    (dead,) = quick.dead_letters()
    assert (cancelled, (dead.last_error or {})["type"]) == (["x"], "TimeoutError")
    assert "within 0.05 seconds" in (dead.last_error or {})["message"]


def test_a_timeout_of_the_handlers_own_is_its_own(quick: PersistentQueue[Any]) -> None:
    quick.put("x")

    async def handler(value: str) -> None:
        raise TimeoutError("the service is slow")

    run(AsyncWorker(quick, handler, timeout=60, max_tries=1).run_until_empty())
    (dead,) = quick.dead_letters()
    assert (dead.last_error or {})["message"] == "the service is slow"


def test_a_handler_that_raises_cancelled_error_by_itself_has_failed(quick: PersistentQueue[Any]) -> None:
    quick.put("x")

    async def handler(value: str) -> None:
        raise asyncio.CancelledError

    counts = run(AsyncWorker(quick, handler, wait=None).run_until_empty())
    assert (counts.released, counts.dead_lettered) == (2, 1)


@pytest.mark.parametrize("kind", STORES)
def test_leases_are_renewed_while_a_handler_waits(kind: str, tmp_path: Path) -> None:
    clock, log = FakeClock(), Log()
    with open_store(kind, tmp_path, clock=clock) as store:
        short = PersistentQueue[Any]("jobs", store=store, lease_timeout=0.2)
        short.put("x")

        async def handler(value: str) -> None:
            message = current_job().message
            for _ in range(4):
                clock.advance(0.15)
                while not await asyncio.to_thread(is_leased_anew, short, message.id, clock):
                    await asyncio.sleep(0.01)

        run(AsyncWorker(short, handler, on_settled=log).run_until_empty())
    assert [(one.state, one.message.tries) for one in log.settled] == [("acked", 1)]


@pytest.mark.parametrize("kind", STORES)
def test_a_handler_whose_lease_is_lost_is_cancelled_and_nothing_is_settled(kind: str, tmp_path: Path) -> None:
    log = Log()
    lost: list[bool] = []
    with open_store(kind, tmp_path, clock=FakeClock()) as store:  # by which no lease runs out
        short = PersistentQueue[Any]("jobs", store=store, lease_timeout=0.3)
        message = short.put("x")

        async def main() -> None:
            started = asyncio.Event()

            async def handler(value: str) -> None:
                started.set()
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    lost.append(current_job().lost)
                    raise

            worker = AsyncWorker(short, handler, on_settled=log)
            task = asyncio.create_task(worker.run())
            await started.wait()
            short.pause()
            short.release(message.id)
            await until(lambda: log.states)
            worker.stop()
            await task

        run(main())
        assert (lost, log.states) == ([True], ["lost"])
        short.resume()
        assert short.get_message().tries == 2


def test_at_most_once_handlers_outlive_any_lease(quick: PersistentQueue[Any]) -> None:
    queue = PersistentQueue[Any]("once", store=quick.store, delivery_policy=AtMostOnceDelivery())
    queue.put_many(range(3))
    done: list[int] = []

    async def handler(value: int) -> None:
        worker.stop()
        await asyncio.sleep(0.05)
        done.append(value)

    worker = AsyncWorker(queue, handler, concurrency=2, prefetch=5)
    while queue.stats().ready:
        run(worker.run())
    assert sorted(done) == [0, 1, 2]


def test_a_plain_function_runs_in_a_thread(quick: PersistentQueue[Any]) -> None:
    quick.put_many(range(4))
    meeting = threading.Barrier(4)
    threads: set[int] = set()

    def handler(value: int) -> None:
        assert current_job().message.value == value
        threads.add(threading.get_ident())
        meeting.wait(PATIENCE)

    assert run(AsyncWorker(quick, handler, concurrency=4).run_until_empty()).acked == 4
    assert len(threads) == 4 and threading.get_ident() not in threads


def test_a_plain_function_that_returns_an_awaitable_has_it_awaited(quick: PersistentQueue[Any]) -> None:
    quick.put_many([1, 2])
    seen: list[int] = []

    async def work(value: int) -> int:
        seen.append(value)
        return value

    log = Log()
    for handler in (lambda value: work(value), functools.partial(work)):
        run(AsyncWorker(quick, handler, concurrency=1, on_settled=log).run_until_empty())
        quick.put(3)
    assert (seen, [one.result for one in log.settled]) == ([1, 2, 3], [1, 2, 3])


def test_a_plain_function_that_hangs_takes_no_place_from_the_others(quick: PersistentQueue[Any]) -> None:
    quick.put_many(["stuck", "stuck", "a", "b"])
    free = threading.Event()

    def handler(value: str) -> None:
        if value == "stuck" and current_job().message.tries == 1:
            free.wait(PATIENCE)

    worker = AsyncWorker(quick, handler, concurrency=2, timeout=0.1, max_tries=100, wait=None)
    counts = run(worker.run_until_empty())  # where others than the stuck ones are too slow, they are tried again
    assert counts.acked == 4 and counts.released >= 2
    quick.put("stuck")
    assert run(AsyncWorker(quick, handler, timeout=0.1, max_tries=1).run_until_empty()).dead_lettered == 1
    free.set()


def test_a_plain_function_that_raises_stop_iteration_has_failed(quick: PersistentQueue[Any]) -> None:
    quick.put("x")
    empty: Iterator[int] = iter([])
    counts = run(AsyncWorker(quick, lambda value: next(empty), max_tries=1).run_until_empty())
    assert counts.dead_lettered == 1


def test_a_closed_store_raises_out_of_run(store: QueueStore, queue: PersistentQueue[Any]) -> None:
    async def main() -> None:
        worker = AsyncWorker(queue, nothing)
        task = asyncio.create_task(worker.run())
        await until(lambda: worker.worker_id in queue.stats().last_seen_by_worker_id)
        store.close()
        with pytest.raises(QueueStoreClosedError):
            await task

    run(main())


@pytest.mark.parametrize("own", [True, False])
def test_a_put_wakes_the_worker_and_the_rest_is_seen_without_being_told(store: QueueStore, own: bool) -> None:
    policy = AsyncNotification()
    told = PersistentQueue[Any]("jobs", store=store, notification_policy=policy)
    silent = PersistentQueue[Any]("jobs", store=store)
    log = Log()

    async def main() -> None:
        options: dict[str, Any] = {"notification_policy": policy} if own else {}
        worker = AsyncWorker(silent if own else told, nothing, on_settled=log, **options)
        task = asyncio.create_task(worker.run())
        await until(lambda: worker.worker_id in silent.stats().last_seen_by_worker_id)
        for number in range(10):
            told.put(number)
            await until(lambda: len(log.settled) > number)  # noqa: B023
        silent.put("silent")
        silent.put("delayed", delay=0.2)
        await until(lambda: len(log.settled) == 12)
        silent.pause()
        silent.put("left by somebody who died")
        silent.resume()
        store.lease(LeaseRequest("jobs", 1, 0.2, "somebody who died"))
        await until(lambda: len(log.settled) == 13)
        worker.stop()
        await task

    run(main())


def test_signal_handlers_are_put_back(quick: PersistentQueue[Any]) -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        mine = signal.getsignal(signal.SIGTERM)
        asyncio.run(AsyncWorker(quick, nothing).run_until_empty())
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
