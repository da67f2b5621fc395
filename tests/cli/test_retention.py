"""`localqueue retry prune`, `localqueue idempotency prune`, `localqueue queue journal, events`."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from localqueue.idempotency import IdempotencyRecord, QueueIdempotencyStore, SQLiteIdempotencyStore
from localqueue.queue import default_store_path
from localqueue.retry import QueueAttemptStore, RetryRecord, SQLiteAttemptStore
from localqueue.retry.default_store import default_path
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.cli.command import put, run

pytestmark = pytest.mark.slow  # each test runs the command several times


def exhaust(path: str | Path) -> None:
    with closing(SQLiteAttemptStore(path)) as store:
        store.save("old", RetryRecord(3, time.time() - 100, True))
        store.save("new", RetryRecord(3, time.time(), True))
        store.save("open", RetryRecord(1, time.time() - 100, False))


def test_exhausted_retries_are_removed_after_a_dry_run() -> None:
    exhaust(default_path())
    dry = run("retry", "prune", "--older-than", "50", "--dry-run").json
    assert dry == {"dry_run": True, "older_than": 50.0, "would_delete": 1}
    assert run("retry", "prune", "--older-than", "50").json == {"dry_run": False, "older_than": 50.0, "deleted": 1}
    assert run("retry", "prune", "--older-than", "50").json["deleted"] == 0


def test_the_config_says_where_and_how_old() -> None:
    refused = run("retry", "prune")
    assert (refused.code, refused.err) == (1, "pass --older-than or configure retry_record_ttl_seconds\n")
    exhaust("tries.db")
    run("config", "set", "retry_record_ttl_seconds", "50")
    run("config", "set", "retry_store_path", "tries.db")
    assert run("retry", "prune", "--dry-run").json["would_delete"] == 1
    other = run("retry", "prune", "--dry-run", "--retry-store-path", "other.db")
    assert (other.code, other.err) == (1, "there is no store at 'other.db'\n")


def test_records_of_retries_in_a_queue_store() -> None:
    with SQLiteQueueStore("jobs.db") as store:
        QueueAttemptStore(store).save("old", RetryRecord(3, time.time() - 100, True))
    assert run("retry", "prune", "--older-than", "50", "--store-path", "jobs.db").json["deleted"] == 1
    both = run("retry", "prune", "--older-than", "50", "--store-path", "jobs.db", "--retry-store-path", "x.db")
    assert (both.code, both.err) == (2, "pass either a store or --retry-store-path, not both\n")


@pytest.mark.parametrize("in_file", [True, False])
def test_finished_idempotency_records_are_removed(in_file: bool) -> None:
    done = IdempotencyRecord("succeeded", time.time() - 100, time.time() - 100)
    options: tuple[str, ...] = ()
    if in_file:
        with closing(SQLiteIdempotencyStore("ledger.db")) as ledger:
            ledger.save("k", done)
        options = ("--idempotency-store-path", "ledger.db")
    else:
        with SQLiteQueueStore(default_store_path()) as store:
            QueueIdempotencyStore(store).save("k", done)
    refused = run("idempotency", "prune", *options)
    assert refused.err == "pass --older-than or configure idempotency_record_ttl_seconds\n"
    assert run("idempotency", "prune", "--older-than", "50", "--dry-run", *options).json["would_delete"] == 1
    assert run("idempotency", "prune", "--older-than", "50", *options).json["deleted"] == 1


def test_an_age_is_not_negative() -> None:
    assert run("retry", "prune", "--older-than=-1").code == 2


def test_the_journal_remembers_what_happened_while_it_was_on() -> None:
    put("jobs", 1)
    assert run("queue", "journal").json == {"enabled": False}
    assert run("queue", "journal", "--enable", "--keep-events", "1000").json == {"enabled": True}
    id = run("queue", "add", "other", "--value", "1", "--priority", "3").json["id"]
    run("queue", "ack", "other", id)
    events = run("queue", "events").json
    assert [event["options"] for event in events] == [{"priority": 3}, None]
    assert [(event["type"], event["queue"], event["message_id"]) for event in events] == [
        ("enqueued", "other", id),
        ("acked", "other", id),
    ]
    assert run("queue", "events", "--after", str(events[0]["seq"])).json == events[1:]
    assert run("queue", "events", "jobs").json == []
    assert "enqueued" in run("queue", "events", "--no-json").out
    assert run("queue", "journal", "--disable").json == {"enabled": False}
    assert run("queue", "journal", "--prune-older-than", "0").json == {"enabled": False, "deleted": 2}
    assert run("queue", "journal", "--keep-events", "5").code == 2
