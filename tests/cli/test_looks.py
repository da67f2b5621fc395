"""Commands that only look make nothing, and say where there is nothing to look at."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from localqueue.stores.sqlite import SQLiteQueueStore
from tests.cli.command import put, run

pytestmark = pytest.mark.slow  # each test runs the command several times

ID = "0" * 32

LOOKS = [
    ("queue", "list"),
    ("queue", "messages", "jobs"),
    ("queue", "size", "jobs"),
    ("queue", "stats", "jobs"),
    ("queue", "stats", "jobs", "--watch"),
    ("queue", "health", "jobs"),
    ("queue", "inspect", "jobs", ID),
    ("queue", "dead", "jobs"),
    ("queue", "dead", "jobs", "--summary"),
    ("queue", "dead", "jobs", "--prune-older-than", "1", "--dry-run"),
    ("queue", "journal"),
    ("queue", "events"),
    ("queue", "events", "jobs"),
    ("queue", "backup", "copy.db"),
    ("queue", "check"),
    ("compact",),
    ("queue", "copy", "jobs", "--to", "sqlite:///target.db"),
    ("schedule", "list"),
    ("schedule", "list", "jobs"),
    ("workflow", "list"),
    ("workflow", "show", ID),
    ("workflow", "show", ID, "--timeline"),
    ("workflow", "graph", ID),
    ("workflow", "forget", "--older-than", "1", "--dry-run"),
    ("retry", "prune", "--older-than", "1", "--dry-run"),
    ("idempotency", "prune", "--older-than", "1", "--dry-run"),
]


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("command", LOOKS, ids=" ".join)
@pytest.mark.parametrize("where", [(), ("--store", "sqlite:///here/jobs.db"), ("--store-path", "jobs.db")], ids=str)
def test_where_there_is_no_store_a_look_says_so_and_makes_nothing(
    command: tuple[str, ...], where: tuple[str, ...], a_home_of_its_own: Path
) -> None:
    ran = run(*command, *where)
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.startswith("there is no store at '") and ran.err.count("\n") == 1
    assert everything(a_home_of_its_own) == []


@pytest.mark.parametrize("command", ["retry", "idempotency"])
def test_pruning_a_file_of_records_that_is_not_there_makes_none(command: str, a_home_of_its_own: Path) -> None:
    prune = (command, "prune", "--older-than", "1", f"--{command}-store-path", "none.db")
    ran = run(*prune, "--dry-run")
    assert (ran.code, ran.out, ran.err) == (1, "", "there is no store at 'none.db'\n")
    assert run(*prune).json["deleted"] == 0
    assert everything(a_home_of_its_own) == []


def test_where_there_is_no_namespace_a_look_says_so_and_makes_none() -> None:
    SQLiteQueueStore("jobs.db").close()
    ran = run("queue", "list", "--store", "sqlite:///jobs.db", "--namespace", "typo")
    assert ran.code == 1
    assert ran.err == "there is no namespace 'typo' in the store at 'sqlite:///jobs.db'\n"
    connection = sqlite3.connect("jobs.db")
    assert connection.execute("SELECT name FROM lq_namespaces").fetchall() == [("default",)]
    connection.close()


@pytest.mark.parametrize(
    ("command", "out"),
    [("size", "0\n"), ("messages", "[]\n"), ("dead", "[]\n")],
)
def test_a_queue_that_is_not_there_is_empty_and_said_to_be_missing(command: str, out: str) -> None:
    put("jobs", 1)
    ran = run("queue", command, "typo")
    assert (ran.code, ran.out) == (0, out)
    assert ran.err.startswith("there is no queue 'typo' in the store at 'sqlite:///")
    assert [row["queue"] for row in run("queue", "list").json] == ["jobs"]
    assert run("queue", command, "jobs").err == ""


def test_a_queue_that_is_not_there_has_stats_and_health() -> None:
    put("jobs", 1)
    assert run("queue", "stats", "typo").json["total"] == 0
    assert run("queue", "health", "typo").json["stats"]["total"] == 0
    assert [row["queue"] for row in run("queue", "list").json] == ["jobs"]


def test_looks_leave_a_store_as_it_is(a_home_of_its_own: Path) -> None:
    where = ("--store", "sqlite:///jobs.db")
    run("queue", "add", "jobs", "--value", "1", *where)
    before = Path("jobs.db").read_bytes()
    for command in LOOKS:
        if "--watch" not in command and "copy" not in command and "backup" not in command and "compact" not in command:
            ran = run(*command, *where)
            assert ran.code == (1 if ID in command else 0), (command, ran.err)
    assert everything(a_home_of_its_own) == ["jobs.db"]
    assert Path("jobs.db").read_bytes() == before
