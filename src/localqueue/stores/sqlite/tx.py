"""One piece of work inside a write transaction: it gathers the counts to change and writes them once at the end."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from localqueue.errors import RunCancelled
from localqueue.stores import rules
from localqueue.stores.port import HISTORY_LIMIT, STATES
from localqueue.stores.sqlite import statements as sql

if TYPE_CHECKING:
    from localqueue.stores.sqlite.store import SQLiteQueueStore

CODE = {name: code for code, name in enumerate(STATES)}
READY, DELAYED, INFLIGHT, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED = range(len(STATES))


def to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), default=str)


class Tx:
    __slots__ = ("_counts", "_due", "connection", "new_queues", "now", "store", "touched")

    def __init__(self, store: SQLiteQueueStore, connection: sqlite3.Connection, now: float) -> None:
        self.store = store
        self.connection = connection
        self.now = now
        self.new_queues: dict[str, int] = {}
        self.touched: set[str] = set()
        self._counts: dict[int, list[int]] = {}
        self._due: dict[int, float] = {}

    def queue_id(self, name: str) -> int:
        """The row of a queue, made on first use."""
        self.touched.add(name)
        known = self.store.queue_ids.get(name) or self.new_queues.get(name)
        if known is not None:
            return known
        row = self.connection.execute(
            "INSERT INTO queues (namespace, name) VALUES (?, ?) ON CONFLICT DO UPDATE SET name = name RETURNING id",
            (self.store.namespace_id, name),
        ).fetchall()
        self.new_queues[name] = row[0][0]
        return self.new_queues[name]

    def count(self, queue: int, state: int, by: int) -> None:
        counts = self._counts.get(queue)
        if counts is None:
            counts = self._counts[queue] = [0] * len(STATES)
        counts[state] += by

    def counted(self, queue: int, state: int) -> int:
        """What this transaction has added to a count so far."""
        counts = self._counts.get(queue)
        return counts[state] if counts else 0

    def due(self, queue: int, at: float | None) -> None:
        if at is not None and at < self._due.get(queue, rules.NEVER):
            self._due[queue] = at

    def flush(self) -> None:
        for queue in self._counts.keys() | self._due.keys():
            counts = self._counts.get(queue) or [0] * len(STATES)
            self.connection.execute(sql.COUNT_STATES, (*counts, self._due.get(queue, rules.NEVER), queue))
        self._counts.clear()
        self._due.clear()

    def move(
        self,
        queue: int,
        key: int,
        before: int,
        state: int,
        *,
        available_at: float,
        expires_at: float | None,
        error: str | None = None,
    ) -> None:
        """Put a message into another state that is not inflight, dropping its lease."""
        name = STATES[state]
        due = rules.due_at(name, available_at=available_at, expires_at=expires_at)
        self.connection.execute(
            sql.MOVE_MESSAGE,
            {
                "key": key,
                "state": state,
                "available_at": available_at,
                "due_at": due,
                "ended_at": self.now if state >= DEAD else None,
                "error": error,
                "failed_at": None if error is None else self.now,
            },
        )
        self.count(queue, before, -1)
        self.count(queue, state, 1)
        self.due(queue, due)

    def remember(
        self,
        key: int,
        attempt: int,
        event: str,
        *,
        leased_at: float | None = None,
        leased_by: str | None = None,
        error: str | None = None,
    ) -> None:
        """Add to a message's history, forgetting what is older than the last attempts."""
        n = self.connection.execute(
            sql.REMEMBER_ATTEMPT,
            {
                "key": key,
                "attempt": attempt,
                "event": event,
                "at": self.now,
                "leased_at": leased_at,
                "leased_by": leased_by,
                "error": error,
            },
        ).fetchall()[0][0]
        if n > HISTORY_LIMIT:
            self.connection.execute("DELETE FROM attempts WHERE message = ? AND n <= ?", (key, n - HISTORY_LIMIT))

    def free_key(self, queue: int, ordering_key: str) -> None:
        """The head of an ordering key left: the next message of the key takes its place."""
        rows = self.connection.execute(sql.NEXT_OF_KEY, (queue, ordering_key)).fetchall()
        for key, available_at, expires_at in rows:
            landed = rules.landing(now=self.now, available_at=available_at, expires_at=expires_at)
            self.move(queue, key, BLOCKED, CODE[landed], available_at=available_at, expires_at=expires_at)
            if CODE[landed] == EXPIRED:
                self.free_key(queue, ordering_key)

    def key_busy(self, queue: int, ordering_key: str | None) -> bool:
        """Whether a message of the key is ready, delayed or inflight."""
        if ordering_key is None:
            return False
        return bool(
            self.connection.execute(
                "SELECT 1 FROM messages WHERE queue = ? AND ordering_key = ? AND state IN (0, 1, 2) LIMIT 1",
                (queue, ordering_key),
            ).fetchall()
        )

    def run(self, run_id: str) -> int:
        """The row of a run that still takes messages, made on first use."""
        row = self.connection.execute(
            "INSERT INTO runs (namespace, name) VALUES (?, ?) ON CONFLICT DO UPDATE SET name = name "
            "RETURNING id, cancelled_at",
            (self.store.namespace_id, run_id),
        ).fetchall()[0]
        if row[1] is not None:
            raise RunCancelled(f"run {run_id!r} was cancelled: it takes no more messages; use another run_id")
        return int(row[0])
