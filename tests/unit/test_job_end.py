"""What a handler starts and leaves behind can not add to a message that is settled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, QueueError, persistent_worker
from localqueue.contracts.steps import PATIENCE
from localqueue.workers import AsyncWorker, Job, Worker, current_job
from tests.unit.worker_ways import in_time


@pytest.fixture
def queue() -> Iterator[PersistentQueue[Any]]:
    with MemoryQueueStore() as store:
        yield PersistentQueue("jobs", store=store)


def put_in_thread(job: Job) -> Any:
    """What comes of a put in a thread that outlived the handler."""
    answers: list[Any] = []

    def put() -> None:
        try:
            answers.append(job.put("late"))
        except QueueError as error:
            answers.append(error)

    thread = threading.Thread(target=put)
    thread.start()
    thread.join(PATIENCE)
    return answers[0]


def test_a_put_by_a_thread_that_outlived_its_handler_is_refused(queue: PersistentQueue[Any]) -> None:
    jobs: list[Job] = []
    queue.put("x")
    Worker(queue, lambda value: jobs.append(current_job())).run_until_empty()
    answer = put_in_thread(jobs[0])
    assert isinstance(answer, QueueError) and "has ended" in str(answer)
    assert queue.stats().total == 0


def test_a_put_by_a_thread_that_the_handler_waits_for_is_stored(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    stored: list[Any] = []

    def handler(value: str) -> None:
        if value == "x":
            stored.append(put_in_thread(current_job()))

    assert Worker(queue, handler).run_until_empty().acked == 2
    assert isinstance(stored[0], str)


def test_a_put_by_a_task_that_outlived_its_handler_is_refused(queue: PersistentQueue[Any]) -> None:
    queue.put("x")
    answers: list[BaseException | None] = []

    async def main() -> None:
        settled = asyncio.Event()
        tasks: list[asyncio.Task[Any]] = []

        async def later() -> Any:
            await settled.wait()
            return current_job().put("late")

        async def handler(value: str) -> None:
            tasks.append(asyncio.create_task(later()))

        await AsyncWorker(queue, handler).run_until_empty()
        settled.set()
        await asyncio.wait(tasks)
        answers.append(tasks[0].exception())

    in_time(main())
    assert isinstance(answers[0], QueueError)
    assert queue.stats().total == 0


def test_the_one_message_of_a_call_is_over_with_it(queue: PersistentQueue[Any]) -> None:
    queue.put("x")

    @persistent_worker(queue, wait=0, max_tries=2)
    def handle(value: str) -> Job:
        job = current_job()
        job.put("follow-up")
        if queue.store.records("attempt") == []:
            raise OSError("once more")
        return job

    assert isinstance(put_in_thread(handle()), QueueError)
    assert queue.get(block=False) == "follow-up"
    assert queue.stats().ready == 0
