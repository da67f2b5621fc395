"""`persistent_async_worker`: the same for coroutine functions, without touching the store from the loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import AsyncNotification, PersistentQueue, current_job, persistent_async_worker
from localqueue.policies import ReturnStoredResult, SagaCommit, TwoPhaseCommit
from localqueue.retry import MemoryAttemptStore, QueueAttemptStore, RetryRecord
from tests.unit.effects import KINDS, keyed, open_queue_store

pytestmark = pytest.mark.by_turns

DEADLINE = 30.0


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_queue_store(request.param, tmp_path) as store:
        yield store


@pytest.fixture
def queue(store: Any) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(DEADLINE):
            return await main()

    return asyncio.run(limited())


class Flaky:
    def __init__(self, *errors: BaseException) -> None:
        self.calls: list[Any] = []
        self._errors = list(errors)

    async def __call__(self, value: Any) -> Any:
        await asyncio.sleep(0)
        self.calls.append(value)
        if self._errors:
            raise self._errors.pop(0)
        return f"done {value}"


def handled(queue: PersistentQueue[Any], handler: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    async def handle(value: Any) -> Any:
        return await handler(value)

    return persistent_async_worker(queue, **{"wait": 0, **options})(handle)


def test_a_call_processes_one_message_and_returns_the_result(queue: PersistentQueue[Any]) -> None:
    queue.put_many([1, 2])

    @persistent_async_worker(queue)
    async def handle(value: int, factor: int) -> int:
        return value * factor

    async def main() -> list[int]:
        return [await handle(10), await handle(10)]

    assert run(main) == [10, 20]
    assert queue.stats().total == 0


def test_a_call_waits_for_a_message(store: Any) -> None:
    async def main() -> Any:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, notification_policy=AsyncNotification())
        waiting = asyncio.create_task(handled(queue, Flaky())())
        await asyncio.to_thread(queue.put, "late", delay=0.1)
        return await waiting

    assert run(main) == "done late"


def test_failures_are_retried_and_the_last_is_dead_lettered_and_raised(queue: PersistentQueue[Any]) -> None:
    queue.put_many("ab")
    handler = Flaky(*[OSError()] * 4)
    handle = handled(queue, handler, max_tries=3)

    async def main() -> Any:
        with pytest.raises(OSError):
            await handle()
        return await handle()

    assert run(main) == "done b"
    assert handler.calls == ["a", "a", "a", "b", "b"]
    assert queue.stats().dead == 1
    assert queue.store.records("attempt") == []


def test_follow_ups_of_a_failed_try_are_not_stored(queue: PersistentQueue[Any]) -> None:
    after: PersistentQueue[Any] = PersistentQueue("after", store=queue.store)
    handler = Flaky(OSError())

    async def handle(value: Any) -> Any:
        current_job().put(len(handler.calls), to=after)
        return await handler(value)

    queue.put("a")
    run(handled(queue, handle, max_tries=2))
    assert [message.value for message in after.get_messages(9, block=False)] == [1]


@pytest.mark.parametrize("external", [False, True])
def test_a_requeued_message_has_a_fresh_budget(queue: PersistentQueue[Any], external: bool) -> None:
    attempts: Any = MemoryAttemptStore() if external else QueueAttemptStore(queue.store)
    options = {"store": attempts} if external else {}
    message = queue.put("a")
    handler = Flaky(OSError(), OSError())
    handle = handled(queue, handler, max_tries=2, **options)

    async def main() -> Any:
        with pytest.raises(OSError):
            await handle()
        attempts.save(message.id, RetryRecord(2, time.time() - 9, exhausted=True))  # a crash before it was forgotten
        assert queue.requeue_dead(message)
        return await handle()

    assert run(main) == "done a"
    assert len(handler.calls) == 3


def test_a_cancelled_call_gives_the_message_back(queue: PersistentQueue[Any]) -> None:
    queue.put("a")

    async def main() -> None:
        began = asyncio.Event()

        async def hang(value: Any) -> None:
            began.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(handled(queue, hang)())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert queue.stats().ready == 1


def test_a_call_cancelled_while_it_leases_gives_the_message_back(queue: PersistentQueue[Any]) -> None:
    queue.put("a")
    leasing, go_on = threading.Event(), threading.Event()
    original = queue.get_message

    def slow(*args: Any, **kwargs: Any) -> Any:
        leasing.set()
        assert go_on.wait(DEADLINE)
        return original(*args, **kwargs)

    queue.get_message = slow  # type: ignore[method-assign]

    async def main() -> None:
        task = asyncio.create_task(handled(queue, Flaky())())
        await asyncio.to_thread(leasing.wait, DEADLINE)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert queue.stats().ready == 1


def test_the_store_is_never_used_from_the_loop(store: Any) -> None:
    loops: list[int] = []
    used: set[int] = set()
    queue = keyed(store, result_policy=ReturnStoredResult())
    for name in ("commit", "lease", "renew", "record", "ack_one", "heartbeat"):
        original = getattr(store, name)

        def watched(*args: Any, original: Any = original, **kwargs: Any) -> Any:
            used.add(threading.get_ident())
            return original(*args, **kwargs)

        setattr(store, name, watched)
    queue.put("a", dedupe_key="k")
    used.clear()

    async def main() -> None:
        loops.append(threading.get_ident())
        await handled(queue, Flaky(OSError()), max_tries=2, worker_id="me")()

    run(main)
    assert used
    assert loops[0] not in used


def test_a_duplicate_returns_the_stored_result(store: Any) -> None:
    queue, handler = keyed(store, result_policy=ReturnStoredResult()), Flaky()
    handle = handled(queue, handler)
    for value in "ab":
        queue.put(value, dedupe_key="k")
        assert run(handle) == "done a"
    assert handler.calls == ["a"]


def test_participants_that_block_do_not_block_the_loop(store: Any) -> None:
    threads: dict[str, int] = {}

    class Bank:
        def prepare(self, txid: str, envelope: dict[str, Any]) -> None:
            threads["prepare"] = threading.get_ident()

        async def commit(self, txid: str) -> None:
            threads["commit"] = threading.get_ident()

        def rollback(self, txid: str) -> None: ...

    queue = keyed(store, commit_policy=TwoPhaseCommit(participants=(Bank(),)))
    queue.put("a", dedupe_key="k")

    async def main() -> None:
        threads["loop"] = threading.get_ident()
        await handled(queue, Flaky())()

    run(main)
    assert threads["prepare"] != threads["loop"]
    assert threads["commit"] == threads["loop"]
    assert store.records("two-phase") == []


def test_a_saga_is_compensated(store: Any) -> None:
    log: list[Any] = []

    async def book(value: Any) -> str:
        return f"{value}-1"

    async def undo(value: Any, result: Any) -> None:
        log.append((value, result))

    async def handle(value: Any) -> None:
        await current_job().step_async("flight", book, value)
        raise OSError

    queue = keyed(store, commit_policy=SagaCommit(compensations={"flight": undo}))
    queue.put("me", dedupe_key="k")

    async def main() -> None:
        with pytest.raises(OSError):
            await handled(queue, handle, max_tries=1)()

    run(main)
    assert log == [("me", "me-1")]
