"""`localqueue queue process` and `queue exec`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, put, run, send_one_after_another, started, wait_until

pytestmark = pytest.mark.slow  # each test runs the command several times

JOBS = "tests.cli.jobs"
SEEN = Path("seen.txt")


def seen() -> list[str]:
    return SEEN.read_text().splitlines() if SEEN.exists() else []


def test_a_message_is_acked_when_the_function_returns() -> None:
    (id,) = put("jobs", 7)
    ran = run("queue", "process", "jobs", f"{JOBS}:note", "--log-events", "--worker-id", "me")
    assert (ran.code, ran.json) == (0, {"id": id, "state": "acked"})
    assert seen() == ["7"]
    assert [event["event"] for event in ran.events] == ["process.lease", "process.ack"]
    assert ran.events[0] == {"event": "process.lease", "queue": "jobs", "id": id, "attempt": 1, "worker_id": "me"}
    stats = run("queue", "stats", "jobs").json
    assert (stats["total"], list(stats["last_seen_by_worker_id"])) == (0, ["me"])


@pytest.mark.parametrize("handler", ["note_async", "Group.note"])
def test_coroutines_and_methods_are_functions_too(handler: str) -> None:
    put("jobs", 7)
    assert run("queue", "process", "jobs", f"{JOBS}:{handler}").code == 0
    assert seen() == ["7"]


def test_as_many_messages_as_asked_for() -> None:
    put("jobs", 1, 2, 3)
    ran = run("queue", "process", "jobs", f"{JOBS}:note", "--max-jobs", "2")
    assert ran.code == 0 and [one["state"] for one in ran.documents] == ["acked", "acked"]
    assert run("queue", "process", "jobs", f"{JOBS}:note", "--max-jobs", "5").code == 0
    empty = run("queue", "process", "jobs", f"{JOBS}:note", "--max-jobs", "5")
    assert (empty.code, empty.out, empty.err) == (1, "", "queue is empty\n")
    assert seen() == ["1", "2", "3"]


def test_a_function_that_fails_is_tried_again_inside_its_lease() -> None:
    put("jobs", 7)
    ran = run("queue", "process", "jobs", f"{JOBS}:fail_once")
    assert ran.code == 0 and seen() == ["7", "7"]


def test_the_last_failure_dead_letters_and_exits_with_1() -> None:
    id, _ = put("jobs", 7, 8)
    ran = run("queue", "process", "jobs", f"{JOBS}:fail", "--max-jobs", "5", "--log-events")
    assert ran.code == 1 and seen() == ["7"] * 3
    shown = ran.json
    assert (shown["id"], shown["state"], shown["final_state"]) == (id, "failed", "dead_letter")
    error = dict(shown["last_error"])
    assert error.pop("traceback").endswith("ValueError: no 7")
    assert error == {"type": "ValueError", "module": "builtins", "message": "no 7"}
    assert [event["event"] for event in ran.events] == ["process.lease", "process.dead_letter"]
    stored = run("queue", "inspect", "jobs", id).json
    assert (stored["state"], stored["attempts"], stored["last_error"]) == ("dead", 1, shown["last_error"])


def test_a_failed_message_is_released_when_that_is_wanted() -> None:
    put("jobs", 7)
    ran = run(
        "queue", "process", "jobs", f"{JOBS}:fail", "--max-tries", "1", "--release-on-exhaustion",
        "--release-delay", "60", "--log-events",
    )  # fmt: skip
    assert ran.code == 1 and ran.json["final_state"] == "release"
    assert ran.events[-1]["event"] == "process.release"
    assert run("queue", "stats", "jobs").json["delayed"] == 1


def test_a_requeued_message_has_a_fresh_budget() -> None:
    (id,) = put("jobs", 7)
    for options in ((), ("--retry-store-path", "tries.db")):
        run("queue", "process", "jobs", f"{JOBS}:fail", *options)
        run("queue", "requeue-dead", "jobs", id)
    run("queue", "process", "jobs", f"{JOBS}:fail", "--retry-store-path", "tries.db")
    assert seen() == ["7"] * 9


def test_what_can_not_be_imported_is_not_tried_again() -> None:
    put("jobs", 7)
    ran = run("queue", "process", "jobs", f"{JOBS}:import_something", "--release-on-exhaustion")
    assert ran.code == 1 and ran.json["final_state"] == "dead_letter"
    assert seen() == ["7"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("nonsense", "handler must use 'module:function' format"),
        (":note", "handler must use 'module:function' format"),
        ("a:b:c", "handler must use 'module:function' format"),
        ("no_such_module:f", "can not import 'no_such_module'"),
        (f"{JOBS}:nobody", f"module '{JOBS}' has no attribute 'nobody'"),
        (f"{JOBS}:not_callable", f"handler is not callable: {JOBS}:not_callable"),
    ],
)
def test_a_bad_handler_is_found_before_a_message_is_taken(spec: str, problem: str) -> None:
    put("jobs", 7)
    ran = run("queue", "process", "jobs", spec)
    assert ran.code == 1 and ran.err.startswith(problem) and ran.err.count("\n") == 1
    mistake = run("worker", spec, "--queue", "jobs")
    assert mistake.code == 2 and mistake.err == ran.err
    assert run("queue", "size", "jobs").out == "1\n"


def test_for_ever_and_a_number_of_messages_exclude_each_other() -> None:
    ran = run("queue", "process", "jobs", f"{JOBS}:note", "--forever", "--max-jobs", "1")
    assert (ran.code, ran.err) == (1, "pass either --forever or --max-jobs, not both\n")


def test_waiting_ends_with_the_timeout() -> None:
    ran = run("queue", "process", "jobs", f"{JOBS}:note", "--block", "--timeout", "0.05", "--idle-sleep", "0.01")
    assert (ran.code, ran.err) == (1, "queue is empty\n")
    put("jobs", 7)
    ran = run("queue", "process", "jobs", f"{JOBS}:note", "--forever", "--timeout", "0.05")
    assert ran.code == 0 and seen() == ["7"]


def test_a_breaker_needs_both_numbers() -> None:
    ran = run("queue", "process", "jobs", f"{JOBS}:note", "--circuit-breaker-failures", "2")
    assert ran.code == 2 and "circuit_breaker_cooldown" in ran.err


def shell(script: str) -> tuple[str, ...]:
    return ("--", "sh", "-c", script)


@pytest.mark.multiprocess
def test_a_command_gets_the_value_as_json_on_stdin() -> None:
    (id,) = put("jobs", {"a": ["ä"]})
    ran = run("queue", "exec", "jobs", "--log-events", *shell("cat > value.json"))
    assert (ran.code, ran.json) == (0, {"id": id, "state": "acked"})
    assert Path("value.json").read_text() == '{"a": ["\\u00e4"]}\n'
    assert [event["event"] for event in ran.events] == ["exec.lease", "exec.ack"]


@pytest.mark.multiprocess
def test_a_command_that_fails_leaves_everything_on_the_message() -> None:
    (id,) = put("jobs", 7)
    script = "echo tried >> tries.txt; echo out; echo '  err  ' >&2; exit 3"
    ran = run("queue", "exec", "jobs", "--max-tries", "2", *shell(script))
    assert ran.code == 1
    assert Path("tries.txt").read_text() == "tried\ntried\n"
    error = run("queue", "inspect", "jobs", id).json["last_error"]
    assert error == ran.json["last_error"]
    assert error.pop("message").startswith("command exited with status 3: sh -c ")
    assert error.pop("module")
    assert error == {
        "type": "_CommandExecutionError",
        "command": ["sh", "-c", script],
        "exit_code": 3,
        "stdout": "out",
        "stderr": "err",
    }


@pytest.mark.multiprocess
def test_long_output_is_cut() -> None:
    put("jobs", 7)
    ran = run("queue", "exec", "jobs", "--", sys.executable, "-c", "print('x' * 10_000); raise SystemExit(1)")
    assert ran.json["last_error"]["stdout"] == "x" * 497 + "..."


@pytest.mark.multiprocess
def test_a_command_that_does_not_exist_is_dead_lettered_at_once() -> None:
    put("jobs", 7)
    ran = run("queue", "exec", "jobs", "--release-on-exhaustion", "no-such-command", "-x")
    assert ran.code == 1 and ran.json["final_state"] == "dead_letter"
    error = ran.json["last_error"]
    assert (error["type"], error["exit_code"]) == ("_CommandNotFoundError", 127)
    assert (error["message"], error["stderr"]) == ("command not found: no-such-command -x", "command not found")


@pytest.mark.multiprocess
def test_a_file_that_is_no_program_is_a_failure() -> None:
    Path("data.txt").write_text("")
    put("jobs", 7)
    ran = run("queue", "exec", "jobs", "--", "./data.txt")
    assert ran.code == 1 and ran.json["last_error"]["exit_code"] == 126


@pytest.mark.multiprocess
def test_a_command_that_does_not_read_its_stdin_is_fine() -> None:
    put("jobs", "x" * 1_000_000)
    assert run("queue", "exec", "jobs", "--", "true").code == 0


def test_an_option_that_nobody_knows_is_a_mistake() -> None:
    ran = run("queue", "exec", "jobs", "--max-job", "2", "--", "true")
    assert ran.code == 2 and "No such option: --max-job" in ran.err
    assert run("queue", "exec", "jobs").code == 2


@pytest.mark.multiprocess
def test_for_ever_waits_for_messages_and_ends_with_a_signal() -> None:
    with started("queue", "process", "jobs", f"{JOBS}:note", "--forever", env=environment()) as processing:
        put("jobs", 1)
        wait_until(lambda: seen() == ["1"], "the first message")
        put("jobs", 2)
        wait_until(lambda: seen() == ["1", "2"], "the second message")
        processing.send_signal(signal.SIGTERM)
        out, err = processing.communicate(timeout=60)
    assert (processing.returncode, err) == (0, "")
    assert '"state": "stopped"' in out and '"processed": 2' in out


@pytest.mark.multiprocess
def test_for_ever_goes_on_after_a_failure() -> None:
    put("jobs", 1, 2)
    with started("queue", "process", "jobs", f"{JOBS}:fail", "--forever", env=environment()) as processing:
        wait_until(lambda: run("queue", "stats", "jobs").json["dead"] == 2, "both failures")
        processing.send_signal(signal.SIGINT)
        out, _ = processing.communicate(timeout=60)
    assert processing.returncode == 0 and '"processed": 2' in out


@pytest.mark.multiprocess
def test_a_signal_lets_the_message_finish() -> None:
    put("jobs", "go", "go")
    with started("queue", "process", "jobs", f"{JOBS}:wait_for_file", "--forever", env=environment()) as processing:
        wait_until(lambda: seen() == ["started"], "the start")
        processing.send_signal(signal.SIGINT)
        Path("go").touch()
        _, err = processing.communicate(timeout=60)
    assert (processing.returncode, err) == (0, "")
    assert seen() == ["started", "finished"]
    assert run("queue", "stats", "jobs").json["ready"] == 1


@pytest.mark.multiprocess
def test_the_second_signal_gives_the_message_back_and_ends_at_once() -> None:
    put("jobs", "never")
    with started("queue", "process", "jobs", f"{JOBS}:wait_for_file", "--forever", env=environment()) as processing:
        wait_until(lambda: seen() == ["started"], "the start")
        send_one_after_another(processing, signal.SIGTERM, signal.SIGINT)
        _, err = processing.communicate(timeout=60)
    assert processing.returncode == 130 and "Traceback" not in err
    assert run("queue", "stats", "jobs").json["inflight"] == 0


@pytest.mark.multiprocess
def test_ctrl_c_lets_a_command_finish() -> None:
    put("jobs", 7)
    script = "echo started > seen.txt; while ! test -e go; do sleep 0.01; done; echo finished >> seen.txt"
    with started("queue", "exec", "jobs", *shell(script), start_new_session=True) as processing:
        wait_until(lambda: seen() == ["started"], "the start")
        os.killpg(processing.pid, signal.SIGINT)  # what a terminal does
        Path("go").touch()
        processing.communicate(timeout=60)
    assert processing.returncode == 0 and seen() == ["started", "finished"]
