"""`localqueue worker`."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.command import environment, put, run, run_process, send_one_after_another, started, wait_until

pytestmark = pytest.mark.slow  # each test runs the command several times

JOBS = "tests.cli.jobs"
SEEN = Path("seen.txt")


def seen() -> list[str]:
    return SEEN.read_text().splitlines() if SEEN.exists() else []


@pytest.mark.parametrize("handler", ["note", "note_async"])
def test_a_worker_empties_a_queue_and_counts(handler: str) -> None:
    put("jobs", 1, 2, 3)
    ran = run(
        "worker", f"{JOBS}:{handler}", "--queue", "jobs", "-c", "2", "--prefetch", "2", "--until-empty",
        "--log-events", "--worker-id", "me",
    )  # fmt: skip
    assert ran.code == 0
    assert ran.json == {
        "state": "stopped", "processed": 3, "acked": 3, "released": 0, "dead_lettered": 0, "skipped": 0, "lost": 0,
    }  # fmt: skip
    assert sorted(seen()) == ["1", "2", "3"]
    assert {(event["event"], event["worker_id"]) for event in ran.events} == {("worker.acked", "me")}
    assert len(ran.events) == 3


@pytest.mark.multiprocess
def test_handlers_run_in_processes_when_asked() -> None:
    put("jobs", 1, 2, 3)
    ran = run_process(
        "worker", f"{JOBS}:note", "-q", "jobs", "-c", "2", "--processes", "--until-empty", "--log-events",
        env=environment(),
    )  # fmt: skip
    assert ran.code == 0 and ran.json["acked"] == 3 and len(ran.events) == 3
    assert sorted(seen()) == ["1", "2", "3"]


def test_waits_between_deliveries_can_grow_up_to_a_limit() -> None:
    (id,) = put("jobs", 7)
    ran = run(
        "worker", f"{JOBS}:fail", "-q", "jobs", "--retry-wait", "100", "--retry-backoff", "3",
        "--retry-max-delay", "50", "--retry-jitter", "1", "--until-empty",
    )  # fmt: skip
    assert ran.code == 0 and ran.json["released"] == 1
    stored = run("queue", "inspect", "jobs", id).json
    assert 50 <= stored["available_at"] - stored["failed_at"] <= 51


def test_failures_are_delivered_again_and_then_dead_lettered() -> None:
    (id,) = put("jobs", 7)
    ran = run(
        "worker", f"{JOBS}:fail", "-q", "jobs", "--max-tries", "2", "--retry-wait", "0", "--until-empty", "--log-events"
    )
    assert ran.code == 0 and (ran.json["released"], ran.json["dead_lettered"]) == (1, 1)
    assert [event["event"] for event in ran.events] == ["worker.released", "worker.dead_lettered"]
    assert ran.events[-1]["error"]["message"] == "no 7"
    assert run("queue", "inspect", "jobs", id).json["state"] == "dead"


def test_failures_are_released_when_that_is_wanted() -> None:
    put("jobs", 7)
    run(
        "worker", f"{JOBS}:fail", "-q", "jobs", "--max-tries", "1", "--release-on-exhaustion", "--release-delay", "60",
        "--until-empty",
    )  # fmt: skip
    assert run("queue", "stats", "jobs").json["delayed"] == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--concurrency", "0"),
        ("--prefetch", "0"),
        ("--timeout", "0"),
        ("--max-tries", "0"),
        ("--retry-backoff", "0.5"),
        ("--retry-jitter", "-1"),
        ("--lease-timeout", "0"),
        ("--min-interval=-1",),
        ("--circuit-breaker-failures", "2"),
        ("--worker-id", ""),
        ("--queue", "a:b"),
        ("--store", "nonsense"),
    ],
)
def test_a_worker_that_can_not_be_is_a_mistake(options: tuple[str, ...]) -> None:
    ran = run("worker", f"{JOBS}:note", "--queue", "jobs", "--until-empty", *options)
    assert (ran.code, ran.out) == (2, "") and ran.err.count("\n") == 1


def test_a_worker_needs_a_queue() -> None:
    ran = run("worker", f"{JOBS}:note")
    assert ran.code == 2 and "--queue" in ran.err


@pytest.mark.multiprocess
@pytest.mark.parametrize("options", [(), ("--processes",)])
def test_a_signal_lets_the_handlers_finish(options: tuple[str, ...]) -> None:
    put("jobs", "go")
    with started("worker", f"{JOBS}:wait_for_file", "-q", "jobs", *options, env=environment()) as working:
        wait_until(lambda: seen() == ["started"], "the start")
        working.send_signal(signal.SIGTERM)
        Path("go").touch()
        out, err = working.communicate(timeout=60)
    assert (working.returncode, err) == (0, "")
    assert json.loads(out)["acked"] == 1 and seen() == ["started", "finished"]


@pytest.mark.multiprocess
def test_the_second_signal_does_not_wait_for_the_handlers() -> None:
    put("jobs", "never")
    with started("worker", f"{JOBS}:wait_for_file", "-q", "jobs", env=environment()) as working:
        wait_until(lambda: seen() == ["started"], "the start")
        send_one_after_another(working, signal.SIGTERM, signal.SIGINT)
        _, err = working.communicate(timeout=60)
    assert working.returncode in (130, 143) and "Traceback" not in err


@pytest.mark.multiprocess
def test_a_worker_waits_for_messages_of_other_processes() -> None:
    with started("worker", f"{JOBS}:note", "-q", "jobs", env=environment()) as working:
        put("jobs", 7)
        wait_until(lambda: seen() == ["7"], "the message")
        working.send_signal(signal.SIGINT)
        out, err = working.communicate(timeout=60)
    assert (working.returncode, err) == (0, "") and json.loads(out)["processed"] == 1
