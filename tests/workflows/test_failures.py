"""Steps that fail: tried again, given up, undone, and gone on with later; on every store."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.errors import RunCancelled
from localqueue.workflows import RunFailed, StepRefused, Workflow, WorkflowError
from tests.workflows.workplace import Log, done, states, until, working


def test_a_step_is_tried_again_as_often_as_it_says_and_then_its_run_fails(store: Any, log: Log) -> None:
    flaky = Workflow("flaky")

    @flaky.step(retries=2, retry_delay=0.01)
    def first(ctx: Any) -> list[Any]:
        log(ctx.key)
        if ctx.attempt < 3:
            raise ConnectionError("later")
        return [ctx.attempt, ctx.key]

    @flaky.step(after=[first], retries=1, retry_delay=0)
    def second(ctx: Any) -> None:
        raise ValueError(f"no {ctx.attempt}")

    @flaky.step(after=[second])
    def third(ctx: Any) -> None:
        log("never")

    run = flaky.start(store, run_id="the-run")
    with working(flaky, store), pytest.raises(RunFailed, match="'the-run' failed at step 'second': ValueError: no 2"):
        done(run)
    status = run.status()
    assert log.lines == ["the-run/first"] * 3, "one key for all tries"
    assert status.results == {"first": [3, "the-run/first"]}
    assert states(status) == {"first": "succeeded", "second": "failed", "third": "waiting"}
    assert (status.state, status.failed_step, status.error["message"]) == ("failed", "second", "no 2")  # type: ignore[index]
    assert [one.attempts for one in status.steps] == [3, 2, 0]


@pytest.mark.by_turns
def test_what_no_try_could_mend_is_not_tried_again(store: Any, log: Log) -> None:
    given_up = Workflow("given up", queue="q")

    @given_up.step(retries=5)
    def permanent(ctx: Any) -> None:
        log("permanent")
        raise StepRefused("card expired")

    narrow = Workflow("narrow", queue="q")

    @narrow.step(retries=5, retry_on=ConnectionError)
    def other(ctx: Any) -> None:
        log("other")
        raise KeyError("x")

    unkept = Workflow("unkept", queue="q")

    @unkept.step(retries=0)
    def result(ctx: Any) -> Any:
        return object()

    slow = Workflow("slow", queue="q")

    @slow.step(retries=0, timeout=0.05)
    async def hang(ctx: Any) -> None:
        import asyncio

        await asyncio.sleep(PATIENCE)

    with working(given_up, store, also=[narrow, unkept, slow]):
        for workflow, said in (
            (given_up, "StepRefused: card expired"),
            (narrow, "KeyError"),
            (unkept, "step 'result'"),
            (slow, "did not finish within 0.05 seconds"),
        ):
            with pytest.raises(RunFailed, match=said):
                done(workflow.start(store))
    assert log.lines == ["permanent", "other"]


def test_what_is_done_is_undone_from_the_last_and_a_compensation_is_tried_again(store: Any, log: Log) -> None:
    saga = Workflow("saga")
    tried: list[int] = []

    def undo(ctx: Any) -> None:
        if ctx.name == "pay":
            tried.append(ctx.attempt)
            if len(tried) < 2:
                raise ConnectionError("the bank is closed")
        log(ctx.name, ctx.output, ctx.error["message"])

    @saga.step(compensate=undo)
    def reserve(ctx: Any) -> str:
        return "R"

    @saga.step(after=[reserve], compensate=undo, retries=3, retry_delay=0.01)
    def pay(ctx: Any) -> str:
        return "P"

    @saga.step(after=[pay])
    def tell(ctx: Any) -> None: ...

    @saga.step(each=lambda ctx: ["a", "b"], after=[tell], compensate=lambda ctx: log(ctx.item, ctx.output), queue="far")
    def pack(ctx: Any) -> str:
        return str(ctx.item).upper()

    @saga.step(after=[pack], retries=0, compensate=undo)
    def ship(ctx: Any) -> None:
        raise ValueError("no lorry")

    @saga.step(after=[ship])
    def after(ctx: Any) -> None:
        log("never")

    run = saga.start(store)
    with working(saga, store), pytest.raises(RunFailed, match=r"failed and was undone at step 'ship': .* no lorry"):
        done(run)
    assert sorted(log.lines[:2]) == [("a", "A"), ("b", "B")]
    assert log.lines[2:] == [("pay", "P", "no lorry"), ("reserve", "R", "no lorry")] and len(tried) == 2
    status = run.status()
    assert status.state == "compensated" and states(status)["undo:pay"] == "succeeded"
    assert states(status)["ship"] == "failed" and states(status)["after"] == "cancelled"


def test_a_compensation_that_fails_for_good_fails_the_run_and_goes_on_when_it_is_retried(store: Any, log: Log) -> None:
    saga = Workflow("saga")
    closed = threading.Event()
    closed.set()

    def undo(ctx: Any) -> None:
        log(ctx.name, closed.is_set())
        if ctx.name == "two" and closed.is_set():
            raise ConnectionError("the bank is closed")

    for name, above in (("one", []), ("two", ["one"])):
        saga.step(name=name, after=above, compensate=undo, retries=0)(lambda ctx: ctx.name)
    saga.step(name="three", after=["two"], retries=0)(lambda ctx: 1 // 0)

    run = saga.start(store)
    with working(saga, store):
        with pytest.raises(RunFailed, match="the bank is closed"):
            done(run)
        assert run.status().state == "failed" and log.lines == [("two", True)]
        closed.clear()
        assert run.retry() == 1
        with pytest.raises(RunFailed, match="undone"):
            done(run)
    assert log.lines == [("two", True), ("two", False), ("one", False)]
    assert run.status().state == "compensated"


def test_a_failed_run_goes_on_from_its_failed_steps(store: Any, log: Log) -> None:
    mended = threading.Event()
    order = Workflow("order")

    @order.step
    def first(ctx: Any) -> int:
        log("first")
        return 1

    @order.step(each=lambda ctx: [0, 1, 2], after=[first], retries=0)
    def second(ctx: Any) -> int:
        log("second", ctx.item)
        if ctx.item == 1 and not mended.is_set():
            raise ValueError("not yet")
        return int(ctx.item)

    @order.step(after=[second])
    def third(ctx: Any) -> list[Any]:
        return [ctx.result("first"), ctx.result("second")]

    run = order.start(store)
    with working(order, store, concurrency=1):
        with pytest.raises(RunFailed, match="not yet"):
            done(run)
        mended.set()
        assert run.retry() == 1
        assert done(run).results["third"] == [1, [0, 1, 2]]
        with pytest.raises(WorkflowError, match="is succeeded, and only a failed run can be retried"):
            run.retry()
    assert log.count("first") == 1 and log.count(("second", 1)) == 2
    assert log.count(("second", 0)) == log.count(("second", 2)) == 1


@pytest.mark.by_turns
def test_limits_hold_for_each_key_over_all_runs(store: Any) -> None:
    shop = Workflow("shop")
    lock, now, most = threading.Lock(), dict[str, int](), dict[str, int]()

    @shop.step(concurrency=1, key=lambda ctx: ctx.input["customer"])
    def charge(ctx: Any) -> None:
        who = ctx.input["customer"]
        with lock:
            now[who] = now.get(who, 0) + 1
            most[who] = max(most.get(who, 0), now[who])
        time.sleep(0.01)  # long enough for another one to come in between
        with lock:
            now[who] -= 1

    runs = [shop.start(store, {"customer": "ab"[n % 2]}) for n in range(12)]
    with working(shop, store, concurrency=6):
        for run in runs:
            done(run)
    assert most == {"a": 1, "b": 1}


def test_cancelling_reaches_the_step_that_runs_and_nothing_begins_any_more(store: Any, log: Log) -> None:
    begun, told = threading.Event(), threading.Event()
    long = Workflow("long")

    @long.step
    def work(ctx: Any) -> None:
        begun.set()
        until(lambda: ctx.cancelled)
        told.set()
        ctx.check_cancelled()

    @long.step(after=[work])
    def after(ctx: Any) -> None:
        log("never")

    run = long.start(store)
    with working(long, store):
        assert begun.wait(PATIENCE)
        assert run.cancel() is True
        with pytest.raises(RunCancelled, match="was cancelled"):
            done(run)
        assert told.wait(PATIENCE)
    assert run.cancel() is False and log.lines == []
    assert states(run.status()) == {"work": "cancelled", "after": "cancelled"}


def test_cancelling_with_compensation_undoes_what_is_done(store: Any, log: Log) -> None:
    begun = threading.Event()
    saga = Workflow("saga")

    @saga.step(compensate=lambda ctx: log("undone", ctx.output, ctx.error))
    def reserve(ctx: Any) -> str:
        return "R"

    @saga.step(after=[reserve], compensate=lambda ctx: log("never"))
    def work(ctx: Any) -> None:
        begun.set()
        until(lambda: ctx.cancelled)
        ctx.check_cancelled()

    run = saga.start(store)
    with working(saga, store):
        assert begun.wait(PATIENCE)
        assert run.cancel(compensate=True) is True
        with pytest.raises(RunCancelled):
            done(run)
    assert log.lines == [("undone", "R", None)] and run.status().state == "cancelled"
    assert run.cancel(compensate=True) is False

    plain = Workflow("plain")
    plain.gate("only")
    with pytest.raises(WorkflowError, match="no step with compensate="):
        plain.start(store).cancel(compensate=True)
