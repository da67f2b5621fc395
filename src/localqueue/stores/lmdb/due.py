"""Timers: delayed messages that became available, leases and lives that ran out.

Nothing runs in the background. The first claim (or bounded put) after a timer passed settles it, a bounded number at
a time, so that no consumer pays for ten thousand expired leases of others.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice

from localqueue.stores import rules
from localqueue.stores.lmdb import reads
from localqueue.stores.lmdb.rows import CODE, DEAD, INFLIGHT, MessageRow, QueueRow
from localqueue.stores.lmdb.tx import Tx, to_json
from localqueue.stores.port import STATES


def settle_due(tx: Tx, queue: QueueRow, *, max_attempts: int | None, limit: int, leases: bool = True) -> None:
    """Move up to `limit` due messages of a queue on, and set when the next one is due.

    Without `leases` those whose lease ran out stay: a claim may know better how many attempts they have.
    """
    states = [state for state in range(DEAD) if leases or state != INFLIGHT]
    passed = [reads.overdue(tx.txn, queue.id, state, tx.now) for state in states]
    found = [key for _, key, _, _ in islice(merge(*passed), limit)]
    for key in found:
        row = tx.load(key)
        if row is not None and is_due(tx, row):  # settling an earlier one may have moved this one on
            fall(tx, row, max_attempts=max_attempts)
    if len(found) < limit:
        queue.due = reads.next_due(tx.txn, queue.id)


def is_due(tx: Tx, row: MessageRow) -> bool:
    return row.due_at is not None and row.due_at <= tx.now


def fall(tx: Tx, row: MessageRow, *, max_attempts: int | None) -> None:
    """Make of a due message what it has become.

    An expired lease is judged by the attempt limit it was taken with, or else by `max_attempts`.
    """
    state = row.state
    fallen = rules.fall_due(
        STATES[state],
        now=tx.now,
        available_at=row.available_at,
        expires_at=row.expires_at,
        attempts_used=row.attempts - row.forgiven,
        max_attempts=max_attempts if row.most < 0 else row.most,
    )
    error = to_json(fallen.error)
    if fallen.event is not None:
        tx.remember(row, fallen.event, leased_at=row.leased_at, leased_by=row.leased_by, error=error)
    available_at = row.due_at if state == INFLIGHT and row.due_at is not None else row.available_at
    tx.move(row, CODE[fallen.state], available_at=available_at, error=error)
    if row.state >= DEAD and row.ordering_key is not None and state <= INFLIGHT:
        tx.free_key(row.queue, row.ordering_key)
