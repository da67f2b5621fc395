"""What a run must come to, found by walking its graph by hand: no messages, no store, no order of events.

A `Plan` is a workflow with all that happens in it: what decisions choose, how many items there are, and the fate of
each call of a function, try by try.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: What becomes of one call. raise: an error that is tried again. give up: an error for good. die: the worker is gone
#: before the effect. die late: the worker is gone after it, and before the commit. A call without a fate succeeds.
FATES = ("raise", "give up", "die", "die late")


@dataclass(frozen=True, kw_only=True)
class Node:
    """A step, and what happens in it. `fates` are by call: "" for its function, "each" for what makes its items,
    "0", "1"... for its items, "undo" and "undo 0"... for what undoes them."""

    name: str
    kind: str = "step"
    after: tuple[str, ...] = ()
    queue: str = "a"
    label: str | None = None
    needs: str = "any"
    exclusive: bool = False
    chooses: tuple[str, ...] = ()
    items: tuple[int, ...] = ()
    source: str | None = None
    child: Plan | None = None
    own_input: bool = False
    compensates: bool = False
    retries: int = 0
    fates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan:
    name: str
    nodes: tuple[Node, ...]

    @property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @property
    def last(self) -> list[Node]:
        above = {name for node in self.nodes for name in node.after}
        return [node for node in self.nodes if node.name not in above]

    @property
    def compensates(self) -> bool:
        return any(node.compensates for node in self.nodes)

    def within(self) -> Iterator[Plan]:
        """This plan and those of its children."""
        yield self
        for node in self.nodes:
            if node.child is not None:
                yield from node.child.within()


def value_of(*parts: Any) -> int:
    """What a function returns that has seen this."""
    return zlib.crc32(repr(parts).encode())


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a step ends when all that can be tried again is: `ran` or skipped, and its result."""

    ran: bool
    result: Any = None
    child: dict[str, Ending] | None = None


def evaluate(plan: Plan, given: Any) -> dict[str, Ending]:
    """How each step of a run ends that succeeds, after however many retries."""
    found: dict[str, Ending] = {}

    def ending(name: str) -> Ending:
        if name not in found:
            node = plan.by_name[name]
            above = {one: ending(one) for one in node.after}
            found[name] = _run(plan, node, above, given) if _runs(plan, node, above) else Ending(ran=False)
        return found[name]

    for node in plan.nodes:
        ending(node.name)
    return found


def _runs(plan: Plan, node: Node, above: Mapping[str, Ending]) -> bool:
    if not above:
        return True
    deciders = [one for one in above if plan.by_name[one].kind == "decision" and above[one].ran]
    if any((node.label or node.name) not in above[one].result for one in deciders):
        return False
    ran = [one.ran for one in above.values()]
    return all(ran) if node.needs == "all" else any(ran)


def _run(plan: Plan, node: Node, above: Mapping[str, Ending], given: Any) -> Ending:
    seen = [[name, ending.result] for name, ending in sorted(above.items()) if ending.ran]
    match node.kind:
        case "decision":
            return Ending(ran=True, result=list(node.chooses))
        case "gate" | "timer":
            return Ending(ran=True)
        case "list":
            return Ending(ran=True, result=list(node.items))
        case "map":
            items = list(node.items) if node.source is None else (above[node.source].result or [])
            return Ending(ran=True, result=[value_of(node.name, n, item) for n, item in enumerate(items)])
        case "child":
            assert node.child is not None
            inner = evaluate(node.child, [node.name, seen] if node.own_input else given)
            last = node.child.last
            one = (
                inner[last[0].name].result if len(last) == 1 else {node.name: inner[node.name].result for node in last}
            )
            return Ending(ran=True, result=one, child=inner)
        case "wait":
            return Ending(ran=True, result=value_of(node.name, given, seen, f"to {node.name}"))
    return Ending(ran=True, result=value_of(node.name, given, seen))


def fails(plan: Plan, given: Any = None) -> bool:
    """Whether a run fails that nobody interferes with: some call that it comes to fails for good."""
    endings = evaluate(plan, given)
    failed: set[str] = set()
    for node in plan.nodes:  # each behind those it comes after
        if any(one in failed for one in node.after) or (endings[node.name].ran and _fails(node, endings[node.name])):
            failed.add(node.name)
    return bool(failed)


def _fails(node: Node, ending: Ending) -> bool:
    if node.kind in ("gate", "timer"):
        return False
    if node.kind == "child":
        assert node.child is not None
        return (node.own_input and gives_up(node.fates.get("each", ()), node.retries)) or fails(node.child)
    if node.kind != "map":
        return gives_up(node.fates.get("", ()), node.retries)
    calls = [str(n) for n in range(len(ending.result))]
    if node.source is None:
        calls.append("each")
    return any(gives_up(node.fates.get(one, ()), node.retries) for one in calls)


def gives_up(fates: Sequence[str], retries: int) -> bool:
    """Whether a call fails for good before it succeeds, with so many tries after the first."""
    for turn in range(retries + 1):
        fate = fates[turn] if turn < len(fates) else "succeed"
        if fate in ("succeed", "give up"):
            return fate == "give up"
    return True
