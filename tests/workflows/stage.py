"""The workflow of a plan: steps that meet the fates which the plan has for them, and tell what they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from localqueue.stores.port import QueueStore
from localqueue.workflows import Workflow
from localqueue.workflows.history import History
from localqueue.workflows.work import UNDOES
from tests.workflows.reference import Node, Plan, value_of

DONE = ("succeeded", "skipped")


class Died(BaseException):
    """The worker is gone."""


class Stage:
    """`effects` counts what functions did, by run and call. `broken` are the promises that did not hold."""

    def __init__(self, plan: Plan, store: QueueStore) -> None:
        self.effects: Counter[tuple[str, str]] = Counter()
        self.called_off: set[str] = set()  # the orders to cancel that were obeyed
        self.late = False  # whether the worker of the last call dies before it commits
        self.broken: list[str] = []
        self.history = History(store)
        self._fates = {
            (one.name, node.name, call): list(fates)
            for one in plan.within()
            for node in one.nodes
            for call, fates in node.fates.items()
        }
        self.workflow = self.declare(plan)

    def declare(self, plan: Plan) -> Workflow:
        workflow = Workflow(plan.name, queue="a")
        for node in plan.nodes:
            self._add(workflow, plan, node)
        return workflow

    def _add(self, workflow: Workflow, plan: Plan, node: Node) -> None:
        place: dict[str, Any] = {"after": node.after, "queue": node.queue, "on": node.label, "needs": node.needs}
        tried: dict[str, Any] = {"name": node.name, "retries": node.retries, "retry_delay": 1.0, "backoff": 1.0}
        undo = self._function(plan, node, "undo") if node.compensates else None

        def each(ctx: Any) -> Any:
            return self._call(ctx, plan, node, "each", lambda: list(node.items))

        def given(ctx: Any) -> Any:
            return self._call(ctx, plan, node, "each", lambda: [node.name, seen(ctx, node)])

        match node.kind:
            case "gate":
                workflow.gate(node.name, **place)
            case "timer":
                workflow.timer(node.name, 7.0, **place)
            case "child":
                assert node.child is not None
                inner = self.declare(node.child)
                workflow.child(node.name, inner, input=given if node.own_input else None, compensate=undo, **place)
            case "decision":
                workflow.decision(exclusive=node.exclusive, **tried, **place)(self._function(plan, node))
            case "map":
                workflow.step(each=node.source or each, compensate=undo, **tried, **place)(self._function(plan, node))
            case _:
                workflow.step(compensate=undo, **tried, **place)(self._function(plan, node))

    def _function(self, plan: Plan, node: Node, call: str = "") -> Callable[[Any], Any]:
        def result(ctx: Any, payload: Any) -> Any:
            if call == "undo":
                record = self.history.step(ctx.run_id, node.name, *(() if ctx.index is None else (ctx.index,)))
                self.require(record is not None and ctx.output == record.value.result, f"{node.name} has no output")
                return None
            match node.kind:
                case "decision":
                    return list(node.chooses) or None
                case "list":
                    return list(node.items)
                case "map":
                    return value_of(node.name, ctx.index, ctx.item)
                case "wait":
                    return value_of(node.name, ctx.input, seen(ctx, node), payload)
            return value_of(node.name, ctx.input, seen(ctx, node))

        def function(ctx: Any) -> Any:
            payload = ctx.wait_for(node.name) if node.kind == "wait" and not call else None
            which = call if ctx.index is None else f"{call} {ctx.index}".strip()
            return self._call(ctx, plan, node, which, lambda: result(ctx, payload))

        return function

    def _call(self, ctx: Any, plan: Plan, node: Node, call: str, result: Callable[[], Any]) -> Any:
        self._may_begin(ctx, node)
        fates = self._fates.get((plan.name, node.name, call)) or ["succeed"]
        fate = fates.pop(0)
        if fate == "die":
            raise Died
        if fate == "raise":
            raise ConnectionError(f"{node.name} {call}")
        if fate == "give up":
            raise ModuleNotFoundError(f"{node.name} {call}")
        value = result()
        self.effects[ctx.run_id, f"{node.name} {call}".strip()] += 1
        self.late = fate == "die late"
        return value

    def require(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken.append(what)

    def _may_begin(self, ctx: Any, node: Node) -> None:
        state = self.history.state(ctx.run_id).value
        undoes = ctx.work.phase in UNDOES
        wanted = "compensating" if undoes else "running"
        self.require(state.state == wanted and not state.paused, f"{ctx.key} begins in a run that is {state}")
        self.require(undoes or not self.called_off, f"{ctx.key} begins after {self.called_off}")
        parent = self.history.header(ctx.run_id).parent
        while parent is not None and not undoes:
            stands = self.history.state(parent).value.state
            self.require(
                stands in ("running", "failed", "compensating"), f"{ctx.key} begins, and run {parent} is {stands}"
            )
            parent = self.history.header(parent).parent
        for name in node.after:
            above = self.history.step(ctx.run_id, name)
            self.require(above is not None and above.value.state in DONE, f"{ctx.key} begins before {name} is done")


def seen(ctx: Any, node: Node) -> list[Any]:
    return [[name, ctx.result(name)] for name in sorted(node.after) if ctx.ran(name)]
