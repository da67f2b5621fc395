"""The tasks of a Flask application, with Flask itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask, current_app, g

from localqueue.contracts.steps import PATIENCE
from localqueue.flask import FlaskTasks
from localqueue.tasks import TaskError


@pytest.fixture
def tasks() -> Iterator[FlaskTasks]:
    tasks = FlaskTasks()

    @tasks.task(retries=0)
    def greet(name: str) -> str:
        g.greeted = name
        return f"{current_app.config['GREETING']}, {name}"

    @tasks.task(queue="loop")
    async def greet_later(name: str) -> str:
        return f"{current_app.config['GREETING']}, {name}"

    @tasks.task(retries=0)
    def fail() -> None:
        raise ValueError(current_app.name)

    with tasks:
        yield tasks


@pytest.fixture
def app(tasks: FlaskTasks, tmp_path: Path) -> Flask:
    app = Flask("shop")
    app.config.update(LOCALQUEUE_URL=f"sqlite:///{tmp_path}/jobs.db", GREETING="hello")
    tasks.init_app(app)

    @app.post("/greet/<name>")
    def greet(name: str) -> str:
        return tasks.tasks["greet"].enqueue(name).id

    return app


def test_a_job_runs_in_a_context_of_the_application(app: Flask, tasks: FlaskTasks) -> None:
    job = app.test_client().post("/greet/you").text
    later = tasks.tasks["greet_later"].enqueue("later")
    tasks.worker().run_until_empty()

    assert tasks.job(job).result(timeout=PATIENCE) == "hello, you"
    assert later.result(timeout=PATIENCE) == "hello, later"
    assert not current_app
    assert app.extensions["localqueue"] is tasks


def test_each_try_has_a_context_of_its_own_that_is_torn_down(app: Flask, tasks: FlaskTasks) -> None:
    ended: list[str] = []

    @app.teardown_appcontext
    def note(error: BaseException | None) -> None:
        ended.append(g.pop("greeted", "nothing"))

    for name in ("one", "two"):
        tasks.tasks["greet"].enqueue(name)
    tasks.worker(concurrency=1).run_until_empty()
    assert ended == ["one", "two"]


def test_the_configuration_says_where_and_how(tasks: FlaskTasks, tmp_path: Path) -> None:
    app = Flask("shop")
    app.config.from_mapping(
        LOCALQUEUE_URL=f"sqlite:///{tmp_path}/other.db",
        LOCALQUEUE_NAMESPACE="shop",
        LOCALQUEUE_KEEP_RESULTS=None,
        LOCALQUEUE_QUEUES={"default": {"lease_timeout": 7}},
        GREETING="hi",
    )
    tasks.init_app(app)
    job = tasks.tasks["greet"].enqueue("you")
    tasks.worker().run_until_empty()

    assert (tmp_path / "other.db").exists()
    assert job.status() is None
    assert tasks.queue().lease_timeout == 7


def test_tasks_move_to_the_application_they_were_last_given_to(app: Flask, tasks: FlaskTasks, tmp_path: Path) -> None:
    tasks.tasks["greet"].enqueue("of the first one")
    other = Flask("other")
    other.config.update(LOCALQUEUE_URL=f"sqlite:///{tmp_path}/other.db", GREETING="hi")
    tasks.init_app(other)

    job = tasks.tasks["greet"].enqueue("you")
    assert tasks.queue().qsize() == 1
    tasks.worker().run_until_empty()
    assert job.result(timeout=PATIENCE) == "hi, you"


def test_without_an_application_no_job_is_run(tmp_path: Path) -> None:
    tasks = FlaskTasks()
    with pytest.raises(TaskError, match="init_app"):
        assert tasks.around is not None
        tasks.around()


def test_the_command_works_until_empty_and_its_exit_code_tells_of_failures(app: Flask, tasks: FlaskTasks) -> None:
    run = app.test_cli_runner()
    job = tasks.tasks["greet"].enqueue("you")
    done = run.invoke(args=["localqueue", "work", "--until-empty", "--queue", "default=2"])
    assert done.exit_code == 0, done.output
    assert "1 succeeded, 0 failed" in done.output
    assert tasks.job(job.id).result(timeout=PATIENCE) == "hello, you"

    tasks.tasks["fail"].enqueue()
    assert run.invoke(args=["localqueue", "work", "--until-empty"]).exit_code == 1


@pytest.mark.parametrize(("words", "said"), [(["--queue", "letters"], "letters"), (["--queue", "loop=much"], "loop=3")])
def test_a_mistake_is_named(app: Flask, words: list[str], said: str) -> None:
    done = app.test_cli_runner().invoke(args=["localqueue", "work", *words])
    assert done.exit_code == 2 and said in done.output


APPLICATION = """
from flask import Flask, current_app
from localqueue.flask import FlaskTasks

tasks = FlaskTasks()

@tasks.task
def greet(name: str) -> str:
    return f"{current_app.name} greets {name}"

def create_app():
    app = Flask("shop")
    app.config["LOCALQUEUE_URL"] = "sqlite:///jobs.db"
    tasks.init_app(app)
    return app
"""


@pytest.mark.multiprocess
def test_the_command_ends_with_0_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    command = subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "application", "localqueue", "work"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    tasks = FlaskTasks()
    app = Flask("elsewhere")
    app.config["LOCALQUEUE_URL"] = f"sqlite:///{tmp_path}/jobs.db"
    tasks.init_app(app)

    @tasks.task
    def greet(name: str) -> str:
        return name

    try:
        with tasks:
            assert greet.enqueue("you").result(timeout=3 * PATIENCE) == "shop greets you"
        command.send_signal(signal.SIGTERM)
        out, err = command.communicate(timeout=3 * PATIENCE)
    finally:
        command.kill()
    assert command.returncode == 0, err
    assert "1 succeeded, 0 failed" in out
