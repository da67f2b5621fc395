"""Timers: delayed messages that became available, leases and lives that ran out.

Nothing runs in the background. The first claim (or bounded put) after a timer passed settles it, a bounded number at a
time, so that no consumer pays for ten thousand expired leases of others.
"""

from __future__ import annotations

from localqueue.stores import rules
from localqueue.stores.port import STATES
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.tx import CODE, DEAD, INFLIGHT, Tx, to_json


def settle_due(tx: Tx, queue: int, *, max_attempts: int | None, limit: int) -> None:
    """Move up to `limit` due messages of a queue on, and set when the next one is due."""
    tx.flush()
    rows = tx.connection.execute(sql.DUE_MESSAGES, (queue, tx.now, limit)).fetchall()
    for key, state, available_at, expires_at, attempts, forgiven, ordering_key, leased_at, leased_by, due_at in rows:
        fallen = rules.fall_due(
            STATES[state],
            now=tx.now,
            available_at=available_at,
            expires_at=expires_at,
            attempts_used=attempts - forgiven,
            max_attempts=max_attempts,
        )
        error = to_json(fallen.error)
        if fallen.event is not None:
            tx.remember(key, attempts, fallen.event, leased_at=leased_at, leased_by=leased_by, error=error)
        if state == INFLIGHT:
            available_at = due_at
        after = CODE[fallen.state]
        tx.move(queue, key, state, after, available_at=available_at, expires_at=expires_at, error=error)
        if after >= DEAD and ordering_key is not None and state <= INFLIGHT:
            tx.free_key(queue, ordering_key)
    tx.flush()
    if len(rows) < limit:
        due = tx.connection.execute(sql.NEXT_DUE, (queue,)).fetchone()[0]
        tx.connection.execute("UPDATE queues SET due = ? WHERE id = ?", (due, queue))
