"""What a message of a run asks a worker to do."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from localqueue.workflows.errors import StepRefused

#: run: call the step. expand: make its items, or the run of its child. item: one of them. gather: all items are done.
#: collect: so the step is done. end: all steps are done. compensate: find out what is to be undone. undo: undo a step.
Phase = Literal["run", "expand", "item", "gather", "collect", "end", "compensate", "undo"]

RUN: Phase = "run"
EXPAND: Phase = "expand"
ITEM: Phase = "item"
GATHER: Phase = "gather"
COLLECT: Phase = "collect"
END: Phase = "end"
COMPENSATE: Phase = "compensate"
UNDO: Phase = "undo"

UNDOES = frozenset({COMPENSATE, UNDO})

#: What stands for a step in messages that are for none.
NO_STEP = "-"

#: What the record of an undone step is called by, before its name.
UNDONE = "undo:"


class Work(NamedTuple):
    workflow: str
    version: int
    step: str
    phase: Phase = RUN
    item: int | None = None
    value: Any = None  # the item; of an expansion, the id of the message that collects
    last: bool = False  # of the steps to undo

    @property
    def task(self) -> str:
        return task_name(self.workflow, self.version, self.step)

    @property
    def parts(self) -> tuple[str | int, ...]:
        """What the record of this work is kept under, in its run."""
        name = f"{UNDONE}{self.step}" if self.phase == UNDO else self.step
        return (name,) if self.item is None else (name, self.item)


def task_name(workflow: str, version: int, step: str) -> str:
    return f"{workflow}@{version}/{step}"


_encode = msgspec.json.Encoder().encode


def payload_of(work: Work) -> str:
    """The work as the payload of a message."""
    value: dict[str, Any] = {"task": work.task}
    if work.phase != RUN:
        value["do"] = work.phase
    if work.item is not None:
        value["item"] = work.item
    if work.value is not None:
        value["value"] = work.value
    if work.last:
        value["last"] = True
    return _encode(value).decode()


def read_work(value: Any) -> Work:
    """The work of a message with this value, or `StepRefused`."""
    try:
        home, step = value["task"].split("/", 1)
        workflow, version = home.rsplit("@", 1)
        return Work(
            workflow, int(version), step, value.get("do", RUN), value.get("item"), value.get("value"),
            value.get("last", False),
        )  # fmt: skip
    except (TypeError, KeyError, ValueError, AttributeError):
        raise StepRefused(
            f"the message is no step of a run but {value!r:.200}; give other messages a queue and a worker of their own"
        ) from None
