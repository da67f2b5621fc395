"""What is told over HTTP of a message that was put: where to look, never what is in it."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from localqueue._dataclass import dataclass
from localqueue._named_tuple import NamedTuple


class Arrival(NamedTuple):
    """The part of a message that is told of. Without a queue it stands for anything anywhere."""

    queue: str | None
    message_id: str | None
    at: float

    @classmethod
    def of(cls, message: Any) -> Arrival:
        at = getattr(message, "available_at", 0.0) or time.time()
        return cls(getattr(message, "queue", None), getattr(message, "id", None), at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """That there may be something to lease in `queue` since `at`, in seconds since 1970.

    `message_id` is None when it stands for several messages: look again. `queue` is None too when nobody knows any more
    which queues it stands for: look at all of them.
    """

    event_id: str
    queue: str | None
    message_id: str | None
    at: float

    @property
    def kind(self) -> str:
        """`available`, or `reset` when any queue may have something."""
        return "reset" if self.queue is None else "available"

    def as_dict(self) -> dict[str, Any]:
        return {"queue": self.queue, "message_id": self.message_id, "event_id": self.event_id, "at": self.at}

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), separators=(",", ":"))

    def of_queue(self) -> Event:
        """The same for everything that was put into its queue before."""
        return Event(event_id=self.event_id, queue=self.queue, message_id=None, at=self.at)

    def of_all(self) -> Event:
        """The same for everything that was put anywhere before."""
        return Event(event_id=self.event_id, queue=None, message_id=None, at=self.at)


class EventCount:
    """Numbers events and names them. An id also names the life of the process that gave it out, so that none comes
    twice: one of another life, as after a restart, says nothing about what was missed since.

    For one thread at a time.
    """

    def __init__(self) -> None:
        self._life = os.urandom(8).hex()
        self.last = 0

    def next(self, arrival: Arrival) -> Event:
        self.last += 1
        queue, message_id, at = arrival
        return Event(event_id=self.name(self.last), queue=queue, message_id=message_id, at=at)

    def name(self, number: int) -> str:
        return f"{self._life}-{number}"

    def number(self, event_id: str) -> int | None:
        """Which event of this life it names; None for any other text."""
        life, _, count = event_id.partition("-")
        if life != self._life or not (count.isascii() and count.isdigit() and len(count) < 19):
            return None
        return int(count) if int(count) <= self.last else None
