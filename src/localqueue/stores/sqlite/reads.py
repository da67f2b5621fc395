"""Reads: none of them changes anything, all of them cost the same at any backlog."""

from __future__ import annotations

import sqlite3
from typing import Any

from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.port import STATES, Record, StoredMessage, Subscriptions
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.rows import stored_message
from localqueue.stores.sqlite.tx import CODE, DEAD, DELAYED, EXPIRED, INFLIGHT, READY

_SAMPLE_OF_A_PART = 200  # messages by which the ends of a range are found


def counts(connection: sqlite3.Connection, queue: int, now: float) -> list[int]:
    """Messages by state, with those that are due counted as what the next claim would make of them."""
    until, ready, delayed, waiting, blocked, dead, expired, cancelled = connection.execute(
        "SELECT head.until, tail.count - head.count, q.delayed, q.waiting, q.blocked, q.dead, q.expired, q.cancelled "
        "FROM lq_queues AS q JOIN lq_line AS head ON head.queue = q.id AND head.part = 0 "
        "JOIN lq_line AS tail ON tail.queue = q.id AND tail.part = 3 WHERE q.id = ?",
        (queue,),
    ).fetchone()
    (inflight,) = connection.execute("SELECT count(*) FROM lq_line WHERE queue = ? AND part = 1", (queue,)).fetchone()
    kept: list[int] = [ready, delayed, inflight, waiting, blocked, dead, expired, cancelled]
    if until <= now:
        for state, outlived, exhausted, count in _overdue(connection, queue, now):
            kept[state] -= count
            after = READY if state in (DELAYED, INFLIGHT) else state
            kept[DEAD if exhausted else EXPIRED if outlived else after] += count
    return kept


def _overdue(connection: sqlite3.Connection, queue: int, now: float) -> list[tuple[int, int, int, int]]:
    """Due messages by state, whether their time to live is over, and whether they have used up their attempts."""
    return connection.execute(
        "SELECT state, coalesce(expires_at <= ?2, 0), 0, count(*) FROM lq_messages "
        "WHERE queue = ?1 AND due_at <= ?2 GROUP BY 1, 2 "
        "UNION ALL SELECT 2, coalesce(m.expires_at <= ?2, 0), coalesce(l.count - m.forgiven >= l.most, 0), count(*) "
        "FROM lq_line AS l JOIN lq_messages AS m ON m.key = l.key "
        "WHERE l.queue = ?1 AND l.part = 1 AND l.until <= ?2 GROUP BY 2, 3",
        (queue, now),
    ).fetchall()


def stats(connection: sqlite3.Connection, queue: int, now: float) -> QueueStats:
    kept = counts(connection, queue, now)
    paused_at, dropped = connection.execute(
        "SELECT head.since, q.dropped FROM lq_queues AS q JOIN lq_line AS head ON head.queue = q.id AND head.part = 0 "
        "WHERE q.id = ?",
        (queue,),
    ).fetchone()
    inflight = connection.execute(
        "SELECT by, count(*), min(since), sum(since) FROM lq_line "
        "WHERE queue = ? AND part = 1 AND until > ? GROUP BY by",
        (queue, now),
    ).fetchall()
    workers = connection.execute(
        "SELECT worker, leases, last_seen, paused_at FROM lq_workers WHERE queue = ? ORDER BY worker", (queue,)
    ).fetchall()
    leased = sum(row[1] for row in inflight)
    return QueueStats(
        ready=kept[0],
        delayed=kept[1],
        inflight=kept[2],
        waiting=kept[3],
        blocked=kept[4],
        dead=kept[5],
        expired=kept[6],
        cancelled=kept[7],
        total=sum(kept),
        by_worker_id={row[0]: row[1] for row in inflight if row[0] is not None},
        leases_by_worker_id={row[0]: row[1] for row in workers if row[1]},
        last_seen_by_worker_id={row[0]: row[2] for row in workers if row[2] is not None},
        oldest_ready_age_seconds=_oldest_ready_age(connection, queue, now) if kept[0] else None,
        oldest_inflight_age_seconds=max(0.0, now - min(row[2] for row in inflight)) if leased else None,
        average_inflight_age_seconds=max(0.0, now - sum(row[3] for row in inflight) / leased) if leased else None,
        dropped=dropped,
        paused=paused_at is not None,
        paused_workers=tuple(row[0] for row in workers if row[3] is not None),
    )


def _oldest_ready_age(connection: sqlite3.Connection, queue: int, now: float) -> float:
    """Age of the message that has been available longest, counting those that are due but not claimed since."""
    first = _ready_since(connection, queue)
    (delayed,) = connection.execute(
        "SELECT min(due_at) FROM lq_messages WHERE queue = ?1 AND due_at <= ?2 AND state = 1 "
        "AND (expires_at IS NULL OR expires_at > ?2)",
        (queue, now),
    ).fetchone()
    (lease,) = connection.execute(
        "SELECT min(until) FROM lq_line WHERE queue = ? AND part = 1 AND until <= ?", (queue, now)
    ).fetchone()
    since = [at for at in (first, delayed, lease) if at is not None]
    return max(0.0, now - min(since)) if since else 0.0


def _ready_since(connection: sqlite3.Connection, queue: int) -> float | None:
    """When the ready message that waits longest became available: the first in line, unless priorities differ."""
    line = "SELECT rank, position FROM lq_line WHERE queue = ? AND part = 2 ORDER BY rank"
    first = connection.execute(f"{line}, position LIMIT 1", (queue,)).fetchone()
    if first is None:
        return None
    last = connection.execute(f"{line} DESC LIMIT 1", (queue,)).fetchone()
    if first[0] != last[0]:
        first = connection.execute(sql.OLDEST_READY, (queue,)).fetchone()
    return float(first[1])


def prunable(connection: sqlite3.Connection, queue: int, state: str, ended_before: float) -> int:
    """How many messages of a state left delivery by then."""
    (count,) = connection.execute(
        "SELECT count(*) FROM lq_messages WHERE queue = ? AND state = ? AND ended_at IS NOT NULL AND ended_at <= ?",
        (queue, CODE[state], ended_before),
    ).fetchone()
    return int(count)


def get(connection: sqlite3.Connection, ids: Mint, queue: int, message_id: str) -> StoredMessage | None:
    row = connection.execute(
        f"{sql.FULL_ROW} WHERE m.key = ? AND m.queue = ?", (ids.key_of(message_id), queue)
    ).fetchone()
    return None if row is None else stored_message(ids, connection, row)


def scan(
    connection: sqlite3.Connection,
    ids: Mint,
    queue: int,
    state: str | None,
    after: str | None,
    last: int | None,
    limit: int | None,
) -> list[StoredMessage]:
    where, order = "m.queue = :queue", "m.key"
    values: dict[str, Any] = {"queue": queue, "limit": -1 if limit is None else limit}
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
        values["after"] = ids.key_of(after) or 0
        where += (
            " AND m.key > :after"
            if order == "m.key"
            else " AND (m.ended_at, m.key) > (SELECT ended_at, key FROM lq_messages WHERE key = :after)"
        )
    if last is not None:
        values["last"] = last
        where += " AND m.key <= :last"
    rows = connection.execute(f"{sql.FULL_ROW} WHERE {where} ORDER BY {order} LIMIT :limit", values).fetchall()
    return [stored_message(ids, connection, row) for row in rows]


def splits(connection: sqlite3.Connection, ids: Mint, queue: int, parts: int, now: float) -> list[str]:
    """By a sample that comes from indexes alone, so that its cost does not depend on the payloads."""
    newest = connection.execute(
        "SELECT key FROM lq_messages WHERE queue = ? ORDER BY key DESC LIMIT 1", (queue,)
    ).fetchone()
    if newest is None:
        return []
    every = max(1, sum(counts(connection, queue, now)) // (parts * _SAMPLE_OF_A_PART))
    sample = {row[0] for row in connection.execute(sql.SPLIT_SAMPLE, {"queue": queue, "every": every})}
    found = sorted(sample | {newest[0]})
    return [ids.id_of(found[end]) for end in rules.ends_of_parts(len(found), parts)]


def runs(connection: sqlite3.Connection, namespace: int, after: str, limit: int | None) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM lq_runs WHERE namespace = ? AND name > ? ORDER BY name LIMIT ?",
        (namespace, after, -1 if limit is None else limit),
    ).fetchall()
    return [row[0] for row in rows]


def run(connection: sqlite3.Connection, namespace: int, run_id: str) -> RunStats | None:
    row = connection.execute(
        "SELECT id, total, done FROM lq_runs WHERE namespace = ? AND name = ?", (namespace, run_id)
    ).fetchone()
    if row is None:
        return None
    states = connection.execute(
        "SELECT iif(l.key IS NULL, m.state, 2), count(*) FROM lq_messages AS m LEFT JOIN lq_line AS l "
        "ON l.queue = m.queue AND l.part = 1 AND l.rank = 0 AND l.position = 0 AND l.key = m.key "
        "WHERE m.run = ? GROUP BY 1",
        (row[0],),
    ).fetchall()
    return RunStats(run_id=run_id, total=row[1], done=row[2], **{STATES[state]: count for state, count in states})


def run_messages(
    connection: sqlite3.Connection, ids: Mint, namespace: int, run_id: str, after: str | None, limit: int | None
) -> list[StoredMessage]:
    rows = connection.execute(
        f"{sql.FULL_ROW} WHERE r.namespace = ? AND r.name = ? AND m.run = r.id AND m.key > ? ORDER BY m.key LIMIT ?",
        (namespace, run_id, (after and ids.key_of(after)) or 0, -1 if limit is None else limit),
    ).fetchall()
    return [stored_message(ids, connection, row) for row in rows]


def upstream(connection: sqlite3.Connection, ids: Mint, queue: int, message_id: str) -> list[str]:
    rows = connection.execute(
        "SELECT d.upstream FROM lq_dependencies AS d JOIN lq_messages AS m ON m.key = d.dependent "
        "WHERE d.dependent = ? AND m.queue = ? ORDER BY d.upstream",
        (ids.key_of(message_id), queue),
    ).fetchall()
    return [ids.id_of(row[0]) for row in rows]


_RECORDS = "SELECT kind, key, value, version, updated_at FROM lq_records WHERE namespace = ? AND kind = ?"
RECORD = f"{_RECORDS} AND key = ?"


def records(connection: sqlite3.Connection, namespace: int, kind: str, after: str, limit: int | None) -> list[Record]:
    found = connection.execute(
        f"{_RECORDS} AND key > ? ORDER BY key LIMIT ?", (namespace, kind, after, -1 if limit is None else limit)
    ).fetchall()
    return [Record(*row) for row in found]


def subscriptions(connection: sqlite3.Connection, queue: int) -> Subscriptions:
    (version,) = connection.execute("SELECT subscriptions FROM lq_queues WHERE id = ?", (queue,)).fetchone()
    rows = connection.execute("SELECT subscriber FROM lq_subscriptions WHERE topic = ? ORDER BY n", (queue,)).fetchall()
    return Subscriptions(version, tuple(row[0] for row in rows))


def is_paused(connection: sqlite3.Connection, queue: int, worker: str | None = None) -> bool:
    """Whether the queue was paused, or with `worker` whether that one was."""
    if worker is None:
        row = connection.execute("SELECT since FROM lq_line WHERE queue = ? AND part = 0", (queue,)).fetchone()
    else:
        find = "SELECT paused_at FROM lq_workers WHERE queue = ? AND worker = ?"
        row = connection.execute(find, (queue, worker)).fetchone()
    return row is not None and row[0] is not None


def next_expiry(connection: sqlite3.Connection, queue: int, now: float) -> float:
    """When the next ready or blocked message outlives its time, which makes room."""
    (due,) = connection.execute(
        "SELECT coalesce(min(due_at), 9e999) FROM lq_messages WHERE queue = ? AND due_at > ? AND state IN (0, 4)",
        (queue, now),
    ).fetchone()
    return float(due)
