"""Durable functions: finished calls are remembered, and a changed order is noticed; on every store."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.stores.port import Changes, Settle, StoredMessage
from localqueue.workflows import RunFailed, SignalTimeout, StepFailed, Workflow
from tests.workflows.workplace import Log, done, state_of, until, working


def test_a_flow_goes_on_behind_its_finished_calls(store: Any, log: Log) -> None:
    order = Workflow("order")

    def add(n: int) -> int:
        log("add", n)
        return n + 1

    async def double(n: int) -> int:
        log("double", n)
        return n * 2

    def flaky() -> str:
        log("flaky")
        if log.count("flaky") < 3:
            raise ConnectionError("not yet")
        return "ok"

    @order.flow
    async def main(ctx: Any) -> list[Any]:
        log("flow")
        first = await ctx.step(add, ctx.input)
        await ctx.sleep(0.05)
        both = await ctx.gather(ctx.step(add, first), ctx.step(double, first))
        told = await ctx.options(retries=3, retry_delay=0.01).step(flaky)
        said = [await ctx.wait_for("go", timeout=3600), await ctx.wait_for("go")]
        return [first, both, told, said, await ctx.options(name="last").step(add, n=7)]

    run = order.start(store, 1)
    run.signal("go", "one")
    with working(order, store):
        until(lambda: log.count("flaky") == 3 and state_of(run, "main") == "sleeping")
        run.signal("go", "two")
        status = done(run)
    assert status.results["main"] == [2, [3, 4], "ok", ["one", "two"], 8]
    calls = [line for line in log.lines if isinstance(line, tuple)]
    assert sorted(calls) == [("add", 1), ("add", 2), ("add", 7), ("double", 2)], "each once"
    assert log.count("flow") > 3 and status.step("main").attempts == 1
    names = [(one.name, one.state) for one in status.step("main").items]
    assert [name for name, _ in names] == ["add", "sleep", "add", "double", "flaky", "wait for go", "last"]
    assert {state for _, state in names} == {"succeeded"}


@pytest.mark.by_turns
def test_a_flow_catches_what_a_call_raised_for_good_and_what_did_not_come(store: Any, log: Log) -> None:
    order = Workflow("order")

    def broken(n: int) -> None:
        log(n)
        raise ValueError(f"no {n}")

    def fine() -> str:
        return "fine"

    @order.flow
    async def main(ctx: Any) -> list[Any]:
        found = []
        for n in (1, 2):
            try:
                await ctx.options(retries=n - 1, retry_delay=0).step(broken, n)
            except StepFailed as failure:
                found.append([failure.step, failure.error["message"]])
        try:
            await ctx.gather(ctx.options(retries=0).step(broken, 3), ctx.step(fine))
        except StepFailed as failure:
            found.append(failure.error["message"])
        try:
            await ctx.wait_for("never", timeout=0.05)
        except SignalTimeout as late:
            found.append(late.name)
        await ctx.sleep(0.01)
        return found

    with working(order, store):
        found = done(order.start(store)).results["main"]
    assert found == [["broken", "no 1"], ["broken", "no 2"], "no 3", "never"] and log.lines == [1, 2, 2, 3]


@pytest.mark.by_turns
def test_a_failed_flow_is_retried_from_its_failed_call_and_forked_from_any(store: Any, log: Log) -> None:
    order, mended = Workflow("order"), threading.Event()

    def first(n: int) -> int:
        log("first")
        return n

    def second() -> str:
        log("second")
        if not mended.is_set():
            raise ValueError("not yet")
        return "done"

    @order.flow(retries=0)
    async def main(ctx: Any) -> list[Any]:
        one = await ctx.step(first, ctx.input)
        return [one, await ctx.options(retries=0).step(second)]

    run = order.start(store, 5)
    with working(order, store):
        with pytest.raises(RunFailed, match="step 'second' failed: ValueError: not yet"):
            done(run)
        mended.set()
        run.retry()
        assert done(run).results["main"] == [5, "done"]
        assert log.lines == ["first", "second", "second"]
        assert done(run.fork("second")).results["main"] == [5, "done"]
        assert log.lines == ["first", "second", "second", "second"]


@pytest.mark.by_turns
@pytest.mark.parametrize("change", ["another call", "fewer calls"])
def test_a_flow_that_asks_in_another_order_is_told_so(store: Any, log: Log, change: str) -> None:
    order, changed = Workflow("order"), threading.Event()

    def one() -> int:
        return 1

    def two() -> int:
        return 2

    @order.flow(retries=3)
    async def main(ctx: Any) -> int:
        if changed.is_set() and change == "fewer calls":
            return 0
        await ctx.step(two if changed.is_set() else one)
        await ctx.wait_for("go")
        return 1

    said = "call 1 of flow 'main' .* was 'one' and is 'two' now" if change == "another call" else "ended after 0 calls"
    run = order.start(store)
    with working(order, store):
        until(lambda: state_of(run, "main") == "sleeping")
        changed.set()
        run.signal("go")
        with pytest.raises(RunFailed, match=said):
            done(run)
    assert run.status().step("main").attempts == 1, "no later try would do better"


def test_a_flow_whose_worker_is_gone_goes_on_with_another(store: Any, log: Log) -> None:
    order, begun, go_on = Workflow("order"), threading.Event(), threading.Event()

    def first() -> str:
        log("first")
        return "kept"

    async def second() -> None:
        log("second")
        begun.set()
        if log.count("second") == 1:
            await asyncio.to_thread(go_on.wait, PATIENCE)

    @order.flow(retries=5)
    async def main(ctx: Any) -> str:
        found = await ctx.step(first)
        await ctx.step(second)
        return str(found)

    run = order.start(store)
    with working(order, store, lease_timeout=60.0, worker_id="lost"):
        assert begun.wait(PATIENCE)
        (message,) = store.run_messages(run.id)
        _take_away(store, message)
        with working(order, store):
            assert done(run).results["main"] == "kept"
        go_on.set()
    assert log.count("first") == 1 and log.count("second") == 2


def _take_away(store: Any, message: StoredMessage) -> None:
    """Have somebody else be given the message, as if the worker had not been heard of for too long."""
    store.commit(Changes(settle=[Settle(message.queue, message.id, "release", message.attempts)], strict=False))
