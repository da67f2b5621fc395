"""The reads of the port: none of them changes anything, all of them cost the same at any backlog."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, TypeVar

from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.engine.row import BLOCKED, CODE, DEAD, INFLIGHT, READY, from_json
from localqueue.stores.engine.store import EngineStore
from localqueue.stores.port import STATES, CheckReport, Record, StoredMessage, Subscriptions
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.connection import Reader
from localqueue.stores.stats import Held, KnownWorker, count_due, queue_stats

T = TypeVar("T")

_SAMPLE_OF_A_PART = 200  # messages by which the ends of a range are found


class Reads(EngineStore):
    """Reads through a `Reader`. A queue that nobody has used yet is simply empty."""

    path: str
    namespace_id: int
    _reader: Reader
    _clock: Callable[[], float]

    def now(self) -> float:
        return self._clock()

    @property
    def clock(self) -> Callable[[], float]:
        """The clock it was opened with."""
        return self._clock

    def _look_up_queue(self, name: str) -> int | None:
        return self._reader.run(lambda connection: find_queue(connection, self.namespace_id, name))

    def _read(self, name: str, work: Callable[[sqlite3.Connection, int], T], missing: T) -> T:
        queue = self._find_queue(name)
        return missing if queue is None else self._reader.run(lambda connection: work(connection, queue))

    def _messages(self, where: str, values: Any) -> list[StoredMessage]:
        """Messages by rows of `full_row.sql`, all of one moment."""

        def work(connection: sqlite3.Connection) -> list[StoredMessage]:
            rows = connection.execute(f"{sql.FULL_ROW} WHERE {where}", values).fetchall()
            return [stored_message(self.ids, connection, row) for row in rows]

        return self._reader.run(work)

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        row = self._find_queue(queue)
        found = self._messages("m.key = ? AND m.queue = ?", (self.ids.key_of(message_id), row))
        return found[0] if found else None

    def qsize(self, queue: str) -> int:
        return self._read(queue, lambda c, q: counts(c, q, self._clock())[READY], 0)

    def load(self, queue: str) -> int:
        return self._read(queue, lambda c, q: load(c, q, self._clock()), 0)

    def stats(self, queue: str) -> QueueStats:
        return self._read(queue, lambda c, q: _stats(c, q, self._clock()), QueueStats())

    def _scan(
        self, queue: str, state: str | None, after: str | None, last: int | None, limit: int | None
    ) -> list[StoredMessage]:
        number = self._find_queue(queue)
        if number is None:
            return []
        where, order = "m.queue = :queue", "m.key"
        values: dict[str, Any] = {"queue": number, "limit": -1 if limit is None else limit}
        if state is not None:
            values["state"] = CODE[state]
            if state == STATES[INFLIGHT]:
                where += " AND l.key IS NOT NULL"
            elif state == STATES[READY]:
                where += " AND m.state = 0 AND l.key IS NULL"
            elif CODE[state] < DEAD:
                where += " AND m.state = :state"
            else:
                where += " AND m.state = :state AND m.ended_at IS NOT NULL"
                order = "m.ended_at, m.key"
        if after is not None:
            values["after"] = self.ids.key_of(after) or 0
            where += (
                " AND m.key > :after"
                if order == "m.key"
                else " AND (m.ended_at, m.key) > (SELECT ended_at, key FROM lq_messages WHERE key = :after)"
            )
        if last is not None:
            values["last"] = last
            where += " AND m.key <= :last"
        return self._messages(f"{where} ORDER BY {order} LIMIT :limit", values)

    def _prunable(self, queue: int, state: int, until: float) -> int:
        count = "SELECT count(*) FROM lq_messages WHERE queue = ? AND state = ? AND ended_at <= ?"
        return int(self._reader.rows(count, (queue, state, until))[0][0])

    def _splits(self, queue: str, parts: int) -> list[str]:
        """By a sample that comes from indexes alone, so that its cost does not depend on the payloads."""

        def work(connection: sqlite3.Connection, number: int) -> list[str]:
            newest = connection.execute(
                "SELECT key FROM lq_messages WHERE queue = ? ORDER BY key DESC LIMIT 1", (number,)
            ).fetchone()
            if newest is None:
                return []
            every = max(1, sum(counts(connection, number, self._clock())) // (parts * _SAMPLE_OF_A_PART))
            sample = {row[0] for row in connection.execute(sql.SPLIT_SAMPLE, {"queue": number, "every": every})}
            found = sorted(sample | {newest[0]})
            return [self.ids.id_of(found[end]) for end in rules.ends_of_parts(len(found), parts)]

        return self._read(queue, work, [])

    def queues(self) -> list[str]:
        found = self._reader.rows("SELECT name FROM lq_queues WHERE namespace = ? ORDER BY name", (self.namespace_id,))
        return [row[0] for row in found]

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        find = "SELECT name FROM lq_runs WHERE namespace = ? AND name > ? ORDER BY name LIMIT ?"
        return [row[0] for row in self._reader.rows(find, (self.namespace_id, after, -1 if limit is None else limit))]

    def run(self, run_id: str) -> RunStats | None:
        def work(connection: sqlite3.Connection) -> RunStats | None:
            find = "SELECT id, total, done FROM lq_runs WHERE namespace = ? AND name = ?"
            row = connection.execute(find, (self.namespace_id, run_id)).fetchone()
            if row is None:
                return None
            states = {STATES[state]: count for state, count in connection.execute(sql.RUN_STATES, row[:1])}
            return RunStats(run_id=run_id, total=row[1], done=row[2], **states)

        return self._reader.run(work)

    def _run_messages(self, run_id: str, after: str | None, limit: int | None) -> list[StoredMessage]:
        behind = (after and self.ids.key_of(after)) or 0
        return self._messages(
            "r.namespace = ? AND r.name = ? AND m.run = r.id AND m.key > ? ORDER BY m.key LIMIT ?",
            (self.namespace_id, run_id, behind, -1 if limit is None else limit),
        )

    def upstream(self, queue: str, message_id: str) -> list[str]:
        found = self._reader.rows(sql.UPSTREAM, (self.ids.key_of(message_id), self._find_queue(queue)))
        return [self.ids.id_of(row[0]) for row in found]

    def record(self, kind: str, key: str) -> Record | None:
        row = self._reader.one(sql.RECORD, (self.namespace_id, kind, key))
        return None if row is None else Record(*row)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        found = self._reader.rows(sql.RECORDS, (self.namespace_id, kind, after, -1 if limit is None else limit))
        return [Record(*row) for row in found]

    def subscriptions(self, topic: str) -> Subscriptions:
        def work(connection: sqlite3.Connection, queue: int) -> Subscriptions:
            (version,) = connection.execute("SELECT subscriptions FROM lq_queues WHERE id = ?", (queue,)).fetchone()
            find = "SELECT subscriber FROM lq_subscriptions WHERE topic = ? ORDER BY n"
            return Subscriptions(version, tuple(row[0] for row in connection.execute(find, (queue,))))

        return self._read(topic, work, Subscriptions(0, ()))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        return self._read(queue, lambda c, q: is_paused(c, q, worker), False)

    def check(self) -> CheckReport:
        from localqueue.stores.sqlite.check import check

        return self._reader.run(check)


def find_queue(connection: sqlite3.Connection, namespace: int, name: str) -> int | None:
    find = "SELECT id FROM lq_queues WHERE namespace = ? AND name = ?"
    row = connection.execute(find, (namespace, name)).fetchone()
    return None if row is None else int(row[0])


def is_paused(connection: sqlite3.Connection, queue: int, worker: str | None = None) -> bool:
    """Whether the queue was paused, or with `worker` whether that one was."""
    if worker is None:
        row = connection.execute("SELECT since FROM lq_line WHERE queue = ? AND part = 0", (queue,)).fetchone()
    else:
        find = "SELECT paused_at FROM lq_workers WHERE queue = ? AND worker = ?"
        row = connection.execute(find, (queue, worker)).fetchone()
    return row is not None and row[0] is not None


def counts(connection: sqlite3.Connection, queue: int, now: float) -> list[int]:
    """Messages by state, with those that are due counted as what the next claim would make of them."""
    kept: list[int]
    until, *kept = connection.execute(sql.COUNTS, (queue,)).fetchone()
    if until <= now:
        for state, outlived, exhausted, count in connection.execute(sql.OVERDUE, (queue, now)).fetchall():
            count_due(kept, state, count, outlived=bool(outlived), exhausted=bool(exhausted))
    return kept


def load(connection: sqlite3.Connection, queue: int, now: float) -> int:
    """Messages that count against capacity."""
    found = counts(connection, queue, now)
    return found[READY] + found[BLOCKED]


def _stats(connection: sqlite3.Connection, queue: int, now: float) -> QueueStats:
    (dropped,) = connection.execute("SELECT dropped FROM lq_queues WHERE id = ?", (queue,)).fetchone()
    workers = connection.execute(
        "SELECT worker, leases, last_seen, paused_at FROM lq_workers WHERE queue = ?", (queue,)
    ).fetchall()
    return queue_stats(
        counts(connection, queue, now),
        now=now,
        available=(_ready_since(connection, queue), *connection.execute(sql.OVERDUE_SINCE, (queue, now)).fetchone()),
        held=[Held(*row) for row in connection.execute(sql.LEASED_BY, (queue, now)).fetchall()],
        workers=[KnownWorker(*row) for row in workers],
        dropped=dropped,
        paused=is_paused(connection, queue),
    )


def _ready_since(connection: sqlite3.Connection, queue: int) -> float | None:
    """When the ready message that waits longest became available: the first in line, unless priorities differ."""
    line = "SELECT rank, position FROM lq_line WHERE queue = ? AND part = 2 ORDER BY rank"
    first = connection.execute(f"{line}, position LIMIT 1", (queue,)).fetchone()
    if first is None:
        return None
    last = connection.execute(f"{line} DESC LIMIT 1", (queue,)).fetchone()
    if first[0] != last[0]:
        first = connection.execute(sql.OLDEST_READY, (queue, 1)).fetchone()
    return float(first[1])


def stored_message(ids: Mint, connection: sqlite3.Connection, row: tuple[Any, ...]) -> StoredMessage:
    """A message from a row of `full_row.sql`."""
    (key, queue, state, payload, codec, priority, attempts, created_at, available_at, last_error, failed_at, dedupe_key,
     ordering_key, expires_at, run_id, headers, waiting_on, history, token, until, since, by,
     forgiven) = row  # fmt: skip
    if token is not None:
        state, attempts = INFLIGHT, token
    finished = _finished_attempts(connection, key) if history else []
    return StoredMessage(
        ids.id_of(key), queue, STATES[state], payload, codec, priority, attempts, created_at, available_at, until, by,
        from_json(last_error), failed_at, dedupe_key, ordering_key, expires_at, run_id, headers, waiting_on,
        rules.history(finished, attempts=attempts, leased_at=since, leased_by=by), forgiven,
    )  # fmt: skip


def _finished_attempts(connection: sqlite3.Connection, key: int) -> list[rules.Attempt]:
    rows = connection.execute(
        "SELECT attempt, event, at, leased_at, leased_by, error FROM lq_attempts WHERE message = ? ORDER BY n", (key,)
    ).fetchall()
    return [rules.Attempt(*row)._replace(error=from_json(row[5])) for row in rows]


def claimed_message(
    ids: Mint, queue: str, key: int, token: int, row: tuple[Any, ...], since: float, until: float, by: str | None = None
) -> StoredMessage | None:
    """A message that was just leased, from the columns of `claimed_message.sql`; None if more has to be read for it."""
    (payload, codec, priority, created_at, available_at, headers, dedupe_key, ordering_key, expires_at, run_id,
     last_error, failed_at, history) = row  # fmt: skip
    if history:
        return None
    leased: dict[str, Any] = {"type": "leased", "at": since, "attempt": token}
    if by is not None:
        leased["leased_by"] = by
    return StoredMessage(
        ids.id_of(key), queue, "inflight", payload, codec, priority, token, created_at, available_at, until, by,
        from_json(last_error), failed_at, dedupe_key, ordering_key, expires_at, run_id, headers, 0, (leased,),
    )  # fmt: skip


def claimed_messages(
    ids: Mint, queue: str, rows: Sequence[tuple[Any, ...]], since: float, until: float, by: str | None
) -> list[StoredMessage]:
    """The same for the rows of `next_in_line.sql`, none with a history: column by column, since they are many."""
    (_, _, keys, counts, payload, codec, priority, created_at, available_at, headers, dedupe_key, ordering_key,
     expires_at, run_id, last_error, failed_at, _) = zip(*rows, strict=True)  # fmt: skip
    tokens = [count + 1 for count in counts]
    # One history for all that are delivered for the same time: nobody changes what a store hands out.
    leases = {one: rules.history((), attempts=one, leased_at=since, leased_by=by) for one in set(tokens)}
    columns = (
        ids.ids_of(keys), repeat(queue), repeat("inflight"), payload, codec, priority, tokens, created_at,
        available_at, repeat(until), repeat(by), map(from_json, last_error), failed_at, dedupe_key, ordering_key,
        expires_at, run_id, headers, repeat(0), map(leases.__getitem__, tokens), repeat(0), repeat(None),
    )  # fmt: skip
    return list(map(tuple.__new__, repeat(StoredMessage), zip(*columns, strict=False)))
