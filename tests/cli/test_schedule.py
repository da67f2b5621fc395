"""`localqueue schedule`."""

from __future__ import annotations

import signal
from datetime import datetime

import pytest

from localqueue.queue import default_store_path
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.cli.command import run, started, wait_until

pytestmark = pytest.mark.slow  # each test runs the command several times


def test_a_schedule_is_added_listed_and_removed() -> None:
    added = run("schedule", "add", "jobs", "tick", "--every", "15m", "--value", '{"a": 1}')
    assert added.code == 0
    assert (added.json["type"], added.json["every"], added.json["value"]) == ("periodic", 900.0, {"a": 1})
    run("schedule", "add", "mail", "night", "--cron", "0 3 * * *", "--timezone", "Europe/Berlin")
    assert [(row["name"], row["queue"]) for row in run("schedule", "list").json] == [
        ("tick", "jobs"),
        ("night", "mail"),
    ]
    assert run("schedule", "list", "jobs").json == [added.json]
    assert run("schedule", "remove", "jobs", "tick").json == {"queue": "jobs", "name": "tick", "state": "removed"}
    assert run("schedule", "list", "jobs").json == []


def test_options_of_the_message_are_kept() -> None:
    added = run(
        "schedule", "add", "jobs", "tick", "--every", "1h", "--value", "text", "--raw", "--priority", "3", "--ttl",
        "60", "--header", "a=b", "--dedupe-key", "k", "--missed", "skip", "--grace", "5", "--start-at",
        "2035-01-01T09:00+01:00",
    ).json  # fmt: skip
    assert (added["value"], added["priority"], added["ttl"], added["headers"]) == ("text", 3, 60.0, {"a": "b"})
    assert (added["dedupe_key"], added["missed"], added["grace"]) == ("k", "skip", 5.0)
    assert added["next_at"] == datetime.fromisoformat("2035-01-01T08:00+00:00").timestamp()


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--every", "1h", "--cron", "* * * * *"),
        ("--every", "soon"),
        ("--every", "0"),
        ("--every", "9" * 400),
        ("--cron", "nonsense"),
        ("--cron", "0 9 31 2 *"),
        ("--cron", "* * * * *", "--timezone", "Mars/Olympus"),
        ("--cron", "* * * * *", "--start-at", "2030-01-01"),
        ("--every", "1h", "--timezone", "UTC"),
        ("--every", "1h", "--start-at", "tomorrow"),
        ("--every", "1h", "--value", "{"),
        ("--every", "1h", "--missed", "maybe"),
        ("--every", "1h", "--header", "x"),
        ("--every", "1h", "--ttl", "0"),
    ],
)
def test_a_schedule_that_can_not_be_is_a_mistake(options: tuple[str, ...]) -> None:
    SQLiteQueueStore(default_store_path()).close()
    ran = run("schedule", "add", "jobs", "tick", *options)
    assert (ran.code, ran.out) == (2, "") and ran.err.count("\n") == 1
    assert run("schedule", "list").json == []


def test_another_schedule_of_the_same_name_needs_replace() -> None:
    run("schedule", "add", "jobs", "tick", "--every", "1h")
    assert run("schedule", "add", "jobs", "tick", "--every", "1h").code == 0
    refused = run("schedule", "add", "jobs", "tick", "--every", "2h")
    assert refused.code == 1
    assert refused.err == "schedule exists with other settings: tick; pass --replace to change it\n"
    assert run("schedule", "add", "jobs", "tick", "--every", "2h", "--replace").json["every"] == 7200.0


@pytest.mark.parametrize("command", ["remove", "pause", "resume"])
def test_an_unknown_schedule_is_a_negative_outcome(command: str) -> None:
    ran = run("schedule", command, "jobs", "nobody")
    assert (ran.code, ran.err) == (1, "schedule not found: nobody\n")


def test_what_is_due_is_put_once() -> None:
    past = ("--start-at", "2020-01-01T00:00+00:00")
    run("schedule", "add", "jobs", "tick", "--every", "1ms", *past, "--value", "7")
    run("schedule", "add", "later", "tick", "--every", "1h")
    wait_until(lambda: run("schedule", "run", "--once").json, "a tick")
    popped = run("queue", "pop", "jobs").json
    assert popped["value"] == 7 and popped["headers"]["localqueue-schedule"] == "tick"
    assert run("queue", "size", "later").out == "0\n"
    assert run("schedule", "run", "--once", "later", "--no-json").out == "nothing is due\n"


def test_a_tick_has_the_priority_of_its_schedule() -> None:
    past = ("--start-at", "2020-01-01T00:00+00:00")
    run("schedule", "add", "jobs", "tick", "--every", "1ms", *past, "--priority", "3")
    wait_until(lambda: run("schedule", "run", "--once").json, "a tick")
    assert run("queue", "pop", "jobs").json["priority"] == 3


def test_a_paused_schedule_puts_nothing() -> None:
    run("schedule", "add", "jobs", "tick", "--every", "1ms")
    assert run("schedule", "pause", "jobs", "tick").json["state"] == "paused"
    assert run("schedule", "run", "--once").json == []
    assert run("schedule", "list").json[0]["paused"] is True
    assert run("schedule", "resume", "jobs", "tick").json["state"] == "resumed"
    wait_until(lambda: run("schedule", "run", "--once").json, "a tick")


def test_schedules_are_readable_without_json() -> None:
    SQLiteQueueStore(default_store_path()).close()
    assert run("schedule", "list", "--no-json").out == "no schedules\n"
    run("schedule", "add", "jobs", "tick", "--every", "15m", "--no-json")
    assert "every 900 s" in run("schedule", "list", "--no-json").out


@pytest.mark.multiprocess
@pytest.mark.parametrize("queues", [(), ("jobs",)])
def test_schedulers_run_until_a_signal(queues: tuple[str, ...]) -> None:
    run("schedule", "add", "jobs", "tick", "--every", "10ms", "--dedupe-key", "one")
    with started("schedule", "run", *queues) as scheduling:
        wait_until(lambda: run("queue", "size", "jobs").out == "1\n", "the first message")
        scheduling.send_signal(signal.SIGTERM)
        out, err = scheduling.communicate(timeout=60)
    assert (scheduling.returncode, err) == (0, "") and '"stopped"' in out
