"""`localqueue queue list, messages, size, stats, health`."""

from __future__ import annotations

import pytest

from localqueue import PersistentQueue
from localqueue.queue import default_store_path
from tests.cli.command import put, run

pytestmark = pytest.mark.slow  # each test runs the command several times


def test_the_size_is_what_could_be_delivered_now() -> None:
    put("jobs", 1, 2)
    run("queue", "add", "jobs", "--value", "3", "--delay", "60")
    assert run("queue", "size", "jobs").out == "2\n"


def test_stats_are_those_of_the_queue() -> None:
    put("jobs", 1, 2)
    run("queue", "pop", "jobs", "--worker-id", "me")
    with PersistentQueue[int]("jobs") as queue:
        expected = queue.stats().as_dict()
    shown = run("queue", "stats", "jobs").json
    assert shown.keys() == expected.keys()
    assert (shown["ready"], shown["inflight"], shown["by_worker_id"]) == (1, 1, {"me": 1})


def test_stats_tell_live_workers_from_silent_ones_when_asked() -> None:
    with PersistentQueue[int]("jobs") as queue:
        queue.record_worker_heartbeat("me")
    assert "worker_health" not in run("queue", "stats", "jobs").json
    health = run("queue", "stats", "jobs", "--stale-after", "60").json["worker_health"]
    assert health["stale_after_seconds"] == 60
    assert (health["active"]["count"], list(health["active"]["by_worker_id"])) == (1, ["me"])
    assert health["stale"] == {"count": 0, "by_worker_id": {}}
    health = run("queue", "stats", "jobs", "--stale-after=-1").json["worker_health"]
    assert (health["active"]["count"], health["stale"]["count"]) == (0, 1)


def test_health_is_everything_on_one_page() -> None:
    run("config", "set", "dead_letter_ttl_seconds", "60")
    (id,) = put("jobs", 1)
    run("queue", "dead-letter", "jobs", id)
    health = run("queue", "health", "jobs").json
    assert health.keys() == {"queue", "stats", "worker_health", "dead_letters", "retention"}
    assert (health["queue"], health["stats"]["dead"], health["dead_letters"]["count"]) == ("jobs", 1, 1)
    assert health["worker_health"]["stale_after_seconds"] == 120
    assert health["retention"]["dead_letter_ttl_seconds"] == 60


def test_queues_are_listed_with_their_counts() -> None:
    put("one", 1)
    put("two", 1, 2)
    run("queue", "pause", "two")
    listed = {row["queue"]: (row["ready"], row["paused"]) for row in run("queue", "list").json}
    assert listed == {"one": (1, False), "two": (2, True)}


def test_messages_are_listed_in_pages() -> None:
    first, second, third = put("jobs", 1, 2, 3)
    run("queue", "dead-letter", "jobs", third)
    assert [row["id"] for row in run("queue", "messages", "jobs").json] == [first, second, third]
    assert [row["id"] for row in run("queue", "messages", "jobs", "--limit", "1").json] == [first]
    assert [row["id"] for row in run("queue", "messages", "jobs", "--after", second).json] == [third]
    assert [row["id"] for row in run("queue", "messages", "jobs", "--state", "dead").json] == [third]
    assert run("queue", "messages", "jobs", "--state", "lost").err.startswith("state must be one of ")


def test_looking_is_readable_without_json() -> None:
    (id,) = put("jobs", {"text": "[red]\x1b[31m"})
    for command in (("list",), ("messages", "jobs"), ("stats", "jobs"), ("health", "jobs"), ("inspect", "jobs", id)):
        ran = run("queue", *command, "--no-json")
        assert ran.code == 0 and not ran.out.startswith(("{", "["))
        assert "\x1b" not in ran.out
    assert "[red]" in run("queue", "inspect", "jobs", id, "--no-json").out
    assert run("queue", "messages", "none", "--no-json").out == "no messages\n"


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "inf"])
def test_an_interval_must_be_a_time(interval: str) -> None:
    ran = run("queue", "stats", "jobs", "--watch", f"--interval={interval}")
    assert ran.code == 2 and ran.err.startswith("--interval must be ")


def test_the_default_store_is_in_the_data_directory() -> None:
    put("jobs", 1)
    assert default_store_path().exists()
