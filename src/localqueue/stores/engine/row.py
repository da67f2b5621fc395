"""A message as the engine decides about it."""

from __future__ import annotations

import json
from typing import Any

from localqueue._dataclass import dataclass
from localqueue._named_tuple import NamedTuple
from localqueue.stores import rules
from localqueue.stores.port import STATES, NewMessage

CODE = {name: code for code, name in enumerate(STATES)}
READY, DELAYED, INFLIGHT, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED = range(len(STATES))

#: The event of a message that enters one of the states behind `dead`.
ENDINGS = {DEAD: "dead_lettered", EXPIRED: "expired", CANCELLED: "cancelled"}


def to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), default=str)


def from_json(text: str | None) -> dict[str, Any] | None:
    """The object that a text is; ValueError for one that is none."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("a JSON text is nested too deeply") from None
    if type(found) is not dict:
        raise ValueError(f"a JSON text is no object but {type(found).__name__}")
    return found


class Before(NamedTuple):
    """What the store still has of a row that was changed: where its counts and indexes find it."""

    state: int
    attempts: int
    available_at: float
    expires_at: float | None
    leased_until: float | None
    ended_at: float | None
    position: float | None

    @property
    def due_at(self) -> float | None:
        return _due_at(self)


@dataclass(slots=True)
class Row:
    """Everything of a message but its content. `state` is a number, in the order of `STATES`.

    `queue` and `run` are whatever the store knows them by. `attempts` counts the current lease and is its token.
    `history` is how many attempts were ever written down, where the store counts them. `before` is None until the
    engine changes the row; `new` is one that the store does not have yet.
    """

    key: int
    queue: int
    state: int
    priority: int
    created_at: float
    available_at: float
    attempts: int = 0
    expires_at: float | None = None
    ended_at: float | None = None
    leased_until: float | None = None
    leased_at: float | None = None
    leased_by: str | None = None
    most: int | None = None
    forgiven: int = 0
    waiting_on: int = 0
    dependents: int = 0
    history: int = 0
    run: Any = None
    ordering_key: str | None = None
    dedupe_key: str | None = None
    last_error: str | None = None  # JSON
    failed_at: float | None = None
    before: Before | None = None
    new: bool = False
    told: str | None = None  # the last event of its history that this commit wrote
    position: float | None = None  # of a ready message whose place in the line is not when it became available

    @property
    def token(self) -> int | None:
        return self.attempts if self.state == INFLIGHT else None

    @property
    def holds_key(self) -> bool:
        """Whether this is the message its ordering key's others wait behind."""
        return self.ordering_key is not None and self.state <= INFLIGHT

    @property
    def due_at(self) -> float | None:
        """When the store has to look at the message again without being told."""
        return _due_at(self)

    def is_due(self, now: float) -> bool:
        due = _due_at(self)
        return due is not None and due <= now

    def snapshot(self) -> Before:
        return Before(
            self.state,
            self.attempts,
            self.available_at,
            self.expires_at,
            self.leased_until,
            self.ended_at,
            self.position,
        )


def options_of(row: Row, message: NewMessage, now: float) -> dict[str, Any] | None:
    """What an entry of the journal keeps of the options of a message that is put."""
    return rules.kept_options(
        priority=row.priority,
        dedupe_key=row.dedupe_key,
        ordering_key=row.ordering_key,
        run_id=message.run_id,
        headers=message.headers,
        delay=row.available_at - now,
        ttl=None if row.expires_at is None else row.expires_at - now,
    )


def _due_at(row: Row | Before) -> float | None:
    return rules.due_at(
        STATES[row.state], available_at=row.available_at, expires_at=row.expires_at, leased_until=row.leased_until
    )
