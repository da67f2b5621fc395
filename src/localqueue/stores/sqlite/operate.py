"""What an operator does: requeue, prune, purge, cancel, pause, subscribe. Each is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from localqueue.errors import DedupeKeyInUse, RecordConflict
from localqueue.events.event import PRUNED, PURGED
from localqueue.stores.port import RecordWrite, Settle
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.settle import leave_delivery
from localqueue.stores.sqlite.tx import CODE, DEAD, Current, Tx
from localqueue.stores.sqlite.writer import Execute

if TYPE_CHECKING:
    from localqueue.stores.sqlite.store import SQLiteQueueStore


def requeue(tx: Tx, name: str, ids: Sequence[str] | None, delay: float) -> int:
    queue = tx.queue_id(name)
    if ids is None:
        rows = tx.connection.execute(
            "SELECT key FROM lq_messages WHERE queue = ? AND state = 5 AND ended_at IS NOT NULL ORDER BY ended_at, key",
            (queue,),
        ).fetchall()
        keys = [row[0] for row in rows]
    else:
        keys = [key for key in map(tx.store.ids.key_of, ids) if key is not None]
    count = 0
    for key in keys:
        message = tx.current(key)
        if message is None or message.queue != queue or message.state < DEAD:
            continue
        if _key_in_use(tx, message):
            if ids is None:
                continue
            raise DedupeKeyInUse(
                f"message {tx.store.ids.id_of(key)} can not return to queue {name!r}: a live message has its dedupe "
                f"key {message.dedupe_key!r}; settle that one first"
            )
        _requeue(tx, message, delay)
        count += 1
    return count


def _requeue(tx: Tx, message: Current, delay: float) -> None:
    """Return a message to delivery with a fresh attempt budget, and without a life that is over."""
    expires_at = message.expires_at
    if expires_at is not None and expires_at <= tx.now + delay:
        expires_at = None
    tx.connection.execute("UPDATE lq_messages SET forgiven = attempts WHERE key = ?", (message.key,))
    tx.remember(message, "requeued")
    tx.land(message, tx.now + delay, expires_at, message.waiting_on)


def _key_in_use(tx: Tx, message: Current) -> bool:
    if message.dedupe_key is None:
        return False
    return bool(
        tx.connection.execute(
            "SELECT 1 FROM lq_messages WHERE queue = ? AND dedupe_key = ? AND ended_at IS NULL",
            (message.queue, message.dedupe_key),
        ).fetchall()
    )


def prune(tx: Tx, name: str, state: str, older_than: float) -> int:
    queue = tx.queue_id(name)
    which = "queue = ? AND state = ? AND ended_at IS NOT NULL AND ended_at <= ?"
    removed = _remove(tx, which, (queue, CODE[state], tx.now - older_than), PRUNED)
    tx.count(queue, CODE[state], -removed)
    return removed


def purge(tx: Tx, name: str) -> int:
    queue = tx.queue_id(name)
    removed = _remove(tx, "queue = ?", (queue,), PURGED)
    tx.connection.execute("DELETE FROM lq_workers WHERE queue = ? AND paused_at IS NULL", (queue,))
    tx.connection.execute("UPDATE lq_workers SET leases = 0, last_seen = NULL WHERE queue = ?", (queue,))
    tx.connection.execute("DELETE FROM lq_line WHERE queue = ? AND part IN (1, 2)", (queue,))
    tx.connection.execute(
        "UPDATE lq_line SET until = 9e999, count = (SELECT count FROM lq_line WHERE queue = ?1 AND part = 3) "
        "WHERE queue = ?1 AND part = 0",
        (queue,),
    )
    tx.connection.execute(
        "UPDATE lq_queues SET delayed = 0, waiting = 0, blocked = 0, dead = 0, expired = 0, cancelled = 0, dropped = 0 "
        "WHERE id = ?",
        (queue,),
    )
    return removed


def _remove(tx: Tx, which: str, values: tuple[Any, ...], why: str) -> int:
    """Delete messages with what belongs to them, and remember that they were not acked; how many there were."""
    keys = tx.connection.execute(f"SELECT key FROM lq_messages WHERE {which}", values).fetchall()
    tx.mark_removed([key for (key,) in keys], why)
    tx.connection.execute(f"DELETE FROM lq_messages WHERE {which}", values)
    tx.connection.executemany("DELETE FROM lq_attempts WHERE message = ?", keys)
    tx.connection.executemany("DELETE FROM lq_dependencies WHERE dependent = ?", keys)
    return len(keys)


def cancel_run(tx: Tx, run_id: str) -> int:
    row = tx.connection.execute(
        "UPDATE lq_runs SET cancelled_at = coalesce(cancelled_at, ?) WHERE namespace = ? AND name = ? RETURNING id",
        (tx.now, tx.store.namespace_id, run_id),
    ).fetchall()
    if not row:
        return 0
    live = tx.connection.execute(
        "SELECT m.key, q.name FROM lq_messages AS m JOIN lq_queues AS q ON q.id = m.queue "
        "WHERE m.run = ? AND m.state < 5 ORDER BY m.key DESC",
        (row[0][0],),
    ).fetchall()
    cancelled = 0
    for key, name in live:
        message = tx.current(key)
        tx.touched.add(name)
        cancelled += message is not None and leave_delivery(tx, message, Settle(name, "", "cancel"))
    return cancelled


def write_records(store: SQLiteQueueStore, execute: Execute, now: float, writes: Sequence[RecordWrite]) -> None:
    """Set or delete records. A version is never used again, so a stale `expect` can not match by chance."""
    for write in writes:
        if not _write_record(store, execute, now, write):
            raise RecordConflict(
                f"record {write.key!r} of kind {write.kind!r} is in version {_version(store, execute, write)}, not "
                f"{write.expect}; nothing was changed"
            )


def _write_record(store: SQLiteQueueStore, execute: Execute, now: float, write: RecordWrite) -> bool:
    """Whether the record was in the version that the write expects; then it is written."""
    kind, key, value, expect = write
    if value is None:
        changed = execute(sql.DELETE_RECORD, (store.namespace_id, kind, key, expect)).rowcount
        return changed > 0 or (not expect and _version(store, execute, write) == 0)
    values = (store.namespace_id, kind, key, value, store.ids.reserve(), now)
    if expect is None:
        return execute(sql.SET_RECORD, values).rowcount > 0
    if expect == 0:
        return execute(sql.ADD_RECORD, values).rowcount > 0
    return execute(sql.REPLACE_RECORD, (*values, expect)).rowcount > 0


def _version(store: SQLiteQueueStore, execute: Execute, write: RecordWrite) -> int:
    find = "SELECT version FROM lq_records WHERE namespace = ? AND kind = ? AND key = ?"
    row = execute(find, (store.namespace_id, write.kind, write.key)).fetchone()
    return 0 if row is None else int(row[0])


def set_subscription(tx: Tx, topic: str, subscriber: str, wanted: bool) -> bool:
    queue = tx.queue_id(topic)
    if wanted:
        changed = tx.connection.execute(
            "INSERT INTO lq_subscriptions (topic, subscriber, n) "
            "SELECT ?1, ?2, coalesce(max(n), 0) + 1 FROM lq_subscriptions WHERE topic = ?1 ON CONFLICT DO NOTHING",
            (queue, subscriber),
        ).rowcount
    else:
        changed = tx.connection.execute(
            "DELETE FROM lq_subscriptions WHERE topic = ? AND subscriber = ?", (queue, subscriber)
        ).rowcount
    if changed:
        tx.connection.execute("UPDATE lq_queues SET subscriptions = subscriptions + 1 WHERE id = ?", (queue,))
    return bool(changed)


def set_paused(tx: Tx, name: str, worker: str | None, paused: bool) -> None:
    queue, at = tx.queue_id(name), tx.now if paused else None
    if worker is None:
        tx.connection.execute("UPDATE lq_line SET since = ? WHERE queue = ? AND part = 0", (at, queue))
        return
    tx.connection.execute(
        "INSERT INTO lq_workers (queue, worker, paused_at) VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET paused_at = excluded.paused_at",
        (queue, worker, at),
    )
    # Tells claims to look at the worker, and those who wait in other processes that something changed.
    tx.connection.execute("UPDATE lq_line SET most = coalesce(most, 0) + 1 WHERE queue = ? AND part = 0", (queue,))


def heartbeat(tx: Tx, name: str, worker_id: str, leases: int) -> None:
    tx.connection.execute(
        "INSERT INTO lq_workers (queue, worker, last_seen, leases) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET last_seen = excluded.last_seen, leases = leases + excluded.leases",
        (tx.queue_id(name), worker_id, tx.now, leases),
    )
