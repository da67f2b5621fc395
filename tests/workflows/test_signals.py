"""Signals to runs: before somebody waits, while, several, and too late; on every store."""

from __future__ import annotations

from typing import Any

import pytest

from localqueue.workflows import Run, RunEnded, RunMissing, SignalTimeout, Workflow
from tests.workflows.workplace import Log, done, state_of, until, working


def test_a_step_waits_for_signals_and_gets_one_for_each_wait_in_order(store: Any, log: Log) -> None:
    order = Workflow("order")

    @order.step
    def approve(ctx: Any) -> list[Any]:
        log("called")
        return [ctx.wait_for("approval"), ctx.wait_for("approval"), ctx.wait_for("other", timeout=3600)]

    @order.step(after=[approve])
    async def ship(ctx: Any) -> Any:
        return await ctx.wait_for("address")

    run = order.start(store)
    run.signal("approval", {"by": "first"})
    with working(order, store):
        until(lambda: state_of(run, "approve") == "sleeping")
        Run.find(store, run.id).signal("approval", ["second"])
        until(lambda: log.count("called") >= 2 and state_of(run, "approve") == "sleeping")
        run.signal("address", "before it is asked for")
        run.signal("other")
        status = done(run)
    assert status.results["approve"] == [{"by": "first"}, ["second"], None]
    assert status.results["ship"] == "before it is asked for"
    assert status.step("approve").attempts == 1, "to wait is not to fail"
    with pytest.raises(RunEnded, match="has succeeded, so it takes no signal 'approval'"):
        run.signal("approval")
    with pytest.raises(RunMissing, match="no run 'nobody'"):
        Run.find(store, "nobody")


def test_a_wait_ends_with_its_timeout_and_stays_ended(store: Any, log: Log) -> None:
    order = Workflow("order")

    @order.step(retries=1, retry_delay=0)
    def approve(ctx: Any) -> Any:
        try:
            ctx.wait_for("approval", timeout=0.1)
        except SignalTimeout as late:
            log(late.name)
        if ctx.attempt == 1:
            Run(store, ctx.run_id).signal("approval", "too late")
            raise ConnectionError("once more")
        return ctx.wait_for("approval", timeout=3600)

    run = order.start(store)
    with working(order, store):
        assert done(run).results["approve"] == "too late", "which is the first for the second wait"
    assert log.lines == ["approval"] * 2
