"""`localqueue queue dead, requeue-dead`."""

from __future__ import annotations

from typing import Any

import pytest

from localqueue import PersistentQueue
from tests.cli.command import run

pytestmark = pytest.mark.slow  # each test runs the command several times


def bury(*errors: Exception, tries: int = 1) -> list[str]:
    """Dead letters of queue `jobs`, one for each error."""
    ids = []
    with PersistentQueue[Any]("jobs") as queue:
        for error in errors:
            queue.put({})
            for _ in range(tries - 1):
                queue.release(queue.get_message())
            message = queue.get_message(leased_by="me")
            queue.dead_letter(message, error=error)
            ids.append(message.id)
    return ids


def listed(*args: str) -> list[str]:
    return [message["id"] for message in run("queue", "dead", "jobs", *args).json]


def test_dead_letters_are_listed_in_the_order_they_died() -> None:
    ids = bury(ValueError("no"), KeyError("k"), ValueError("never"))
    assert listed() == ids
    assert listed("--limit", "2") == ids[:2]
    assert listed("--limit", "0") == []
    shown = run("queue", "dead", "jobs").json[0]
    assert shown["last_error"] == {"type": "ValueError", "module": "builtins", "message": "no"}
    assert shown["state"] == "dead"


def test_dead_letters_can_be_chosen() -> None:
    (once,) = bury(ValueError("Timeout of the other side"))
    (often,) = bury(KeyError("k"), tries=3)
    assert listed("--error-contains", "timeout") == [once]
    assert listed("--min-attempts", "2") == [often]
    assert listed("--max-attempts", "2") == [once]
    assert listed("--failed-within", "3600") == [once, often]
    assert listed("--failed-within=-3600") == []


def test_a_summary_counts() -> None:
    bury(ValueError("no"), KeyError("k"), ValueError("never"))
    summary = run("queue", "dead", "jobs", "--summary").json
    assert summary["failed_at"].keys() == {"oldest", "newest"}
    del summary["failed_at"]
    assert summary == {
        "count": 3,
        "by_error_type": {"ValueError": 2, "KeyError": 1},
        "by_attempts": {"1": 3},
        "by_worker_id": {"me": 3},
    }
    assert run("queue", "dead", "none", "--summary").json == {
        "count": 0, "by_error_type": {}, "by_attempts": {}, "by_worker_id": {},
    }  # fmt: skip


def test_old_dead_letters_are_removed_after_a_dry_run() -> None:
    bury(ValueError("no"), ValueError("no"))
    dry = run("queue", "dead", "jobs", "--prune-older-than", "0", "--dry-run").json
    assert dry == {"dry_run": True, "older_than": 0.0, "would_delete": 2}
    assert run("queue", "dead", "jobs", "--prune-older-than", "3600").json["deleted"] == 0
    pruned = run("queue", "dead", "jobs", "--prune-older-than", "0").json
    assert pruned == {"dry_run": False, "older_than": 0.0, "deleted": 2}
    assert listed() == []


def test_the_config_says_how_old() -> None:
    bury(ValueError("no"))
    refused = run("queue", "dead", "jobs", "--dry-run")
    assert (refused.code, refused.err) == (1, "pass --prune-older-than or configure dead_letter_ttl_seconds\n")
    run("config", "set", "dead_letter_ttl_seconds", "0")
    assert run("queue", "dead", "jobs", "--dry-run").json["would_delete"] == 1
    assert run("queue", "dead", "jobs", "--prune").json["deleted"] == 1


@pytest.mark.parametrize("option", [("--watch",), ("--summary",), ("--limit", "1"), ("--min-attempts", "1")])
def test_pruning_is_a_command_of_its_own(option: tuple[str, ...]) -> None:
    ran = run("queue", "dead", "jobs", "--prune-older-than", "0", *option)
    assert ran.code == 1
    assert ran.err == "pass --prune-older-than on its own; it cannot be combined with list or watch options\n"


def test_one_dead_letter_gets_another_chance() -> None:
    (id,) = bury(ValueError("no"))
    assert run("queue", "requeue-dead", "jobs", id).json == {"id": id, "state": "requeued"}
    assert run("queue", "pop", "jobs").json["id"] == id


def test_all_dead_letters_get_another_chance() -> None:
    bury(ValueError("no"), ValueError("no"))
    assert run("queue", "requeue-dead", "jobs", "--all", "--delay", "60").json == {"requeued": 2}
    assert run("queue", "stats", "jobs").json["delayed"] == 2


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ((), "pass a message id or use --all to requeue dead letters"),
        (("x", "--all"), "pass either a message id or --all, not both"),
        (("x",), "dead-letter message not found: x"),
    ],
)
def test_requeueing_nothing_is_a_negative_outcome(args: tuple[str, ...], problem: str) -> None:
    ran = run("queue", "requeue-dead", "jobs", *args)
    assert (ran.code, ran.out, ran.err) == (1, "", problem + "\n")


def test_a_dedupe_key_in_use_keeps_a_dead_letter_dead() -> None:
    id = run("queue", "add", "jobs", "--value", "1", "--dedupe-key", "k").json["id"]
    run("queue", "dead-letter", "jobs", id)
    run("queue", "add", "jobs", "--value", "2", "--dedupe-key", "k")
    ran = run("queue", "requeue-dead", "jobs", id)
    assert ran.code == 1 and ran.err.count("\n") == 1


def test_dead_letters_are_readable_without_json() -> None:
    bury(ValueError("two\nlines"))
    shown = run("queue", "dead", "jobs", "--no-json").out
    assert "ValueError: two" in shown and "{" not in shown.splitlines()[0]
    assert "count" in run("queue", "dead", "jobs", "--summary", "--no-json").out
