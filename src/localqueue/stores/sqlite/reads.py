"""Reads: none of them changes anything, all of them cost the same at any backlog."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores.port import STATES, Record, StoredMessage, Subscriptions
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.rows import stored_message
from localqueue.stores.sqlite.tx import CODE, DEAD, DELAYED, EXPIRED, INFLIGHT, READY


def counts(connection: sqlite3.Connection, queue: int, now: float) -> list[int]:
    """The kept counts, corrected for messages that are due but that nobody has claimed since."""
    kept: list[int]
    *kept, due = connection.execute(
        "SELECT ready, delayed, inflight, waiting, blocked, dead, expired, cancelled, due FROM queues WHERE id = ?",
        (queue,),
    ).fetchone()
    if due <= now:
        overdue = connection.execute(
            "SELECT state, coalesce(expires_at <= ?2, 0), count(*) FROM messages "
            "WHERE queue = ?1 AND state IN (0, 1, 2, 3, 4) AND due_at <= ?2 GROUP BY 1, 2",
            (queue, now),
        ).fetchall()
        for state, expired, count in overdue:
            kept[state] -= count
            kept[EXPIRED if expired else READY if state in (DELAYED, INFLIGHT) else state] += count
    return kept


def stats(connection: sqlite3.Connection, queue: int, now: float) -> QueueStats:
    kept = counts(connection, queue, now)
    paused, dropped = connection.execute("SELECT paused, dropped FROM queues WHERE id = ?", (queue,)).fetchone()
    inflight = connection.execute(
        "SELECT leased_by, count(*), min(leased_at), sum(leased_at) FROM messages "
        "WHERE queue = ? AND state = 2 AND due_at > ? GROUP BY leased_by",
        (queue, now),
    ).fetchall()
    workers = connection.execute(
        "SELECT worker, leases, last_seen FROM workers WHERE queue = ? ORDER BY worker", (queue,)
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
        oldest_ready_age_seconds=_oldest_ready_age(connection, queue, now),
        oldest_inflight_age_seconds=max(0.0, now - min(row[2] for row in inflight)) if leased else None,
        average_inflight_age_seconds=max(0.0, now - sum(row[3] for row in inflight) / leased) if leased else None,
        dropped=dropped,
        paused=bool(paused),
    )


def _oldest_ready_age(connection: sqlite3.Connection, queue: int, now: float) -> float | None:
    """Age of the message that has been available longest, counting those that are due but not claimed since."""
    row = connection.execute(sql.OLDEST_READY, (queue,)).fetchone()
    times = [row[1]] if row else []
    (due,) = connection.execute(
        "SELECT min(due_at) FROM messages WHERE queue = ?1 AND state IN (1, 2) AND due_at <= ?2 "
        "AND (expires_at IS NULL OR expires_at > ?2)",
        (queue, now),
    ).fetchone()
    if due is not None:
        times.append(due)
    return max(0.0, now - min(times)) if times else None


def get(connection: sqlite3.Connection, ids: Mint, queue: int, message_id: str) -> StoredMessage | None:
    row = connection.execute(
        f"{sql.FULL_ROW} WHERE m.key = ? AND m.queue = ?", (ids.key_of(message_id), queue)
    ).fetchone()
    return None if row is None else stored_message(ids, connection, row)


def scan(
    connection: sqlite3.Connection, ids: Mint, queue: int, state: str | None, after: str | None, limit: int | None
) -> list[StoredMessage]:
    where, order = "m.queue = :queue", "m.key"
    values: dict[str, Any] = {"queue": queue, "limit": -1 if limit is None else limit}
    if after is not None:
        values["after"] = ids.key_of(after) or 0
        where += " AND m.key > :after"
    if state is not None:
        values["state"] = CODE[state]
        where += " AND m.state = :state"
        if CODE[state] >= DEAD:
            order = "m.ended_at, m.key"
            where = "m.queue = :queue AND m.state = :state AND m.ended_at IS NOT NULL"
            if after is not None:
                where += " AND (m.ended_at, m.key) > (SELECT ended_at, key FROM messages WHERE key = :after)"
    rows = connection.execute(f"{sql.FULL_ROW} WHERE {where} ORDER BY {order} LIMIT :limit", values).fetchall()
    return [stored_message(ids, connection, row) for row in rows]


def run(connection: sqlite3.Connection, namespace: int, run_id: str) -> RunStats | None:
    row = connection.execute(
        "SELECT id, total, done FROM runs WHERE namespace = ? AND name = ?", (namespace, run_id)
    ).fetchone()
    if row is None:
        return None
    states = connection.execute(
        "SELECT state, count(*) FROM messages WHERE run = ? GROUP BY state", (row[0],)
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
        "SELECT d.upstream FROM dependencies AS d JOIN messages AS m ON m.key = d.dependent "
        "WHERE d.dependent = ? AND m.queue = ? ORDER BY d.upstream",
        (ids.key_of(message_id), queue),
    ).fetchall()
    return [ids.id_of(row[0]) for row in rows]


def records(
    connection: sqlite3.Connection, namespace: int, kind: str, keys: Sequence[str] | None, after: str, limit: int | None
) -> list[Record]:
    select = "SELECT kind, key, value, version, updated_at FROM records WHERE namespace = ? AND kind = ?"
    if keys is not None:
        rows = [connection.execute(f"{select} AND key = ?", (namespace, kind, key)).fetchone() for key in keys]
        return [Record(*row) for row in rows if row is not None]
    found = connection.execute(
        f"{select} AND key > ? ORDER BY key LIMIT ?", (namespace, kind, after, -1 if limit is None else limit)
    ).fetchall()
    return [Record(*row) for row in found]


def subscriptions(connection: sqlite3.Connection, queue: int) -> Subscriptions:
    (version,) = connection.execute("SELECT subscriptions FROM queues WHERE id = ?", (queue,)).fetchone()
    rows = connection.execute("SELECT subscriber FROM subscriptions WHERE topic = ? ORDER BY n", (queue,)).fetchall()
    return Subscriptions(version, tuple(row[0] for row in rows))
