"""Races of less than a millisecond, as interleavings that are forced: both sides have decided, and then commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.errors import RunCancelled
from localqueue.workflows import Run, RunFailed, SignalTimeout, Workflow, list_runs
from localqueue.workflows.records import RUN, SIGNAL, STATE, STEP
from tests.stores import new_place
from tests.workflows.crossing import Crossing, any_call, writes
from tests.workflows.workplace import Log, done, state_of, states, until, working

Open = Callable[[], Any]


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(kind: str, tmp_path: Path) -> Iterator[Open]:
    """Opens the store once more, as another process would."""
    place = new_place(kind, tmp_path)
    with ExitStack() as stores:
        yield lambda: stores.enter_context(place.open())


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[Any]]]:
    """Calls something in another thread."""
    with ThreadPoolExecutor() as threads:
        yield threads.submit


def orders(*names: str) -> Any:
    """All orders of them, and all at once."""
    return pytest.mark.parametrize("order", [*permutations(names), ()], ids=lambda order: "-".join(order) or "at once")


def both_under_way() -> Callable[[Any], str]:
    """A step that ends when two of its kind run: then each worker has one."""
    meet = threading.Barrier(2)

    def step(ctx: Any) -> str:
        meet.wait(PATIENCE)
        return str(ctx.name)

    return step


@orders("left", "right")
def test_a_join_runs_once_when_both_above_it_are_acked_at_the_same_instant(
    opened: Open, log: Log, order: tuple[str, ...]
) -> None:
    flow, run_step = Workflow("flow"), both_under_way()
    flow.step(name="left")(run_step)
    flow.step(name="right")(run_step)
    flow.step(name="join", after=["left", "right"])(lambda ctx: log(ctx.result("left"), ctx.result("right")))
    one, other, crossing = opened(), opened(), Crossing("left", "right", order=order)
    for store in (one, other):
        for name in ("left", "right"):
            crossing.at(store, name, writes(STEP, f"\x1f{name}"))
    run = flow.start(opened())
    with working(flow, one, concurrency=1), working(flow, other, concurrency=1):
        done(run)
    assert crossing.happened and log.lines == [("left", "right")]


@orders("ack", "cancel")
def test_a_run_is_cancelled_or_succeeds_when_its_last_ack_meets_the_cancel(
    opened: Open, beside: Any, order: tuple[str, ...]
) -> None:
    flow, begun = Workflow("flow"), threading.Event()
    go_on = threading.Event()

    @flow.step
    def only(ctx: Any) -> str:
        begun.set()
        assert go_on.wait(PATIENCE)
        return "done"

    one, operator, crossing = opened(), opened(), Crossing("ack", "cancel", order=order)
    crossing.at(one, "ack", writes(STEP, "\x1fonly"))
    crossing.at(operator, "cancel", any_call, "cancel_run")
    run = flow.start(operator)
    with working(flow, one):
        assert begun.wait(PATIENCE)
        cancelled = beside(run.cancel)
        go_on.set()
        was_cancelled = cancelled.result(PATIENCE)
        if was_cancelled:
            with pytest.raises(RunCancelled):
                done(run)
        else:
            assert done(run).results == {"only": "done"}
    assert crossing.happened and (not order or was_cancelled is (order[0] == "cancel"))
    status = run.status()
    assert (status.state, dict(status.results)) == (
        ("cancelled", {}) if was_cancelled else ("succeeded", {"only": "done"})
    )


@orders("late", "signal")
def test_a_signal_that_meets_the_end_of_the_wait_is_taken_by_it_or_by_the_next(
    opened: Open, beside: Any, order: tuple[str, ...]
) -> None:
    flow = Workflow("flow")

    @flow.step
    def wait(ctx: Any) -> list[Any]:
        try:
            return ["in time", ctx.wait_for("go", timeout=0.05)]
        except SignalTimeout:
            return ["late", ctx.wait_for("go", timeout=PATIENCE)]

    one, operator, crossing = opened(), opened(), Crossing("late", "signal", order=order)
    gives_up = writes(SIGNAL, "\x1fgo")
    crossing.at(one, "late", lambda changes: gives_up(changes) and not changes.settle)
    crossing.at(operator, "signal", gives_up)
    run = flow.start(one)
    with working(flow, one):
        until(lambda: operator.records(SIGNAL))  # which says who waits
        beside(Run(operator, run.id).signal, "go", "now").result(PATIENCE)
        result = done(run).results["wait"]
    assert crossing.happened
    assert result in (["late", "now"], ["in time", "now"])
    assert not order or result[0] == {"late": "late", "signal": "in time"}[order[0]]


@orders("wait", "signal")
def test_a_signal_that_comes_while_a_step_lies_down_wakes_it(opened: Open, beside: Any, order: tuple[str, ...]) -> None:
    flow = Workflow("flow")
    flow.step(name="wait")(lambda ctx: ctx.wait_for("go"))
    one, operator, crossing = opened(), opened(), Crossing("wait", "signal", order=order)
    crossing.at(one, "wait", writes(SIGNAL))
    crossing.at(operator, "signal", writes(SIGNAL))
    run = flow.start(operator)
    with working(flow, one):
        beside(run.signal, "go", "now").result(PATIENCE)
        status = done(run)
    assert crossing.happened and status.results["wait"] == "now" and status.step("wait").attempts == 1


def test_a_signal_does_not_take_a_flow_from_the_worker_that_runs_it(opened: Open, log: Log) -> None:
    order, again, go_on = Workflow("order"), threading.Event(), threading.Event()

    def flaky() -> str:
        log("flaky")
        if log.count("flaky") == 1:
            raise ConnectionError("once more")
        again.set()
        assert go_on.wait(PATIENCE)
        return "done"

    @order.flow
    async def main(ctx: Any) -> Any:
        return await ctx.gather(ctx.options(retries=5, retry_delay=0).step(flaky), ctx.wait_for("go"))

    run = order.start(opened())
    with working(order, opened()), working(order, opened()):
        assert again.wait(PATIENCE)
        run.signal("go", "now")
        (message,) = opened().run_messages(run.id)
        assert message.state == "inflight"
        go_on.set()
        assert done(run).results["main"] == ["done", "now"]
    assert log.lines == ["flaky"] * 2


@orders("first", "second")
def test_two_signals_at_once_are_both_kept(opened: Open, beside: Any, order: tuple[str, ...]) -> None:
    flow = Workflow("flow")
    flow.step(name="wait")(lambda ctx: sorted([ctx.wait_for("go"), ctx.wait_for("go")]))
    one, other, crossing = opened(), opened(), Crossing("first", "second", order=order)
    crossing.at(one, "first", writes(SIGNAL))
    crossing.at(other, "second", writes(SIGNAL))
    run = flow.start(opened())
    sent = [beside(Run(one, run.id).signal, "go", "a"), beside(Run(other, run.id).signal, "go", "b")]
    for each in sent:
        each.result(PATIENCE)
    with working(flow, opened()):
        assert done(run).results["wait"] == ["a", "b"]
    assert crossing.happened


@orders("ack", "pause")
def test_no_step_begins_behind_a_pause_that_meets_the_ack_above_it(
    opened: Open, beside: Any, log: Log, order: tuple[str, ...]
) -> None:
    flow, paused, resumed = Workflow("flow"), threading.Event(), threading.Event()
    flow.step(name="first")(lambda ctx: "one")

    @flow.step(after=["first"])
    def second(ctx: Any) -> None:
        log(resumed.is_set())
        assert paused.wait(PATIENCE)

    one, operator, crossing = opened(), opened(), Crossing("ack", "pause", order=order)
    crossing.at(one, "ack", writes(STEP, "\x1ffirst"))
    crossing.at(operator, "pause", writes(STATE))
    run = flow.start(operator)
    with working(flow, one):
        beside(run.pause).result(PATIENCE)
        paused.set()
        until(lambda: state_of(run, "second") in ("held", "succeeded"))
        resumed.set()
        run.resume()
        done(run)
    assert crossing.happened and len(log.lines) == 1
    assert log.lines == [True] or order != ("pause", "ack")


@orders("hold", "resume")
def test_a_step_that_is_held_while_its_run_is_resumed_runs(opened: Open, beside: Any, order: tuple[str, ...]) -> None:
    flow = Workflow("flow")
    flow.step(name="only")(lambda ctx: "ran")
    one, operator, crossing = opened(), opened(), Crossing("hold", "resume", order=order)
    run = flow.start(operator)
    run.pause()
    crossing.at(one, "hold", writes(STATE))
    crossing.at(operator, "resume", writes(STATE))
    with working(flow, one):
        beside(run.resume).result(PATIENCE)
        status = done(run)
    assert crossing.happened and status.results["only"] == "ran" and status.step("only").attempts == 1


@orders("a", "b", "cancel")
def test_what_is_done_when_a_run_is_called_off_is_undone_and_nothing_else(
    opened: Open, beside: Any, log: Log, order: tuple[str, ...]
) -> None:
    saga, begun = Workflow("saga"), threading.Barrier(3)  # two steps and the operator

    def run_step(ctx: Any) -> str:
        begun.wait(PATIENCE)
        return str(ctx.name)

    def undo(ctx: Any) -> None:
        log(ctx.name)

    saga.step(name="a", compensate=undo)(run_step)
    saga.step(name="b", compensate=undo)(run_step)
    one, other, operator = opened(), opened(), opened()
    crossing = Crossing("a", "b", "cancel", order=order)
    for store in (one, other):
        for name in ("a", "b"):
            crossing.at(store, name, writes(STEP, f"\x1f{name}"))
    crossing.at(operator, "cancel", writes(STATE))
    run = saga.start(operator)
    with working(saga, one, concurrency=1), working(saga, other, concurrency=1):
        begun.wait(PATIENCE)
        was_cancelled = beside(lambda: run.cancel(compensate=True)).result(PATIENCE)
        if was_cancelled:
            with pytest.raises(RunCancelled):
                done(run)
        else:
            done(run)
    status = run.status()
    assert crossing.happened
    assert status.state == ("cancelled" if was_cancelled else "succeeded")
    assert sorted(log.lines) == (sorted(status.results.keys() & {"a", "b"}) if was_cancelled else [])
    if order and order[-1] == "cancel":
        assert was_cancelled is False or sorted(log.lines) == ["a", "b"]


def test_a_cancel_that_looks_for_running_steps_leaves_alone_what_undoes_them(opened: Open, beside: Any) -> None:
    saga, undoing, looked = Workflow("saga"), threading.Event(), threading.Event()

    def undo(ctx: Any) -> None:
        undoing.set()
        assert looked.wait(PATIENCE)

    saga.step(name="first", compensate=undo)(lambda ctx: 1)
    saga.step(name="second", after=["first"])(lambda ctx: ctx.wait_for("never"))
    one, operator = opened(), opened()
    run, look = saga.start(one), operator.run_messages

    def look_late(*args: Any, **kwargs: Any) -> Any:
        assert undoing.wait(PATIENCE)
        return look(*args, **kwargs)

    with working(saga, one):
        until(lambda: state_of(run, "second") == "sleeping")
        operator.run_messages = look_late
        assert beside(Run(operator, run.id).cancel, compensate=True).result(PATIENCE) is True
        looked.set()
        with pytest.raises(RunCancelled):
            done(run)
    assert states(run.status())["undo:first"] == "succeeded"


@orders("one", "other")
def test_two_steps_that_fail_at_once_have_the_run_undone_once(opened: Open, log: Log, order: tuple[str, ...]) -> None:
    saga, meet = Workflow("saga"), threading.Barrier(2)
    saga.step(name="first", compensate=lambda ctx: log("undone"))(lambda ctx: 1)

    def fail(ctx: Any) -> None:
        meet.wait(PATIENCE)
        raise ValueError(ctx.name)

    for name in ("one", "other"):
        saga.step(name=name, after=["first"], retries=0)(fail)
    stores, crossing = [opened(), opened()], Crossing("one", "other", order=order)
    for store in stores:
        for name in ("one", "other"):
            crossing.at(store, name, writes(STEP, f"\x1f{name}"))
    run = saga.start(opened())
    workers = working(saga, stores[0], concurrency=1), working(saga, stores[1], concurrency=1)
    with workers[0], workers[1], pytest.raises(RunFailed, match="undone"):
        done(run)
    status = run.status()
    assert crossing.happened and log.lines == ["undone"]
    assert (states(status)["one"], states(status)["other"]) == ("failed", "failed")
    assert not order or status.failed_step == order[0]


@orders("one", "other")
def test_a_run_that_is_started_twice_at_once_is_one_run(
    opened: Open, beside: Any, log: Log, order: tuple[str, ...]
) -> None:
    flow = Workflow("flow")
    flow.step(name="a")(lambda ctx: log(ctx.input))
    flow.step(name="b", each=lambda ctx: [1, 2], after=["a"])(lambda ctx: log("item"))
    one, other, crossing = opened(), opened(), Crossing("one", "other", order=order)
    crossing.at(one, "one", writes(RUN))
    crossing.at(other, "other", writes(RUN))
    begun = [beside(flow.start, store, "given", run_id="same") for store in (one, other)]
    runs = [each.result(PATIENCE) for each in begun]
    with working(flow, one):
        done(runs[0])
    assert crossing.happened and runs[0] == runs[1] and len(list_runs(one)) == 1
    assert sorted(log.lines) == ["given", "item", "item"]


@orders("begin", "cancel")
def test_a_child_that_is_begun_while_its_parent_is_cancelled_does_nothing(
    opened: Open, beside: Any, log: Log, order: tuple[str, ...]
) -> None:
    inner = Workflow("inner", queue="inner")
    inner.step(name="work")(lambda ctx: log("never"))
    outer = Workflow("outer")
    outer.child("below", inner)
    one, operator, crossing = opened(), opened(), Crossing("begin", "cancel", order=order)
    crossing.at(one, "begin", writes(RUN, ".below"))
    crossing.at(operator, "cancel", any_call, "cancel_run")
    run = outer.start(operator)
    with working(outer, one, queues=["outer"]):
        assert beside(run.cancel).result(PATIENCE) is True
        with pytest.raises(RunCancelled):
            done(run)
    assert crossing.happened
    outer.worker(operator).run_until_empty(signals=False)
    assert log.lines == [] and {one.state for one in list_runs(operator)} == {"cancelled"}
    assert len(list_runs(operator)) == (2 if order[:1] == ("begin",) else 1 if order else len(list_runs(operator)))
