"""Directing runs: pause, fork, identity, versions, large values, listing and forgetting; on every store."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.results import MemoryResultStore
from localqueue.workflows import (
    Run,
    RunFailed,
    RunMismatch,
    RunMissing,
    Workflow,
    WorkflowError,
    forget_runs,
    list_runs,
)
from tests.workflows.workplace import Log, done, state_of, states, until, working


def chain(log: Log, *names: str, **options: Any) -> Workflow:
    """Steps one behind the other; each adds its name to what the one before has returned."""
    made, above = Workflow("chain", **options), list[Any]()

    def add(ctx: Any) -> list[Any]:
        log(ctx.name)
        before = ctx.declared.after
        return [*(ctx.result(before[0]) if before else [ctx.input]), ctx.name]

    for name in names:
        above = [made.step(name=name, after=above)(add)]
    return made


def test_no_step_of_a_paused_run_begins_until_it_is_resumed(store: Any, log: Log) -> None:
    begun, go_on = threading.Event(), threading.Event()
    order = Workflow("order")

    @order.step
    def first(ctx: Any) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)

    @order.step(after=[first])
    def second(ctx: Any) -> str:
        log("second")
        return "done"

    run = order.start(store)
    with working(order, store):
        assert begun.wait(PATIENCE)
        run.pause()
        go_on.set()
        until(lambda: state_of(run, "second") == "held")
        status = run.status()
        assert (status.state, status.paused, states(status)["first"]) == ("running", True, "succeeded")
        assert [one.run_id for one in list_runs(store, state="paused")] == [run.id]
        assert log.lines == []
        with pytest.raises(TimeoutError, match="is paused after 0 seconds"):
            run.wait(0)
        run.resume()
        assert done(run).results["second"] == "done"
    assert log.lines == ["second"] and run.status().step("second").attempts == 1


def test_a_run_is_forked_from_a_step_with_what_was_done_before_it(store: Any, log: Log) -> None:
    flow = chain(log, "a", "b", "c", inline_limit=4)
    run = flow.start(store, "one")
    with working(flow, store):
        assert done(run).results["c"] == ["one", "a", "b", "c"]
        other = run.fork("b", run_id="again")
        assert done(other).results == {"a": ["one", "a"], "b": ["one", "a", "b"], "c": ["one", "a", "b", "c"]}
        given = run.fork("a", input="two")
        assert done(given).results["c"] == ["two", "a", "b", "c"]
    assert [log.count(name) for name in "abc"] == [2, 3, 3]
    assert other.status().forked_from == run.id and other.id == "again"
    with pytest.raises(WorkflowError, match="has no step 'z'"):
        run.fork("z")
    assert forget_runs(store, older_than=0) == 3
    with pytest.raises(RunMissing):
        run.status()


def test_values_of_a_fork_outlive_the_run_they_came_from(store: Any, log: Log) -> None:
    flow = chain(log, "a", "b", inline_limit=4)
    run = flow.start(store, "one", run_id="old")
    with working(flow, store):
        done(run)
        other = run.fork("b")
        assert done(other).results["b"] == ["one", "a", "b"]
        third = other.fork("b")
        store_after = done(third)
    for one in (run, other):
        Run.find(store, one.id)
        _forget_alone(store, one)
    assert store_after.results["a"] == ["one", "a"] and third.status().results["a"] == ["one", "a"]


def _forget_alone(store: Any, run: Run) -> None:
    from localqueue.workflows.runs import forget_run
    from localqueue.workflows.values import Values

    forget_run(store, run.id, Values())


def test_a_run_has_the_id_it_is_given_or_one_made_of_its_input(store: Any, log: Log) -> None:
    flow = chain(log, "only")
    run = flow.start(store, {"a": 1, "b": 2}, run_id="order-42")
    assert flow.start(store, {"b": 2, "a": 1}, run_id="order-42") == run
    by_input = flow.start(store, {"a": 1, "b": 2}, identity="input")
    assert flow.start(store, {"b": 2, "a": 1}, identity="input") == by_input != run
    others = [flow.start(store, {"a": 1}), flow.start(store, {"a": 1})]
    assert others[0] != others[1]
    with pytest.raises(RunMismatch, match="'order-42' was started with another input"):
        flow.start(store, {"a": 2}, run_id="order-42")
    with pytest.raises(RunMismatch, match="is one of workflow 'chain' version 1, not of 'chain' version 2"):
        chain(log, "only", version=2).start(store, {"a": 1, "b": 2}, run_id="order-42")
    with working(flow, store):
        for one in (run, by_input, *others):
            done(one)
        assert flow.start(store, {"a": 1, "b": 2}, run_id="order-42").status().state == "succeeded"
    assert log.count("only") == len(list_runs(store, workflow="chain")) == 4


@pytest.mark.by_turns
def test_a_run_needs_the_version_it_was_started_with(store: Any, log: Log) -> None:
    old, new = chain(log, "a", version=1), chain(log, "a", "b", version=2)
    changed = chain(log, "a", "z", version=2)
    first, second = old.start(store, "old"), new.start(store, "new")
    with working(changed, store):
        with pytest.raises(RunFailed, match="follows version 1 of workflow 'chain', and this worker has version 2"):
            done(first)
        with pytest.raises(RunFailed, match="this worker has other steps under that version"):
            done(second)
    assert log.lines == [] and states(second.status()) == {"a": "failed", "b": "waiting"}
    with working(new, store, also=[old]):
        assert first.retry() == second.retry() == 1
        assert done(first).results == {"a": ["old", "a"]}
        assert done(second).results["b"] == ["new", "a", "b"]
    with pytest.raises(WorkflowError, match="two different workflows are called 'chain' and have version 2"):
        new.worker(store, also=[changed])


@pytest.mark.by_turns
@pytest.mark.parametrize("where", ["store", "results"])
def test_large_values_are_kept_beside_the_run_and_read_like_others(store: Any, where: str) -> None:
    results = MemoryResultStore() if where == "results" else None
    big = Workflow("big", inline_limit=1000, result_store=results)

    @big.step
    def make(ctx: Any) -> str:
        return str(ctx.input) * 2

    @big.step(each=lambda ctx: ["a" * 2000, "b"])
    def each(ctx: Any) -> str:
        return str(ctx.item) + "!"

    @big.step(after=[make, each])
    async def use(ctx: Any) -> list[Any]:
        return [len(ctx.result("make")), [len(one) for one in ctx.results("each")], ctx.input[:3]]

    run = big.start(store, "xyz" * 1000)
    with working(big, store):
        status = done(run)
    assert status.results["use"] == [6000, [2001, 2], "xyz"] and status.results["make"] == "xyz" * 2000
    assert big.run(store, run.id).status().input == "xyz" * 1000
    kept = store.records("workflow.value", after="", limit=10)
    assert len(kept) == (3 if results is None else 0)
    if results is not None:
        assert results.load(f"{run.id}\x1fmake") == "xyz" * 2000
        with pytest.raises(WorkflowError, match="is in a result store; ask with the workflow"):
            Run.find(store, run.id).status().results["make"]
    assert forget_runs(store, older_than=0, values=big.values) == 1
    assert not store.records("workflow.value", after="", limit=10)
    assert results is None or results.load(f"{run.id}\x1fmake") is None


def test_runs_are_listed_and_forgotten_with_all_that_is_theirs(store: Any, log: Log) -> None:
    flow = chain(log, "a", "b")
    open_run = Workflow("open")

    @open_run.step
    def wait(ctx: Any) -> None:
        ctx.wait_for("never")

    left = open_run.start(store)
    with working(flow, store, also=[open_run]):
        runs = [flow.start(store, n) for n in range(3)]
        for run in runs:
            done(run)
        until(lambda: state_of(left, "wait") == "sleeping")
    assert [one.run_id for one in list_runs(store, state="succeeded")] == [run.id for run in reversed(runs)]
    assert [one.run_id for one in list_runs(store, workflow="open")] == [left.id]
    assert len(list_runs(store, limit=2)) == 2
    assert forget_runs(store, older_than=3600) == 0
    assert forget_runs(store, older_than=0, dry_run=True) == forget_runs(store, older_than=0) == 3
    assert [one.run_id for one in list_runs(store)] == [left.id]
    kept = {kind: store.records(f"workflow.{kind}", after="", limit=100) for kind in ("run", "state", "step", "signal")}
    assert {kind: len(found) for kind, found in kept.items()} == {"run": 1, "state": 0, "step": 0, "signal": 1}
    left.signal("never")
    with working(open_run, store):
        assert asyncio.run(left.wait_async(PATIENCE)).state == "succeeded"


@pytest.mark.by_turns
def test_a_run_that_comes_after_a_forgotten_one_of_its_id_has_nothing_of_it(store: Any, log: Log) -> None:
    old, new = chain(log, "a", inline_limit=4), chain(log, "a", "b", version=2, inline_limit=4)
    with working(new, store, also=[old]):
        first = done(old.start(store, "old input", run_id="daily"))
        assert forget_runs(store, older_than=0) == 1
        second = done(new.start(store, "new input", run_id="daily"))
    assert first.input == "old input" and second.input == "new input"
    assert second.results["b"] == ["new input", "a", "b"] and second.version == 2


@pytest.mark.by_turns
def test_runs_show_the_steps_they_follow_though_another_start_was_refused(store: Any, log: Log) -> None:
    chain(log, "a").start(store, "given", run_id="taken")
    other = chain(log, "x", "y", version=2)
    with pytest.raises(RunMismatch):
        other.start(store, "given", run_id="taken")
    assert states(other.start(store, "given").status()) == {"x": "ready", "y": "waiting"}
