"""The messages of a run: which there are, and which come after which. Pure: ids are given by the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from localqueue.stores.port import Edge, NewMessage
from localqueue.workflows.definition import Definition
from localqueue.workflows.records import StepRecord
from localqueue.workflows.step import Step
from localqueue.workflows.work import (
    COLLECT,
    COMPENSATE,
    END,
    EXPAND,
    GATHER,
    ITEM,
    NO_STEP,
    RUN,
    UNDO,
    Phase,
    Work,
    payload_of,
)

#: Mints so many ids, in ascending order.
Mint = Callable[[int], Sequence[str]]


class Start(NamedTuple):
    """The messages that begin a run, and the id of the one that ends it. Where they are told of each other's ids, they
    have to be stored under them."""

    messages: list[NewMessage]
    closing: str
    keep_ids: bool


def start(definition: Definition, run_id: str, mint: Mint, *, only: Collection[str] | None = None) -> Start:
    """The messages of a run; with `only`, of these steps alone: those above them are done."""
    names = [name for name in definition.order if only is None or name in only]
    works: list[tuple[Work, Step, tuple[str, ...]]] = []
    wanted = set(names)
    for name in names:
        step = definition.steps[name]
        above = tuple(one for one in step.after if one in wanted)
        if step.expands:
            works.append((_work(definition, name, EXPAND), step, above))
            works.append((_work(definition, name, COLLECT), step, ()))
        else:
            works.append((_work(definition, name), step, above))
    ids = mint(len(works) + (definition.closes is None))
    exits: dict[str, str] = {}
    messages: list[NewMessage] = []
    for n, (work, step, above) in enumerate(works):
        message_id = ids[n]
        after = (messages[-1].id,) if work.phase == COLLECT else tuple(exits[one] for one in above)
        if work.phase == EXPAND:
            work = work._replace(value=ids[n + 1])  # so it can have that one wait for more
        else:
            exits[step.name] = message_id
        messages.append(_message(message_id, work, step.queue, run_id, after, step.priority))
    keep_ids = any(step.expands for _, step, _ in works)
    if definition.closes is not None:
        return Start(messages, exits[definition.closes], keep_ids)
    last = tuple(exits[name] for name in definition.sinks if name in exits)
    messages.append(_message(ids[-1], _work(definition, NO_STEP, END), definition.home, run_id, last))
    return Start(messages, ids[-1], keep_ids)


class Expansion(NamedTuple):
    """What a step adds to its run while it is under way."""

    messages: list[NewMessage]
    edges: list[Edge]


def fan_out(
    definition: Definition, step: Step, run_id: str, items: Sequence[Any], collect: str, mint: Mint
) -> Expansion:
    """One message for each item, and one behind all of them that `collect` then waits for.

    An edge for each item would do the same, and cost a look at the graph for each.
    """
    if not items:
        return Expansion([], [])
    *ids, gather = mint(len(items) + 1)
    messages = []
    for index, (one, item) in enumerate(zip(ids, items, strict=True)):
        work = _work(definition, step.name, ITEM, index)._replace(value=item)
        messages.append(_message(one, work, step.queue, run_id, (), step.priority))
    messages.append(_message(gather, _work(definition, step.name, GATHER), step.queue, run_id, tuple(ids)))
    return Expansion(messages, [Edge(gather, collect)])


def compensator(workflow: str, version: int, home: str, run_id: str, mint: Mint) -> NewMessage:
    """The message that finds out what is to be undone; a run has one at a time."""
    (one,) = mint(1)
    work = Work(workflow, version, NO_STEP, COMPENSATE)
    return _message(one, work, home, run_id, ())._replace(dedupe_key=f"{COMPENSATE}:{run_id}")


def undo_chain(
    definition: Definition, run_id: str, done: Sequence[tuple[str, int | None, StepRecord, float]], mint: Mint
) -> list[NewMessage]:
    """Messages that undo what is done, the last first, one after the other.

    What came after a step has ended after it, so the times at which they ended are an order for all of them.
    """
    place = {name: n for n, name in enumerate(definition.order)}
    undone = sorted(
        (
            (ended_at, place[name], -1 if index is None else index, name, n)
            for n, (name, index, record, ended_at) in enumerate(done)
            if record.state == "succeeded"
            and record.count is None
            and name in place
            and definition.steps[name].compensate is not None
        ),
        reverse=True,
    )
    messages: list[NewMessage] = []
    for message_id, (_, _, index, name, n) in zip(mint(len(undone)), undone, strict=True):
        step = definition.steps[name]
        work = _work(definition, name, UNDO, None if index < 0 else index)._replace(value=done[n][2].item)
        if len(messages) == len(undone) - 1:
            work = work._replace(last=True)
        after = (messages[-1].id,) if messages else ()
        messages.append(_message(message_id, work, step.queue, run_id, after, step.priority))
    return messages


def _work(definition: Definition, step: str, phase: Phase = RUN, index: int | None = None) -> Work:
    return Work(definition.name, definition.version, step, phase, index)


def _message(
    message_id: str, work: Work, queue: str, run_id: str, after: tuple[str, ...], priority: int = 0
) -> NewMessage:
    return NewMessage(message_id, queue, payload_of(work), priority=priority, run_id=run_id, after=after)
