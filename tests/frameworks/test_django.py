"""Django's tasks on a store, with Django itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import override_settings
from django.utils import timezone

from localqueue.contracts.steps import PATIENCE
from localqueue.django import LocalqueueBackend, api
from tests.frameworks import project
from tests.frameworks.shop import tasks as shop
from tests.frameworks.shop.models import Order
from tests.servers import Postgres

READY, FAILED, SUCCESSFUL = (api.TaskResultStatus[name] for name in ("READY", "FAILED", "SUCCESSFUL"))
HERE = "localqueue.django.LocalqueueBackend"


@pytest.fixture(params=["sqlite", "postgres"])
def shop_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Settings of a new database of Django, which has its tables and those of the queue."""
    if request.param == "sqlite":
        settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "shop.db")}
        yield from _in_database(settings)
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = f"shop_{os.urandom(6).hex()}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        told = {"USER": admin.info.user, "HOST": admin.info.host, "PORT": admin.info.port}
    yield from _in_database({"ENGINE": "django.db.backends.postgresql", "NAME": name, **told})


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Iterator[dict[str, Any]]:
    yield from _in_database({"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "shop.db")})


def _in_database(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    project.connect_to(settings)
    call_command("migrate", run_syncdb=True, verbosity=0)
    shop.ran.clear()
    try:
        yield settings
    finally:
        backend().tasks.close()
        connections.close_all()


@pytest.fixture
def elsewhere(sqlite_shop: dict[str, Any], tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Has the jobs in a file of their own, with further options."""
    changes = []

    def move(**options: Any) -> None:
        options = {"url": f"sqlite:///{tmp_path}/jobs.db", **options}
        change = override_settings(TASKS={"default": {"BACKEND": HERE, "OPTIONS": options}})
        change.enable()
        changes.append(change)

    yield move
    for change in reversed(changes):
        backend().tasks.close()
        change.disable()


def backend() -> LocalqueueBackend:
    found = api.task_backends["default"]
    assert isinstance(found, LocalqueueBackend)
    return found


def work() -> Any:
    return backend().tasks.worker(concurrency=1).run_until_empty()


def waiting() -> int:
    return sum(backend().tasks.queue(name).stats().total for name in backend().tasks.queues)


def test_a_task_is_run_and_its_result_has_all_that_django_asks_for(shop_database: dict[str, Any]) -> None:
    order = Order.objects.create(name="chair")

    result = shop.pack.enqueue(order.pk, note="soon")
    assert (result.status, result.attempts) == (READY, 0)
    assert shop.pack.get_result(result.id).status == READY
    work()
    result.refresh()

    assert result.status == SUCCESSFUL and result.is_finished
    assert result.return_value == {"order": "chair", "note": "soon"}
    assert (result.args, result.kwargs) == ([order.pk], {"note": "soon"})
    assert result.attempts == 1 and result.worker_ids == [backend().tasks.worker().worker_id]
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    assert result.errors == []
    assert backend().get_result(result.id).task.func is shop.pack.func


def test_coroutines_enqueue_and_are_tasks(sqlite_shop: dict[str, Any]) -> None:
    async def enqueue() -> Any:
        return await shop.write.aenqueue("someone")

    result = asyncio.run(enqueue())
    work()

    async def ask() -> Any:
        found = await shop.write.aget_result(result.id)
        return found.return_value

    assert asyncio.run(ask()) == "to someone"
    assert backend().get_result(result.id).task.queue_name == "mail"


def test_a_task_is_part_of_the_transaction_it_is_enqueued_in(shop_database: dict[str, Any]) -> None:
    with transaction.atomic():
        order = Order.objects.create(name="table")
        result = shop.pack.enqueue(order.pk)
        assert waiting() == 0  # as others see it
    work()
    result.refresh()
    assert result.return_value == {"order": "table", "note": ""}

    with pytest.raises(shop.OutOfStock), transaction.atomic():
        Order.objects.create(name="lamp")
        lost = shop.pack.enqueue(1)
        raise shop.OutOfStock
    assert waiting() == 0
    with pytest.raises(api.TaskResultDoesNotExist):
        shop.pack.get_result(lost.id)

    with transaction.atomic():
        with pytest.raises(shop.OutOfStock), transaction.atomic():
            shop.note.enqueue("of a savepoint that is rolled back")
            raise shop.OutOfStock
        shop.note.enqueue("of the transaction")
    work()
    assert shop.ran[-1] == "of the transaction" and waiting() == 0


KILLED = """
import os, signal
from django.db import transaction
from tests.frameworks.shop import tasks
from tests.frameworks.shop.models import Order

with transaction.atomic():
    order = Order.objects.create(name="sofa")
    tasks.pack.enqueue(order.pk)
    if {before}:
        os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.crash
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_process_that_is_killed_leaves_both_the_rows_and_the_job_or_neither(
    shop_database: dict[str, Any], before: bool
) -> None:
    program = project.manage(shop_database, "shell", "-c", KILLED.format(before=before))
    _, err = program.communicate(timeout=3 * PATIENCE)

    assert program.returncode == -signal.SIGKILL, err
    assert (Order.objects.count(), waiting()) == ((0, 0) if before else (1, 1))


def test_the_first_job_of_a_process_can_be_in_a_transaction_that_has_written(sqlite_shop: dict[str, Any]) -> None:
    backend().tasks.close()
    with transaction.atomic():
        Order.objects.create(name="stool")
        shop.note.enqueue("first")
    work()
    assert shop.ran == ["first"]


def test_an_address_may_name_the_file_of_django_itself(elsewhere: Callable[..., None], tmp_path: Path) -> None:
    elsewhere(url=f"sqlite:///{tmp_path}/shop.db")
    with pytest.raises(shop.OutOfStock), transaction.atomic():
        shop.note.enqueue("lost")
        raise shop.OutOfStock
    with transaction.atomic():
        Order.objects.create(name="stool")
        shop.note.enqueue("kept")
    work()
    assert shop.ran == ["kept"]


def test_asking_for_a_result_makes_no_store(elsewhere: Callable[..., None], tmp_path: Path) -> None:
    elsewhere()
    with pytest.raises(api.TaskResultDoesNotExist):
        shop.note.get_result("0" * 32)
    assert not (tmp_path / "jobs.db").exists()


def test_messages_that_are_no_tasks_have_no_result(sqlite_shop: dict[str, Any]) -> None:
    queue = backend().tasks.queue("default")
    message = queue.put("no call")
    queue.ack(queue.get_message(), result={"value": 1})
    with pytest.raises(api.TaskResultDoesNotExist):
        shop.note.get_result(message.id)


def test_a_transaction_that_the_queue_can_not_join_refuses_a_task(elsewhere: Callable[..., None]) -> None:
    elsewhere()
    with transaction.atomic(), pytest.raises(ImproperlyConfigured, match="on_commit"):
        shop.note.enqueue("refused")
    assert waiting() == 0

    shop.note.enqueue("outside of one")
    work()
    assert shop.ran == ["outside of one"]


def test_the_checks_say_that_the_queue_can_not_join(elsewhere: Callable[..., None]) -> None:
    elsewhere(url="memory://")
    assert [one.id for one in backend().check()] == ["localqueue.W001"]
    elsewhere(url="memory://", on_commit=True)
    assert list(backend().check()) == []
    other = LocalqueueBackend("default", {"OPTIONS": {"database": "other"}})
    assert [one.id for one in other.check()] == ["localqueue.E001"]


def test_on_commit_enqueues_after_the_commit_only(elsewhere: Callable[..., None]) -> None:
    elsewhere(on_commit=True)
    with transaction.atomic():
        result = shop.note.enqueue("later")
        assert result.id == "" and waiting() == 0
    assert waiting() == 1
    work()
    result.refresh()
    assert result.status == SUCCESSFUL

    with pytest.raises(shop.OutOfStock), transaction.atomic():
        shop.note.enqueue("never")
        raise shop.OutOfStock
    assert waiting() == 0


def test_without_on_commit_a_task_is_enqueued_at_once(elsewhere: Callable[..., None]) -> None:
    elsewhere(on_commit=False)
    with pytest.raises(shop.OutOfStock), transaction.atomic():
        shop.note.enqueue("at once")
        raise shop.OutOfStock
    work()
    assert shop.ran == ["at once"]


def test_a_task_that_fails_is_tried_again_and_tells_each_error(sqlite_shop: dict[str, Any]) -> None:
    result = shop.fail.enqueue("shelf")
    work()
    result.refresh()

    assert shop.ran == ["shelf", "shelf"]
    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 2, 2)
    assert result.errors[-1].exception_class is shop.OutOfStock
    assert "in fail" in result.errors[-1].traceback
    assert result.started_at < result.last_attempted_at <= result.finished_at
    with pytest.raises(ValueError, match="failed"):
        assert result.return_value


def test_a_task_with_a_context_knows_its_attempt(sqlite_shop: dict[str, Any]) -> None:
    result = shop.attempt.enqueue(3)
    work()
    result.refresh()

    assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, 3, 3)
    assert [error.exception_class for error in result.errors] == [shop.OutOfStock, shop.OutOfStock]


def test_priorities_go_from_highest_to_lowest(sqlite_shop: dict[str, Any]) -> None:
    for priority in (-100, 0, 100, 7):
        shop.note.using(priority=priority).enqueue(str(priority))
    low = shop.note.using(priority=-100).enqueue("last")
    work()

    assert shop.ran == ["100", "7", "0", "-100", "last"]
    assert backend().get_result(low.id).task.priority == -100


def test_run_after_holds_a_task_back(sqlite_shop: dict[str, Any]) -> None:
    now = timezone.now()
    later = shop.note.using(run_after=now + timedelta(hours=1)).enqueue("later")
    shop.note.using(run_after=now - timedelta(hours=1)).enqueue("now")
    work()

    assert shop.ran == ["now"]
    assert shop.note.get_result(later.id).status == READY


def test_signals_tell_of_the_beginning_and_of_the_end(sqlite_shop: dict[str, Any]) -> None:
    heard: list[tuple[str, Any]] = []
    listeners = []
    for name in ("task_enqueued", "task_started", "task_finished"):

        def hear(sender: type, task_result: Any, name: str = name, **_: Any) -> None:
            assert sender is LocalqueueBackend
            heard.append((name, task_result))

        listeners.append(hear)
        getattr(api, name).connect(hear)
    shop.note.enqueue("heard")
    work()
    assert [(name, result.status.value) for name, result in heard] == [
        ("task_enqueued", "READY"),
        ("task_started", "RUNNING"),
        ("task_finished", "SUCCESSFUL"),
    ]
    assert heard[-1][1].return_value is None and heard[-1][1].finished_at is not None
    heard.clear()

    shop.fail.enqueue("twice")
    work()
    assert [name for name, _ in heard] == ["task_enqueued", "task_started", "task_started", "task_finished"]
    ended = heard[-1][1]
    assert (ended.status, ended.attempts, len(ended.errors)) == (FAILED, 2, 2)
    assert all("in fail" in error.traceback for error in ended.errors)


def test_arguments_and_results_are_json(sqlite_shop: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        shop.note.enqueue(object())
    assert waiting() == 0

    result = shop.misfit.enqueue()
    work()
    result.refresh()
    assert (result.status, shop.ran) == (FAILED, ["misfit"])


def test_nothing_but_a_task_is_called_for_a_message(sqlite_shop: dict[str, Any]) -> None:
    queue = backend().tasks.queue("default")
    for path in ("tests.frameworks.shop.tasks.no_task", "tests.frameworks.shop.tasks.gone", "os.getcwd"):
        queue.put({"task": path, "args": {}})
    work()

    assert shop.ran == []
    reasons = [(one.last_error or {})["message"] for one in queue.dead_letters()]
    assert "no task; decorate" in reasons[0] and "gone" in reasons[1] and "no task" in reasons[2]


def test_a_broken_connection_is_not_passed_on_to_the_next_job(shop_database: dict[str, Any]) -> None:
    shop.break_connection.enqueue()
    result = shop.count.enqueue()
    work()
    result.refresh()
    assert result.return_value == 0


def test_results_of_nobody_and_of_other_tasks_are_refused(sqlite_shop: dict[str, Any]) -> None:
    with pytest.raises(api.TaskResultDoesNotExist):
        shop.note.get_result("0" * 32)
    result = shop.note.enqueue("x")
    with pytest.raises(Exception, match="does not match"):
        shop.pack.get_result(result.id)


def test_a_cancelled_task_has_failed(sqlite_shop: dict[str, Any]) -> None:
    result = shop.note.enqueue("unwanted")
    assert backend().tasks.queue("default").cancel(result.id)
    result.refresh()
    assert (result.status, [one.exception_class.__name__ for one in result.errors]) == (FAILED, ["JobCancelled"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"uri": "memory://"}, "uri"),
        ({"url": "jobs.db"}, "sqlite:///"),
        ({"on_commit": "yes"}, "on_commit"),
        ({"retries": -1}, "retries"),
        ({"tasks": {"shop.tasks.pack": {"retrys": 1}}}, "retrys"),
    ],
)
def test_options_that_nobody_could_follow_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        LocalqueueBackend("default", {"OPTIONS": options})


def test_a_database_in_memory_has_no_place_for_a_queue() -> None:
    project.connect_to({"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"})
    call_command("migrate", run_syncdb=True, verbosity=0)
    with pytest.raises(ImproperlyConfigured, match="memory://"):
        shop.note.enqueue("nowhere")
    connections.close_all()


def test_the_settings_of_the_project_pass_djangos_checks(sqlite_shop: dict[str, Any]) -> None:
    assert run_checks() == []


def test_the_command_refuses_what_it_can_not_work_for(sqlite_shop: dict[str, Any]) -> None:
    for options, said in (
        ({"queue": ["mail=much"]}, "mail=3"),
        ({"queue": ["letters"]}, "letters"),
        ({"processes": 0}, "processes"),
        ({"backend": "other"}, "other"),
    ):
        with pytest.raises(CommandError, match=said):
            call_command("localqueue_worker", until_empty=True, **options)


@pytest.mark.multiprocess
def test_the_command_works_until_empty_and_its_exit_code_tells_of_failures(shop_database: dict[str, Any]) -> None:
    order = Order.objects.create(name="bench")
    result = shop.pack.enqueue(order.pk)
    written = shop.write.enqueue("you")
    command = project.manage(shop_database, "localqueue_worker", "--until-empty", "--queue", "default")
    out, err = command.communicate(timeout=3 * PATIENCE)
    assert command.returncode == 0, err
    assert "1 succeeded, 0 failed" in out
    result.refresh(), written.refresh()
    assert (result.status, written.status) == (SUCCESSFUL, READY)

    shop.fail.enqueue("bench")
    command = project.manage(shop_database, "localqueue_worker", "--until-empty", "--processes", "2")
    _, err = command.communicate(timeout=3 * PATIENCE)
    assert command.returncode == 1 and "1 tasks failed" in err


@pytest.mark.multiprocess
@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_command_ends_with_0_when_it_is_told_to(shop_database: dict[str, Any], processes: str) -> None:
    result = shop.note.enqueue("x")
    queue = backend().tasks.queue("default")
    command = project.manage(shop_database, "localqueue_worker", "--processes", processes)
    try:
        queue.result(result.id, timeout=3 * PATIENCE)
        command.send_signal(signal.SIGTERM)
        out, err = command.communicate(timeout=3 * PATIENCE)
    finally:
        command.kill()
    assert command.returncode == 0, err
    assert "1 succeeded, 0 failed" in out
