"""Shapes and patterns of workflows, small: every step once, none before those it comes after."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from localqueue.workflows import Workflow
from tests.stores import Place
from tests.workflows.shapes import SEVEN, SHAPES, above, shaped
from tests.workflows.workplace import Log, done, working


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("store", ["sqlite", "redis"], indirect=True)
def test_every_step_of_a_shape_runs_once_and_behind_all_above_it(store: Any, log: Log, shape: str) -> None:
    edges = SHAPES[shape]
    flow = shaped(shape, edges, lambda ctx: log(ctx.name))
    run = flow.start(store)
    with working(flow, store):
        status = done(run)
    steps = [name for name in edges if not name.startswith("gate")]
    assert Counter(log.lines) == Counter(steps)
    at = {name: n for n, name in enumerate(log.lines)}
    assert all(at[up] < at[name] for name in steps for up in above(edges, name) if up in at)
    assert {one.state for one in status.steps} == {"succeeded"} and len(status.steps) == len(edges)


@pytest.mark.parametrize("store", ["sqlite", "redis"], indirect=True)
def test_a_fan_out_to_hundreds_and_back_gathers_all_of_them(store: Any) -> None:
    wide = Workflow("wide")
    wide.step(name="find")(lambda ctx: list(range(300)))
    wide.step(name="use", each="find")(lambda ctx: ctx.item * 2)
    wide.step(name="total", after=["use"])(lambda ctx: sum(ctx.result("use")))
    with working(wide, store):
        assert done(wide.start(store)).results["total"] == sum(range(300)) * 2


def test_hundreds_of_steps_join_in_one(place: Place, log: Log) -> None:
    edges = {**{str(n): [] for n in range(500)}, "join": [str(n) for n in range(500)]}
    narrow = shaped("narrow", edges, lambda ctx: log(ctx.name))
    with place.open() as store, working(narrow, store):
        done(narrow.start(store))
    assert log.lines[-1] == "join" and Counter(log.lines) == Counter(list(edges))


def test_a_thousand_rows_are_shared_by_five_workers(place: Place) -> None:
    rows = Workflow("rows")
    workers, all_at_it = set[str](), threading.Barrier(5)

    @rows.step(each=lambda ctx: list(range(1000)), batch=50)
    def load(ctx: Any) -> list[int]:
        if ctx.index < 5:
            all_at_it.wait(20)
        workers.add(threading.current_thread().name)
        return list(ctx.rows(every=25))

    rows.step(name="count", after=[load])(lambda ctx: [row for part in ctx.result("load") for row in part])
    with place.open() as store, ExitStack() as crew:
        for n in range(5):
            crew.enter_context(working(rows, store, concurrency=1, worker_id=f"w{n}"))
        status = done(rows.start(store))
    assert status.results["count"] == list(range(1000))
    assert len({str(one.worker)[:2] for one in status.step("load").items}) == 5


def test_two_hundred_runs_at_once_do_not_mix(place: Place) -> None:
    def join(ctx: Any) -> Any:
        return [ctx.input, sorted({step for one in ctx.declared.after for step in (*ctx.result(one)[1], one)})]

    flow = shaped("seven", SEVEN, join)
    with place.open() as store:
        runs = [flow.start(store, n, run_id=f"r{n}") for n in range(200)]
        with working(flow, store, concurrency=8):
            for n, run in enumerate(runs):
                assert done(run).results["F"] == [n, sorted(set(SEVEN) - {"F"})]
        assert store.stats("seven").total == 0
