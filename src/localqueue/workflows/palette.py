"""How the states of steps are shown in pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from localqueue.workflows.records import SUCCEEDED
from localqueue.workflows.work import UNDONE as UNDO_PREFIX

PLAIN = "plain"
UNDONE = "undone"


class Paint(NamedTuple):
    """The colours of a box: its inside, its border and its text."""

    fill: str
    stroke: str
    text: str


class Look(NamedTuple):
    """A state by day and by night. What is dashed does not run, for now or ever."""

    light: Paint
    dark: Paint
    dashed: bool = False


_WAITING = Look(Paint("#f4f5f7", "#8a929c", "#3d444d"), Paint("#23272e", "#717a85", "#c6ccd4"))

#: What stands for each state, in the order of a step's life. The first is for graphs that nobody runs.
LOOKS: dict[str, Look] = {
    PLAIN: Look(Paint("#ffffff", "#5a6370", "#1d2228"), Paint("#191d23", "#8d96a2", "#e4e8ed")),
    "waiting": _WAITING,
    "held": Look(Paint("#ffffff", "#5a6370", "#3d444d"), Paint("#191d23", "#8d96a2", "#c6ccd4"), dashed=True),
    "ready": Look(Paint("#e3f3fd", "#56a8e0", "#0b3558"), Paint("#10304a", "#4d94cf", "#cfe6f8")),
    "delayed": Look(Paint("#fdf3c9", "#b58a07", "#4b3400"), Paint("#3c2c05", "#cf9f26", "#f5e3ab")),
    "sleeping": Look(Paint("#f5ecfd", "#8656c9", "#3c2068"), Paint("#2c1a49", "#a17ae0", "#e8dbfa")),
    "running": Look(Paint("#b9ddf8", "#0b63b5", "#04254a"), Paint("#134a86", "#7fbdf2", "#ffffff")),
    "succeeded": Look(Paint("#dcf6e2", "#208040", "#103d1f"), Paint("#143a21", "#46b364", "#d5f2dc")),
    "skipped": Look(Paint("#ffffff", "#b2b9c2", "#6c7681"), Paint("#191d23", "#4b535d", "#8d96a2"), dashed=True),
    "failed": Look(Paint("#fde7e5", "#c92a30", "#771117"), Paint("#4a1618", "#ee5c57", "#fbdad8")),
    "cancelled": Look(Paint("#e7eaee", "#5a6370", "#3d444d"), Paint("#30363e", "#7b8591", "#b2bac3")),
    UNDONE: Look(Paint("#fdeedf", "#b6530a", "#572503"), Paint("#3d2008", "#e58a42", "#fadfc4")),
}


def look_of(state: str) -> Look:
    return LOOKS.get(state, _WAITING)


def shown_state(name: str, states: Mapping[str, str] | None) -> str:
    """What a step is shown as: its state, unless what it did was undone."""
    if states is None:
        return PLAIN
    if states.get(f"{UNDO_PREFIX}{name}") == SUCCEEDED:
        return UNDONE
    return states.get(name, "waiting")
