"""One retryer serves threads and tasks at once, and never lets the event loop wait for the store."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tenacity import RetryCallState, wait_none

from localqueue.contracts.steps import PATIENCE, Background
from localqueue.retry import (
    MemoryAttemptStore,
    PersistentAsyncRetrying,
    PersistentRetrying,
    RetryRecord,
    key_from_argument,
    persistent_async_retry,
)


def test_tasks_that_share_a_retryer_keep_their_keys_and_counts_apart() -> None:
    store = MemoryAttemptStore()
    retryer = PersistentAsyncRetrying(store=store, key_fn=key_from_argument("job"), max_tries=4, wait=wait_none())
    calls: dict[str, int] = {}

    async def work(job: str, failures: int) -> str:
        calls[job] = calls.get(job, 0) + 1
        await asyncio.sleep(0)
        if calls[job] <= failures:
            raise ConnectionError(job)
        return job

    async def main() -> list[Any]:
        tasks = [retryer(work, f"job-{n}", n % 6) for n in range(30)]
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(main())
    for n, answer in enumerate(answers):
        job = f"job-{n}"
        if n % 6 < 4:
            assert answer == job
            assert store.load(job) is None
        else:
            assert isinstance(answer, ConnectionError)
            record = store.load(job)
            assert record is not None
            assert (record.attempts, record.exhausted) == (4, True)
        assert calls[job] == min(n % 6 + 1, 4)


def test_tasks_have_statistics_of_their_own() -> None:
    seen: dict[str, Any] = {}

    def remember(state: RetryCallState) -> None:
        seen[state.args[0]] = state.retry_object.statistics

    @persistent_async_retry(
        store=MemoryAttemptStore(), key_fn=key_from_argument("job"), max_tries=5, wait=wait_none(), after=remember
    )
    async def work(job: str, failures: list[int]) -> None:
        await asyncio.sleep(0)
        if failures:
            failures.pop()
            raise ConnectionError

    async def main() -> None:
        await asyncio.gather(work("one", [1]), work("three", [1, 2, 3]))

    asyncio.run(main())
    assert (seen["one"]["attempt_number"], seen["three"]["attempt_number"]) == (2, 4)


def test_threads_that_share_a_retryer_keep_their_keys_and_counts_apart() -> None:
    store = MemoryAttemptStore()
    retryer = PersistentRetrying(store=store, key_fn=key_from_argument("job"), max_tries=50, wait=wait_none())
    together = threading.Barrier(4)

    def run(job: str, failures: int) -> None:
        left = [None] * failures

        def work(job: str) -> None:
            if left:
                left.pop()
                raise ConnectionError

        together.wait(PATIENCE)
        retryer(work, job)
        assert retryer.statistics["attempt_number"] == failures + 1

    threads = Background()
    for n in range(4):
        threads.start(run, f"job-{n}", 10 + n)
    threads.join()
    assert [store.load(f"job-{n}") for n in range(4)] == [None] * 4


class GatedStore(MemoryAttemptStore):
    """Every operation waits until the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.threads: set[int] = set()

    def _pass(self) -> None:
        self.threads.add(threading.get_ident())
        assert self.gate.wait(PATIENCE)

    def load(self, key: str) -> RetryRecord | None:
        self._pass()
        return super().load(key)

    def save(self, key: str, record: RetryRecord) -> None:
        self._pass()
        super().save(key, record)

    def delete(self, key: str) -> None:
        self._pass()
        super().delete(key)


def test_the_event_loop_runs_while_the_store_waits() -> None:
    store = GatedStore()

    async def main() -> None:
        left = [None]

        async def work() -> str:
            if left:
                left.pop()
                raise ConnectionError
            return "done"

        retryer = PersistentAsyncRetrying(store=store, key="k", wait=wait_none(), max_tries=2)
        call = asyncio.create_task(retryer(work))
        for _ in range(100):  # the call is stuck in the store, the loop is not
            await asyncio.sleep(0)
        assert not call.done()
        store.gate.set()
        assert await asyncio.wait_for(call, PATIENCE) == "done"
        assert threading.get_ident() not in store.threads

    asyncio.run(main())
    assert store.threads


def test_async_strategies_and_callbacks_are_awaited() -> None:
    seen: list[str] = []

    def asynchronous(name: str, answer: Any) -> Any:
        async def strategy(state: RetryCallState) -> Any:
            await asyncio.sleep(0)
            seen.append(name)
            return answer

        return strategy

    async def fail() -> None:
        raise ConnectionError

    async def main() -> Any:
        retryer = PersistentAsyncRetrying(
            store=MemoryAttemptStore(),
            key="k",
            before=asynchronous("before", None),
            after=asynchronous("after", None),
            retry=asynchronous("retry", True),
            wait=asynchronous("wait", 0),
            stop=asynchronous("stop", True),
            retry_error_callback=asynchronous("given up", "instead"),
        )
        return await retryer(fail)

    assert asyncio.run(main()) == "instead"
    assert seen == ["before", "retry", "after", "wait", "stop", "given up"]


def test_a_cancelled_call_stays_cancelled_and_uses_no_budget() -> None:
    store = MemoryAttemptStore()

    async def main() -> None:
        started = asyncio.Event()

        async def work() -> None:
            started.set()
            await asyncio.Event().wait()

        call = asyncio.create_task(PersistentAsyncRetrying(store=store, key="k", wait=wait_none())(work))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert store.load("k") is None
