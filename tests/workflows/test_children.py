"""Steps that are runs of other workflows, on every store."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.errors import RunCancelled
from localqueue.workflows import Run, RunFailed, Workflow, forget_runs
from tests.workflows.workplace import Log, done, states, until, working


def test_a_child_has_its_input_and_gives_its_last_results_to_the_parent(store: Any) -> None:
    grandchild = Workflow("grandchild")
    grandchild.step(name="deep")(lambda ctx: [ctx.input])
    ship = Workflow("ship", queue="far")
    ship.step(name="pack")(lambda ctx: ctx.input["n"])
    ship.child("deep", grandchild, after=["pack"], input=lambda ctx: ctx.result("pack"))
    ends = Workflow("ends")
    ends.step(name="left")(lambda ctx: ctx.input)
    ends.step(name="right")(lambda ctx: "r")

    order = Workflow("order")
    order.step(name="pay")(lambda ctx: 7)
    order.child("shipping", ship, after=["pay"], input=lambda ctx: {"n": ctx.result("pay")})
    order.child("both", ends)
    order.step(name="end", after=["shipping", "both"])(lambda ctx: [ctx.result("shipping"), ctx.result("both")])

    run = order.start(store, "given")
    with working(order, store):
        status = done(run)
    assert status.results["end"] == [[7], {"left": "given", "right": "r"}]
    child = Run.find(store, status.step("shipping").child or "")
    assert child.status().parent == run.id and child.status().state == "succeeded"
    assert states(child.status()) == {"pack": "succeeded", "deep": "succeeded"}
    assert forget_runs(store, older_than=0) == 4


def test_the_failure_of_a_child_reaches_its_parents_and_a_retry_goes_through_to_it(store: Any, log: Log) -> None:
    mended = threading.Event()
    inner = Workflow("inner")

    @inner.step(retries=0)
    def fragile(ctx: Any) -> str:
        log("fragile")
        if not mended.is_set():
            raise ValueError("not yet")
        return "mended"

    middle = Workflow("middle")
    middle.child("inside", inner)
    outer = Workflow("outer")
    outer.child("below", middle)
    outer.step(name="end", after=["below"])(lambda ctx: ctx.result("below"))

    run = outer.start(store)
    with working(outer, store):
        with pytest.raises(RunFailed, match="failed at step 'below': ValueError: not yet"):
            done(run)
        middle_run = Run.find(store, run.status().step("below").child or "")
        assert middle_run.status().failed_step == "inside" and middle_run.status().state == "failed"
        mended.set()
        assert run.retry() == 1
        assert done(run).results["end"] == "mended"
    assert log.lines == ["fragile"] * 2 and middle_run.status().state == "succeeded"


def test_cancelling_a_parent_cancels_the_runs_it_has_started(store: Any, log: Log) -> None:
    begun, told = threading.Event(), threading.Event()
    inner = Workflow("inner")

    @inner.step
    def work(ctx: Any) -> None:
        begun.set()
        until(lambda: ctx.cancelled)
        told.set()
        ctx.check_cancelled()

    inner.step(name="after", after=[work])(lambda ctx: log("never"))
    outer = Workflow("outer")
    outer.child("below", inner)

    run = outer.start(store)
    with working(outer, store):
        assert begun.wait(PATIENCE)
        assert run.cancel() is True
        with pytest.raises(RunCancelled):
            done(run)
        assert told.wait(PATIENCE)
    child = Run.find(store, f"{run.id}.below")
    assert child.status().state == "cancelled" and log.lines == []


def test_a_run_that_fails_while_its_child_works_has_the_child_undone_before_itself(store: Any, log: Log) -> None:
    begun = threading.Event()
    inner = Workflow("inner")
    inner.step(name="book", compensate=lambda ctx: log("inner", ctx.output))(lambda ctx: "B")

    @inner.step(after=["book"], compensate=lambda ctx: log("never"))
    def work(ctx: Any) -> None:
        begun.set()
        until(lambda: ctx.cancelled)
        ctx.check_cancelled()

    outer = Workflow("outer")
    outer.step(name="reserve", compensate=lambda ctx: log("outer", ctx.output))(lambda ctx: "R")
    outer.child("below", inner, after=["reserve"], compensate=lambda ctx: log("never"))

    @outer.step(after=["reserve"], retries=0)
    def fail(ctx: Any) -> None:
        assert begun.wait(PATIENCE)
        raise ValueError("no")

    run = outer.start(store)
    with working(outer, store), pytest.raises(RunFailed, match="undone at step 'fail'"):
        done(run)
    assert log.lines == [("inner", "B"), ("outer", "R")]
    assert Run.find(store, f"{run.id}.below").status().state == "cancelled"


@pytest.mark.by_turns
def test_a_run_that_only_waits_for_its_child_is_running(store: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()
    inner = Workflow("inner")

    @inner.step
    def work(ctx: Any) -> str:
        begun.set()
        assert go_on.wait(PATIENCE)
        return "done"

    outer = Workflow("outer")
    outer.child("below", inner)
    run = outer.start(store)
    with working(outer, store):
        assert begun.wait(PATIENCE)
        assert (run.status().state, states(run.status())) == ("running", {"below": "running"})
        run.pause()
        assert Run.find(store, f"{run.id}.below").status().paused
        run.resume()
        go_on.set()
        assert done(run).results == {"below": "done"}
