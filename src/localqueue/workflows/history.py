"""Reading what is recorded of runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec

from localqueue.message import QueueMessage
from localqueue.stores.port import QueueStore, Record
from localqueue.workers.job import leased_at
from localqueue.workflows.errors import RunMissing
from localqueue.workflows.records import (
    DEFINITION,
    RUN,
    SIGNAL,
    STATE,
    STEP,
    SUCCEEDED,
    Kept,
    RunHeader,
    RunState,
    Signals,
    StepRecord,
    key,
    parts_of,
    prefix,
    read,
)
from localqueue.workflows.values import Values

_HEADERS = 512
_PAGES = (20, 1000)  # records that are read at once, at first and at most: most runs have few steps


class History:
    """The records of runs in one store. A header never changes, so those that were read are remembered: each for the
    messages that were there when it was read, because a run of the same id may come after one that was forgotten."""

    def __init__(self, store: QueueStore, values: Values | None = None) -> None:
        self.store = store
        self.values = values or Values()
        self._headers: dict[str, tuple[RunHeader, float]] = {}
        self._inputs: dict[str, Any] = {}
        self._lock = threading.Lock()

    def header(self, run_id: str, message: QueueMessage[Any] | None = None) -> RunHeader:
        """What is true of the run for good, or `RunMissing`; with a leased `message`, of the run that it belongs to."""
        known, since = self._headers.get(run_id, (None, 0.0))
        if known is not None and (message is None or message.created_at <= since):
            return known
        return self._enter(run_id, 0.0 if message is None else leased_at(message))[1]

    def entry(self, run_id: str) -> Record:
        """The record of a run that is there now, or `RunMissing`; its header is remembered."""
        return self._enter(run_id, 0.0)[0]

    def _enter(self, run_id: str, since: float) -> tuple[Record, RunHeader]:
        record = self.store.record(RUN, run_id)
        if record is None:
            raise missing(run_id)
        header = read(record, RunHeader).value
        with self._lock:
            if len(self._headers) >= _HEADERS:
                self._headers.clear()
                self._inputs.clear()
            self._headers[run_id] = header, since
            self._inputs.pop(run_id, None)
        return record, header

    def input(self, run_id: str) -> Any:
        """The input of a run, anew for each who asks: a step may change what it was given."""
        header = self.header(run_id)
        if header.input_ref is None:
            return _copy(header.input)
        if run_id not in self._inputs:
            self._inputs[run_id] = self.values.read(self.store, None, header.input_ref)
        return _copy(self._inputs[run_id])

    def state(self, run_id: str) -> Kept[RunState]:
        record = self.store.record(STATE, run_id)
        return Kept(RunState()) if record is None else read(record, RunState)

    def step(self, run_id: str, *parts: str | int) -> Kept[StepRecord] | None:
        record = self.store.record(STEP, key(run_id, *parts))
        return None if record is None else read(record, StepRecord)

    def steps(self, run_id: str, *parts: str) -> Iterator[tuple[list[str], Kept[StepRecord]]]:
        """All steps of a run, or the items of one, in the order of their names and numbers."""
        for record in scan(self.store, STEP, prefix(run_id, *parts)):
            yield parts_of(record.key)[1:], read(record, StepRecord)

    def signals(self, run_id: str, name: str) -> Kept[Signals]:
        record = self.store.record(SIGNAL, key(run_id, name))
        return Kept(Signals()) if record is None else read(record, Signals)

    def shape(self, run_id: str) -> dict[str, Any]:
        """The definition that a run follows, as it was when the run began."""
        header = self.header(run_id)
        record = self.store.record(DEFINITION, definition_key(header.workflow, header.version, header.definition))
        if record is None:
            return {"workflow": header.workflow, "version": header.version, "steps": []}
        shape: dict[str, Any] = msgspec.json.decode(record.value)
        return shape

    def returned(self, run_id: str, name: str) -> Any:
        """What a step returned; of a fan-out, the list of what its items did. None of one that is not done."""
        found = self.step(run_id, name)
        if found is None or found.value.count is None:
            return None if found is None else self.result(found.value)
        items = (kept.value for parts, kept in self.steps(run_id, name) if len(parts) == 2)
        return [self.result(one) for one in items if one.state == SUCCEEDED]

    def result(self, record: StepRecord) -> Any:
        return self.values.read(self.store, record.result, record.ref)


def definition_key(workflow: str, version: int, digest: str) -> str:
    return f"{workflow}@{version}:{digest}"


def missing(run_id: str) -> RunMissing:
    return RunMissing(
        f"there is no run {run_id!r} in this store; `localqueue workflow list` shows those that are, and finished ones "
        "are forgotten after the time that their workflow keeps them"
    )


def scan(store: QueueStore, kind: str, begin: str = "") -> Iterator[Record]:
    """The records of a kind whose keys begin so, in the order of their keys."""
    behind, (page, most) = begin, _PAGES
    while True:
        found = store.records(kind, after=behind, limit=page)
        for record in found:
            if not record.key.startswith(begin):
                return
            yield record
        if len(found) < page:
            return
        behind, page = found[-1].key, min(page * 7, most)


def _copy(value: Any) -> Any:
    return value if not isinstance(value, dict | list) else msgspec.json.decode(msgspec.json.encode(value))
