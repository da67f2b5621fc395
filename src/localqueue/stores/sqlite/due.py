"""Timers: delayed messages that became available, leases and lives that ran out.

Nothing runs in the background. The first claim (or bounded put) after a timer passed settles it, a bounded number at a
time, so that no consumer pays for ten thousand expired leases of others.
"""

from __future__ import annotations

from localqueue.stores import rules
from localqueue.stores.port import STATES
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.tx import CODE, INFLIGHT, Current, Tx, to_json


def settle_due(tx: Tx, queue: int, *, max_attempts: int | None, limit: int) -> bool:
    """Move up to `limit` due messages of a queue on; whether none is left. Then the next timer is known, too.

    An expired lease is judged by the attempt limit it was taken with, or else by `max_attempts`.
    """
    expired = tx.connection.execute(sql.EXPIRED_LEASES, (queue, tx.now, limit)).fetchall()
    for key, *_ in expired:
        _settle(tx, key, max_attempts)
    due = tx.connection.execute(sql.DUE_MESSAGES, (queue, tx.now, limit)).fetchall()
    for (key,) in due:
        _settle(tx, key, max_attempts)
    if len(expired) == limit or len(due) == limit:
        return False
    tx.flush()
    tx.connection.execute(
        "UPDATE lq_line SET until = ? WHERE queue = ? AND part = 0",
        (tx.connection.execute(sql.NEXT_DUE, (queue,)).fetchone()[0], queue),
    )
    return True


def _settle(tx: Tx, key: int, max_attempts: int | None) -> None:
    message = tx.current(key)
    if message is None or not _is_due(tx, message):  # an earlier one of this pass has moved it
        return
    fallen = rules.fall_due(
        STATES[message.state],
        now=tx.now,
        available_at=message.available_at,
        expires_at=message.expires_at,
        attempts_used=message.attempts - message.forgiven,
        max_attempts=message.most if message.most is not None else max_attempts,
    )
    error = to_json(fallen.error)
    if fallen.event is not None:
        tx.remember(message, fallen.event, error)
    available_at = message.leased_until if message.state == INFLIGHT else message.available_at
    tx.move(message, CODE[fallen.state], available_at=available_at, error=error)


def settle_if_outlived(tx: Tx, key: int) -> bool:
    """Whether the time to live of a message that nobody is working on is over; then it has left delivery."""
    message = tx.current(key)
    if message is None or message.expires_at is None or message.expires_at > tx.now or not _is_due(tx, message):
        return False
    _settle(tx, key, None)
    return True


def _is_due(tx: Tx, message: Current) -> bool:
    due = rules.due_at(
        STATES[message.state],
        available_at=message.available_at,
        expires_at=message.expires_at,
        leased_until=message.leased_until,
    )
    return due is not None and due <= tx.now
