"""Random workflows, carried out by the engine move by move and compared with the reference executor.

The suite looks at few examples, always the same ones. To look at many others:

    LOCALQUEUE_FUZZ_EFFORT=100 pytest tests/workflows/test_random_graphs.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from localqueue.stores.sqlite import MemoryQueueStore
from localqueue.testing import Clock
from localqueue.workflows import Run
from tests.fuzz.effort import examples
from tests.workflows.bench import ROOT, Bench
from tests.workflows.reference import FATES, Ending, Node, Plan, evaluate, fails

KINDS = ("step", "step", "decision", "gate", "map", "list", "child", "wait", "timer")
LABELS = ("x", "y", None)
ORDERS = ("pause", "resume", "cancel", "undo", "retry")
SIGNALS = tuple(f"signal s{n}" for n in range(9))

bad = st.lists(st.sampled_from(FATES), min_size=1, max_size=3).map(tuple)
fates = st.integers(0, 5).flatmap(lambda n: bad if n == 5 else st.just(()))
CALLS = {"map": ("each", "0", "1", "undo 0", "undo 1"), "child": ("each", "undo"), "gate": (), "timer": ()}


@st.composite
def plans(draw: Any, *, most: int = 9, depth: int = 2, name: str = "w") -> Plan:
    """A graph of up to `most` steps, of which some are runs of smaller graphs."""
    nodes: list[Node] = []
    compensates = draw(st.booleans())
    for n in range(draw(st.sampled_from([most, *range(1, most + 1), most]))):
        kind = draw(st.sampled_from(KINDS))
        above = draw(st.lists(st.sampled_from([one.name for one in nodes]), max_size=3, unique=True)) if nodes else []
        if nodes and not above and draw(st.integers(0, 3)):
            above = [nodes[-1].name]
        child = None
        if kind == "child":
            if depth:
                child = draw(plans(most=3, depth=depth - 1, name=f"{name}-{n}"))
            else:
                kind = "step"
        lists = [one.name for one in nodes if one.kind in ("list", "map") and one.name in above]
        nodes.append(
            Node(
                name=f"s{n}",
                kind=kind,
                after=tuple(above),
                queue=draw(st.sampled_from("abc")),
                label=draw(st.sampled_from(LABELS)),
                needs=draw(st.sampled_from(("any", "any", "all"))),
                items=tuple(draw(st.lists(st.integers(0, 9), max_size=3))),
                source=draw(st.sampled_from(lists)) if kind == "map" and lists and draw(st.booleans()) else None,
                child=child,
                own_input=draw(st.booleans()),
                compensates=compensates and kind not in ("decision", "gate", "timer") and draw(st.booleans()),
                retries=draw(st.integers(0, 2)) if kind != "child" else 2,
                fates={call: draw(fates) for call in CALLS.get(kind, ("", "undo"))},
            )
        )
    return Plan(name=name, nodes=tuple(_settled(draw, node, nodes) for node in nodes))


def _settled(draw: Any, node: Node, nodes: list[Node]) -> Node:
    """A decision chooses among what comes after it; one that nothing comes after is a step."""
    if node.kind != "decision":
        return node
    labels = sorted({one.label or one.name for one in nodes if node.name in one.after})
    if not labels:
        return replace(node, kind="step")
    chooses = draw(st.lists(st.sampled_from(labels), unique=True, max_size=3))
    return replace(node, chooses=tuple(chooses), exclusive=len(chooses) < 2 and _may_exclude(node, nodes))


def _may_exclude(decision: Node, nodes: list[Node]) -> bool:
    """A step that needs all of what it comes after could need two branches of it."""
    return all(one.needs == "any" for one in nodes)


def _moves(count: int, seed: int) -> list[int]:
    numbers = Random(seed)
    return [numbers.randrange(2**16) for _ in range(count)]


moves = st.builds(_moves, st.integers(0, 200), st.integers(0, 2**32))
orders = st.lists(st.sampled_from((*SIGNALS, *ORDERS)), max_size=4)
quiet = st.lists(st.sampled_from((*SIGNALS, "pause", "resume", "retry")), max_size=4)


def work_off(bench: Bench) -> str:
    """Have a run come to its end: all signals come, and nobody leaves it paused, or failed where it can be retried."""
    waits = [node.name for plan in bench.plan.within() for node in plan.nodes if node.kind == "wait"]
    for _ in range(100):
        bench.work()
        bench.watch.look_at_the_end()
        if bench.history.state(ROOT).value.paused:
            bench.obey("resume")
        elif not bench.retry() and not any(map(bench.signal, waits)):
            return bench.run.status().state
    raise AssertionError(f"the run does not end: {bench.run.status()}")


def require_as_expected(bench: Bench, run_id: str, plan: Plan, expected: dict[str, Ending]) -> None:
    run = Run(bench.store, run_id)
    status = run.status()
    assert status.state == "succeeded"
    for node in plan.nodes:
        ending, stands = expected[node.name], status.step(node.name)
        assert stands.state == ("succeeded" if ending.ran else "skipped"), f"{node.name} of {run_id} is {stands}"
        if ending.ran:
            assert status.results[node.name] == ending.result, f"{node.name} of {run_id}"
        if ending.child is not None and node.child is not None:
            require_as_expected(bench, f"{run_id}.{node.name}", node.child, ending.child)


def require_undone(bench: Bench, run_id: str, plan: Plan) -> None:
    """What was done and can be undone is, once, the last first."""
    collected = {"child": "collect"}
    done = [
        (work.step, work.item)
        for one, work in bench.watch.done
        if one == run_id
        and work.step in plan.by_name
        and (node := plan.by_name[work.step]).compensates
        and work.phase == ("item" if node.kind == "map" else collected.get(node.kind, "run"))
        and bench.history.step(run_id, *work.parts).value.state == "succeeded"  # type: ignore[union-attr]
    ]
    undone = [(work.step, work.item) for one, work in bench.watch.done if one == run_id and work.phase == "undo"]
    assert undone == list(reversed(done))


def require_all_undone(bench: Bench) -> None:
    for run_id in bench.store.runs():
        if bench.state(run_id) == "compensated":
            require_undone(bench, run_id, bench.watch.plan_of(run_id))


@contextmanager
def carried_out(plan: Plan, moves: list[int], orders: list[str]) -> Iterator[Bench]:
    clock = Clock(at=1_000_000_000.0)
    with MemoryQueueStore(clock=clock) as store:
        yield Bench(store, clock, plan, moves, orders)


def require_ended(bench: Bench) -> None:
    """As the reference has it, for a run that nobody has called off."""
    plan, state = bench.plan, bench.run.status().state
    if not fails(plan):
        assert state == "succeeded"
    elif plan.compensates:
        assert state == "compensated"
    elif state == "failed":  # and can not be retried, unlike all others
        assert any(bench.state(run_id) == "compensated" for run_id in bench.store.runs())
    else:
        assert state == "succeeded"
    if state == "succeeded":
        require_as_expected(bench, ROOT, plan, evaluate(plan, [plan.name]))


@examples(40)
@given(plan=plans(), moves=moves, orders=quiet)
def test_a_run_comes_to_what_the_reference_says(plan: Plan, moves: list[int], orders: list[str]) -> None:
    """However its steps are claimed, fail and are tried again, and wherever its workers die."""
    with carried_out(plan, moves, orders) as bench:
        work_off(bench)
        require_ended(bench)
        require_all_undone(bench)


@examples(40)
@given(plan=plans(), moves=moves, orders=orders, last=st.sampled_from(("cancel", "undo")))
def test_a_run_that_is_called_off_ends_so_and_nothing_begins_any_more(
    plan: Plan, moves: list[int], orders: list[str], last: str
) -> None:
    """Whenever that is, unless it has ended by then; and with what is done undone where that was asked for."""
    with carried_out(plan, moves, [*orders, last]) as bench:
        state = work_off(bench)
        if "cancel" in bench.stage.called_off:
            assert state == "cancelled"
        elif "undo" in bench.stage.called_off:
            assert state in ("cancelled", "compensated")
        else:
            require_ended(bench)
        require_all_undone(bench)
        going = [run_id for run_id in bench.store.runs() if bench.state(run_id) in ("running", "compensating")]
        assert not (bench.stage.called_off and going)
