"""What an operator does: requeue, prune, purge, cancel, pause, subscribe. Each is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from localqueue.errors import DedupeKeyInUse, RecordConflict
from localqueue.stores import rules
from localqueue.stores.lmdb import keys, reads
from localqueue.stores.lmdb import rows as packing
from localqueue.stores.lmdb.rows import CODE, DEAD, MessageRow, WorkerRow
from localqueue.stores.lmdb.settle import leave
from localqueue.stores.lmdb.tx import Tx
from localqueue.stores.port import STATES, RecordWrite, Settle


def requeue(tx: Tx, name: str, ids: Sequence[str] | None, delay: float) -> int:
    queue = tx.queue_id(name)
    if ids is None:
        found: Iterable[int | None] = reads.ended_by(tx.txn, queue, STATES[DEAD], rules.NEVER)
    else:
        found = map(tx.store.ids.key_of, ids)
    count = 0
    for key in found:
        row = tx.load(key, queue)
        if row is None or row.state < DEAD:
            continue
        if row.dedupe_key is not None and tx.txn.get(keys.dedupe(queue, row.dedupe_key)) is not None:
            if ids is None:
                continue
            raise DedupeKeyInUse(
                f"message {tx.store.ids.id_of(row.key)} can not return to queue {name!r}: a live message has its "
                f"dedupe key {row.dedupe_key!r}; settle that one first"
            )
        _requeue(tx, row, delay)
        count += 1
    return count


def _requeue(tx: Tx, row: MessageRow, delay: float) -> None:
    """Return a message to delivery with a fresh attempt budget, and without a life that is over."""
    available_at = tx.now + delay
    if row.expires_at is not None and row.expires_at <= available_at:
        row.expires_at = None
    landed = rules.landing(
        now=tx.now,
        available_at=available_at,
        expires_at=row.expires_at,
        waiting_on=row.waiting_on,
        key_busy=tx.key_busy(row.queue, row.ordering_key),
    )
    row.forgiven = row.attempts
    tx.remember(row, "requeued")
    tx.move(row, CODE[landed], available_at=available_at)


def prune(tx: Tx, name: str, state: str, older_than: float) -> int:
    return _remove(tx, reads.ended_by(tx.txn, tx.queue_id(name), state, tx.now - older_than), "pruned")


def purge(tx: Tx, name: str) -> int:
    queue = tx.queue(tx.queue_id(name))
    found = [keys.last_number(key) for key, value in keys.walk(tx.txn, b"M") if packing.queue_of(value) == queue.id]
    removed = _remove(tx, found, "purged")
    for key, value in list(keys.walk(tx.txn, keys.workers(queue.id))):
        worker = WorkerRow.unpack(value)
        if worker.paused:
            tx.txn.put(key, WorkerRow(worker.name, paused=True).pack())
        else:
            tx.txn.delete(key)
    queue.counts = [0] * len(STATES)
    queue.dropped = 0
    queue.due = rules.NEVER
    return removed


def _remove(tx: Tx, found: list[int], why: str) -> int:
    """Remove messages with what belongs to them, and remember that they were not acked."""
    for key in found:
        row = tx.load(key)
        if row is not None:
            tx.remove(row, why)
            tx.txn.put(keys.removed(key), b"")
            tx.forget_upstreams(key)
    return len(found)


def cancel_run(tx: Tx, run_id: str) -> int:
    run = reads.find_run(tx.txn, tx.store.namespace_id, run_id)
    if run is None:
        return 0
    if run.cancelled_at is None:
        run.cancelled_at = tx.now
        tx.save_run(run)
    cancelled = 0
    for key in reversed(list(reads.run_keys(tx.txn, run.id))):
        row = tx.load(key)
        if row is not None and row.state < DEAD:
            name = tx.queue(row.queue).name
            tx.touched.add(name)
            cancelled += leave(tx, row, Settle(name, "", "cancel"))
    return cancelled


def write_records(tx: Tx, writes: Sequence[RecordWrite]) -> None:
    """Set or delete records. A version is never used again, so a stale `expect` can not match by chance."""
    for write in writes:
        key = keys.record(tx.store.namespace_id, write.kind, write.key)
        packed = tx.txn.get(key)
        version = 0 if packed is None else packing.unpack_record(packed)[2]
        if write.expect is not None and write.expect != version:
            raise RecordConflict(
                f"record {write.key!r} of kind {write.kind!r} is in version {version}, not {write.expect}; "
                "nothing was changed"
            )
        if write.value is None:
            tx.txn.delete(key)
        else:
            tx.txn.put(key, packing.pack_record(write.key, write.value, tx.store.ids.reserve(), tx.now))


def set_subscription(tx: Tx, topic: str, subscriber: str, wanted: bool) -> bool:
    queue = tx.queue(tx.queue_id(topic))
    key = keys.subscription(queue.id, subscriber)
    if wanted == (tx.txn.get(key) is not None):
        return False
    if wanted:
        others = keys.walk(tx.txn, keys.subscriptions(queue.id))
        last = max((packing.unpack_subscription(value)[1] for _, value in others), default=0)
        tx.txn.put(key, packing.pack_subscription(subscriber, last + 1))
    else:
        tx.txn.delete(key)
    queue.subscriptions += 1
    return True


def set_paused(tx: Tx, name: str, worker: str | None, paused: bool) -> None:
    queue = tx.queue_id(name)
    if worker is None:
        tx.queue(queue).paused = paused
    else:
        row = reads.worker_row(tx.txn, queue, worker)
        tx.txn.put(keys.worker(queue, worker), row._replace(paused=paused).pack())


def heartbeat(tx: Tx, name: str, worker_id: str, leases: int) -> None:
    queue = tx.queue_id(name)
    row = reads.worker_row(tx.txn, queue, worker_id)
    tx.txn.put(keys.worker(queue, worker_id), row._replace(leases=row.leases + leases, last_seen=tx.now).pack())
