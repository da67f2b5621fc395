"""Timers: delayed messages that became available, leases and lives that ran out.

Nothing runs in the background. The first claim (or bounded put) after a timer passed settles it, a bounded number at
a time, so that no consumer pays for ten thousand expired leases of others.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice

from localqueue.stores import rules
from localqueue.stores.lmdb import reads
from localqueue.stores.lmdb.rows import CODE, DEAD, INFLIGHT, QueueRow
from localqueue.stores.lmdb.tx import Tx, to_json
from localqueue.stores.port import STATES


def settle_due(tx: Tx, queue: QueueRow, *, max_attempts: int | None, limit: int) -> None:
    """Move up to `limit` due messages of a queue on, and set when the next one is due."""
    passed = [reads.overdue(tx.txn, queue.id, state, tx.now) for state in range(DEAD)]
    found = [(due_at, key) for due_at, key, _, _ in islice(merge(*passed), limit)]
    for due_at, key in found:
        row = tx.load(key)
        if row is None or row.due_at is None or row.due_at > tx.now:
            continue  # settling an earlier one freed its ordering key and moved this one on
        state = row.state
        fallen = rules.fall_due(
            STATES[state],
            now=tx.now,
            available_at=row.available_at,
            expires_at=row.expires_at,
            attempts_used=row.attempts - row.forgiven,
            max_attempts=max_attempts,
        )
        error = to_json(fallen.error)
        if fallen.event is not None:
            tx.remember(row, fallen.event, leased_at=row.leased_at, leased_by=row.leased_by, error=error)
        available_at = due_at if state == INFLIGHT else row.available_at
        tx.move(row, CODE[fallen.state], available_at=available_at, error=error)
        if row.state >= DEAD and row.ordering_key is not None and state <= INFLIGHT:
            tx.free_key(queue.id, row.ordering_key)
    if len(found) < limit:
        queue.due = reads.next_due(tx.txn, queue.id)
