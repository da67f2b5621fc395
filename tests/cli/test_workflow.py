"""`localqueue workflow`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import Ran, environment, run, started

pytestmark = pytest.mark.slow  # each test runs the command several times

MODULE = "tests.cli.shop_workflows"
ORDER, SHIPPING = f"{MODULE}:order", f"{MODULE}:shipping"


def start(*words: str, spec: str = ORDER, run_id: str = "r1") -> Ran:
    ran = run("workflow", "start", spec, "--run-id", run_id, *words)
    assert ran.code == 0, ran.err
    return ran


def work(*specs: str) -> Ran:
    return run("workflow", "worker", *(specs or (ORDER, SHIPPING)), "--until-empty", "--log-level", "error")


def state(run_id: str = "r1") -> str:
    return str(run("workflow", "show", run_id).json["state"])


def test_a_run_is_started_worked_for_signalled_and_shown() -> None:
    began = start("--input", '{"total": 42}')
    assert began.json == {"run_id": "r1", "workflow": "order", "version": 1, "state": "running"}
    worked = work(ORDER)
    assert (worked.code, worked.json["dead_lettered"]) == (0, 0)
    assert "works for tests.cli.shop_workflows:order" in worked.err and "queue     order (8 threads)" in worked.err
    assert {one["name"]: one["state"] for one in run("workflow", "show", "r1").json["steps"]} == {
        "validate": "succeeded",
        "charge": "succeeded",
        "approve": "sleeping",
    }
    sent = run("workflow", "signal", "r1", "approval", "--payload", '{"by": "ann"}')
    assert sent.json == {"run_id": "r1", "signal": "approval", "state": "sent"}
    work(ORDER)
    again = start("--input", '{"total": 42}', "--wait")
    assert again.json["state"] == "succeeded"
    assert again.json["results"] == {"validate": 42, "charge": 42, "approve": {"by": "ann"}}
    shown = run("workflow", "show", "r1", "--no-json").out
    assert "succeeded" in shown and "approve" in shown and '"by": "ann"' in shown
    lines = run("workflow", "show", "r1", "--timeline").out.splitlines()
    assert lines[0].startswith("order version 1, run r1: succeeded in ")
    assert [line.split()[0] for line in lines[1:]] == ["validate", "charge", "approve"]


def test_the_input_comes_from_the_command_line_a_file_or_stdin() -> None:
    Path("input.json").write_text('{"total": 1}')
    start("--input", "@input.json", run_id="file")
    assert run("workflow", "start", ORDER, "--run-id", "pipe", "--input", "-", stdin='{"total": 2}').code == 0
    assert [run("workflow", "show", one).json["input"] for one in ("file", "pipe")] == [{"total": 1}, {"total": 2}]


def test_with_the_identity_of_the_input_the_same_input_is_the_same_run() -> None:
    words = ("workflow", "start", ORDER, "--identity", "input", "--input")
    one, same, other = (run(*words, given).json["run_id"] for given in ('{"total": 1}', '{"total":1}', '{"total": 2}'))
    assert one == same != other
    assert len(run("workflow", "list").json) == 2


def test_runs_are_listed_by_workflow_and_state() -> None:
    start("--input", '{"total": 1}')
    start(spec=SHIPPING, run_id="r2")
    assert work().code == 1
    rows = run("workflow", "list").json
    assert [(row["run_id"], row["workflow"], row["state"]) for row in rows] == [
        ("r2", "shipping", "failed"),
        ("r1", "order", "running"),
    ]
    assert "steps" not in rows[0]
    assert [row["run_id"] for row in run("workflow", "list", "--workflow", "order").json] == ["r1"]
    assert [row["run_id"] for row in run("workflow", "list", "--state", "failed").json] == ["r2"]
    assert [row["run_id"] for row in run("workflow", "list", "--limit", "1").json] == ["r2"]
    assert "find: FileNotFoundError: no parcels" in run("workflow", "list", "--no-json").out
    assert run("workflow", "list", "--state", "paused", "--no-json").out == "no runs\n"


def test_a_failed_run_is_an_exit_code_and_goes_on_when_it_is_retried() -> None:
    start(spec=SHIPPING)
    work(SHIPPING)
    failed = run("workflow", "start", SHIPPING, "--run-id", "r1", "--wait")
    assert (failed.code, failed.json["state"]) == (1, "failed")
    assert "failed at step 'find': FileNotFoundError: no parcels" in failed.err
    Path("parcels.txt").touch()
    assert run("workflow", "retry", "r1").json == {"run_id": "r1", "state": "retried", "steps": 1}
    work(SHIPPING)
    assert run("workflow", "show", "r1").json["results"] == {"find": [1, 2, 3], "ship": [10, 20, 30]}
    assert run("workflow", "retry", "r1").code == 1


def test_a_run_is_paused_and_resumed() -> None:
    start("--input", '{"total": 1}')
    assert run("workflow", "pause", "r1").json == {"run_id": "r1", "state": "paused"}
    work(ORDER)
    assert run("workflow", "show", "r1").json["results"] == {}
    assert [row["run_id"] for row in run("workflow", "list", "--state", "paused").json] == ["r1"]
    assert run("workflow", "resume", "r1").json["state"] == "resumed"
    work(ORDER)
    assert run("workflow", "show", "r1").json["results"] == {"validate": 1, "charge": 1}


def test_a_run_is_cancelled_once() -> None:
    start("--input", '{"total": 1}')
    assert run("workflow", "cancel", "r1").json == {"run_id": "r1", "state": "cancelled"}
    again = run("workflow", "cancel", "r1")
    assert (again.code, again.err) == (1, "run 'r1' has ended already; `localqueue workflow show r1` says how\n")
    assert run("workflow", "signal", "r1", "approval").code == 1


def test_a_run_that_is_cancelled_with_compensation_undoes_what_is_done() -> None:
    start("--input", '{"total": 7}')
    work(ORDER)
    assert run("workflow", "cancel", "r1", "--compensate").json["state"] == "compensating"
    work(ORDER)
    assert (state(), Path("refunded.txt").read_text()) == ("cancelled", "7")
    assert "s1[" in run("workflow", "graph", "r1").out and ":::undone" in run("workflow", "graph", "r1").out


def test_a_run_is_forked_with_another_input() -> None:
    start("--input", '{"total": 1}')
    work(ORDER)
    words = ("workflow", "fork", ORDER, "r1", "charge", "--run-id", "r2", "--input", '{"total": 2}')
    assert run(*words).json == {"run_id": "r2", "forked_from": "r1", "step": "charge", "state": "running"}
    work(ORDER)
    shown = run("workflow", "show", "r2").json
    assert (shown["forked_from"], shown["input"], shown["results"]["charge"]) == ("r1", {"total": 2}, 1)
    assert run("workflow", "fork", ORDER, "r1", "nowhere").code == 1


def test_a_graph_is_drawn_of_a_workflow_without_a_store_and_of_a_run(a_home_of_its_own: Path) -> None:
    assert run("workflow", "graph", ORDER).out.startswith("flowchart TD\n")
    assert list(a_home_of_its_own.iterdir()) == []
    start("--input", '{"total": 1}', run_id="a:run")
    assert 's0["validate"]:::ready' in run("workflow", "graph", "a:run").out
    drawn = run("workflow", "graph", "a:run", "--output", "run.svg")
    assert drawn.json == {"file": "run.svg", "format": "svg"}
    assert ElementTree.parse("run.svg").getroot().tag.endswith("svg")
    assert run("workflow", "graph", SHIPPING, "--format", "svg").out.startswith("<svg")


def test_ended_runs_are_counted_and_with_remove_forgotten() -> None:
    start("--input", '{"total": 1}')
    start("--input", '{"total": 1}', run_id="r2")
    run("workflow", "cancel", "r1")
    words = ("workflow", "forget", "--older-than", "0s")
    assert run("workflow", "forget", "--older-than", "1d").json["deleted"] == 0
    assert run(*words, "--dry-run").json == {"dry_run": True, "older_than": 0.0, "would_delete": 1}
    assert run(*words, "--workflow", "shipping").json["deleted"] == 0
    assert run(*words).json == {"dry_run": False, "older_than": 0.0, "deleted": 1}
    assert [row["run_id"] for row in run("workflow", "list").json] == ["r2"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("start", f"{MODULE}:nothing"), 2, "is a object and no Workflow"),
        (("start", MODULE), 2, "which Workflow of 'tests.cli.shop_workflows' is meant? It has order, shipping"),
        (("start", "tests.cli.nowhere:order"), 2, "can not import 'tests.cli.nowhere'"),
        (("start", ORDER, "--input", "{"), 2, "--input must be valid JSON"),
        (("start", ORDER, "--input", "@missing.json"), 2, "--input can not be read from 'missing.json'"),
        (("start", ORDER, "--run-id", "r1", "--input", "2"), 1, "run 'r1' was started with another input"),
        (("start", ORDER, "--run-id", "r9", "--identity", "input"), 2, "pass run_id= or identity="),
        (("start", ORDER, "--timeout", "1"), 2, "--timeout goes with --wait"),
        (
            ("start", ORDER, "--run-id", "r1", "--input", "1", "--wait", "--timeout", "0"),
            1,
            "is running after 0 seconds",
        ),
        (("list", "--state", "happy"), 2, "a run is running, succeeded"),
        (("show", "r9"), 1, "there is no run 'r9' in this store"),
        (("graph", "r9"), 1, "there is no run 'r9' in this store"),
        (("graph", "nowhere:order"), 2, "can not import 'nowhere'"),
        (("graph", ORDER, "--output", "no/such/folder.svg"), 1, "No such file or directory"),
        (("signal", "r9", "x"), 1, "there is no run 'r9' in this store"),
        (("signal", "r1", "x", "--payload", "{"), 2, "--payload must be valid JSON"),
        (("cancel", "r9"), 1, "there is no run 'r9' in this store"),
        (("worker", ORDER, "--queue", "other", "--until-empty"), 1, "'other'"),
        (("worker", ORDER, "--log-level", "loud"), 2, "--log-level must be one of"),
        (("forget", "--older-than", "soon"), 2, "--older-than is a length of time"),
    ],
)
def test_a_mistake_is_said_in_a_line(words: tuple[str, ...], code: int, said: str) -> None:
    start("--input", "1")
    ran = run("workflow", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1), ran
    assert said in ran.err


@pytest.mark.parametrize("words", [("signal", "r1", "x"), ("cancel", "r1"), ("retry", "r1"), ("pause", "r1"),
                                   ("resume", "r1"), ("fork", ORDER, "r1", "charge"),
                                   ("forget", "--older-than", "1")])  # fmt: skip
def test_where_there_is_no_store_there_is_no_run_to_direct(words: tuple[str, ...], a_home_of_its_own: Path) -> None:
    ran = run("workflow", *words)
    assert (ran.code, ran.out) == (1, "") and ran.err.startswith("there is no store at '")
    assert list(a_home_of_its_own.iterdir()) == []


@pytest.mark.multiprocess
def test_a_worker_in_a_process_of_its_own_serves_until_it_is_stopped() -> None:
    Path("parcels.txt").touch()
    with started(
        "workflow", "worker", SHIPPING, "--queue", "shipping=2", "--queue", "vans", env=environment()
    ) as process:
        done = run("workflow", "start", SHIPPING, "--wait", "--timeout", "60")
        assert (done.code, done.json["results"]["ship"]) == (0, [10, 20, 30])
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and json.loads(out)["state"] == "stopped"
