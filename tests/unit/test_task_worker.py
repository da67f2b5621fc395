"""`TaskWorker`: all queues of an application's tasks, and its schedules."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from localqueue import AtMostOnceDelivery, MemoryQueueStore, Tasks, current_job
from localqueue.contracts.steps import PATIENCE
from localqueue.tasks import TaskError
from localqueue.workers.turns import Turns


@pytest.fixture
def tasks() -> Iterator[Tasks]:
    with MemoryQueueStore() as store, Tasks(store) as tasks:
        yield tasks


def test_one_worker_serves_all_queues_whatever_runs_their_tasks(tasks: Tasks) -> None:
    @tasks.task(queue="threads")
    def plain(value: int) -> tuple[int, str]:
        return value, threading.current_thread().name

    @tasks.task(queue="loop")
    async def on_loop(value: int) -> int:
        await asyncio.sleep(0)
        return value

    @tasks.task(queue="loop")
    def beside_the_loop(value: int) -> bool:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return True
        return False

    jobs = [plain.enqueue(1), on_loop.enqueue(2), beside_the_loop.enqueue(3)]
    worker = tasks.worker()
    running = threading.Thread(target=worker.run)
    running.start()
    results = [job.result(timeout=PATIENCE) for job in jobs]
    worker.stop()
    running.join(PATIENCE)

    assert not running.is_alive()
    assert results[0][0] == 1 and results[1:] == [2, True]
    assert worker.counts.acked == 3


def test_the_threads_are_shared_by_all_queues(tasks: Tasks) -> None:
    lock, running, most = threading.Lock(), 0, 0
    together = threading.Event()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 2:
                together.set()
        assert together.wait(PATIENCE)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    one, two = (tasks.task(queue=name, name=name)(work) for name in ("one", "two"))
    jobs = [*one.many([()] * 8), *two.many([()] * 8)]
    worker = tasks.worker(concurrency=2)
    thread = threading.Thread(target=worker.run)
    thread.start()
    for job in jobs:
        job.result(timeout=PATIENCE)
    worker.stop()
    thread.join(PATIENCE)

    assert most == 2


def order_of(tasks: Tasks, **options: Any) -> list[str]:
    """In which order one thread takes six jobs of each of two queues, from when both have asked for their turn."""
    order: list[str] = []

    def note(queue: str, other: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not order and not (worker.turns is not None and worker.turns.waiting(other)):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        order.append(queue)

    first, second = (tasks.task(queue=name, name=name)(note) for name in ("first", "second"))
    jobs = [*first.many([("first", "second")] * 6), *second.many([("second", "first")] * 6)]
    worker = tasks.worker(concurrency=1, **options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    for job in jobs:
        job.result(timeout=PATIENCE)
    worker.stop()
    thread.join(PATIENCE)
    return order


def test_a_queue_of_more_weight_gets_more_turns(tasks: Tasks) -> None:
    order = order_of(tasks, queues={"first": 1, "second": 5})

    assert order[1:7].count("second") >= 4


def test_a_strict_worker_takes_the_first_queue_first(tasks: Tasks) -> None:
    order = order_of(tasks, queues=["second", "first"], strict=True)

    assert order[1:6] == ["second"] * 5


def test_turns_go_by_weight_and_a_queue_that_was_away_does_not_catch_up() -> None:
    turns, stopping = Turns(1, {"light": 1, "heavy": 3}), threading.Event()
    assert turns.take("heavy", stopping)
    for _ in range(100):  # alone, it has all the turns
        assert turns.keep("heavy")
    order: list[str] = []
    enough = threading.Event()

    def work(queue: str, other: str, has_place: bool) -> None:
        deadline = time.monotonic() + PATIENCE
        while not enough.is_set():
            if not (has_place and turns.keep(queue)):
                if has_place:
                    turns.give()
                has_place = turns.take(queue, stopping)
            order.append(queue)
            if len(order) == 100:
                enough.set()
            while not (turns.waiting(other) or enough.is_set()):  # alone it would have all the turns
                assert time.monotonic() < deadline
                time.sleep(0.0001)
        turns.give()

    light = threading.Thread(target=work, args=("light", "heavy", False))
    light.start()
    while turns.keep("heavy"):  # until the other one waits
        pass
    turns.give()
    assert turns.take("heavy", stopping)
    work("heavy", "light", True)
    light.join(PATIENCE)

    assert not light.is_alive()
    assert 2 <= order.count("heavy") / order.count("light") <= 4


@pytest.mark.multiprocess
@pytest.mark.slow
def test_tasks_run_in_processes_beside_others(tmp_path: Path) -> None:
    with Tasks(f"sqlite:///{tmp_path}/jobs.db") as tasks:

        @tasks.task(queue="heavy", executor="processes")
        def crunch() -> int:
            return os.getpid()

        @tasks.task(queue="light")
        def light() -> int:
            return os.getpid()

        jobs = [crunch.enqueue(), light.enqueue()]
        worker = tasks.worker(processes=1)
        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        pids = {job.result(timeout=PATIENCE) for job in jobs}
        worker.stop()
        thread.join(PATIENCE)

        assert not thread.is_alive()
        assert len(pids | {os.getpid()}) == 3
        assert worker.counts.acked == 2


def test_queues_that_can_not_be_served_are_refused(tasks: Tasks) -> None:
    with pytest.raises(TaskError, match="no tasks"):
        tasks.worker()

    @tasks.task(queue="mixed", executor="processes")
    def one() -> None: ...

    with pytest.raises(TaskError, match="needs a queue"):
        tasks.worker(queues=[])
    with pytest.raises(TaskError, match="no task is put into queue 'other'"):
        tasks.worker(queues=["other"])
    with pytest.raises(TypeError, match="list of names"):
        tasks.worker(queues="mixed")
    with pytest.raises(ValueError, match="weight"):
        tasks.worker(queues={"mixed": 0})
    with pytest.raises(ValueError, match="processes must be at least 1, not 0"):
        tasks.worker(processes=0)
    with pytest.raises(ValueError, match="concurrency"):
        tasks.worker(concurrency=0)

    @tasks.task(queue="mixed")
    def two() -> None: ...

    with pytest.raises(TaskError, match="give those a queue of their own"):
        tasks.worker()
    with pytest.raises(TaskError, match="coroutine function"):

        @tasks.task(executor="processes")
        async def three() -> None: ...


def test_a_schedule_puts_jobs_of_its_task(tasks: Tasks) -> None:
    seen: list[str] = []
    enough = threading.Event()

    @tasks.every(0.05, args=("tick",), missed="all")
    def note(word: str) -> None:
        seen.append(word)
        if len(seen) == 3:
            enough.set()

    worker = tasks.worker()
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert enough.wait(PATIENCE)
    worker.stop()
    thread.join(PATIENCE)

    assert set(seen) == {"tick"}


def test_a_schedule_is_kept_in_the_store_and_changes_with_the_code(tasks: Tasks) -> None:
    from localqueue.schedules import CronSchedule
    from localqueue.schedules.book import ScheduleBook

    @tasks.cron("0 7 * * *", zone="Europe/Lisbon", queue="reports", retries=1)
    def report() -> None: ...

    assert report.settings.retries == 1
    tasks.worker()._schedulers()
    (state,) = ScheduleBook(tasks.queue("reports")).list()
    assert isinstance(state.schedule, CronSchedule)
    assert (state.name, state.schedule.cron, state.schedule.timezone) == ("report", "0 7 * * *", "Europe/Lisbon")
    assert state.schedule.value == {"task": "report", "args": {}}


def test_a_mistaken_schedule_is_refused_where_it_is_written(tasks: Tasks) -> None:
    with pytest.raises(ValueError, match="cron"):
        tasks.cron("every day")
    with pytest.raises(ValueError, match="every"):
        tasks.every(0)
    with pytest.raises(TypeError, match="missing a required argument"):

        @tasks.every(60)
        def wants(word: str) -> None: ...


def test_a_worker_that_was_told_to_stop_before_it_ran_ends_at_once(tasks: Tasks) -> None:
    @tasks.task
    def note() -> None: ...

    job = note.enqueue()
    worker = tasks.worker()
    worker.stop()
    running = threading.Thread(target=worker.run)
    running.start()
    running.join(PATIENCE)

    assert not running.is_alive()
    status = job.status()
    assert status is not None and status.state == "queued"


def test_each_try_of_a_job_runs_inside_of_what_stands_around_it() -> None:
    inside: ContextVar[int] = ContextVar("inside", default=0)
    ended = []

    @contextmanager
    def around() -> Iterator[None]:
        token = inside.set(inside.get() + 1)
        try:
            yield
        finally:
            inside.reset(token)
            ended.append(inside.get())

    with MemoryQueueStore() as store, Tasks(store, around=around) as tasks:

        @tasks.task(retries=1, retry_delay=0)
        def in_thread() -> int:
            if current_job().message.tries == 1:
                raise ValueError("once more")
            return inside.get()

        @tasks.task(queue="loop")
        async def on_loop() -> int:
            return inside.get()

        @tasks.task(queue="loop")
        def beside_the_loop() -> int:
            return inside.get()

        jobs = [in_thread.enqueue(), on_loop.enqueue(), beside_the_loop.enqueue()]
        tasks.worker().run_until_empty()
        assert [job.result(timeout=PATIENCE) for job in jobs] == [1, 1, 1]
    assert ended == [0] * 4


def test_limits_are_refused_where_a_job_can_not_be_given_back() -> None:
    gone_when_taken = {"default": {"delivery_policy": AtMostOnceDelivery(), "keep_results": None}}
    with MemoryQueueStore() as store, Tasks(store, queues=gone_when_taken) as tasks:

        @tasks.task(rate="1/h")
        def send() -> None: ...

        send.enqueue()
        with pytest.raises(TaskError, match="limits of send; use at-least-once"):
            tasks.worker().run_until_empty()
        assert tasks.queue().qsize() == 1
