"""A queue for coroutines: it does what the queue does, and blocks no event loop for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Empty, Full
from typing import Any

import pytest

from localqueue import AsyncQueue, LeaseLost, PersistentQueue, QueueMessage
from localqueue.contracts.steps import MOMENT, PATIENCE
from localqueue.errors import JobFailed, QueueStoreClosedError, ResultTimeout
from localqueue.policies import AtMostOnceDelivery, Throttling
from tests.stores import OPENERS, SHARED, new_place

pytestmark = pytest.mark.by_turns

LOCAL = ("memory", "sqlite", "lmdb")
FEW = 40  # threads: those of two stores and of the drivers


class Recorded:
    """A store, or a waiter of one, that notes in which threads it is called."""

    def __init__(self, inner: Any, threads: dict[int, set[str]]) -> None:
        self._inner, self._threads = inner, threads

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def noted(*arguments: Any, **options: Any) -> Any:
            self._threads.setdefault(threading.get_ident(), set()).add(name)
            result = found(*arguments, **options)
            return Recorded(result, self._threads) if name.startswith("listen") else result

        return noted

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@pytest.fixture(params=list(OPENERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with new_place(request.param, tmp_path).open() as opened:
        yield opened


@pytest.fixture(params=list(OPENERS))
def each_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """All of them, where it is the store that wakes."""
    with new_place(request.param, tmp_path).open() as opened:
        yield opened


@pytest.fixture(params=LOCAL)
def local_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with new_place(request.param, tmp_path).open() as opened:
        yield opened


def run(program: Callable[[], Awaitable[None]], *, debug: bool = True) -> None:
    async def within() -> None:
        async with asyncio.timeout(PATIENCE):
            await program()

    asyncio.run(within(), debug=debug)


@asynccontextmanager
async def waiting_tasks(count: int, call: Callable[[], Awaitable[Any]]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    tasks = [asyncio.ensure_future(call()) for _ in range(count)]
    await resting(tasks)
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def resting(tasks: list[Any]) -> None:
    """After a moment in which these tasks have got as far as they get."""
    await asyncio.sleep(MOMENT)
    assert tasks


def test_every_call_does_what_it_does_on_the_queue(store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[Any]("jobs", store=store) as queue:
            put = await queue.put({"n": 1}, headers={"a": "b"})
            await queue.put_many(["two", "three", "four"])
            assert await queue.qsize() == 4

            first = await queue.get_message(timeout=PATIENCE, leased_by="me")
            assert (first.id, first.value, first.leased_by) == (put.id, {"n": 1}, "me")
            renewed = await queue.renew(first, timeout=100)
            assert renewed is not None
            assert await queue.ack(renewed)
            assert not await queue.ack(renewed)

            rest = await queue.get_messages(5)
            assert [one.value for one in rest] == ["two", "three", "four"]
            assert await queue.release(rest[0], delay=100)
            assert await queue.dead_letter(rest[1], error="broken")
            assert await queue.cancel(rest[2])
            stats = await queue.stats()
            assert (stats.total, stats.dead) == (3, 1)
            assert await queue.ack_many([message.id for message in rest]) == [True, True, True]

            await queue.put("five")
            assert await queue.get() == "five"
            assert await queue.task_done()

    run(program)


def test_the_store_is_never_called_on_the_thread_of_the_loop(store: Any) -> None:
    threads: dict[int, set[str]] = {}
    recorded: Any = Recorded(store, threads)

    async def program() -> None:
        async with AsyncQueue[Any]("jobs", store=recorded, maxsize=1) as queue:
            getting = asyncio.ensure_future(queue.get_message())
            await resting([getting])
            await queue.put(1)
            message = await getting
            await queue.renew(message)
            async with queue.transaction() as tx:
                tx.ack(message)
                tx.put(2)
            putting = asyncio.ensure_future(queue.put(3))
            await resting([putting])
            await queue.ack(await queue.get_message())
            await putting
            await queue.stats()
            with pytest.raises(Full):
                await queue.put(4, timeout=0.01)
        async with AsyncQueue[Any]("slow", store=recorded, backpressure=Throttling(1, 0.001, 0.01)) as queue:
            await queue.put_many([1, 2])
            await queue.put(3)
            with pytest.raises(Empty):
                async for message in queue:
                    await queue.ack(message)
                    await queue.get_message(timeout=0.01, leased_by="other") if message.value == 3 else None
        assert threads.get(threading.get_ident(), set()) <= {"async_calls"}, "a call may block"
        assert len(threads) <= store.calls_at_once

    run(program)


def test_a_call_that_waits_long_for_the_store_does_not_stop_the_loop(tmp_path: Path) -> None:
    beats, locked = 0, threading.Event()

    async def program() -> None:
        nonlocal beats
        with new_place("sqlite", tmp_path).open() as other, new_place("sqlite", tmp_path).open() as store:
            free = threading.Event()

            def hold(execute: Any, now: float) -> None:
                locked.set()
                free.wait(PATIENCE)

            holder = threading.Thread(target=other._writer.run, args=(hold,))
            holder.start()
            async with AsyncQueue[int]("jobs", store=store) as queue:
                await asyncio.to_thread(locked.wait, PATIENCE)
                put = asyncio.ensure_future(queue.put(1))
                while beats < 20:
                    await asyncio.sleep(0.001)
                    beats += 1
                assert not put.done()
                free.set()
                assert (await put).value == 1
            holder.join()

    run(program)


@pytest.mark.slow
def test_a_thousand_who_wait_cost_a_few_threads_and_each_put_wakes_one(each_store: Any) -> None:
    before = set(threading.enumerate())  # of tests that ran here earlier, too

    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=each_store) as queue:
            got: asyncio.Queue[QueueMessage[int]] = asyncio.Queue()

            async def consume() -> None:
                got.put_nowait(await queue.get_message())

            async with waiting_tasks(1000, consume) as tasks:
                assert len(set(threading.enumerate()) - before) < FEW
                await queue.put(-1)
                assert (await got.get()).value == -1
                await resting(tasks)
                assert sum(task.done() for task in tasks) == 1
                for start in range(0, 999, 111):
                    await queue.put_many(range(start, start + 111))
                await asyncio.gather(*tasks)
                messages = [got.get_nowait() for _ in range(got.qsize())]
            assert sorted(message.value for message in messages) == list(range(999))
            assert {message.attempts for message in messages} == {1}
            assert len(set(threading.enumerate()) - before) < FEW
            assert await queue.qsize() == 0

    run(program, debug=False)  # which would note the stack of each of the thousand, again and again


def test_those_who_wait_are_served_in_the_order_they_came(local_store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=local_store) as queue:
            tasks = []
            for _ in range(5):
                tasks.append(asyncio.ensure_future(queue.get()))
                await asyncio.sleep(0)
            for n in range(5):
                await queue.put(n)
            assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]

    run(program)


@pytest.mark.parametrize("shared_kind", SHARED)
def test_a_put_at_another_store_object_wakes_who_waits(shared_kind: str, tmp_path: Path) -> None:
    place = new_place(shared_kind, tmp_path)

    async def program() -> None:
        with place.open() as here, place.open() as there:
            async with AsyncQueue[int]("jobs", store=here) as queue:
                getting = asyncio.ensure_future(queue.get())
                await resting([getting])
                await asyncio.to_thread(PersistentQueue("jobs", store=there).put, 7)
                assert await getting == 7

    run(program)


@pytest.mark.slow
def test_the_thread_that_looks_for_changes_of_others_ends_when_nobody_waits(tmp_path: Path) -> None:
    others = set(threading.enumerate())

    def lookers() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "localqueue-wake" and one not in others]

    async def program() -> None:
        with new_place("sqlite", tmp_path).open() as store:
            async with AsyncQueue[int]("jobs", store=store) as queue, waiting_tasks(50, queue.get_message):
                async with asyncio.timeout(PATIENCE):
                    while not lookers():
                        await asyncio.sleep(0.005)
                assert len(lookers()) == 1

    run(program)
    for thread in lookers():
        thread.join(PATIENCE)
    assert not lookers()


def test_a_delayed_message_wakes_who_waits_when_it_falls_due(each_store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[str]("jobs", store=each_store) as queue:
            await queue.put("later", delay=0.2)
            assert await queue.get() == "later"

    run(program)


def test_a_get_that_does_not_wait_finds_what_was_put_while_others_wait(store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store) as queue:
            async with waiting_tasks(3, queue.get):
                with pytest.raises(Empty):
                    await queue.get_message(block=False)
                with pytest.raises(Empty):
                    await queue.get_message(timeout=0.02)
            await queue.put(1)
            assert (await queue.get_message(block=False)).value == 1
            await queue.put(2)
            assert (await queue.get_message(timeout=0)).value == 2

    run(program)


def test_a_full_queue_is_waited_for_without_a_thread(store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store, maxsize=1) as queue:
            await queue.put(0)
            async with waiting_tasks(8, lambda: queue.put(1)) as tasks:
                assert not any(task.done() for task in tasks)
                for _ in range(9):
                    await queue.ack(await queue.get_message())
                await asyncio.gather(*tasks)
            await queue.put(0)
            with pytest.raises(Full):
                await queue.put(1, block=False)
            with pytest.raises(ValueError, match="can never fit"):
                await queue.put_many([1, 2])
            async with waiting_tasks(1, lambda: queue.put(1)):
                pass  # and cancelled
            assert await queue.get() == 0
            assert await queue.qsize() == 0

    run(program)


def test_a_result_is_waited_for_without_a_thread(store: Any) -> None:
    before = set(threading.enumerate())  # of tests that ran here earlier, too

    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=store, keep_results=60) as queue:
            message = await queue.put(20)
            waiting = await queue.status(message)
            assert waiting is not None
            assert waiting.state == "queued"
            with pytest.raises(ResultTimeout, match=r"0\.01 seconds"):
                await queue.result(message, timeout=0.01)
            async with waiting_tasks(100, lambda: queue.result(message.id)) as tasks:
                assert len(set(threading.enumerate()) - before) < FEW
                assert not any(task.done() for task in tasks)
                await queue.ack(await queue.get_message(), result=42)
                assert set(await asyncio.gather(*tasks)) == {42}
            failed = await queue.put(21)
            await queue.dead_letter(await queue.get_message(), error="broken")
            with pytest.raises(JobFailed):
                await queue.result(failed)

    run(program)


def test_a_transaction_is_committed_off_the_loop_or_not_at_all(store: Any) -> None:
    async def program() -> None:
        other = PersistentQueue[Any]("other", store=store)
        async with AsyncQueue[Any]("jobs", store=store) as queue:
            await queue.put("a")
            message = await queue.get_message()
            with pytest.raises(ZeroDivisionError):
                async with queue.transaction() as tx:
                    tx.ack(message)
                    tx.put(1 / 0)
            async with queue.transaction() as tx:
                first = tx.put("b", delay=0.0)
                last = tx.put("c", to=other, after=[first])
                tx.ack(message)
            assert first.id < last.id
            assert (await queue.stats()).total == 1
            with pytest.raises(LeaseLost):
                async with queue.transaction() as tx:
                    tx.ack(message)
                    tx.put("d")
            assert await queue.qsize() == 1

    run(program)


def test_a_loop_over_the_queue_leases_until_it_is_closed(local_store: Any) -> None:
    async def program() -> None:
        queue = AsyncQueue[int]("jobs", store=local_store)
        await queue.put_many([1, 2, 3])
        seen = []

        async def close_when_all_are_seen() -> None:
            while len(seen) < 3:
                await asyncio.sleep(0)
            await queue.aclose()

        closing = asyncio.ensure_future(close_when_all_are_seen())
        async for message in queue:
            await queue.ack(message)
            seen.append(message.value)
        assert seen == [1, 2, 3]
        await closing

    run(program)


def test_those_who_wait_are_told_that_the_queue_is_closed(local_store: Any) -> None:
    async def program() -> None:
        queue = AsyncQueue[int]("jobs", store=local_store)
        async with waiting_tasks(3, queue.get) as tasks:
            await queue.aclose()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(outcome, QueueStoreClosedError)
        with pytest.raises(QueueStoreClosedError, match="jobs"):
            await queue.put(1)

    run(program)


def test_those_who_wait_are_told_that_the_store_is_closed(local_store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=local_store) as queue, waiting_tasks(3, queue.get) as tasks:
            await asyncio.to_thread(local_store.close)
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(outcome, QueueStoreClosedError)

    run(program)


def test_a_queue_that_was_passed_in_stays_open_and_one_that_was_made_is_closed(tmp_path: Path) -> None:
    async def program() -> None:
        with PersistentQueue[int]("jobs", store_path=tmp_path / "jobs.db") as queue:
            async with AsyncQueue(queue) as face:
                await face.put(1)
            assert queue.get() == 1
        async with AsyncQueue[int]("jobs", store_path=tmp_path / "jobs.db") as face:
            await face.put(2)
        with pytest.raises(QueueStoreClosedError):
            face.queue.put(3)
        with pytest.raises(TypeError, match="maxsize"):
            AsyncQueue(queue, maxsize=3)

    run(program)


def test_looking_makes_no_store(tmp_path: Path) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store_path=tmp_path / "jobs.db") as queue:
            assert await queue.qsize() == 0
            assert (await queue.stats()).total == 0
        assert not list(tmp_path.iterdir())

    run(program)


def test_one_object_serves_one_loop_after_another(tmp_path: Path) -> None:
    with PersistentQueue[int]("jobs", store_path=tmp_path / "jobs.db") as queue:
        face = AsyncQueue(queue)
        for n in range(3):

            async def program(n: int = n) -> None:
                async with waiting_tasks(2, face.get):
                    pass
                await face.put(n)
                assert await face.get() == n

            run(program)


def test_a_message_that_was_acked_for_a_get_that_was_cancelled_goes_to_the_next(local_store: Any) -> None:
    async def program() -> None:
        async with AsyncQueue[int]("jobs", store=local_store, delivery_policy=AtMostOnceDelivery()) as queue:
            got: list[int] = []
            await queue.put_many(range(30))
            ticks = 0
            while len(got) < 30:
                getting = asyncio.ensure_future(queue.get())
                for _ in range(ticks % 7):
                    await asyncio.sleep(0)
                ticks += 1
                if ticks % 3:
                    getting.cancel()
                try:
                    got.append(await getting)
                except asyncio.CancelledError:
                    continue
            assert got == list(range(30))

    run(program)
