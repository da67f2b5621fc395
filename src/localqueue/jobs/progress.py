"""What a handler tells while it runs, as a record that its worker writes and whoever asks for the status reads."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable

from localqueue._dataclass import dataclass
from localqueue._named_tuple import NamedTuple
from localqueue.errors import PayloadError
from localqueue.message import QueueMessage
from localqueue.stores.port import Record, RecordWrite

KIND = "progress"
_LONGEST_NOTE = 1000
_MOST_LINES, _LONGEST_LINE = 100, 500


@dataclass(frozen=True, slots=True)
class Progress:
    """The `fraction` (0 to 1) of the work that is done, a `note` about it, and when that was by the store's clock."""

    fraction: float
    note: str | None
    at: float


class LogLine(NamedTuple):
    """What a handler had to say, and when that was by the store's clock."""

    at: float
    text: str


class Told:
    """All that the handler of one delivery has told so far; of its lines the last hundred."""

    __slots__ = ("fraction", "lines", "note")

    def __init__(self) -> None:
        self.fraction: float | None = None
        self.note: str | None = None
        self.lines: deque[LogLine] = deque(maxlen=_MOST_LINES)

    def say(self, at: float, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"a line of the log must be a string, not {text!r}")
        self.lines.append(LogLine(at, text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 3]}..."))


def checked(fraction: float, note: str | None) -> tuple[float, str | None]:
    """What a handler tells, or the reason why it can not be told."""
    if isinstance(fraction, bool) or not isinstance(fraction, int | float):
        raise TypeError(f"progress must be a number from 0 to 1, not {fraction!r}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"progress must be a number from 0 to 1, not {fraction!r}; divide what is done by the whole")
    if note is not None and not isinstance(note, str):
        raise TypeError(f"the note of a progress must be a string, not {note!r}")
    return float(fraction), None if note is None else note[:_LONGEST_NOTE]


def written(message: QueueMessage[object], told: Told) -> RecordWrite:
    """The record of one delivery; that of an earlier one is no progress of this one."""
    facts = [message.queue, message.attempts, told.fraction, told.note, list(told.lines)]
    value = json.dumps(facts, separators=(",", ":"))
    return RecordWrite(KIND, message.id, value.encode(), tell=True)


def deleted(message_id: str) -> RecordWrite:
    return RecordWrite(KIND, message_id, None)


class Telling(NamedTuple):
    """A record: the queue and the attempt that it is of, and what was told."""

    queue: str
    attempt: int
    progress: Progress | None
    log: tuple[LogLine, ...]


def read(record: Record) -> Telling:
    """What a record says; `PayloadError` for what is no progress."""
    try:
        queue, attempt, fraction, note, lines = json.loads(record.value)
        log = lines_of(lines)
    except (ValueError, TypeError) as error:
        raise PayloadError(f"the progress of message {record.key} can not be read: {error}") from error
    return Telling(queue, attempt, None if fraction is None else Progress(fraction, note, record.updated_at), log)


def lines_of(lines: Iterable[tuple[float, str]] | None) -> tuple[LogLine, ...]:
    """The lines of a log as they were written."""
    return tuple(LogLine(at, text) for at, text in lines or ())
