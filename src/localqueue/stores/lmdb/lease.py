"""Claiming and renewing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from localqueue.errors import QueueStoreCorruptError
from localqueue.stores.lmdb import keys, reads
from localqueue.stores.lmdb.due import settle_due
from localqueue.stores.lmdb.rows import INFLIGHT, READY, MessageRow, pack_worker, unpack_worker
from localqueue.stores.lmdb.settle import ack
from localqueue.stores.lmdb.tx import Tx
from localqueue.stores.port import Lease, LeaseRequest, StoredMessage

_DUE_A_CLAIM = 500


def lease(tx: Tx, request: LeaseRequest) -> list[StoredMessage]:
    """Claim down the ready index, after settling the timers that have passed."""
    queue = tx.queue(tx.queue_id(request.queue))
    if queue.paused:
        return []
    if queue.due <= tx.now:
        settle_due(tx, queue, max_attempts=request.max_attempts, limit=max(_DUE_A_CLAIM, request.limit))
    if not queue.counts[READY]:
        return []
    claims = list(islice(keys.walk_keys(tx.txn, keys.ready_of(queue.id)), max(request.limit, 0)))
    rows = [_claim(tx, keys.last_number(key), request) for key in claims]
    if request.leased_by is not None and rows:
        _count_leases(tx, queue.id, request.leased_by, len(rows))
    messages = [reads.stored_message(tx.txn, tx.store.ids, row, queue.name) for row in rows]
    if request.consume:  # at most once: the claim is also the ack
        for row in rows:
            ack(tx, row)
    return messages


def _claim(tx: Tx, key: int, request: LeaseRequest) -> MessageRow:
    row = tx.load(key)
    if row is None:
        raise QueueStoreCorruptError(
            f"queue {request.queue!r} lists a ready message that it does not have; run check() on {tx.store.path!r}",
            path=tx.store.path,
        )
    row.state = INFLIGHT
    row.attempts += 1
    row.due_at = tx.now + request.timeout
    row.leased_at = tx.now
    row.leased_by = request.leased_by
    tx.save(row)
    return row


def _count_leases(tx: Tx, queue: int, worker: str, count: int) -> None:
    key = keys.worker(queue, worker)
    value = tx.txn.get(key)
    leases, last_seen = (0, None) if value is None else unpack_worker(value)[1:]
    tx.txn.put(key, pack_worker(worker, leases + count, last_seen))


def renew(tx: Tx, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    until = tx.now + timeout
    renewed: list[float | None] = []
    for one in leases:
        row = tx.load(tx.store.ids.key_of(one.id), tx.queue_id(one.queue))
        if row is None or row.state != INFLIGHT or row.attempts != one.token:
            renewed.append(None)
            continue
        row.due_at = until
        tx.save(row)
        renewed.append(until)
    return renewed
