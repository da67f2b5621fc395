"""`localqueue bridge`: messages go on to another store, and what can not be meant is said in a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.queue import PersistentQueue
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.cli.command import run

HERE, THERE = "sqlite:///here.db", "sqlite:///there.db"


def fill(queue: str, *values: object) -> None:
    with SQLiteQueueStore("here.db") as store:
        PersistentQueue[object](queue, store=store).put_many(values)


def test_queues_are_moved_and_counted() -> None:
    fill("jobs", 1, 2, 3)
    fill("mail", "x")
    moved = run("bridge", HERE, THERE, "--queue", "jobs", "--queue", "mail=inbox", "--until-empty")
    assert [(one["queue"], one["to"], one["moved"]) for one in moved.json] == [
        ("jobs", "jobs", 3),
        ("mail", "inbox", 1),
    ]
    assert run("queue", "size", "inbox", "--store", THERE).out == "1\n"
    assert run("queue", "size", "jobs", "--store", HERE).out == "0\n"
    again = run("bridge", HERE, THERE, "--queue", "jobs", "--until-empty", "--rate", "100/s")
    assert again.json[0]["moved"] == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sqlite:///nowhere.db", THERE, "-q", "jobs"), 1, "there is no store at 'sqlite:///nowhere.db'"),
        ((HERE, "nosuch://user:secret1@host", "-q", "jobs"), 2, "can not open"),
        ((HERE, HERE, "-q", "jobs"), 2, "source and target are both queue 'jobs'"),
        ((HERE, THERE, "-q", "jobs="), 2, "names no queue"),
        ((HERE, THERE, "-q", "jobs", "--rate", "fast"), 2, "rate='fast'"),
        ((HERE, THERE), 2, "--queue"),
    ],
)
def test_what_can_not_be_meant_is_said_in_a_line(words: tuple[str, ...], code: int, said: str) -> None:
    fill("jobs", 1)
    ran = run("bridge", *words)
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert said in ran.err and "secret1" not in ran.err
    assert not Path("nowhere.db").exists()


@pytest.mark.multiprocess
@pytest.mark.slow
def test_it_runs_until_it_is_told_to_stop() -> None:
    fill("jobs", 1)
    command = [sys.executable, "-m", "localqueue.cli", "bridge", HERE, THERE, "-q", "jobs", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ}, text=True)
    try:
        with SQLiteQueueStore("there.db") as there:
            assert PersistentQueue[int]("jobs", store=there).get(timeout=3 * PATIENCE) == 1
            fill("jobs", 2)
            assert PersistentQueue[int]("jobs", store=there).get(timeout=3 * PATIENCE) == 2
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=3 * PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0 and '"moved": 2' in out
