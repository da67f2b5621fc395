"""How a run stands, and each of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from localqueue.stores.port import CANCELLED as GONE
from localqueue.stores.port import DEAD, DELAYED, EXPIRED, INFLIGHT, READY, WAITING, StoredMessage
from localqueue.workflows.errors import StepRefused, StepSkipped
from localqueue.workflows.records import (
    CANCELLED,
    ENDED,
    FAILED,
    RUNNING,
    SKIPPED,
    SLEEPING,
    SUCCEEDED,
    Kept,
    RunHeader,
    RunState,
    StepRecord,
)
from localqueue.workflows.suspension import WITHOUT_END, is_held
from localqueue.workflows.work import COLLECT, EXPAND, ITEM, RUN, UNDO, UNDONE, read_work

HELD = "held"

_STATES = {
    WAITING: "waiting", READY: "ready", DELAYED: "delayed", INFLIGHT: RUNNING, DEAD: FAILED, GONE: CANCELLED,
    EXPIRED: CANCELLED,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """How a step stands. `state` is waiting, ready, delayed (until its next try), sleeping (until a time or a signal),
    held (its run is paused or has failed), running, succeeded, skipped, failed or cancelled.

    `items` are those of a fan-out, and the calls of a flow. Times are the store's.
    """

    name: str
    kind: str
    state: str
    after: tuple[str, ...] = ()
    attempts: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    error: Mapping[str, Any] | None = None
    worker: str | None = None
    queue: str | None = None
    child: str | None = None
    items: tuple[StepStatus, ...] = ()

    @property
    def seconds(self) -> float | None:
        """How long its last try took, or the whole of a fan-out."""
        return None if self.started_at is None or self.finished_at is None else self.finished_at - self.started_at

    def as_dict(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in self.__slots__ if name != "items"}
        return {**said, "after": list(self.after), "items": [one.as_dict() for one in self.items]}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """How a run stands. `state` is running, succeeded, failed, cancelled, compensating or compensated."""

    run_id: str
    workflow: str
    version: int
    state: str
    paused: bool = False
    created_at: float = 0.0
    finished_at: float | None = None
    input: Any = None
    error: Mapping[str, Any] | None = None
    failed_step: str | None = None
    parent: str | None = None
    forked_from: str | None = None
    steps: tuple[StepStatus, ...] = ()
    results: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def step(self, name: str) -> StepStatus:
        for one in self.steps:
            if one.name == name:
                return one
        raise KeyError(f"run {self.run_id!r} has no step {name!r}")

    def as_dict(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in self.__slots__ if name not in ("steps", "results")}
        return {**said, "steps": [one.as_dict() for one in self.steps], "results": dict(self.results)}


class StepResults(Mapping[str, Any]):
    """What the steps of a run returned, by name; each is read from the store when it is asked for."""

    def __init__(self, done: Mapping[str, Callable[[], Any]], skipped: frozenset[str]) -> None:
        self._done = done
        self._skipped = skipped
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            if name in self._skipped:
                raise StepSkipped(f"step {name!r} was skipped, so it has no result")
            if name not in self._done:
                raise KeyError(name)
            self._read[name] = self._done[name]()
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._done)

    def __len__(self) -> int:
        return len(self._done)

    def __repr__(self) -> str:
        return f"StepResults({', '.join(self._done)})"


def summary(run_id: str, created_at: float, header: RunHeader, state: Kept[RunState], **more: Any) -> RunStatus:
    """A run without its steps."""
    standing = state.value
    return RunStatus(
        run_id=run_id,
        workflow=header.workflow,
        version=header.version,
        state=CANCELLED if standing.state == "compensated" and standing.calls_off else standing.state,
        paused=standing.paused,
        created_at=created_at,
        finished_at=(standing.at or state.at) if standing.state in ENDED else None,
        error=standing.error,
        failed_step=standing.step,
        parent=header.parent,
        forked_from=header.forked_from,
        **more,
    )


Parts = tuple[str, ...]


def steps_of(
    shape: Mapping[str, Any], records: Mapping[Parts, Kept[StepRecord]], messages: list[StoredMessage], now: float
) -> tuple[StepStatus, ...]:
    """The steps of a run: what is recorded of those that are done, and the messages of the others."""
    live = _live(messages)
    below: dict[str, set[Parts]] = {}
    for parts in (*records, *live):
        if len(parts) == 2:
            below.setdefault(parts[0], set()).add(parts)

    def step(name: str, kind: str, after: tuple[str, ...] = ()) -> StepStatus:
        each = "call" if kind == "flow" else "item"
        items = tuple(_one(parts, each, (), records, live, now) for parts in sorted(below.get(name, ())))
        own = _one((name,), kind, after, records, live, now, items)
        if kind == "flow" and own.state == SUCCEEDED:  # a signal that has come is not written down once more
            passed = (replace(one, state=SUCCEEDED) if one.state == SLEEPING else one for one in items)
            own = replace(own, items=tuple(passed))
        if items and own.state in ("waiting", CANCELLED) and kind in ("undo", "map"):
            own = replace(own, state=_together(items, own.state))
        return own

    found = [step(one["name"], one["kind"], tuple(one["after"])) for one in shape["steps"]]
    undone = {parts[0] for parts in (*records, *live) if parts[0].startswith(UNDONE)}
    return (*found, *(step(name, "undo") for name in sorted(undone)))


def _together(items: tuple[StepStatus, ...], state: str) -> str:
    """How a step stands whose own message says nothing, by how its items do."""
    states = {one.state for one in items}
    if FAILED in states:
        return FAILED
    if states == {SUCCEEDED}:
        return SUCCEEDED if state == "waiting" else state
    return RUNNING if state == "waiting" else state


def recorded_step(parts: Parts, kind: str, kept: Kept[StepRecord], now: float) -> StepStatus:
    """A step, an item of it or a call as its record alone tells of it."""
    return _one(parts, kind, (), {parts: kept}, {}, now)


def _live(messages: list[StoredMessage]) -> dict[Parts, StoredMessage]:
    found: dict[Parts, StoredMessage] = {}
    for message in messages:
        try:
            work = read_work(msgspec.json.decode(message.payload))
        except (StepRefused, msgspec.DecodeError):
            continue
        if work.phase not in (RUN, EXPAND, ITEM, COLLECT, UNDO):
            continue
        parts = tuple(one if isinstance(one, str) else f"{one:08d}" for one in work.parts)
        if work.phase == COLLECT and parts in found:
            continue
        found[parts] = message
    return found


def _one(
    parts: Parts,
    kind: str,
    after: tuple[str, ...],
    records: Mapping[Parts, Kept[StepRecord]],
    live: Mapping[Parts, StoredMessage],
    now: float,
    items: tuple[StepStatus, ...] = (),
) -> StepStatus:
    kept, message = records.get(parts), live.get(parts)
    record = None if kept is None else kept.value
    started = None if record is None or not record.started_at else record.started_at
    finished = None
    if kept is not None and kept.value.state in (SUCCEEDED, SKIPPED, FAILED):
        finished = kept.at if kept.value.finished_at is None else kept.value.finished_at
    state = _state(record, message, now)
    if message is not None and message.state == INFLIGHT and message.history:
        started, finished = float(message.history[-1]["at"]), None
    error = message.last_error if message is not None else None if record is None else record.error
    return StepStatus(
        name=parts[0] if len(parts) == 1 else (record and record.name) or str(int(parts[1])),
        kind=kind,
        state=state,
        after=after,
        attempts=_attempts(record, message),
        started_at=started,
        finished_at=finished,
        error=error,
        worker=message.leased_by if message is not None else None if record is None else record.worker,
        queue=None if message is None else message.queue,
        child=None if record is None else record.child,
        items=items,
    )


def _attempts(record: StepRecord | None, message: StoredMessage | None) -> int:
    if message is not None:
        return message.attempts - message.forgiven
    return 0 if record is None else record.attempts


def _state(record: StepRecord | None, message: StoredMessage | None, now: float) -> str:
    if message is None or (record is not None and record.state == RUNNING and message.state == WAITING):
        if record is None:
            return "waiting"
        if record.state == SLEEPING and record.until is not None and record.until <= now:
            return SUCCEEDED
        return record.state
    if message.state == DELAYED:
        if is_held(message.available_at, now):
            return HELD
        asleep = record is not None and record.state == SLEEPING
        if asleep or message.available_at - now > WITHOUT_END / 2 or message.last_error is None:
            return SLEEPING
    return _STATES.get(message.state, message.state)
