"""Runs and their steps through the store's port: what is recorded of them, in pages.

How a run stands is read before its steps, so one that is shown as ended is shown with all that it did. A step has a row
when something is recorded of it: it has ended, or has to remember something. One that waits for its turn, or is tried
right now, has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter

import msgspec

from localqueue.message import RunStats
from localqueue.spark.source.filters import Wanted
from localqueue.spark.source.plan import Runs
from localqueue.stores.port import QueueStore, Record
from localqueue.workflows.history import definition_key
from localqueue.workflows.records import (
    DEFINITION,
    RUN,
    SLEEPING,
    STATE,
    STEP,
    SUCCEEDED,
    Kept,
    RunHeader,
    RunState,
    StepRecord,
    parts_of,
    read,
)
from localqueue.workflows.status import RunStatus, StepStatus, recorded_step, summary
from localqueue.workflows.work import UNDONE

_RUNS = 500  # in a page: the record of a run has its input in it
_FEW, _MANY = 50, 2000  # steps in a page


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A step of a run, or a run without steps; `item` is the number of an item of a fan-out or of a call of a flow."""

    run_id: str
    counts: RunStats | None = None
    run: RunStatus | None = None
    queue: str | None = None
    step: StepStatus | None = None
    item: int | None = None


def run_ids(store: QueueStore, *, declared: bool) -> Iterator[str]:
    """The ids of all runs, ascending; with `declared`, of those of workflows."""
    return (run_id for run_id, _ in _between(store, "", None, declared=declared))


def run_rows(store: QueueStore, part: Runs, wanted: Wanted, *, counted: bool) -> Iterator[RunRow]:
    """The rows of a part. With `counted` they know how many messages their run has in each state."""
    if part.ids is None:
        found = _between(store, part.after, part.until, declared=wanted.declared)
    else:
        found = ((run_id, store.record(RUN, run_id)) for run_id in part.ids)
    reader = _Reader(store, counted=counted, whole=part.ids is None and wanted.workflows is None)
    while page := list(islice(found, _RUNS)):
        yield from reader.rows([record for _, record in page if record is not None], wanted.workflows)
        if not wanted.declared:
            plain = (store.run(run_id) for run_id, record in page if record is None)
            yield from (RunRow(run_id=one.run_id, counts=one) for one in plain if one is not None)


def _between(
    store: QueueStore, after: str, until: str | None, *, declared: bool
) -> Iterator[tuple[str, Record | None]]:
    """Every run once, by ascending ids, with its record if it is one of a workflow."""
    kept = ((record.key, record) for record in _records(store, RUN, after, until, _RUNS))
    if declared:
        yield from kept
        return
    counted = ((run_id, None) for run_id in _counted(store, after, until))
    for run_id, same in groupby(merge(kept, counted, key=itemgetter(0)), key=itemgetter(0)):
        yield run_id, next((record for _, record in same if record is not None), None)


def _counted(store: QueueStore, after: str, until: str | None) -> Iterator[str]:
    """The runs that messages were put into."""
    while page := store.runs(after=after, limit=_MANY):
        for run_id in page:
            if until is not None and run_id > until:
                return
            yield run_id
        after = page[-1]


def _records(store: QueueStore, kind: str, after: str, until: str | None, size: int) -> Iterator[Record]:
    """The records behind one key, up to and with another."""
    while True:
        page = store.records(kind, after=after, limit=size)
        for record in page:
            if until is not None and record.key > until:
                return
            yield record
        if len(page) < size:
            return
        after, size = page[-1].key, max(size, min(size * 4, _MANY))


class _Reader:
    """Reads what is recorded of runs: of one after the other or, with `whole`, of a page of neighbours at once."""

    def __init__(self, store: QueueStore, *, counted: bool, whole: bool) -> None:
        self._store = store
        self._counted = counted
        self._whole = whole
        self._kinds: dict[str, dict[str, str]] = {}

    def rows(self, found: Sequence[Record], workflows: frozenset[str] | None) -> Iterator[RunRow]:
        headers = {record.key: read(record, RunHeader) for record in found}
        ids = [one for one, kept in headers.items() if workflows is None or kept.value.workflow in workflows]
        for some in [ids] if self._whole and ids else [[one] for one in ids]:
            runs = self._standing(some, headers)
            bare, now = dict(runs), self._store.now()
            # What is recorded of a run lies behind its id and before its id with a space, wherever other ids lie.
            last = max(f"{run_id} " for run_id in some)
            for record in _records(self._store, STEP, some[0], last, _MANY if self._whole else _FEW):
                run_id, *parts = parts_of(record.key)
                if run_id in runs:
                    bare.pop(run_id, None)
                    yield self._step(runs[run_id], headers[run_id].value, tuple(parts), record, now)
            yield from bare.values()

    def _standing(self, ids: Sequence[str], headers: dict[str, Kept[RunHeader]]) -> dict[str, RunRow]:
        """Each run as a row without a step."""
        first = self._store.record(STATE, ids[0])
        states = {} if first is None else {first.key: read(first, RunState)}
        if len(ids) > 1:
            others = _records(self._store, STATE, ids[0], ids[-1], _MANY)
            states.update((record.key, read(record, RunState)) for record in others)
        return {
            run_id: RunRow(
                run_id=run_id,
                counts=self._store.run(run_id) if self._counted else None,
                run=summary(run_id, headers[run_id].at, headers[run_id].value, states.get(run_id, Kept(RunState()))),
                queue=headers[run_id].value.home,
            )
            for run_id in ids
        }

    def _step(self, row: RunRow, header: RunHeader, parts: tuple[str, ...], record: Record, now: float) -> RunRow:
        step = recorded_step(parts, self._kind(header, parts), read(record, StepRecord), now)
        if step.kind == "item":
            step = replace(step, name=parts[0])
        if step.kind == "call" and step.state == SLEEPING and row.run is not None and row.run.state == SUCCEEDED:
            step = replace(step, state=SUCCEEDED)  # a signal that has come is not written down once more
        return replace(row, step=step, item=int(parts[1]) if len(parts) > 1 else None)

    def _kind(self, header: RunHeader, parts: tuple[str, ...]) -> str:
        place = definition_key(header.workflow, header.version, header.definition)
        if place not in self._kinds:
            record = self._store.record(DEFINITION, place)
            steps = () if record is None else msgspec.json.decode(record.value)["steps"]
            self._kinds[place] = {one["name"]: one["kind"] for one in steps}
        kind = "undo" if parts[0].startswith(UNDONE) else self._kinds[place].get(parts[0], "")
        return kind if len(parts) == 1 else "call" if kind == "flow" else "item"
