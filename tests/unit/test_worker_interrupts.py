"""What ends a worker: an interrupt and a cancellation do, and cost no message."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tenacity import retry_if_exception_type

from localqueue import MemoryQueueStore, PersistentQueue, persistent_async_worker, persistent_worker
from localqueue.contracts.steps import Background
from localqueue.workers import AsyncWorker
from localqueue.workers.pump import Pump
from tests.unit.worker_ways import in_tasks, in_threads, in_threads_of_a_loop, in_time


@pytest.fixture
def queue() -> Iterator[PersistentQueue[Any]]:
    with MemoryQueueStore() as store:
        yield PersistentQueue("jobs", store=store)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BaseExceptionGroup("several", [KeyboardInterrupt()])], ids=repr)
@pytest.mark.parametrize("way", [in_threads, in_tasks, in_threads_of_a_loop])
def test_an_interrupt_ends_the_worker_and_loses_nothing(
    queue: PersistentQueue[Any], way: Callable[..., None], error: BaseException
) -> None:
    queue.put_many(["a", "poison", "b", "c", "d"])

    def handler(value: str) -> None:
        if value == "poison":
            raise error

    with pytest.raises(type(error)):
        way(queue, handler, concurrency=1, prefetch=5)
    left = queue.stats()
    assert (left.inflight, left.dead) == (1, 0), "the message that was interrupted is left to its lease"
    assert left.ready in (2, 3), "what was not started is given back, and what was done is settled"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BaseExceptionGroup("several", [KeyboardInterrupt()])], ids=repr)
def test_an_interrupt_gives_the_one_message_back(queue: PersistentQueue[Any], error: BaseException) -> None:
    queue.put("x")

    @persistent_worker(queue)
    def handle(value: str) -> None:
        raise error

    with pytest.raises(type(error)):
        handle()
    assert queue.get_message(block=False).tries == 2


def test_a_handler_that_cancels_its_own_task_has_failed(queue: PersistentQueue[Any]) -> None:
    queue.put_many(["poison", "a"])
    tries: list[str] = []

    async def handler(value: str) -> None:
        if value == "poison":
            tries.append(value)
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            await asyncio.sleep(0)

    in_time(AsyncWorker(queue, handler, wait=None).run_until_empty())
    (dead,) = queue.dead_letters()
    assert (len(tries), queue.stats().total) == (3, 1)
    assert dead.last_error is not None and dead.last_error["type"] == "CancelledError"


def test_a_run_that_is_cancelled_before_its_handlers_start_gives_their_messages_back(
    queue: PersistentQueue[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.put_many(range(3))
    spawn = Pump._spawn
    started: list[int] = []

    async def handler(value: int) -> None:
        started.append(value)

    async def main() -> None:
        def cancel_and_spawn(pump: Pump, spawning: Any) -> None:
            task.cancel()
            spawn(pump, spawning)

        monkeypatch.setattr(Pump, "_spawn", cancel_and_spawn)
        task = asyncio.create_task(AsyncWorker(queue, handler).run())
        with contextlib.suppress(asyncio.CancelledError):
            await task

    threads = Background()
    threads.start(lambda: asyncio.run(main()))
    threads.join()
    assert (started, queue.stats().ready) == ([], 3)


def test_a_worker_that_is_cancelled_is_cancelled_whatever_it_retries(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    tries: list[str] = []

    @persistent_async_worker(queue, wait=0, max_tries=2, retry=retry_if_exception_type(BaseException))
    async def handle(value: str) -> None:
        tries.append(value)
        await asyncio.sleep(3600)

    async def main() -> None:
        task = asyncio.create_task(handle())  # type: ignore[arg-type]
        while not tries:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_time(main())
    assert (tries, queue.stats().ready) == (["x"], 1)
