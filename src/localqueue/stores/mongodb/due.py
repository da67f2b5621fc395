"""Timers: delayed messages that became available, leases and lives that ran out.

Nothing runs in the background. The first claim (or bounded put) after a timer passed settles it, a bounded number at
a time, so that no consumer pays for ten thousand expired leases of others.
"""

from __future__ import annotations

from localqueue.stores import rules
from localqueue.stores.mongodb.rows import CODE, INFLIGHT, LIVE, Row
from localqueue.stores.mongodb.tx import Tx, to_json
from localqueue.stores.port import STATES


def settle_due(tx: Tx, queue: int, *, max_attempts: int | None, limit: int, leases: bool = True) -> bool:
    """Move up to `limit` due messages of a queue on; whether none is left.

    Without `leases` those whose lease ran out stay: a claim may know better how many attempts they have.
    """
    states = [state for state in LIVE if leases or state != INFLIGHT]
    due = tx.find({"q": queue, "s": {"$in": states}, "due": {"$lte": tx.now}}, [("due", 1), ("_id", 1)], limit)
    for row in due:
        if is_due(tx, row):  # settling an earlier one may have moved this one on
            fall(tx, row, max_attempts=max_attempts)
    return not limit or len(due) < limit


def is_due(tx: Tx, row: Row) -> bool:
    return row.due_at is not None and row.due_at <= tx.now


def fall(tx: Tx, row: Row, *, max_attempts: int | None) -> None:
    """Make of a due message what it has become.

    An expired lease is judged by the attempt limit it was taken with, or else by `max_attempts`.
    """
    fallen = rules.fall_due(
        STATES[row.state],
        now=tx.now,
        available_at=row.available_at,
        expires_at=row.expires_at,
        attempts_used=row.attempts - row.forgiven,
        max_attempts=max_attempts if row.most is None else row.most,
    )
    error = to_json(fallen.error)
    if fallen.event is not None:
        tx.remember(row, fallen.event, error)
    available_at = row.due_at if row.state == INFLIGHT and row.due_at is not None else row.available_at
    tx.move(row, CODE[fallen.state], available_at=available_at, error=error)
