"""One piece of work inside a write transaction: moving messages between states and keeping the counts in step."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from localqueue.errors import RunCancelled
from localqueue.events.journal import JOURNAL_CODES
from localqueue.stores import rules
from localqueue.stores.port import HISTORY_LIMIT, STATES, Transition
from localqueue.stores.sqlite import statements as sql

if TYPE_CHECKING:
    from localqueue.stores.sqlite.store import SQLiteQueueStore

CODE = {name: code for code, name in enumerate(STATES)}
READY, DELAYED, INFLIGHT, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED = range(len(STATES))

_KEPT = (DELAYED, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED)  # counts with a column of their own in queues

_AS_IT_IS: Any = object()

#: The event of a message that enters one of the states behind `dead`.
ENDINGS = {DEAD: "dead_lettered", EXPIRED: "expired", CANCELLED: "cancelled"}


def to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), default=str)


class Current(NamedTuple):
    """A message as `current_row.sql` reads it, with the lease it may have."""

    key: int
    queue: int
    state: int
    priority: int
    attempts: int
    available_at: float
    expires_at: float | None
    forgiven: int
    history: int
    dependents: int
    waiting_on: int
    run: int | None
    ordering_key: str | None
    dedupe_key: str | None
    last_error: str | None
    token: int | None
    leased_until: float | None
    leased_at: float | None
    leased_by: str | None
    most: int | None

    @property
    def holds_key(self) -> bool:
        """Whether this is the message its ordering key's others wait behind."""
        return self.ordering_key is not None and self.state in (READY, DELAYED, INFLIGHT)


class Tx:
    __slots__ = (
        *("_arrivals", "_counts", "_departures", "_due"),
        *("connection", "new_queues", "now", "observed", "store", "touched", "transitions"),
    )

    def __init__(
        self, store: SQLiteQueueStore, connection: sqlite3.Connection, now: float, observed: bool = False
    ) -> None:
        self.store = store
        self.connection = connection
        self.now = now
        self.new_queues: dict[str, int] = {}
        self.touched: set[str] = set()
        self._arrivals: dict[int, int] = {}
        self._departures: dict[int, int] = {}
        self._counts: dict[int, list[int]] = {}
        self._due: dict[int, float] = {}
        self.observed = observed
        self.transitions: list[Transition] = []

    def queue_id(self, name: str) -> int:
        """The row of a queue, made on first use."""
        self.touched.add(name)
        known = self.store.queue_ids.get(name) or self.new_queues.get(name)
        if known is not None:
            return known
        row: int = self.connection.execute(
            "INSERT INTO lq_queues (namespace, name) VALUES (?, ?) ON CONFLICT DO UPDATE SET name = name RETURNING id",
            (self.store.namespace_id, name),
        ).fetchall()[0][0]
        self.connection.execute(
            "INSERT OR IGNORE INTO lq_line (queue, part, rank, position, key, count, until) "
            "VALUES (?1, 0, 0, 0, 0, 0, 9e999), (?1, 3, 0, 0, 0, 0, NULL)",
            (row,),
        )
        self.new_queues[name] = row
        return row

    def current(self, key: int) -> Current | None:
        row = self.connection.execute(sql.CURRENT_ROW, (key,)).fetchone()
        if row is None:
            return None
        message = Current(*row)
        if message.token is None:
            return message
        return message._replace(state=INFLIGHT, attempts=message.token)

    def count(self, queue: int, state: int, by: int) -> None:
        """Keep a count that has a column of its own, or the arrivals and departures that make up the ready count."""
        if state == READY:
            side = self._arrivals if by > 0 else self._departures
            side[queue] = side.get(queue, 0) + abs(by)
        elif state != INFLIGHT:
            self._counts.setdefault(queue, [0] * len(STATES))[state] += by

    def due(self, queue: int, at: float | None) -> None:
        if at is not None and at < self._due.get(queue, rules.NEVER):
            self._due[queue] = at

    def flush(self) -> None:
        """Write the gathered counts and timers."""
        execute = self.connection.execute
        for queue, count in self._arrivals.items():
            execute(sql.COUNT_ARRIVALS, (count, queue))
        for queue in self._departures.keys() | self._due.keys():
            due = self._due.get(queue, rules.NEVER)
            execute(sql.COUNT_DEPARTURES, (self._departures.get(queue, 0), due, queue))
        for queue, counts in self._counts.items():
            execute(sql.COUNT_STATES, (*(counts[state] for state in _KEPT), queue))
        for gathered in (self._arrivals, self._departures, self._due, self._counts):
            gathered.clear()

    def move(
        self,
        message: Current,
        state: int,
        *,
        available_at: float | None = None,
        expires_at: float | None = _AS_IT_IS,
        error: str | None = None,
    ) -> None:
        """Put a message into another state than inflight, ending its lease. The times default to those it has."""
        if self.observed and state >= DEAD > message.state:
            self._note_end(ENDINGS[state], message, error)
        self._leave(message)
        if available_at is None:
            available_at = message.available_at
        if expires_at is _AS_IT_IS:
            expires_at = message.expires_at
        due = rules.due_at(STATES[state], available_at=available_at, expires_at=expires_at)
        self.connection.execute(
            sql.MOVE_MESSAGE,
            {
                "key": message.key,
                "state": state,
                "attempts": message.attempts,
                "available_at": available_at,
                "due_at": due,
                "ended_at": self.now if state >= DEAD else None,
                "expires_at": expires_at,
                "error": error,
                "failed_at": None if error is None else self.now,
            },
        )
        if state == READY:
            self.enter_line(message.queue, message.priority, available_at, message.key, message.attempts, expires_at)
        else:
            self.count(message.queue, state, 1)
        self.due(message.queue, due)
        if state >= DEAD and message.holds_key:
            self.free_key(message.queue, message.ordering_key)

    def enter_line(
        self, queue: int, priority: int, position: float, key: int, attempts: int, expires_at: float | None
    ) -> None:
        self.connection.execute(sql.ENTER_LINE, (queue, -priority, position, key, attempts, expires_at))
        self.count(queue, READY, 1)

    def _leave(self, message: Current) -> None:
        if message.state == INFLIGHT:
            self.connection.execute(sql.END_LEASE, (message.queue, message.key, message.token))
        elif message.state == READY:
            self.connection.execute(
                "DELETE FROM lq_line WHERE queue = ? AND part = 2 AND rank = ? AND position = ? AND key = ?",
                (message.queue, -message.priority, message.available_at, message.key),
            )
            self.count(message.queue, READY, -1)
        else:
            self.count(message.queue, message.state, -1)

    def delete(self, message: Current) -> None:
        """Remove a message with all that belongs to it, but not the messages that wait for it."""
        self.connection.execute("DELETE FROM lq_messages WHERE key = ?", (message.key,))
        self._leave(message)
        self.connection.execute("DELETE FROM lq_attempts WHERE message = ?", (message.key,))
        self.connection.execute("DELETE FROM lq_dependencies WHERE dependent = ?", (message.key,))
        if message.holds_key:
            self.free_key(message.queue, message.ordering_key)

    def note(self, event: str, message: Current, error: str | None = None) -> None:
        """Tell the caller, if it wants to know, of a change that it will not find in the result of its call."""
        if self.observed:
            queue = self.store.queue_name(self.connection, message.queue)
            self.transitions.append(
                Transition(
                    event, queue, self.store.ids.id_of(message.key), self.now, message.attempts, message.leased_by,
                    message.leased_at, None if error is None else json.loads(error),
                )
            )  # fmt: skip

    def _note_end(self, event: str, message: Current, error: str | None) -> None:
        """Note that a message left delivery, unless its history has just said so."""
        last = self.transitions[-1] if self.transitions else None
        if last is None or last.type != event or last.id != self.store.ids.id_of(message.key):
            self.note(event, message._replace(leased_by=None, leased_at=None), error)

    def mark_removed(self, keys: Sequence[int], why: str) -> None:
        """Remember of messages that are about to be deleted that they were not acked."""
        code = JOURNAL_CODES[why]
        self.connection.executemany("INSERT OR IGNORE INTO lq_removed VALUES (?, ?)", [(key, code) for key in keys])
        if self.observed:
            for message in filter(None, map(self.current, keys)):
                self.note(why, message)

    def remember(self, message: Current, event: str, error: str | None = None) -> None:
        """Add to a message's history, forgetting what is older than the last attempts."""
        self.note(event, message, error)
        n: int = self.connection.execute(
            "UPDATE lq_messages SET history = history + 1 WHERE key = ? RETURNING history", (message.key,)
        ).fetchall()[0][0]
        self.connection.execute(
            "INSERT INTO lq_attempts (message, n, attempt, event, at, leased_at, leased_by, error) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (message.key, n, message.attempts, event, self.now, message.leased_at, message.leased_by, error),
        )
        if n > HISTORY_LIMIT:
            self.connection.execute(
                "DELETE FROM lq_attempts WHERE message = ? AND n = ?", (message.key, n - HISTORY_LIMIT)
            )

    def free_key(self, queue: int, ordering_key: str | None) -> None:
        """The head of an ordering key left: the next message of the key takes its place."""
        row = self.connection.execute(sql.NEXT_OF_KEY, (queue, ordering_key)).fetchone()
        message = None if row is None else self.current(row[0])
        if message is None:
            return
        landed = CODE[rules.landing(now=self.now, available_at=message.available_at, expires_at=message.expires_at)]
        if landed == EXPIRED:
            self.remember(message, "expired")
        self.move(message, landed)
        if landed == EXPIRED:
            self.free_key(queue, ordering_key)

    def key_busy(self, queue: int, ordering_key: str | None) -> bool:
        """Whether a message of the key is ready, delayed or inflight."""
        if ordering_key is None:
            return False
        return bool(
            self.connection.execute(
                "SELECT 1 FROM lq_messages WHERE queue = ? AND ordering_key = ? AND state IN (0, 1) LIMIT 1",
                (queue, ordering_key),
            ).fetchall()
        )

    def land(self, message: Current, available_at: float, expires_at: float | None, waiting_on: int = 0) -> None:
        """Return a message to delivery: ready, or whatever stands in its way."""
        landed = rules.landing(
            now=self.now,
            available_at=available_at,
            expires_at=expires_at,
            waiting_on=waiting_on,
            key_busy=not message.holds_key and self.key_busy(message.queue, message.ordering_key),
        )
        self.move(message, CODE[landed], available_at=available_at, expires_at=expires_at)

    def run(self, run_id: str, *, even_cancelled: bool = False) -> int:
        """The row of a run that still takes messages, made on first use."""
        row = self.connection.execute(
            "INSERT INTO lq_runs (namespace, name) VALUES (?, ?) ON CONFLICT DO UPDATE SET name = name "
            "RETURNING id, cancelled_at",
            (self.store.namespace_id, run_id),
        ).fetchall()[0]
        if row[1] is not None and not even_cancelled:
            raise RunCancelled(f"run {run_id!r} was cancelled: it takes no more messages; use another run_id")
        return int(row[0])
