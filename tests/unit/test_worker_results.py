"""Workers keep what handlers return, tell how far they have come, and stop what was cancelled."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import EffectivelyOnceDelivery, PayloadError, PersistentQueue, ReturnStoredResult
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import JobCancelled, JobFailed
from localqueue.stores.port import QueueStore
from localqueue.workers import AsyncWorker, Job, Worker, current_job, persistent_async_worker, persistent_worker
from tests.unit.worker_steps import STORES, Gate, Log, Running, eventually, open_store
from tests.unit.worker_ways import WAYS, in_time

pytestmark = pytest.mark.by_turns

A_DAY = 86400.0
Way = Callable[..., None]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueStore]:
    opened = open_store(request.param, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[QueueStore]:
    opened = open_store("sqlite", tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


def new_queue(store: QueueStore, **options: Any) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, keep_results=A_DAY, **options)


def square(value: int) -> dict[str, int]:
    if value < 0:
        raise ValueError(f"{value} is negative")
    return {"square": value * value}


def test_every_way_to_work_keeps_what_the_handler_returned(sqlite: QueueStore, way: Way) -> None:
    queue = new_queue(sqlite)
    two, three, negative = queue.put_many([2, 3, -1])
    way(queue, square, max_tries=1)
    assert [queue.result(two), queue.result(three)] == [{"square": 4}, {"square": 9}]
    with pytest.raises(JobFailed, match="-1 is negative"):
        queue.result(negative)
    queue.prune_dead_letters(older_than=0)
    with pytest.raises(JobFailed, match="-1 is negative") as caught:
        queue.result(negative)
    assert caught.value.traceback is not None
    assert "in square" in caught.value.traceback and "in square" in str(caught.value)


def test_every_way_to_work_fails_an_attempt_whose_result_can_not_be_kept(sqlite: QueueStore, way: Way) -> None:
    queue = new_queue(sqlite)
    message = queue.put("x")
    way(queue, lambda value: {value}, max_tries=1)
    with pytest.raises(JobFailed, match="PayloadError: the result can not be kept"):
        queue.result(message)
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None and dead.last_error["type"] == "PayloadError"


def test_a_worker_in_processes_keeps_results(sqlite: QueueStore) -> None:
    queue = new_queue(sqlite)
    messages = queue.put_many([2, 3])
    Worker(queue, square, executor="processes", concurrency=2).run_until_empty()
    assert [queue.result(message) for message in messages] == [{"square": 4}, {"square": 9}]


def test_a_process_that_dies_for_the_last_time_is_an_outcome(sqlite: QueueStore) -> None:
    import os

    queue = new_queue(sqlite)
    message = queue.put("x")
    Worker(queue, lambda value: os._exit(3), executor="processes", max_tries=1).run_until_empty()
    assert sqlite.record("outcome", message.id) is not None
    with pytest.raises(JobFailed, match="exit code 3"):
        queue.result(message)


@pytest.mark.slow
def test_a_retry_is_no_outcome(sqlite: QueueStore) -> None:
    queue = new_queue(sqlite)
    message = queue.put("x")
    seen: list[Any] = []

    def handler(value: str) -> str:
        status = queue.status(message)
        assert status is not None
        seen.append((status.state, status.attempts, sqlite.record("outcome", message.id)))
        if len(seen) == 1:
            raise ValueError("not yet")
        return "done"

    Worker(queue, handler).run_until_empty(wait_for_delayed=True)
    assert seen == [("running", 1, None), ("running", 2, None)]
    status = queue.status(message)
    assert status is not None and (status.state, status.result, status.attempts) == ("succeeded", "done", 2)


def test_the_result_of_a_worker_that_lost_its_lease_is_refused(sqlite: QueueStore) -> None:
    queue = new_queue(sqlite)
    message = queue.put("x")
    gate, log = Gate(), Log()
    with Running(Worker(queue, gate, on_settled=log)):
        gate.wait_for_entry()
        assert queue.release(message.id)
        queue.ack(queue.get_message(timeout=PATIENCE), result="of another")
        gate.open()
        eventually(lambda: log.states == ["lost"])
    assert queue.result(message) == "of another"


def test_work_that_is_done_effectively_once_has_its_result_for_each_message(sqlite: QueueStore) -> None:
    policy = EffectivelyOnceDelivery(result_policy=ReturnStoredResult())
    queue = new_queue(sqlite, delivery_policy=policy)
    first = queue.put(2, dedupe_key="two")
    Worker(queue, square).run_until_empty()
    second = queue.put(2, dedupe_key="two")
    Worker(queue, square).run_until_empty()
    assert [queue.result(first), queue.result(second)] == [{"square": 4}, {"square": 4}]


def test_progress_is_seen_from_outside_and_gone_when_the_message_is(store: QueueStore) -> None:
    queue = new_queue(store)
    message = queue.put("x")
    may_end = threading.Event()

    def handler(value: str) -> None:
        current_job().progress(0.1)
        for n in range(1000):
            current_job().progress(0.25, f"step {n}")
        assert may_end.wait(PATIENCE)

    def told() -> Any:
        status = queue.status(message)
        assert status is not None
        return status.progress if status.progress is not None and status.progress.note == "step 999" else None

    with Running(Worker(queue, handler)):
        progress = eventually(told)
        may_end.set()
        queue.result(message, timeout=PATIENCE)
    assert progress.fraction == 0.25
    assert abs(progress.at - store.now()) < 60
    assert store.record("progress", message.id) is None
    status = queue.status(message)
    assert status is not None and status.progress is None


def test_progress_works_without_results_and_on_an_event_loop(sqlite: QueueStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=sqlite)
    message = queue.put("x")
    seen: list[Any] = []

    async def handler(value: str) -> None:
        current_job().progress(1, "all")
        while not seen:
            status = await asyncio.to_thread(queue.status, message)
            if status is not None and status.progress is not None:
                seen.append(status.progress)

    in_time(AsyncWorker(queue, handler).run_until_empty())
    assert [(one.fraction, one.note) for one in seen] == [(1.0, "all")]
    assert sqlite.records("progress") == []


def test_progress_of_an_earlier_attempt_is_not_shown(sqlite: QueueStore) -> None:
    queue = new_queue(sqlite)
    message = queue.put("x")

    def handler(value: str) -> None:
        current_job().progress(0.5)
        eventually(lambda: sqlite.record("progress", message.id))
        raise ValueError("half way")

    Worker(queue, handler, max_tries=2, wait=lambda state: 3600).run_until_empty()
    assert sqlite.record("progress", message.id) is not None
    queue.release(message.id)
    leased = queue.get_message(block=False)
    status = queue.status(message)
    assert status is not None and (status.state, status.progress) == ("running", None)
    assert queue.ack(leased, result=1)
    assert sqlite.records("progress") == []


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), True, "half", None])
def test_progress_is_a_number_from_0_to_1(sqlite: QueueStore, wrong: Any) -> None:
    queue = new_queue(sqlite)
    job = Job(queue, queue.put("x"), time.monotonic())
    with pytest.raises((ValueError, TypeError), match="number from 0 to 1"):
        job.progress(wrong)
    with pytest.raises(TypeError, match="note"):
        job.progress(0.5, 7)  # type: ignore[arg-type]


def test_a_handler_in_a_thread_sees_that_its_message_was_cancelled(
    store: QueueStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "localqueue")
    queue = new_queue(store, lease_timeout=600)  # the next renewal would be in minutes
    message = queue.put("x")
    entered, log = threading.Event(), Log()

    def handler(value: str) -> None:
        job = current_job()
        assert not job.cancelled
        job.check_cancelled()
        entered.set()
        eventually(lambda: job.cancelled)
        job.check_cancelled()

    with Running(Worker(queue, handler, on_settled=log, circuit_breaker_failures=1, circuit_breaker_cooldown=60)):
        assert entered.wait(PATIENCE)
        assert queue.cancel(message)
        eventually(lambda: log.states)
        entered.clear()
        other = queue.put("y")  # the breaker is not open: nothing has failed
        assert entered.wait(PATIENCE)
        queue.cancel(other)
    assert log.states == ["lost", "lost"]
    assert isinstance(log.settled[0].error, JobCancelled)
    assert queue.dead_letters() == []
    assert "was cancelled while it was running" in caplog.text
    with pytest.raises(JobCancelled):
        queue.result(message)


def test_a_task_is_cancelled_soon_after_its_message(store: QueueStore) -> None:
    queue = new_queue(store, lease_timeout=600)
    cancelled, staying = queue.put_many(["cancelled", "staying"])
    seen: list[str] = []

    async def main() -> None:
        entered, may_end = asyncio.Semaphore(0), asyncio.Event()

        async def handler(value: str) -> str:
            entered.release()
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                seen.append(value)
                may_end.set()
                raise
            return value

        worker = AsyncWorker(queue, handler)
        running = asyncio.create_task(worker.run_until_empty())
        for _ in range(2):
            await entered.acquire()
        assert await asyncio.to_thread(queue.cancel, cancelled.id)
        counts = await running
        assert (counts.lost, counts.acked) == (1, 1)

    in_time(main())
    assert seen == ["cancelled"]
    assert queue.result(staying) == "staying"


@pytest.mark.slow
def test_cancelling_a_run_stops_its_handlers(sqlite: QueueStore) -> None:
    queue = new_queue(sqlite, lease_timeout=600)
    queue.put("x", run_id="night")
    entered, log = threading.Event(), Log()

    def handler(value: str) -> None:
        entered.set()
        eventually(lambda: current_job().cancelled)

    with Running(Worker(queue, handler, on_settled=log)):
        assert entered.wait(PATIENCE)
        assert queue.cancel_run("night") == 1
        eventually(lambda: log.states == ["lost"])


@pytest.mark.slow
def test_a_decorated_function_raises_what_its_cancelled_handler_raised(sqlite: QueueStore) -> None:
    queue = new_queue(sqlite, lease_timeout=600)

    @persistent_worker(queue, max_tries=1)
    def handle(value: str) -> None:
        queue.cancel(current_job().message.id)
        eventually(lambda: current_job().cancelled)
        current_job().check_cancelled()

    @persistent_async_worker(queue, max_tries=1)
    async def handle_async(value: str) -> None:
        await asyncio.to_thread(queue.cancel, current_job().message.id)
        await asyncio.to_thread(eventually, lambda: current_job().cancelled)
        current_job().check_cancelled()

    queue.put("x")
    with pytest.raises(JobCancelled):
        handle()
    queue.put("y")
    with pytest.raises(JobCancelled):
        in_time(handle_async())
    assert queue.dead_letters() == []
    assert queue.stats().cancelled == 2


def test_a_cancellation_that_is_another_message_s_is_a_failure(sqlite: QueueStore) -> None:
    queue = new_queue(sqlite)
    message = queue.put("x")

    def handler(value: str) -> None:
        raise JobCancelled("others", "7")

    Worker(queue, handler, max_tries=1).run_until_empty()
    with pytest.raises(JobFailed, match="JobCancelled"):
        queue.result(message)


def test_a_result_that_can_not_be_kept_is_raised_by_a_decorated_function(sqlite: QueueStore) -> None:
    queue = new_queue(sqlite)
    queue.put("x")

    @persistent_worker(queue)
    def handle(value: str) -> set[str]:
        return {value}

    with pytest.raises(PayloadError, match="the result can not be kept"):
        handle()
    assert len(queue.dead_letters()) == 1
