"""What became of a message that left delivery, as the record that is written by the commit that settled it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from localqueue._named_tuple import NamedTuple
from localqueue.errors import PayloadError
from localqueue.jobs.progress import LogLine
from localqueue.message import QueueMessage
from localqueue.policies.codec import json_writer
from localqueue.stores.port import Payload, Record, RecordWrite, Settle

KIND = "outcome"
_LAYOUT = 1
_FIRST = b"[1"
_to_text = json_writer(ensure_ascii=True)
_with_error = json.JSONEncoder(separators=(",", ":")).encode  # in which anything may be, also NaN

End = Literal["succeeded", "failed", "cancelled"]


class JobOutcome(NamedTuple):
    """An end, and for how many seconds it is to be known. Times are by the store's clock.

    When it ended is not among them: that is when the record was written.
    """

    keep: float
    queue: str
    state: End
    attempts: int
    created_at: float | None
    started_at: float | None
    error: dict[str, Any] | None = None
    log: Sequence[LogLine] | None = None
    codec: str | None = None
    result: Payload | None = None

    def write(self, message_id: str) -> RecordWrite:
        """One line of JSON, and behind it the result as the codec of the queue has encoded it."""
        *facts, result = self
        write = _to_text if self.error is None else _with_error
        head = write([_LAYOUT, *facts, isinstance(result, str)]).encode()
        body = result.encode("utf-8", "surrogatepass") if isinstance(result, str) else result
        return RecordWrite(KIND, message_id, head if body is None else head + b"\n" + body, tell=True)

    @classmethod
    def read(cls, record: Record) -> JobOutcome:
        """What a record says, or `PayloadError` for one that this release has not written."""
        head, found, body = record.value.partition(b"\n")
        try:
            layout, *facts, is_text = json.loads(head.decode())
            result: Payload | None = body if found else None
            outcome = cls._make([*facts, body.decode("utf-8", "surrogatepass") if is_text else result])
        except (ValueError, TypeError) as error:
            raise PayloadError(f"the outcome of message {record.key} can not be read: {error}") from error
        if layout != _LAYOUT:
            raise PayloadError(f"the outcome of message {record.key} has layout {layout!r}, of another release")
        return outcome


def success_writer(
    keep: float, queue: str, codec: str | None
) -> Callable[[QueueMessage[Any], float | None, Payload | None], RecordWrite]:
    """Writes, of messages of one queue that succeeded without a word, what `JobOutcome.write` does, for a third of it:
    every message of a worker that keeps results pays for this."""
    before = f'[{_LAYOUT},{_to_text(keep)},{_to_text(queue)},"succeeded",'
    behind = f",null,null,{_to_text(codec)},"

    def write(message: QueueMessage[Any], started_at: float | None, result: Payload | None) -> RecordWrite:
        is_text = isinstance(result, str)
        started = "null" if started_at is None else repr(started_at)
        head = f"{before}{message.attempts},{message.created_at!r},{started}{behind}{'true' if is_text else 'false'}]"
        if result is None:
            return RecordWrite(KIND, message.id, head.encode(), tell=True)
        if isinstance(result, str):
            return RecordWrite(KIND, message.id, f"{head}\n{result}".encode("utf-8", "surrogatepass"), tell=True)
        return RecordWrite(KIND, message.id, head.encode() + b"\n" + result, tell=True)

    return write


def ends_at(record: Record) -> float:
    """When a record is to be forgotten. That needs no more of it than its first words."""
    try:
        layout, keep, _ = record.value.split(b",", 2)
        if layout == _FIRST:
            return record.updated_at + float(keep)
    except ValueError:
        pass
    raise PayloadError(f"nobody knows when the outcome of message {record.key} ends: it is of another release")


def end_of(settle: Settle, tries: int) -> End | None:
    """How a message ends by a settle, None for one that is to be delivered again.

    `tries` are its deliveries as whoever settles it knows them. An operator who releases a message does not know: if
    the store makes a dead letter of it, the dead letter says so itself.
    """
    match settle.action:
        case "ack":
            return "succeeded"
        case "dead-letter":
            return "failed"
        case "cancel":
            return "cancelled"
        case _:
            is_last = settle.max_attempts is not None and tries >= settle.max_attempts
            return "failed" if is_last and settle.token is not None and not settle.forgive else None
