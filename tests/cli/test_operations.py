"""`localqueue queue purge, pause, resume, backup, check`, `localqueue compact`, and stores that fail."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from localqueue.stores.sqlite import SQLiteQueueStore
from tests.cli.command import put, run

pytestmark = pytest.mark.slow  # each test runs the command several times


def test_purge_removes_everything_and_counts_it() -> None:
    put("jobs", 1, 2)
    assert run("queue", "purge", "jobs").out == "2\n"
    assert run("queue", "stats", "jobs").json["total"] == 0


def test_a_paused_queue_hands_out_nothing() -> None:
    put("jobs", 1)
    assert run("queue", "pause", "jobs").json == {"queue": "jobs", "state": "paused"}
    assert run("queue", "pop", "jobs").code == 1
    assert run("queue", "resume", "jobs").json == {"queue": "jobs", "state": "resumed"}
    assert run("queue", "pop", "jobs").code == 0


def test_a_paused_worker_gets_nothing_and_another_does() -> None:
    put("jobs", 1)
    paused = {"queue": "jobs", "worker": "w", "state": "paused"}
    assert run("queue", "pause", "jobs", "--worker", "w").json == paused
    assert run("queue", "stats", "jobs").json["paused_workers"] == ["w"]
    assert run("queue", "pop", "jobs", "--worker-id", "w").code == 1
    assert run("queue", "pop", "jobs", "--worker-id", "v").code == 0
    assert run("queue", "resume", "jobs", "--worker", "w").json == {**paused, "state": "resumed"}
    put("jobs", 2)
    assert run("queue", "pop", "jobs", "--worker-id", "w").code == 0
    assert run("queue", "pause", "jobs", "--worker", "").code == 2


def test_a_backup_is_a_store() -> None:
    put("jobs", 1, 2)
    assert run("queue", "backup", "copy.db").json["backup"] == "copy.db"
    assert run("queue", "size", "jobs", "--store-path", "copy.db").out == "2\n"
    again = run("queue", "backup", "copy.db")
    assert again.code == 1 and "copy.db" in again.err and again.err.count("\n") == 1


def test_compacting_gives_space_back_and_changes_nothing() -> None:
    with SQLiteQueueStore("jobs.db") as store:
        store.put_batch("jobs", ["x" * 1000] * 3000, None)
        store.purge("jobs")
        store.put_one("jobs", "1", None)
    where = ("--store-path", "jobs.db")
    found = run("compact", *where).json
    assert found["store"] == "sqlite:///jobs.db"
    assert found["before"] > 3_000_000 > found["after"] == Path("jobs.db").stat().st_size
    assert run("queue", "size", "jobs", *where).out == "1\n"


def test_a_sound_store_passes_its_check() -> None:
    put("jobs", 1)
    ran = run("queue", "check")
    assert (ran.code, ran.json) == (0, {"ok": True, "problems": []})


def test_a_damaged_store_fails_its_check() -> None:
    put("jobs", 1)
    run("queue", "backup", "copy.db")
    with sqlite3.connect("copy.db") as connection:
        connection.execute("UPDATE lq_queues SET dead = 7")
    connection.close()
    ran = run("queue", "check", "--store-path", "copy.db")
    assert ran.code == 1 and not ran.json["ok"] and ran.json["problems"]


def test_a_failing_store_is_one_line_and_exit_code_1() -> None:
    Path("not-a-store.db").write_text("something else entirely, long enough to be looked at" * 100)
    Path("file").write_text("")
    Path("directory.db").mkdir()
    for path in ("not-a-store.db", "file/jobs.db", "directory.db"):
        for command in (("add", "jobs", "--value", "1"), ("pop", "jobs"), ("stats", "jobs"), ("list",), ("check",)):
            ran = run("queue", *command, "--store-path", path)
            assert (ran.code, ran.out) == (1, ""), (path, command)
            assert path in ran.err and ran.err.count("\n") == 1


def test_a_database_of_another_program_is_left_alone() -> None:
    with sqlite3.connect("other.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    ran = run("queue", "size", "jobs", "--store-path", "other.db")
    assert ran.code == 1 and "other.db" in ran.err and ran.err.count("\n") == 1
