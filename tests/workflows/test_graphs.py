"""Steps that come after steps: joins, decisions, fan-outs, gates, timers and queues, on every store."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import pytest

from localqueue.workflows import RunFailed, StepSkipped, Workflow
from tests.stores import Place
from tests.workflows.workplace import Log, done, states, until, working


def test_steps_run_behind_all_that_they_come_after_and_see_their_results(store: Any, log: Log) -> None:
    dag = Workflow("dag")

    @dag.step
    def init(ctx: Any) -> int:
        log("init")
        return int(ctx.input)

    @dag.step(after=[init])
    def left(ctx: Any) -> int:
        log("left")
        return int(ctx.result("init")) + 1

    @dag.step(after=[init])
    async def right(ctx: Any) -> int:
        log("right")
        return int(ctx.result("init")) + 2

    @dag.step(after=[left, "right"])
    def both(ctx: Any) -> list[int]:
        log("both")
        return [ctx.result("left"), ctx.result("right"), ctx.result("init")]

    @dag.step(after=[left])
    async def last(ctx: Any) -> list[Any]:
        log("last")
        return [ctx.result("left"), ctx.ran("init"), ctx.attempt, ctx.name, ctx.workflow, ctx.version]

    run = dag.start(store, 40)
    with working(dag, store):
        status = done(run)
    assert status.results == {
        "init": 40, "left": 41, "right": 42, "both": [41, 42, 40], "last": [41, True, 1, "last", "dag", 1],
    }  # fmt: skip
    assert set(states(status).values()) == {"succeeded"} and status.state == "succeeded" and status.input == 40
    assert sorted(log.lines) == ["both", "init", "last", "left", "right"], "each once"
    at = {name: n for n, name in enumerate(log.lines)}
    assert at["init"] == 0 and at["both"] > max(at["left"], at["right"]) and at["last"] > at["left"]
    begun = {step.name: step.started_at for step in status.steps}
    assert all(step.finished_at >= begun[step.name] for step in status.steps), "by the clock of the store"  # type: ignore[operator]
    assert store.run(run.id) is None or not store.run(run.id).active


def test_what_a_decision_does_not_choose_is_skipped_and_releases_its_joins(store: Any) -> None:
    order = Workflow("order")

    @order.decision(branches=["left", "right"])
    def choose(ctx: Any) -> Any:
        return ctx.input

    @order.step(after=[choose])
    def left(ctx: Any) -> str:
        return "l"

    @order.step(after=[choose], on="right")
    def right_hand(ctx: Any) -> str:
        return "r"

    @order.step(after=[left])
    def below_left(ctx: Any) -> str:
        return str(ctx.result("left")) + "b"

    @order.step(after=[below_left, right_hand])
    def either(ctx: Any) -> list[Any]:
        return [ctx.ran("left"), ctx.result("below_left", None), ctx.result("right_hand", None)]

    @order.step(after=[below_left, right_hand], needs="all")
    def both(ctx: Any) -> str:
        return "both"

    skipped = {
        "left": {"right_hand", "both"},
        "right": {"left", "below_left", "both"},
        "both": set(),
        "none": {"left", "right_hand", "below_left", "either", "both"},
    }
    given = {"left": "left", "right": ["right"], "both": ["right", "left"], "none": None}
    runs = {name: order.start(store, value) for name, value in given.items()}
    with working(order, store):
        ends = {name: done(run) for name, run in runs.items()}
    assert {name: {one.name for one in end.steps if one.state == "skipped"} for name, end in ends.items()} == skipped
    for name, end in ends.items():
        assert set(end.results) == set(order.steps) - skipped[name]
    assert ends["left"].results["either"] == [True, "lb", None]
    assert ends["right"].results["either"] == [False, None, "r"]
    with pytest.raises(StepSkipped, match="'both' was skipped"):
        ends["left"].results["both"]


@pytest.mark.by_turns
def test_a_decision_that_chooses_what_it_can_not_fails_its_run_at_once(store: Any) -> None:
    order = Workflow("order")

    @order.decision(branches=["one", "two"], exclusive=True)
    def choose(ctx: Any) -> Any:
        return ctx.input

    order.gate("one", after=[choose])
    order.gate("two", after=[choose])
    given = [
        ("three", "'three', which is none of its branches: 'one', 'two'"),
        (7, "ed 7"),
        (["one", "two"], "chose 2"),
    ]
    with working(order, store):
        for chosen, said in given:
            run = order.start(store, chosen)
            with pytest.raises(RunFailed, match=said):
                done(run)
            assert run.status().step("choose").attempts == 1


def test_a_fan_out_runs_for_each_item_and_its_join_gets_all_results_in_order(store: Any) -> None:
    shop = Workflow("shop")

    @shop.step
    def find(ctx: Any) -> list[int]:
        return list(range(ctx.input))

    @shop.step(each=find)
    def square(ctx: Any) -> list[int]:
        return [ctx.item**2, ctx.index]

    @shop.step(each=square)
    async def again(ctx: Any) -> int:
        return int(ctx.item[0]) + 1

    @shop.step(after=[square, again])
    def total(ctx: Any) -> list[Any]:
        return [ctx.result("square"), sum(ctx.results("again"))]

    runs = {count: shop.start(store, count) for count in (0, 1, 23)}
    with working(shop, store):
        for count, run in runs.items():
            status = done(run)
            squares = [[n**2, n] for n in range(count)]
            assert status.results["total"] == [squares, sum(n for n, _ in squares) + count]
            assert status.results["square"] == squares
            items = status.step("square").items
            assert [one.state for one in items] == ["succeeded"] * count


def test_batches_go_on_from_their_cursor_when_a_try_has_failed(store: Any, log: Log) -> None:
    rows = Workflow("rows")

    @rows.step(each=lambda ctx: list(range(25)), batch=10, retries=1, retry_delay=0)
    def load(ctx: Any) -> int:
        seen = 0
        for row in ctx.rows(every=3):
            if row == 17 and ctx.attempt == 1:
                raise ConnectionError("cut off")
            log(row)
            seen += 1
        return seen

    @rows.step(retries=1, retry_delay=0)
    def pages(ctx: Any) -> list[Any]:
        began = ctx.cursor
        if began is None:
            ctx.checkpoint({"page": 3})
            raise ConnectionError("cut off")
        return [began, ctx.attempt, ctx.key]

    run = rows.start(store)
    with working(rows, store):
        status = done(run)
    assert status.results["pages"] == [{"page": 3}, 2, f"{run.id}/pages"]
    assert sorted(log.lines) == sorted([*range(25), 16]), "from the checkpoint behind row 15, not from the beginning"
    assert status.results["load"] == [10, 4, 5]
    assert [one.attempts for one in status.step("load").items] == [1, 2, 1]


def test_a_fan_out_over_something_else_than_a_list_fails_its_run(store: Any) -> None:
    shop = Workflow("shop")

    @shop.step
    def find(ctx: Any) -> str:
        return "abc"

    @shop.step(each=find)
    def use(ctx: Any) -> None: ...

    with working(shop, store), pytest.raises(RunFailed, match="each item of a list, and step 'find' gave 'abc'"):
        done(shop.start(store))


def test_timers_and_gates_hold_back_what_comes_after_them(store: Any) -> None:
    tea = Workflow("tea")

    @tea.step
    def boil(ctx: Any) -> None: ...

    tea.timer("steep", 0.2, after=[boil])
    tea.gate("ready", after=["steep", boil])

    @tea.step(after=["ready"])
    def pour(ctx: Any) -> str:
        ctx.sleep(0.05)
        ctx.sleep(0.05)
        return "tea"

    with working(tea, store):
        status = done(tea.start(store))
    at = {step.name: step for step in status.steps}
    assert at["steep"].finished_at - at["boil"].finished_at >= 0.2  # type: ignore[operator]
    assert at["pour"].finished_at - at["ready"].finished_at >= 0.1  # type: ignore[operator]
    assert at["pour"].attempts == 1, "what is put aside has not failed"
    assert status.results["pour"] == "tea"


@pytest.mark.by_turns
def test_steps_run_on_the_queues_and_workers_that_they_name(store: Any) -> None:
    mixed = Workflow("mixed", queue="home")
    where: dict[str, str] = {}

    def note(ctx: Any) -> None:
        where[ctx.name] = threading.current_thread().name

    @mixed.step
    def begin(ctx: Any) -> None:
        note(ctx)

    @mixed.step(after=[begin], queue="gpu")
    def train(ctx: Any) -> int:
        note(ctx)
        return 1

    @mixed.step(after=[begin], queue="net")
    async def call(ctx: Any) -> int:
        await asyncio.sleep(0)
        note(ctx)
        return 2

    @mixed.step(after=[train, call])
    def end(ctx: Any) -> int:
        return int(ctx.result("train")) + int(ctx.result("call"))

    run = mixed.start(store)
    with working(mixed, store, queues=["home", "net"], worker_id="here"):
        until(lambda: "call" in where)
        until(lambda: states(run.status())["call"] == "succeeded")
        assert states(run.status()) == {
            "begin": "succeeded", "train": "ready", "call": "succeeded", "end": "waiting",
        }  # fmt: skip
        with working(mixed, store, queues=["gpu"], worker_id="elsewhere"):
            status = done(run)
    assert status.results["end"] == 3
    workers = {one.name: one.worker for one in status.steps}
    assert workers["train"].startswith("elsewhere") and workers["begin"].startswith("here")  # type: ignore[union-attr]


@pytest.mark.multiprocess
def test_steps_run_in_processes_between_steps_of_this_one(place: Place) -> None:
    crunch = Workflow("crunch")

    @crunch.step
    def begin(ctx: Any) -> int:
        return os.getpid()

    @crunch.step(after=[begin], queue="cpu", executor="processes")
    def count(ctx: Any) -> list[Any]:
        return [os.getpid(), ctx.result("begin"), ctx.input]

    @crunch.step(each=lambda ctx: [1, 2, 3], after=[begin], queue="cpu", executor="processes")
    def double(ctx: Any) -> int:
        return int(ctx.item) * 2

    @crunch.step(after=[count, double])
    def end(ctx: Any) -> list[Any]:
        return [os.getpid(), ctx.results("double")]

    with place.open() as store:
        run = crunch.start(store, "given")
        crunch.worker(store, processes=2).run_until_empty(signals=False)
        results = run.status().results
    assert results["begin"] == os.getpid() and results["end"] == [os.getpid(), [2, 4, 6]]
    assert results["count"][1:] == [os.getpid(), "given"] and results["count"][0] != os.getpid()
