"""Tasks in tests: where their jobs live, draining them, running them inline, and asserting what was enqueued."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from localqueue import SQLiteQueueStore
from localqueue.contracts.steps import PATIENCE
from localqueue.tasks import Tasks
from localqueue.testing import (
    Clock,
    assert_enqueued,
    assert_not_enqueued,
    drain,
    drain_async,
    inline,
    memory_store,
    use_store,
)

tasks = Tasks()
seen: list[Any] = []


@tasks.task
def double(number: int) -> int:
    seen.append(threading.current_thread())
    return number * 2


@tasks.task(queue="mails", priority=3)
def send(to: str, at: datetime | None = None, *, ids: list[UUID] = []) -> None:  # noqa: B006
    seen.append(to)


@tasks.task(queue="mails")
def send_twice(to: str) -> None:
    send.enqueue(to)
    send.options(delay=60).enqueue(to)


@tasks.task(retries=2)
def fail(text: str) -> None:
    seen.append(text)
    raise LookupError(text)


@tasks.task(queue="scarce", rate="1/h", concurrency=1, timeout=0.001)
def scarce() -> None:
    seen.append("scarce")


@tasks.task(queue="loop")
async def fetch(page: str) -> str:
    await asyncio.sleep(0)
    return page.upper()


@pytest.fixture
def clock() -> Clock:
    return Clock(at=datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture(autouse=True)
def store(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    seen.clear()
    with memory_store(clock=clock) as store:
        yield store


def test_tasks_without_a_store_live_in_the_one_of_the_test(store: Any) -> None:
    double.enqueue(1)

    assert tasks.store is store
    with memory_store() as inner:
        assert tasks.store is inner
        assert_not_enqueued(double)
    assert tasks.store is store
    assert_enqueued(double)


def test_tasks_with_a_store_of_their_own_can_be_named(tmp_path: Path) -> None:
    place = tmp_path / "jobs.db"
    shop = Tasks(f"sqlite:///{place}")

    @shop.task
    def buy(thing: str) -> None: ...

    with memory_store(shop) as inner:
        buy.enqueue("a book")
        assert shop.store is inner
    assert not place.exists()
    assert shop.store.url == f"sqlite:///{place}"
    shop.close()


def test_jobs_of_all_queues_are_drained_in_the_calling_thread() -> None:
    job = double.enqueue(4)
    send_twice.enqueue("ada")
    settled = drain(tasks)

    assert [one.message.value["task"] for one in settled] == ["double", "send_twice", "send"]
    assert job.result(timeout=0) == 8
    assert seen == [threading.current_thread(), "ada"]
    assert_enqueued(send, {"to": "ada"}, count=1, delay=60)


def test_a_coroutine_function_is_drained_too() -> None:
    job = fetch.enqueue("page")
    drain(tasks)

    assert job.result(timeout=0) == "PAGE"


def test_tasks_are_drained_on_an_event_loop() -> None:
    async def run() -> None:
        one, two = await fetch.aenqueue("page"), await double.aenqueue(2)
        await drain_async(tasks)
        assert (await one, await two) == ("PAGE", 4)

    asyncio.run(run())


def test_retries_of_a_task_are_made_when_delayed_jobs_are_wanted() -> None:
    job = fail.enqueue("no")

    assert [one.state for one in drain(tasks)] == ["released"]
    assert [one.state for one in drain(tasks, with_delayed=True)] == ["released", "dead-lettered"]
    assert seen == ["no"] * 3
    with pytest.raises(LookupError, match="no"):
        job.result(timeout=0)


def test_limits_do_not_hold_up_a_drain() -> None:
    jobs = [scarce.enqueue() for _ in range(3)]
    drain(tasks)
    assert seen == ["scarce"] * 3

    with inline(tasks):
        assert scarce.enqueue().result(timeout=0) is None
    asyncio.run(drain_async(tasks))
    assert all(job.result(timeout=0) is None for job in jobs)


def test_the_failure_of_a_task_is_raised_when_asked_for() -> None:
    fail.enqueue("no")
    with pytest.raises(LookupError, match="no"):
        drain(tasks, raising=True)
    assert seen == ["no"]


def test_what_schedules_have_due_is_put_when_it_is_wanted(clock: Clock) -> None:
    shop = Tasks()

    @shop.cron("0 3 * * *")
    def clean() -> None:
        seen.append("clean")

    assert drain(shop, with_schedules=True) == []
    clock.advance(timedelta(hours=3))
    assert drain(shop) == []
    drain(shop, with_schedules=True)
    assert seen == ["clean"]
    shop.close()


def test_a_handler_and_options_are_for_queues() -> None:
    with pytest.raises(TypeError, match="tasks are run by their functions"):
        drain(tasks, print)
    with pytest.raises(TypeError, match="tasks have settings of their own; max_tries is for a queue"):
        drain(tasks, max_tries=1)
    with pytest.raises(TypeError, match="pass the Tasks that"):
        drain(double)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pass a handler for the messages of queue 'mails'"):
        drain("mails")
    with pytest.raises(TypeError, match="with_schedules is for tasks"):
        drain("mails", print, with_schedules=True)


def test_inline_a_job_is_finished_when_it_is_returned() -> None:
    with inline(tasks):
        job = double.enqueue(21)
        status = job.status()
        assert status is not None
        assert (status.state, job.result(timeout=0)) == ("succeeded", 42)
        assert seen == [threading.current_thread()]
        assert [one.result(timeout=0) for one in double.many([(1,), (2,)])] == [2, 4]
        assert fetch.enqueue("page").result(timeout=0) == "PAGE"

    later = double.enqueue(1).status()
    assert later is not None
    assert later.state == "queued"


def test_inline_what_a_task_enqueues_is_run_before_it_goes_on() -> None:
    with inline(tasks):
        send_twice.enqueue("ada")

    assert seen == ["ada"]
    assert_enqueued(send, {"to": "ada"}, delay=60, count=1)


def test_inline_all_tries_are_made_at_once() -> None:
    with inline(tasks):
        job = fail.enqueue("no")

    assert seen == ["no"] * 3
    status = job.status()
    assert status is not None
    assert status.state == "failed"
    with pytest.raises(LookupError, match="no"):
        job.result(timeout=0)


def test_inline_a_failure_is_raised_at_the_enqueue_when_asked_for() -> None:
    with inline(tasks, raising=True), pytest.raises(LookupError, match="no"):
        fail.enqueue("no")


def test_inline_a_job_of_a_transaction_waits_for_its_commit(tmp_path: Path) -> None:
    with SQLiteQueueStore(tmp_path / "shop.db", shared=True) as store, use_store(store), inline(tasks):
        connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
        connection.execute("BEGIN")
        double.options(connection=connection).enqueue(1)
        assert seen == []
        connection.execute("COMMIT")
        connection.close()
        assert_enqueued(double, {"number": 1})


def test_inline_works_inside_of_a_coroutine() -> None:
    async def run() -> None:
        with inline(tasks):
            assert await fetch.enqueue("page") == "PAGE"
            assert await (await fetch.aenqueue("page")) == "PAGE"

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_the_arguments_of_a_job_are_matched_with_their_types() -> None:
    at, one = datetime(2030, 2, 3, tzinfo=UTC), UUID(int=7)
    send.enqueue("ada", at, ids=[one])

    assert_enqueued(send, {"to": "ada"}, priority=3)
    assert_enqueued(send, {"at": at, "ids": [one]})
    assert_enqueued(send, {"at": lambda moment: moment.year == 2030})
    assert_not_enqueued(send, {"at": None})
    assert_not_enqueued(send, {"to": "bob"})
    assert_not_enqueued(send_twice)
    assert_enqueued("mails", {"task": "send", "args": {"to": "ada"}})


def test_a_failure_shows_the_jobs_of_the_task() -> None:
    send.enqueue("ada")
    with pytest.raises(AssertionError) as raised:
        assert_enqueued(send, {"to": "bob"})
    assert str(raised.value) == (
        "no message has args={'to': 'bob'}\n"
        "task 'send' has 1:\n"
        "  {'to': 'ada', 'at': None, 'ids': []} priority=3\n"
        "    args['to'] is 'ada', not 'bob'"
    )
    with pytest.raises(AssertionError, match="no message is there\ntask 'double' has none"):
        assert_enqueued(double)
