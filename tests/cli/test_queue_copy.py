"""`localqueue queue copy`, and the store that the environment names."""

from __future__ import annotations

from pathlib import Path

import pytest

from localqueue.stores.sqlite import SQLiteQueueStore
from tests.cli.command import put, run

pytestmark = pytest.mark.slow  # each test runs the command several times

THERE = "sqlite:///there.db"


def test_a_queue_is_copied_and_again_only_what_is_new() -> None:
    put("jobs", 1, 2, 3)
    ran = run("queue", "copy", "jobs", "--to", THERE)
    assert ran.json == {
        "queue": "jobs",
        "store": THERE,
        "copied": 3,
        "already_there": 0,
        "duplicates": 0,
        "by_state": {"ready": 3},
    }
    assert run("queue", "pop", "jobs").code == 1, "the source is paused"
    assert run("queue", "size", "jobs", "--store", THERE).out == "3\n"
    put("jobs", 4)
    ran = run("queue", "copy", "jobs", "--to", THERE, "--progress")
    assert (ran.json["copied"], ran.json["already_there"]) == (1, 3)
    assert "4 of 4" in ran.err


def test_a_queue_gets_another_name_and_namespace() -> None:
    put("jobs", 1)
    where = ("--to", THERE, "--to-namespace", "tenant", "--to-queue", "moved")
    assert run("queue", "copy", "jobs", *where).json["queue"] == "moved"
    assert run("queue", "size", "moved", "--store", THERE, "--namespace", "tenant").out == "1\n"
    forgotten = {"queue": "moved", "store": THERE, "forgotten": 1}
    assert run("queue", "copy", "jobs", *where, "--forget").json == forgotten


def test_what_can_not_be_copied_is_said_in_a_line() -> None:
    put("jobs", 1)
    assert run("queue", "pop", "jobs").code == 0
    leased = run("queue", "copy", "jobs", "--to", THERE)
    assert (leased.code, leased.err.count("\n")) == (1, 1)
    assert "leased" in leased.err
    unknown = run("queue", "copy", "jobs", "--to", "nosuch://user:secret@host")
    assert unknown.code == 2
    assert "secret" not in unknown.err
    assert run("queue", "copy", "jobs").code == 2


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALQUEUE_URL", THERE)
    monkeypatch.setenv("LOCALQUEUE_NAMESPACE", "tenant")
    put("jobs", 1)
    assert Path("there.db").exists()
    monkeypatch.delenv("LOCALQUEUE_URL")
    monkeypatch.delenv("LOCALQUEUE_NAMESPACE")
    assert run("queue", "size", "jobs").err.startswith("there is no store at 'sqlite:////")
    assert run("queue", "size", "jobs", "--store", THERE).err.startswith("there is no namespace 'default' in ")
    assert run("queue", "size", "jobs", "--store", THERE, "--namespace", "tenant").out == "1\n"


def test_options_win_over_the_environment_and_that_over_the_config_file(monkeypatch: pytest.MonkeyPatch) -> None:
    run("config", "init", "--store-path", "configured.db", "--namespace", "configured")
    put("jobs", 1)
    assert run("queue", "size", "jobs", "--store", "sqlite:///configured.db").out == "1\n"
    monkeypatch.setenv("LOCALQUEUE_URL", THERE)
    assert run("queue", "size", "jobs").err == f"there is no store at {THERE!r}\n"
    assert run("queue", "size", "jobs", "--store-path", "configured.db").out == "1\n"
    monkeypatch.setenv("LOCALQUEUE_BACKEND", "redis")
    wrong = run("queue", "size", "jobs")
    assert (wrong.code, wrong.out) == (2, "")
    assert "redis" in wrong.err
    monkeypatch.setenv("LOCALQUEUE_BACKEND", "oracle")
    assert "oracle" in run("queue", "size", "jobs").err


def test_records_of_retries_are_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALQUEUE_URL", THERE)
    prune = ("retry", "prune", "--older-than", "0", "--dry-run")
    assert run(*prune).err == f"there is no store at {THERE!r}\n"
    SQLiteQueueStore("there.db").close()
    assert run(*prune).json["would_delete"] == 0
    assert not Path("data").exists()
