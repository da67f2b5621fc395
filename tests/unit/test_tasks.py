"""`Tasks`: functions declared, enqueued, run and asked for their results."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PayloadError, SQLiteQueueStore, Tasks, configure, current_job
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import JobCancelled, JobFailed, QueueStoreMissingError, ResultMissing, ResultTimeout
from localqueue.tasks import TaskError


class Broken(Exception):
    """An error of an application."""


class Odd(Exception):
    """An error that can not be made of its text."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@dataclass
class Receipt:
    order: int
    at: datetime


@pytest.fixture
def tasks() -> Iterator[Tasks]:
    with MemoryQueueStore() as store, Tasks(store) as tasks:
        yield tasks


def test_a_task_is_called_as_ever_and_enqueued(tasks: Tasks) -> None:
    @tasks.task
    def add(one: int, two: int = 2) -> int:
        """Adds."""
        return one + two

    job = add.enqueue(1, two=5)

    assert add(1) == 3
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert tasks.worker().run_until_empty().acked == 1
    assert job.result(timeout=PATIENCE) == 6


def test_a_result_is_rebuilt_as_its_type(tasks: Tasks) -> None:
    at = datetime(2026, 11, 17, tzinfo=UTC)

    @tasks.task
    def pay(order: int) -> Receipt:
        return Receipt(order, at)

    job = pay.delay(7)
    tasks.worker().run_until_empty()

    assert job.result(timeout=PATIENCE) == Receipt(7, at)
    assert pay.job(job.id).result(timeout=PATIENCE) == Receipt(7, at)
    assert tasks.job(job.id).result(timeout=PATIENCE) == {"order": 7, "at": "2026-11-17T00:00:00Z"}


def test_what_does_not_fit_is_refused_where_it_is_enqueued_and_nothing_is_stored(tasks: Tasks) -> None:
    @tasks.task
    def add(one: int) -> int:
        return one

    with pytest.raises(PayloadError, match="parameter 'one'"):
        add.many([(1,), ("two",)])

    assert tasks.queue().qsize() == 0


def test_many_calls_are_one_transaction(tasks: Tasks) -> None:
    @tasks.task
    def add(one: int, two: int = 0) -> int:
        return one + two

    jobs = add.many([(1,), (2, 2), {"one": 3}])
    tasks.worker().run_until_empty()

    assert [job.result(timeout=PATIENCE) for job in jobs] == [1, 4, 3]
    assert add.many([]) == []
    with pytest.raises(TypeError, match=r"write \(1,\)"):
        add.many([1])  # type: ignore[list-item]


def test_what_a_task_raised_is_raised_with_its_traceback(tasks: Tasks) -> None:
    @tasks.task(retries=0)
    def fail() -> None:
        raise Broken("the printer is on fire")

    job = fail.enqueue()
    tasks.worker().run_until_empty()

    with pytest.raises(Broken, match="on fire") as caught:
        job.result(timeout=PATIENCE)
    assert "in fail" in "".join(caught.value.__notes__)
    assert isinstance(caught.value.__cause__, JobFailed)


def test_an_error_that_can_not_be_made_again_is_a_job_that_failed(tasks: Tasks) -> None:
    @tasks.task(retries=0)
    def fail() -> None:
        raise Odd(1, 2)

    job = fail.enqueue()
    tasks.worker().run_until_empty()

    with pytest.raises(JobFailed, match="1 and 2") as failure:
        job.result(timeout=PATIENCE)
    assert failure.value.__cause__ is None


def test_a_result_is_waited_for_only_so_long(tasks: Tasks) -> None:
    @tasks.task
    def nothing() -> None: ...

    with pytest.raises(ResultTimeout):
        nothing.enqueue().result(timeout=0.01)


def test_waiting_for_a_result_is_woken(tasks: Tasks) -> None:
    @tasks.task
    def answer() -> int:
        return 42

    job, results = answer.enqueue(), []
    waiting = threading.Thread(target=lambda: results.append(job.result(timeout=PATIENCE)))
    waiting.start()
    tasks.worker().run_until_empty()
    waiting.join(PATIENCE)

    assert results == [42]


def test_a_result_can_be_awaited(tasks: Tasks) -> None:
    @tasks.task
    async def answer(value: int) -> int:
        await asyncio.sleep(0)
        return value

    async def main() -> int:
        job = await answer.aenqueue(42)
        worker = tasks.worker()
        running = asyncio.create_task(asyncio.to_thread(worker.run, signals=False))
        try:
            async with asyncio.timeout(PATIENCE):
                return await job
        finally:
            worker.stop()
            await running

    assert asyncio.run(main()) == 42


def test_retries_are_counted_and_only_for_the_errors_they_are_for(tasks: Tasks) -> None:
    tries: list[str] = []

    @tasks.task(retries=2, retry_delay=0, retry_on=ConnectionError)
    def flaky(error: str) -> int:
        tries.append(error)
        if error == "value":
            raise ValueError(error)
        if tries.count(error) < 3:
            raise ConnectionError(error)
        return len(tries)

    again, never = flaky.enqueue("connection"), flaky.enqueue("value")
    tasks.worker().run_until_empty()

    assert again.result(timeout=PATIENCE) == 4
    with pytest.raises(ValueError, match="value"):
        never.result(timeout=PATIENCE)
    assert tries.count("value") == 1


def test_a_task_that_takes_too_long_is_given_up(tasks: Tasks) -> None:
    release = threading.Event()

    @tasks.task(retries=0, timeout=0.05)
    def slow() -> None:
        release.wait(PATIENCE)

    @tasks.task(retries=0, timeout=0.05, queue="loop")
    async def slow_too() -> None:
        await asyncio.sleep(PATIENCE)

    jobs = [slow.enqueue(), slow_too.enqueue()]
    tasks.worker().run_until_empty()
    release.set()

    for job in jobs:
        with pytest.raises(TimeoutError, match=r"did not finish within 0.05 seconds"):
            job.result(timeout=PATIENCE)


def test_a_job_can_wait_for_other_jobs(tasks: Tasks) -> None:
    order: list[str] = []

    @tasks.task
    def note(word: str) -> None:
        order.append(word)

    first = note.options(delay=0.05).enqueue("first")
    note.options(after=[first]).enqueue("second")
    tasks.worker().run_until_empty(wait_for_delayed=True)

    assert order == ["first", "second"]


def test_a_job_that_follows_another_is_stored_with_its_ack(tasks: Tasks) -> None:
    done: list[int] = []

    @tasks.task(queue="second")
    def second(value: int) -> None:
        done.append(value)

    @tasks.task(queue="first", retries=1, retry_delay=0)
    def first(value: int) -> None:
        second.follow(value)
        if current_job().message.tries == 1:
            raise Broken

    first.enqueue(1)
    tasks.worker().run_until_empty()

    assert done == [1]


def test_options_are_those_of_a_message(tasks: Tasks) -> None:
    @tasks.task(priority=3)
    def note(word: str) -> None: ...

    note.options(priority=9, headers={"trace": "1"}, dedupe_key="one", ttl=60).enqueue("a")
    again = note.options(dedupe_key="one").enqueue("b")
    note.options(at=datetime.now(UTC) + timedelta(hours=1)).enqueue("later")
    messages = tasks.queue().messages()

    assert [(one.value["args"]["word"], one.priority, dict(one.headers)) for one in messages] == [
        ("a", 9, {"trace": "1"}),
        ("later", 3, {}),
    ]
    assert again.id == messages[0].id
    assert messages[1].available_at > messages[0].available_at + 3000


def test_mistaken_options_are_refused(tasks: Tasks) -> None:
    @tasks.task
    def note(word: str) -> None: ...

    with pytest.raises(ValueError, match="time zone"):
        note.options(at=datetime(2026, 1, 1)).enqueue("a")
    with pytest.raises(ValueError, match="either delay= or at="):
        note.options(at=datetime.now(UTC), delay=1).enqueue("a")
    with pytest.raises(TypeError, match="after="):
        note.options(after=note.enqueue("a")).enqueue("b")  # type: ignore[typeddict-item]
    with pytest.raises(ValueError, match="one dedupe_key"):
        note.options(dedupe_key="a").many([("a",)])


def test_mistaken_declarations_are_refused(tasks: Tasks) -> None:
    def fine() -> None: ...

    for settings in [{"retries": -1}, {"timeout": 0}, {"retry_delay": "soon"}, {"retry_on": "ConnectionError"},
                     {"executor": "greenlets"}, {"backoff": 0}, {"retrys": 1}, {"rate": "often"}, {"concurrency": 0},
                     {"key": len}]:  # fmt: skip
        with pytest.raises((ValueError, TypeError)):
            tasks.task(**settings)(fine)  # type: ignore[call-overload]
    with pytest.raises(TaskError, match="lambda"):
        tasks.task(lambda: None)
    with pytest.raises(TaskError, match="generator"):
        tasks.task(lambda: (yield), name="generator")  # type: ignore[call-overload]
    assert tasks.tasks == {}


def test_two_tasks_of_one_name_are_refused_and_the_same_function_again_is_not(tasks: Tasks) -> None:
    def declare(value: int) -> Any:
        def send() -> int:
            return value

        return send

    tasks.task(declare(1))
    tasks.task(declare(2))

    def send() -> None: ...

    with pytest.raises(TaskError, match="there is a task 'send' already"):
        tasks.task(send)
    tasks.task(name="other")(send)


def test_a_message_of_an_unknown_task_is_a_dead_letter_that_says_so(tasks: Tasks) -> None:
    @tasks.task
    def send_mail() -> None: ...

    tasks.queue().put({"task": "sendmail", "args": {}})
    tasks.queue().put("something else")
    tasks.worker(concurrency=1).run_until_empty()

    errors = [message.last_error for message in tasks.queue().dead_letters()]
    assert [(error or {})["type"] for error in errors] == ["UnknownTask", "UnknownTask"]
    assert "no task 'sendmail'; is it 'send_mail' now?" in (errors[0] or {})["message"]
    assert [message.attempts for message in tasks.queue().dead_letters()] == [1, 1]


def test_a_message_for_another_signature_is_a_dead_letter_that_says_so(tasks: Tasks) -> None:
    @tasks.task
    def send(user: int) -> None: ...

    tasks.queue().put({"task": "send", "args": {"person": 1}})
    tasks.worker().run_until_empty()

    (dead,) = tasks.queue().dead_letters()
    assert "wants the parameter 'user'" in (dead.last_error or {})["message"]
    assert dead.attempts == 1


def test_a_task_that_was_renamed_is_found_by_its_old_name(tasks: Tasks) -> None:
    seen: list[int] = []

    @tasks.task(aliases=["send_mail"], renamed={"person": "user"})
    def send(user: int) -> None:
        seen.append(user)

    tasks.queue().put({"task": "send_mail", "args": {"person": 1}})
    tasks.worker().run_until_empty()

    assert seen == [1]


def test_a_job_can_be_called_off(tasks: Tasks) -> None:
    @tasks.task
    def send() -> None: ...

    job = send.enqueue()

    assert job.cancel()
    assert not job.cancel()
    with pytest.raises(JobCancelled):
        job.result(timeout=PATIENCE)
    assert tasks.worker().run_until_empty().total == 0


def test_progress_is_seen_from_outside(tasks: Tasks) -> None:
    reached, seen = threading.Event(), threading.Event()

    @tasks.task
    def resize() -> None:
        current_job().progress(0.4, "resized")
        reached.set()
        seen.wait(PATIENCE)

    job = resize.enqueue()
    worker = threading.Thread(target=tasks.worker().run_until_empty)
    worker.start()
    assert reached.wait(PATIENCE)
    with tasks.store.listen_records("progress", [job.id]) as told:
        while (status := job.status()) is not None and status.progress is None:
            assert told.wait(PATIENCE)
    seen.set()
    worker.join(PATIENCE)

    assert status is not None and status.state == "running"
    assert status.progress is not None and (status.progress.fraction, status.progress.note) == (0.4, "resized")
    ended = job.status()
    assert ended is not None and ended.state == "succeeded"


def test_what_a_job_logs_is_seen_from_outside_and_kept_with_its_outcome(tasks: Tasks) -> None:
    reached, seen = threading.Event(), threading.Event()

    @tasks.task(retries=0)
    def resize(fails: bool) -> None:
        current_job().log("begun")
        for number in range(150):
            current_job().log(f"picture {number}")
        reached.set()
        seen.wait(PATIENCE)
        if fails:
            raise Broken

    for fails in (False, True):
        reached.clear()
        seen.clear()
        job = resize.enqueue(fails)
        worker = threading.Thread(target=tasks.worker().run_until_empty)
        worker.start()
        assert reached.wait(PATIENCE)
        with tasks.store.listen_records("progress", [job.id]) as told:
            while (status := job.status()) is not None and not (status.log and status.log[-1].text == "picture 149"):
                assert told.wait(PATIENCE)
        assert status is not None and status.progress is None and len(status.log) == 100
        seen.set()
        worker.join(PATIENCE)
        ended = job.status()

        assert ended is not None and ended.finished
        assert [line.text for line in ended.log[-2:]] == ["picture 148", "picture 149"]
        assert status.started_at is not None and status.started_at <= ended.log[0].at <= ended.log[-1].at


def test_a_line_of_the_log_is_text_and_of_a_length(tasks: Tasks) -> None:
    @tasks.task(retries=0)
    def say(text: str) -> None:
        current_job().log(text)
        with pytest.raises(TypeError, match="must be a string, not 5"):
            current_job().log(5)  # type: ignore[arg-type]

    job = say.enqueue("x" * 600)
    tasks.worker().run_until_empty()

    status = job.status()
    assert status is not None and status.state == "succeeded"
    assert [(len(line.text), line.text[-3:]) for line in status.log] == [(500, "...")]


def test_results_are_kept_only_where_it_is_asked_for() -> None:
    with MemoryQueueStore() as store, Tasks(store, keep_results=None) as tasks:

        @tasks.task
        def answer() -> object:
            return object()

        job = answer.enqueue()
        assert tasks.worker().run_until_empty().acked == 1
        with pytest.raises(ResultMissing):
            job.result(timeout=PATIENCE)


def test_what_can_not_be_kept_as_a_result_is_not_run_again(tasks: Tasks) -> None:
    ran: list[int] = []

    @tasks.task
    def answer() -> object:
        ran.append(1)
        return object()

    answer.enqueue()
    tasks.worker().run_until_empty()

    assert ran == [1]
    (dead,) = tasks.queue().dead_letters()
    assert "keep_result=False" in (dead.last_error or {})["message"]


def test_tasks_without_an_address_live_in_the_store_of_the_process(tmp_path: Path) -> None:
    configure(url=f"sqlite:///{tmp_path}/jobs.db")
    try:
        with Tasks() as tasks:

            @tasks.task
            def send() -> None: ...

            assert not (tmp_path / "jobs.db").exists()
            send.enqueue()
        with SQLiteQueueStore(tmp_path / "jobs.db") as store:
            assert store.qsize("default") == 1
    finally:
        configure()


def test_an_address_is_opened_when_it_is_needed(tmp_path: Path) -> None:
    with Tasks(f"sqlite:///{tmp_path}/jobs.db", namespace="shop") as tasks:

        @tasks.task(queue="mail")
        def send() -> None: ...

        assert list(tmp_path.iterdir()) == []
        send.enqueue()
        assert tasks.queue("mail").qsize() == 1
    with pytest.raises(ValueError, match="can not open"):
        Tasks("jobs.db")


def test_asking_for_a_job_makes_no_store(tmp_path: Path) -> None:
    with Tasks(f"sqlite:///{tmp_path}/jobs.db") as tasks:

        @tasks.task
        def send() -> None: ...

        for ask in (tasks.job, send.job):
            with pytest.raises(QueueStoreMissingError, match="no store at"):
                ask("0c56e57ca45c6a1151f09d47dc2c6385")
        assert list(tmp_path.iterdir()) == []


def test_a_misspelt_setting_or_option_is_named_where_it_is_written(tasks: Tasks) -> None:
    with pytest.raises(TypeError, match=r"task\(\) .* 'retires'; did you mean 'retries'\?"):
        tasks.task(retires=3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"task\(\) .* 'ques'; did you mean 'queue'\?"):
        tasks.cron("* * * * *", ques="mail")(print)

    @tasks.task
    def note(text: str) -> None: ...

    with pytest.raises(TypeError, match=r"options\(\) .* 'dealy'; did you mean 'delay'\?"):
        note.options(dealy=3)  # type: ignore[call-arg]
