"""What an operator does: requeue, prune, purge, cancel, pause, subscribe. Each is one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from localqueue.errors import DedupeKeyInUse, RecordConflict
from localqueue.stores.port import RecordWrite
from localqueue.stores.sqlite.enqueue import requeue as requeue_one
from localqueue.stores.sqlite.settle import cancel
from localqueue.stores.sqlite.tx import CODE, DEAD, Tx


def requeue(tx: Tx, name: str, ids: Sequence[str] | None, delay: float) -> int:
    queue = tx.queue_id(name)
    if ids is None:
        keys = [
            row[0]
            for row in tx.connection.execute(
                "SELECT key FROM messages WHERE queue = ? AND state = 5 AND ended_at IS NOT NULL "
                "ORDER BY ended_at, key",
                (queue,),
            ).fetchall()
        ]
    else:
        keys = [key for key in map(tx.store.ids.key_of, ids) if key is not None]
    count = 0
    for key in keys:
        row = tx.connection.execute(
            "SELECT state, dedupe_key FROM messages WHERE key = ? AND queue = ?", (key, queue)
        ).fetchone()
        if row is None or row[0] < DEAD:
            continue
        if row[1] is not None and _key_in_use(tx.connection, queue, row[1]):
            if ids is None:
                continue
            raise DedupeKeyInUse(
                f"message {tx.store.ids.id_of(key)} can not return to queue {name!r}: a live message has its dedupe "
                f"key {row[1]!r}; settle that one first"
            )
        requeue_one(tx, name, key, delay)
        count += 1
    return count


def _key_in_use(connection: sqlite3.Connection, queue: int, dedupe_key: str) -> bool:
    return bool(
        connection.execute(
            "SELECT 1 FROM messages WHERE queue = ? AND dedupe_key = ? AND ended_at IS NULL", (queue, dedupe_key)
        ).fetchall()
    )


def prune(tx: Tx, name: str, state: str, older_than: float, dry_run: bool) -> int:
    queue = tx.queue_id(name)
    where = "queue = ? AND state = ? AND ended_at IS NOT NULL AND ended_at <= ?"
    values = (queue, CODE[state], tx.now - older_than)
    if dry_run:
        return int(tx.connection.execute(f"SELECT count(*) FROM messages WHERE {where}", values).fetchone()[0])
    keys = [
        row[0] for row in tx.connection.execute(f"DELETE FROM messages WHERE {where} RETURNING key", values).fetchall()
    ]
    _forget(tx, keys)
    tx.count(queue, CODE[state], -len(keys))
    return len(keys)


def purge(tx: Tx, name: str) -> int:
    queue = tx.queue_id(name)
    keys = [
        row[0]
        for row in tx.connection.execute("DELETE FROM messages WHERE queue = ? RETURNING key", (queue,)).fetchall()
    ]
    _forget(tx, keys)
    tx.connection.execute("DELETE FROM workers WHERE queue = ?", (queue,))
    tx.connection.execute(
        "UPDATE queues SET ready = 0, delayed = 0, inflight = 0, waiting = 0, blocked = 0, dead = 0, expired = 0, "
        "cancelled = 0, dropped = 0, due = 9e999 WHERE id = ?",
        (queue,),
    )
    return len(keys)


def _forget(tx: Tx, keys: list[int]) -> None:
    """Drop what belongs to removed messages, and remember that they were not acked."""
    tx.connection.executemany("INSERT OR IGNORE INTO removed VALUES (?)", ((key,) for key in keys))
    tx.connection.executemany("DELETE FROM attempts WHERE message = ?", ((key,) for key in keys))
    tx.connection.executemany("DELETE FROM dependencies WHERE dependent = ?", ((key,) for key in keys))


def cancel_run(tx: Tx, run_id: str) -> int:
    row = tx.connection.execute(
        "UPDATE runs SET cancelled_at = coalesce(cancelled_at, ?) WHERE namespace = ? AND name = ? RETURNING id",
        (tx.now, tx.store.namespace_id, run_id),
    ).fetchall()
    if not row:
        return 0
    live = tx.connection.execute(
        "SELECT m.key, m.queue, q.name FROM messages AS m JOIN queues AS q ON q.id = m.queue "
        "WHERE m.run = ? AND m.state < 5 ORDER BY m.key DESC",
        (row[0][0],),
    ).fetchall()
    tx.touched.update(name for _, _, name in live)
    return sum(cancel(tx, queue, name, key) for key, queue, name in live)


def write_records(tx: Tx, writes: Sequence[RecordWrite]) -> None:
    for write in writes:
        where = (tx.store.namespace_id, write.kind, write.key)
        row = tx.connection.execute(
            "SELECT version FROM records WHERE namespace = ? AND kind = ? AND key = ?", where
        ).fetchone()
        version = 0 if row is None else row[0]
        if write.expect is not None and write.expect != version:
            raise RecordConflict(
                f"record {write.key!r} of kind {write.kind!r} is in version {version}, not {write.expect}; "
                "nothing was changed"
            )
        if write.value is None:
            tx.connection.execute("DELETE FROM records WHERE namespace = ? AND kind = ? AND key = ?", where)
        else:
            tx.connection.execute(
                "INSERT INTO records (namespace, kind, key, value, version, updated_at) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET value = excluded.value, version = excluded.version, "
                "updated_at = excluded.updated_at",
                (*where, write.value, version + 1, tx.now),
            )


def set_subscription(tx: Tx, topic: str, subscriber: str, wanted: bool) -> bool:
    queue = tx.queue_id(topic)
    if wanted:
        changed = tx.connection.execute(
            "INSERT INTO subscriptions (topic, subscriber, n) "
            "SELECT ?1, ?2, coalesce(max(n), 0) + 1 FROM subscriptions WHERE topic = ?1 ON CONFLICT DO NOTHING",
            (queue, subscriber),
        ).rowcount
    else:
        changed = tx.connection.execute(
            "DELETE FROM subscriptions WHERE topic = ? AND subscriber = ?", (queue, subscriber)
        ).rowcount
    if changed:
        tx.connection.execute("UPDATE queues SET subscriptions = subscriptions + 1 WHERE id = ?", (queue,))
    return bool(changed)


def set_paused(tx: Tx, name: str, paused: bool) -> None:
    tx.connection.execute("UPDATE queues SET paused = ? WHERE id = ?", (int(paused), tx.queue_id(name)))


def heartbeat(tx: Tx, name: str, worker_id: str) -> None:
    tx.connection.execute(
        "INSERT INTO workers (queue, worker, last_seen) VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET last_seen = excluded.last_seen",
        (tx.queue_id(name), worker_id, tx.now),
    )
