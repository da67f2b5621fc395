"""The boxes of a picture of a workflow: one for each step, and one for many steps that are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from localqueue.workflows.label import cells_of, shortened
from localqueue.workflows.palette import PLAIN, shown_state

_MANY_ALIKE = 8
_LONGEST = 32
_NAMED = 20

LETTER = 7.3
SMALL_LETTER = 5.9
STACK = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A box with its name, a line below it, and what is shown to who points at it."""

    kind: str
    name: str
    detail: str
    tip: str
    state: str
    count: int
    stacked: bool
    undoes: bool
    width: float
    height: float


class Graph(NamedTuple):
    """Boxes, and the lines between them: from, to, and the branch of a decision."""

    boxes: list[Box]
    lines: list[tuple[int, int, str]]


def graph_of(steps: Sequence[Mapping[str, Any]], states: Mapping[str, str] | None) -> Graph:
    """What is to be drawn. Many steps between the same others and in the same state are one box."""
    shown = {step["name"]: shown_state(step["name"], states) for step in steps}
    alike = _alike(steps, shown)
    place = {step["name"]: n for n, group in enumerate(alike) for step in group}
    boxes = [_box(group, shown[group[0]["name"]]) for group in alike]
    lines: dict[tuple[int, int, str], None] = {}
    for step in steps:
        for above in step["after"]:
            one = place[above]
            branch = step.get("on", "") if boxes[one].kind == "decision" else ""
            lines[one, place[step["name"]], branch] = None
    return Graph(boxes, list(lines))


def _alike(steps: Sequence[Mapping[str, Any]], shown: Mapping[str, str]) -> list[list[Mapping[str, Any]]]:
    below: dict[str, list[str]] = {step["name"]: [] for step in steps}
    for step in steps:
        for above in step["after"]:
            below[above].append(step["name"])
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for step in steps:
        name = step["name"]
        same = tuple((key, value) for key, value in step.items() if key not in ("name", "after"))
        groups.setdefault((same, tuple(step["after"]), tuple(below[name]), shown[name]), []).append(step)
    found: list[list[Mapping[str, Any]]] = []
    for group in groups.values():
        found += [group] if len(group) > _MANY_ALIKE else [[step] for step in group]
    return found


def _box(group: Sequence[Mapping[str, Any]], state: str) -> Box:
    step, kind, count = group[0], group[0]["kind"], len(group)
    name, said = shortened(step["name"], _LONGEST), [] if state == PLAIN else [state]
    tip = [step["name"] if count == 1 else _names(group), *_described(step), *said]
    if count > 1:
        name, said = f"{count:,} steps", [shortened(f"{step['name']} … {group[-1]['name']}", _LONGEST + 8), *said]
    elif kind == "child":
        said = [shortened(step["child"], _LONGEST), *said]
    elif kind == "map":
        said = [shortened(f"for each {step['each']}" if "each" in step else "for each item", _LONGEST), *said]
    detail, undoes = " · ".join(said), "compensates" in step
    small = kind == "gate" and count == 1
    text = max(cells_of(name) * (SMALL_LETTER if small else LETTER), cells_of(detail) * SMALL_LETTER)
    lines = 2 if detail and not small else 1
    width, height = max(text + 28, 70), 20 + 16.0 * lines
    if small:
        width, height, detail = cells_of(name) * SMALL_LETTER + 18, 20.0, ""
    elif kind == "decision":
        width, height = text * 1.25 + 56, 36 + 16.0 * lines
    elif kind in ("child", "timer", "flow"):
        width += 24
    if undoes:
        width += 18
    stacked = kind == "map" or count > 1
    if stacked:
        width, height = width + STACK, height + STACK
    return Box(
        kind=kind,
        name=name,
        detail=detail,
        tip="\n".join(tip),
        state=state,
        count=count,
        stacked=stacked,
        undoes=undoes,
        width=width,
        height=height,
    )


def _described(step: Mapping[str, Any]) -> list[str]:
    said = [] if step["kind"] == "step" else [f"a {step['kind']}"]
    if "on" in step:
        said.append(f"on branch {step['on']}")
    if "needs" in step:
        said.append(f"needs {step['needs']} of those above")
    if "compensates" in step:
        said.append("can be undone")
    return said


def _names(group: Sequence[Mapping[str, Any]]) -> str:
    named = ", ".join(step["name"] for step in group[:_NAMED])
    return named if len(group) <= _NAMED else f"{named} and {len(group) - _NAMED:,} more"
