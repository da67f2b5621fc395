"""The graph of a workflow as text that Mermaid draws."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from localqueue.workflows.palette import LOOKS, PLAIN, look_of, shown_state

#: What stands around the label of each kind of step.
_BRACKETS = {
    "step": ("[", "]"),
    "decision": ("{", "}"),
    "gate": ("((", "))"),
    "timer": ("([", "])"),
    "map": ("[/", "/]"),
    "child": ("[[", "]]"),
    "flow": ("{{", "}}"),
}

#: What Mermaid would take for the end of a label, for HTML, Markdown, a formula or an entity of its own.
_SPECIAL = re.compile(r"[\"#&<>`$*~\\|]|(?<!\w)_|_(?!\w)|(?<=\d)[.)](?= )|^[-+](?= )")


def mermaid_of(shape: Mapping[str, Any], states: Mapping[str, str] | None = None) -> str:
    """A flowchart of `shape`; with `states`, by the names of the steps, each step in the colours of its state."""
    steps = shape["steps"]
    ids = {step["name"]: f"s{n}" for n, step in enumerate(steps)}
    lines, used = ["flowchart TD"], set[str]()
    for step in steps:
        opening, closing = _BRACKETS.get(step["kind"], _BRACKETS["step"])
        state = shown_state(step["name"], states)
        coloured = "" if state == PLAIN else f":::{_class(state)}"
        used.add(_class(state))
        lines.append(f'    {ids[step["name"]]}{opening}"{_label(step)}"{closing}{coloured}')
    decisions = {step["name"] for step in steps if step["kind"] == "decision"}
    for step in steps:
        below = ids[step["name"]]
        for above in step["after"]:
            label = f'|"{_escaped(step["on"])}"|' if "on" in step and above in decisions else ""
            lines.append(f"    {ids[above]} -->{label} {below}")
    for state in LOOKS:
        if state != PLAIN and state in used:
            look = look_of(state)
            dashes = ",stroke-dasharray:4 3" if look.dashed else ""
            fill, stroke, text = look.light
            lines.append(f"    classDef {state} fill:{fill},stroke:{stroke},color:{text}{dashes}")
    return "\n".join(lines) + "\n"


def _class(state: str) -> str:
    return state if state in LOOKS else "waiting"


def _label(step: Mapping[str, Any]) -> str:
    label = _escaped(step["name"])
    if step["kind"] == "child":
        return f"{label}<br/>{_escaped(step['child'])}"
    if step["kind"] == "map":
        return f"{label}<br/>for each {_escaped(step['each'])}" if "each" in step else f"{label}<br/>for each item"
    return label


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text)
