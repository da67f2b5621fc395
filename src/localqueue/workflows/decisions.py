"""What is decided about a run. Pure functions of its definition and of what is recorded of it: no store, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from localqueue.workflows.definition import Definition
from localqueue.workflows.errors import StepRefused
from localqueue.workflows.records import (
    CANCELLED,
    COMPENSATED,
    COMPENSATING,
    FAILED,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    RunState,
    StepRecord,
)
from localqueue.workflows.step import Step
from localqueue.workflows.work import COLLECT, END, EXPAND, RUN, UNDO, UNDOES, Work

#: run: do what the message asks. skip: no branch that ran leads here. hold: not now, the run stands still.
#: drop: never, the run has ended.
Verdict = Literal["run", "skip", "hold", "drop"]

#: The record of a step above, by its name.
Look = Callable[[str], StepRecord | None]


def verdict(definition: Definition, work: Work, state: RunState, look: Look) -> Verdict:
    """What is to be done with a message of a run that stands so."""
    if state.state in (SUCCEEDED, CANCELLED, COMPENSATED):
        return "drop"
    if state.paused:
        return "hold"
    if work.phase in UNDOES:
        return "run" if state.state == COMPENSATING else "hold"
    if state.state in (FAILED, COMPENSATING):
        return "hold"
    if work.phase in (RUN, EXPAND) and work.step in definition.may_be_skipped:
        return "run" if is_wanted(definition, definition.steps[work.step], look) else "skip"
    if work.phase == COLLECT and work.step in definition.may_be_skipped:
        own = look(work.step)
        return "skip" if own is not None and own.state == SKIPPED else "run"
    return "run"


def is_wanted(definition: Definition, step: Step, look: Look) -> bool:
    """Whether a step runs, now that all above it are done or skipped.

    One that a decision above did not choose does not. Else it runs when any of those above ran, or only when all did.
    """
    ran = []
    for name in step.after:
        record = look(name)
        if record is None:
            raise StepRefused(f"step {step.name!r} comes after {name!r}, of which nothing is recorded")
        if record.state == SKIPPED:
            ran.append(False)
            continue
        if definition.steps[name].kind == "decision" and step.label not in (record.chosen or ()):
            return False
        ran.append(True)
    return not ran or (all(ran) if step.needs == "all" else any(ran))


def chosen(definition: Definition, decision: Step, returned: Any) -> list[str]:
    """The labels that a decision has returned, or `StepRefused` for what it can not choose."""
    known = definition.branches_of(decision.name)
    given = _listed(returned)
    if given is None:
        raise StepRefused(
            f"decision {decision.name!r} returned {returned!r:.200}; it returns the branch that runs, a list of them, "
            f"or None for none: {', '.join(map(repr, known))}"
        )
    labels = list(dict.fromkeys(one.label if isinstance(one, Step) else one for one in given))
    for label in labels:
        if label not in known:
            raise StepRefused(
                f"decision {decision.name!r} chose {label!r}, which is none of its branches: "
                f"{', '.join(map(repr, known))}"
            )
    if decision.exclusive and len(labels) > 1:
        raise StepRefused(f"decision {decision.name!r} is exclusive and chose {len(labels)} branches: {labels!r}")
    return labels


def _listed(returned: Any) -> Sequence[Any] | None:
    if returned is None:
        return ()
    if isinstance(returned, str | Step):
        return (returned,)
    if isinstance(returned, list | tuple | set | frozenset) and all(isinstance(one, str | Step) for one in returned):
        return sorted(returned, key=str) if isinstance(returned, set | frozenset) else list(returned)
    return None


def ends_run(definition: Definition, work: Work) -> bool:
    """Whether the run has ended when this work is done."""
    if work.phase == UNDO:
        return work.last
    if work.phase == END:
        return True
    expands = work.step in definition.steps and definition.steps[work.step].expands
    return work.step == definition.closes and work.phase == (COLLECT if expands else RUN)


def ended(state: RunState, *, undoing: bool) -> RunState | None:
    """How a run stands that stood so, now that its last step is done, or undone. None: nothing changes by it: one that
    is called off while its last step is under way has yet to be undone."""
    match state.state:
        case "running" if not undoing:
            return RunState(SUCCEEDED)
        case "compensating" if undoing:
            return RunState(COMPENSATED, step=state.step, error=state.error, calls_off=state.calls_off)
    return None


def stopped(
    state: RunState, compensates: bool, step: str, error: Mapping[str, Any] | None, *, undoing: bool, at: float
) -> RunState | None:
    """How a run stands that stood so, now that a step has failed for good. One that could not be undone is not undone
    again. None: nothing changes by it."""
    said = None if error is None else dict(error)
    if undoing:
        return RunState(FAILED, step=step, error=said, calls_off=state.calls_off, at=at)
    if state.state != RUNNING:
        return None
    if compensates:
        return RunState(COMPENSATING, step=step, error=said)
    return RunState(FAILED, step=step, error=said, at=at)


def retried(state: RunState, *, undoing: bool) -> RunState | None:
    """How a failed run stands when it is tried again: it goes on, or goes on being undone. None: it has not failed."""
    if state.state != FAILED:
        return None
    if undoing:
        return RunState(COMPENSATING, step=state.step, error=state.error, calls_off=state.calls_off)
    return RunState(RUNNING)
