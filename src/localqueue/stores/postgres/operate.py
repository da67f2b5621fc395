"""What an operator does: requeue, prune, purge, cancel, pause, subscribe. Each is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localqueue.errors import DedupeKeyInUse, RecordConflict
from localqueue.events.event import PRUNED, PURGED
from localqueue.stores.port import RecordWrite, Settle
from localqueue.stores.postgres.rows import raw
from localqueue.stores.postgres.settle import leave_delivery
from localqueue.stores.postgres.tx import CODE, DEAD, Current, Tx


def requeue(tx: Tx, name: str, ids: Sequence[str] | None, delay: float) -> int:
    queue = tx.queue_id(name)
    if ids is None:
        rows = tx.run_sql(
            "SELECT key FROM localqueue.lq_messages WHERE queue = $1 AND state = 5 AND ended_at IS NOT NULL "
            "ORDER BY ended_at, key",
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
            assert message.dedupe_key is not None
            raise DedupeKeyInUse(
                f"message {tx.store.ids.id_of(key)} can not return to queue {name!r}: a live message has its dedupe "
                f"key {message.dedupe_key.decode()!r}; settle that one first"
            )
        _requeue(tx, message, delay)
        count += 1
    return count


def _requeue(tx: Tx, message: Current, delay: float) -> None:
    """Return a message to delivery with a fresh attempt budget, and without a life that is over."""
    expires_at = message.expires_at
    if expires_at is not None and expires_at <= tx.now + delay:
        expires_at = None
    tx.run_sql("UPDATE localqueue.lq_messages SET forgiven = attempts WHERE key = $1", (message.key,))
    tx.remember(message, "requeued")
    tx.land(message, tx.now + delay, expires_at, message.waiting_on)


def _key_in_use(tx: Tx, message: Current) -> bool:
    if message.dedupe_key is None:
        return False
    found = tx.run_sql(
        "SELECT 1 FROM localqueue.lq_messages WHERE queue = $1 AND sha256(dedupe_key) = sha256($2::bytea) "
        "AND dedupe_key IS NOT NULL AND ended_at IS NULL",
        (message.queue, message.dedupe_key),
    )
    return found.fetchone() is not None


def prune(tx: Tx, name: str, state: str, older_than: float) -> int:
    which = "queue = $1 AND state = $2 AND ended_at IS NOT NULL AND ended_at <= $3"
    return _remove(tx, which, (tx.queue_id(name), CODE[state], tx.now - older_than), PRUNED)


def purge(tx: Tx, name: str) -> int:
    queue = tx.queue_id(name)
    removed = _remove(tx, "queue = $1", (queue,), PURGED)
    tx.run_sql("DELETE FROM localqueue.lq_workers WHERE queue = $1 AND paused_at IS NULL", (queue,))
    tx.run_sql("UPDATE localqueue.lq_workers SET leases = 0, last_seen = NULL WHERE queue = $1", (queue,))
    tx.run_sql("UPDATE localqueue.lq_queues SET dropped = 0 WHERE id = $1", (queue,))
    return removed


def _remove(tx: Tx, which: str, values: tuple[Any, ...], why: str) -> int:
    """Delete messages with what belongs to them, and remember that they were not acked; how many there were."""
    find = f"SELECT key FROM localqueue.lq_messages WHERE {which} ORDER BY key FOR UPDATE"
    keys = [row[0] for row in tx.run_sql(find, values).fetchall()]
    if keys:
        tx.mark_removed(keys, why)
        tx.run_sql("DELETE FROM localqueue.lq_messages WHERE key = ANY ($1::bigint[])", (keys,))
        tx.run_sql("DELETE FROM localqueue.lq_attempts WHERE message = ANY ($1::bigint[])", (keys,))
        tx.run_sql("DELETE FROM localqueue.lq_dependencies WHERE dependent = ANY ($1::bigint[])", (keys,))
    return len(keys)


def cancel_run(tx: Tx, run_id: str) -> int:
    find = "SELECT id FROM localqueue.lq_runs WHERE namespace = $1 AND sha256(name) = sha256($2::bytea)"
    row = tx.run_sql(find, (tx.store.namespace_id, raw(run_id))).fetchone()
    if row is None:
        return 0
    live = (
        "SELECT m.key, m.queue, q.name FROM localqueue.lq_messages AS m JOIN localqueue.lq_queues AS q "
        "ON q.id = m.queue WHERE m.run = $1 AND m.state < 5 ORDER BY m.key DESC"
    )
    for queue in sorted({found[1] for found in tx.run_sql(live, (row[0],)).fetchall()}):
        tx.hold(queue)  # before the run: whoever acks one of its messages locks the queue and then the run
    tx.run_sql(
        "UPDATE localqueue.lq_runs SET cancelled_at = coalesce(cancelled_at, $2) WHERE id = $1", (row[0], tx.now)
    )
    tx.touch_run(row[0])
    cancelled = 0
    for key, _, name in tx.run_sql(live, (row[0],)).fetchall():
        message = tx.current(key)
        cancelled += message is not None and leave_delivery(tx, message, Settle(name.decode(), "", "cancel"))
    return cancelled


def write_records(tx: Tx, writes: Sequence[RecordWrite]) -> None:
    """Set or delete records. A version is never used again, so a stale `expect` can not match by chance."""
    for write in writes:
        values = (
            tx.store.namespace_id, raw(write.kind), raw(write.key), write.value, tx.store.ids.reserve(), write.expect,
            tx.now,
        )  # fmt: skip
        if not tx.execute(tx.sql.WRITE_RECORD, values).fetchone()[0]:
            row = tx.execute(tx.sql.RECORD, values[:3]).fetchone()
            raise RecordConflict(
                f"record {write.key!r} of kind {write.kind!r} is in version {0 if row is None else row[3]}, not "
                f"{write.expect}; nothing was changed"
            )


def set_subscription(tx: Tx, topic: str, subscriber: str, wanted: bool) -> bool:
    queue = tx.queue_id(topic)
    if wanted:
        changed = tx.run_sql(
            "INSERT INTO localqueue.lq_subscriptions (topic, subscriber, n) "
            "SELECT $1::int, $2::bytea, coalesce(max(n), 0) + 1 FROM localqueue.lq_subscriptions WHERE topic = $1::int "
            "ON CONFLICT DO NOTHING",
            (queue, raw(subscriber)),
        ).rowcount
    else:
        changed = tx.run_sql(
            "DELETE FROM localqueue.lq_subscriptions WHERE topic = $1 AND sha256(subscriber) = sha256($2::bytea)",
            (queue, raw(subscriber)),
        ).rowcount
    if changed:
        tx.run_sql("UPDATE localqueue.lq_queues SET subscriptions = subscriptions + 1 WHERE id = $1", (queue,))
    return bool(changed)


def set_paused(tx: Tx, name: str, worker: str | None, paused: bool) -> None:
    queue, at = tx.queue_id(name), tx.now if paused else None
    if worker is None:
        tx.run_sql("UPDATE localqueue.lq_queues SET paused_at = $2 WHERE id = $1", (queue, at))
        return
    tx.run_sql(
        "INSERT INTO localqueue.lq_workers (queue, worker, paused_at) VALUES ($1, $2, $3) "
        "ON CONFLICT (queue, sha256(worker)) DO UPDATE SET paused_at = excluded.paused_at",
        (queue, raw(worker), at),
    )


HEARTBEAT = (
    "INSERT INTO localqueue.lq_workers AS w (queue, worker, last_seen, leases) "
    "VALUES ($1, $2, coalesce($3::float8, extract(epoch FROM clock_timestamp())::float8), $4) "
    "ON CONFLICT (queue, sha256(worker)) DO UPDATE SET last_seen = excluded.last_seen, "
    "leases = w.leases + excluded.leases"
)
