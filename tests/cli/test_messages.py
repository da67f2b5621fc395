"""`localqueue queue add, pop, inspect` and the commands that settle a message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import put, run

FIELDS = {
    "id", "value", "queue", "state", "attempts", "created_at", "available_at", "leased_until", "leased_by",
    "last_error", "failed_at", "attempt_history", "dedupe_key", "priority",
}  # fmt: skip


def test_a_message_that_was_added_can_be_popped_and_acked() -> None:
    added = run("queue", "add", "jobs", "--value", '{"n": 1}')
    assert (added.code, added.err) == (0, "")
    assert added.json.keys() >= FIELDS
    assert (added.json["value"], added.json["state"], added.json["queue"]) == ({"n": 1}, "ready", "jobs")
    popped = run("queue", "pop", "jobs", "--worker-id", "me").json
    assert (popped["id"], popped["state"], popped["leased_by"]) == (added.json["id"], "inflight", "me")
    acked = run("queue", "ack", "jobs", popped["id"])
    assert (acked.code, acked.json) == (0, {"id": popped["id"], "state": "ack"})
    assert run("queue", "inspect", "jobs", popped["id"]).code == 1


def test_json_is_pretty_with_sorted_keys() -> None:
    ran = run("queue", "add", "jobs", "--value", '{"b": 1, "a": "ä"}')
    assert ran.out == json.dumps(ran.json, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_the_value_is_read_from_stdin() -> None:
    assert run("queue", "add", "jobs", stdin='{"n": 2}\n').json["value"] == {"n": 2}
    assert run("queue", "add", "jobs", "--raw", stdin="plain text\n").json["value"] == "plain text"
    assert run("queue", "add", "jobs", "--raw", "--value", "{").json["value"] == "{"


@pytest.mark.parametrize(
    ("args", "stdin", "problem"),
    [
        (("--value", "{"), None, "value must be valid JSON unless --raw is passed: "),
        ((), "nonsense", "value must be valid JSON unless --raw is passed: "),
        ((), "[" * 100_000, "value must be valid JSON unless --raw is passed: "),
        ((), None, "missing value; pass an argument or pipe data on stdin"),
        ((), "", "stdin did not contain a value"),
        (("--value", "NaN"), None, ""),
        (("--value", "1", "--header", "nonsense"), None, "a header is written NAME=VALUE, not 'nonsense'"),
        (("--value", "1", "--delay=-1"), None, "delay cannot be negative"),
        (("--value", "1", "--delay", "soon"), None, "localqueue queue add: "),
        (("--value", "1", "--priority=-1"), None, "priority cannot be negative"),
        (("--value", "1", "--ttl", "0"), None, "ttl must be greater than zero"),
        (("--value", "1", "--dedupe-key", ""), None, "dedupe_key cannot be empty"),
        (("--value", "1", "--store", "nonsense"), None, "can not open 'nonsense'"),
        (("--value", "1", "--store", "sqlite:///a.db", "--store-path", "a.db"), None, "pass either --store or"),
        (("--value", "1", "--store-path", ""), None, "--store-path is empty"),
        (("--value", "1", "--namespace", ""), None, "namespace cannot be empty"),
        (("--value", "1", "--colour"), None, "localqueue queue add: No such option"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(args: tuple[str, ...], stdin: str | None, problem: str) -> None:
    ran = run("queue", "add", "jobs", *args, stdin=stdin)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(problem) and ran.err.count("\n") == 1


@pytest.mark.parametrize("name", ["a:b", "", "x" * 513, "nul\0"])
def test_a_bad_queue_name_is_a_mistake_and_makes_no_store(name: str) -> None:
    for command in (("add", name, "--value", "1"), ("pop", name), ("stats", name), ("purge", name)):
        ran = run("queue", *command)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("queue name cannot") and ran.err.count("\n") == 1
    assert not Path("data").exists()


def test_priority_decides_who_goes_first() -> None:
    run("queue", "add", "jobs", "--value", "1")
    assert run("queue", "add", "jobs", "--value", "2", "--priority", "5").json["priority"] == 5
    assert run("queue", "pop", "jobs").json["value"] == 2


def test_headers_ttl_delay_and_ordering_key_are_kept() -> None:
    added = run(
        "queue", "add", "jobs", "--value", "1", "--header", "trace=a=b", "--header", "user=", "--ttl", "60",
        "--delay", "30", "--ordering-key", "k",
    ).json  # fmt: skip
    assert added["headers"] == {"trace": "a=b", "user": ""}
    assert added["ordering_key"] == "k"
    assert added["expires_at"] == pytest.approx(added["created_at"] + 60)
    assert added["available_at"] == pytest.approx(added["created_at"] + 30)
    assert run("queue", "pop", "jobs").code == 1


def test_a_dedupe_key_stores_one_message() -> None:
    first, second = (run("queue", "add", "jobs", "--value", n, "--dedupe-key", "k").json for n in "12")
    assert second["id"] == first["id"]
    assert run("queue", "size", "jobs").out == "1\n"


def test_popping_an_empty_queue_is_a_negative_outcome() -> None:
    ran = run("queue", "pop", "jobs")
    assert (ran.code, ran.out, ran.err) == (1, "", "queue is empty\n")
    assert run("queue", "pop", "jobs", "--block", "--timeout", "0.01").err == "queue is empty\n"


def test_a_lease_that_ends_gives_the_message_back() -> None:
    put("jobs", 1)
    run("queue", "pop", "jobs", "--lease-timeout", "0.001")
    assert run("queue", "pop", "jobs", "--block", "--timeout", "20").json["attempts"] == 2


@pytest.mark.parametrize("command", ["inspect", "ack", "release", "dead-letter", "cancel"])
def test_an_unknown_message_is_a_negative_outcome(command: str) -> None:
    put("others", 1)
    ran = run("queue", command, "jobs", "nobody")
    assert (ran.code, ran.out, ran.err) == (1, "", "message not found: nobody\n")


def test_a_released_message_waits_for_its_delay() -> None:
    (id,) = put("jobs", 1)
    run("queue", "pop", "jobs")
    assert run("queue", "release", "jobs", id, "--delay", "60").json == {"id": id, "state": "release"}
    assert run("queue", "stats", "jobs").json["delayed"] == 1


def test_a_dead_lettered_or_cancelled_message_is_kept() -> None:
    for command, state in (("dead-letter", "dead"), ("cancel", "cancelled")):
        (id,) = put("jobs", 1)
        assert run("queue", command, "jobs", id).json == {"id": id, "state": command}
        assert run("queue", "inspect", "jobs", id).json["state"] == state


def test_events_are_json_lines_on_stderr() -> None:
    added = run("queue", "add", "jobs", "--value", "1", "--log-events")
    id = added.json["id"]
    assert added.events == [{"event": "queue.enqueue", "queue": "jobs", "id": id}]
    popped = run("queue", "pop", "jobs", "--log-events", "--worker-id", "me")
    assert popped.events == [{"event": "queue.lease", "queue": "jobs", "id": id, "attempt": 1, "worker_id": "me"}]
    assert run("queue", "release", "jobs", id, "--log-events").events[0]["event"] == "queue.release"
    assert run("queue", "dead-letter", "jobs", id, "--log-events").events[0]["event"] == "queue.dead_letter"
    requeued = run("queue", "requeue-dead", "jobs", id, "--log-events")
    assert requeued.events == [{"event": "queue.requeue", "queue": "jobs", "id": id}]
    assert run("queue", "ack", "jobs", id, "--log-events").events[0]["event"] == "queue.ack"
    assert run("queue", "purge", "jobs", "--log-events").events == [
        {"event": "queue.purge", "queue": "jobs", "count": 0}
    ]


def test_every_url_of_a_store_can_be_used() -> None:
    for url in ("sqlite:///jobs.db", "lmdb:///jobs"):
        assert run("queue", "add", "jobs", "--value", "1", "--store", url).code == 0
        assert run("queue", "size", "jobs", "--store", url).out == "1\n"
    assert run("queue", "add", "jobs", "--value", "1", "--store", "memory://").code == 0
    assert run("queue", "size", "jobs", "--store", "memory://").err.startswith("there is no store at 'memory://'")


def test_namespaces_see_nothing_of_each_other() -> None:
    run("queue", "add", "jobs", "--value", "1", "--namespace", "blue")
    assert run("queue", "size", "jobs").err.startswith("there is no namespace 'default' in the store at ")
    run("queue", "add", "others", "--value", "1")
    assert run("queue", "size", "jobs").out == "0\n"
    assert run("queue", "size", "jobs", "--namespace", "blue").out == "1\n"


def test_a_value_no_codec_can_read_is_shown_raw() -> None:
    from localqueue import PersistentQueue
    from localqueue.policies import PickleCodec

    with PersistentQueue("jobs", store_path="jobs.db", codec=PickleCodec(trusted=True)) as queue:
        message = queue.put({1, 2})
    shown = run("queue", "inspect", "jobs", message.id, "--store-path", "jobs.db")
    assert shown.json["value"]["codec"] == "pickle" and shown.json["value"]["base64"]
