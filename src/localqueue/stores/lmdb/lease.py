"""Claiming and renewing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from localqueue.errors import QueueStoreCorruptError
from localqueue.stores.lmdb import keys, reads
from localqueue.stores.lmdb.due import fall, is_due, settle_due
from localqueue.stores.lmdb.rows import INFLIGHT, READY, MessageRow, QueueRow
from localqueue.stores.lmdb.settle import ack
from localqueue.stores.lmdb.tx import Tx
from localqueue.stores.port import Lease, LeaseRequest, StoredMessage

_DUE_A_CLAIM = 500


def lease(tx: Tx, request: LeaseRequest) -> list[StoredMessage]:
    """Claim down the ready index, after settling the timers that have passed."""
    queue = tx.queue(tx.queue_id(request.queue))
    if queue.paused or reads.is_paused(tx.txn, queue.id, request.leased_by):
        return []
    rows = _claim_ready(tx, queue, request)
    if request.leased_by is not None and request.counted and rows:
        _count_leases(tx, queue.id, request.leased_by, len(rows))
    messages = [reads.stored_message(tx.txn, tx.store.ids, row, queue.name) for row in rows]
    if request.ledger is not None:
        messages = [_with_record(tx, request.ledger, message) for message in messages]
    if request.consume:  # at most once: the claim is also the ack
        for row in rows:
            ack(tx, row)
    return messages


def _with_record(tx: Tx, ledger: str, message: StoredMessage) -> StoredMessage:
    """The message with what the ledger says about its dedupe key."""
    if message.dedupe_key is None:
        return message
    key = f"{message.queue}:{message.dedupe_key}"
    return message._replace(record=reads.record(tx.txn, tx.store.namespace_id, ledger, key))


def _claim_ready(tx: Tx, queue: QueueRow, request: LeaseRequest) -> list[MessageRow]:
    """Settles a bounded number of timers, and more only while that turns up nothing to claim."""
    claimed: list[MessageRow] = []
    bound = max(_DUE_A_CLAIM, request.limit)
    if queue.due <= tx.now:
        settle_due(tx, queue, max_attempts=request.max_attempts, limit=bound)
    while len(claimed) < request.limit:
        found = list(islice(keys.walk_keys(tx.txn, keys.ready_of(queue.id)), request.limit - len(claimed)))
        for key in found:
            row = _load(tx, keys.last_number(key), request)
            if is_due(tx, row):  # its life ended, beyond the timers that were settled
                fall(tx, row, max_attempts=request.max_attempts)
            else:
                claimed.append(_claim(tx, row, request))
        if not found:
            if claimed or queue.due > tx.now:
                break
            settle_due(tx, queue, max_attempts=request.max_attempts, limit=bound)
    return claimed


def _load(tx: Tx, key: int, request: LeaseRequest) -> MessageRow:
    row = tx.load(key)
    if row is None or row.state != READY:
        raise QueueStoreCorruptError(
            f"queue {request.queue!r} lists a ready message that it does not have; run check() on {tx.store.path!r}",
            path=tx.store.path,
        )
    return row


def _claim(tx: Tx, row: MessageRow, request: LeaseRequest) -> MessageRow:
    row.state = INFLIGHT
    row.attempts += 1
    row.due_at = tx.now + request.timeout
    row.leased_at = tx.now
    row.leased_by = request.leased_by
    row.most = -1 if request.max_attempts is None else request.max_attempts
    tx.save(row)
    tx.journal("leased", row)
    return row


def _count_leases(tx: Tx, queue: int, worker: str, count: int) -> None:
    row = reads.worker_row(tx.txn, queue, worker)
    tx.txn.put(keys.worker(queue, worker), row._replace(leases=row.leases + count).pack())


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
        tx.journal("renewed", row)
        renewed.append(until)
    return renewed
