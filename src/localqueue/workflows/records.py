"""What a store holds of a run beside its messages: small records, each written by the commit it belongs to.

The times of a record are the store's own: a step has ended when its record was written, a run when its state was.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from localqueue.errors import PayloadError
from localqueue.stores.port import Record, RecordWrite

RUN = "workflow.run"
STATE = "workflow.state"
STEP = "workflow.step"
SIGNAL = "workflow.signal"
DEFINITION = "workflow.definition"

_BETWEEN = "\x1f"

RUNNING = "running"
SUCCEEDED = "succeeded"
FAILED = "failed"
CANCELLED = "cancelled"
COMPENSATING = "compensating"
COMPENSATED = "compensated"
SKIPPED = "skipped"
SLEEPING = "sleeping"

#: The states of a run, and those it ends in unless somebody retries it.
RUN_STATES = (RUNNING, SUCCEEDED, FAILED, CANCELLED, COMPENSATING, COMPENSATED)
ENDED = frozenset({SUCCEEDED, FAILED, CANCELLED, COMPENSATED})


class RunHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is true of a run from its start to its end. `home` is the queue of its workflow."""

    workflow: str
    version: int
    definition: str
    home: str
    input: Any = None
    input_ref: str | None = None
    compensates: bool = False
    parent: str | None = None
    parent_step: str | None = None
    forked_from: str | None = None
    forked_at: str | None = None


class RunState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a run stands. A run without this record is running."""

    state: str = RUNNING
    paused: bool = False
    step: str | None = None
    error: dict[str, Any] | None = None
    calls_off: bool = False  # whether what is compensated was cancelled, and did not fail
    at: float | None = None  # when it failed: those who hold a message of it write this record again


class StepRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a step, or what one that is under way has to remember."""

    state: str
    result: Any = None
    ref: str | None = None
    attempts: int = 0
    started_at: float = 0.0
    finished_at: float | None = None  # of one that was taken over from another run; else it is when this was written
    worker: str | None = None
    error: dict[str, Any] | None = None
    chosen: list[str] | None = None  # of a decision: the labels of the branches that run
    count: int | None = None  # of a fan-out: how many items it had
    item: Any = None  # of an item that may have to be undone: what it was called for
    child: str | None = None  # the id of the run that the step started
    name: str | None = None  # of a call of a flow: what was called
    sleeps: list[float] = []
    cursor: Any = None
    until: float | None = None


class Waiting(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that was put aside until a signal comes."""

    queue: str
    message: str
    deadline: float | None = None


class Signals(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was sent to a run under one name, who waits for more of it, and who has given up on it."""

    sent: list[Any] = []
    waiting: dict[str, Waiting] = {}
    late: list[str] = []


S = TypeVar("S", bound=msgspec.Struct)


class Kept(NamedTuple, Generic[S]):
    """A record as it was read. Version 0: there is none, and the value is what its absence means."""

    value: S
    version: int = 0
    at: float = 0.0


def key(run_id: str, *parts: str | int) -> str:
    """The key of a record of a run: items of a fan-out and calls of a flow sort by their number."""
    return _BETWEEN.join((run_id, *(f"{one:08d}" if isinstance(one, int) else one for one in parts)))


def parts_of(record_key: str) -> list[str]:
    return record_key.split(_BETWEEN)


def prefix(run_id: str, *parts: str) -> str:
    """What the keys of everything below begin with."""
    return _BETWEEN.join((run_id, *parts, ""))


_encode = msgspec.json.Encoder().encode
_decoders: dict[type[msgspec.Struct], Any] = {
    kind: msgspec.json.Decoder(kind) for kind in (RunHeader, RunState, StepRecord, Signals)
}


def write(kind: str, record_key: str, value: msgspec.Struct, *, expect: int | None = None, tell: bool = False) -> Any:
    return RecordWrite(kind, record_key, _encode(value), expect, tell)


def read(record: Record, kind: type[S]) -> Kept[S]:
    try:
        return Kept(_decoders[kind].decode(record.value), record.version, record.updated_at)
    except msgspec.DecodeError as error:
        raise PayloadError(f"the record {record.kind} {record.key!r} can not be read: {error}") from error
