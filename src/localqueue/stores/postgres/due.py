"""Timers: delayed messages that became available, leases and lives that ran out.

Nothing runs in the background. The first claim (or bounded put) after a timer passed settles it, a bounded number at a
time, so that no consumer pays for ten thousand expired leases of others.
"""

from __future__ import annotations

from localqueue.stores import rules
from localqueue.stores.port import STATES
from localqueue.stores.postgres.rows import to_json
from localqueue.stores.postgres.tx import CODE, INFLIGHT, Current, Tx

_A_PIECE = 5


def settle_due(tx: Tx, queue: int, *, max_attempts: int | None, limit: int, in_pieces: bool = False) -> bool:
    """Move up to `limit` due messages of a queue on; whether none is left.

    An expired lease is judged by the attempt limit it was taken with, or else by `max_attempts`. Messages that only
    become ready again, which are most, go in one statement; the others one by one. `in_pieces`, for a caller that
    commits in between, takes only a few of those: a transaction of many round trips would never come to its end on a
    network that breaks all the time.
    """
    due = tx.run_sql(
        "SELECT key FROM localqueue.lq_messages WHERE queue = $1 AND due_at <= $2 ORDER BY due_at, key LIMIT $3",
        (queue, tx.now, limit),
    ).fetchall()
    keys = [key for (key,) in due]
    if not keys:
        return True
    tx.touch(queue)
    promoted = {row[0] for row in tx.execute(tx.sql.PROMOTE_DUE, (keys, tx.now)).fetchall()}
    others = [key for key in keys if key not in promoted]
    settled = others[:_A_PIECE] if in_pieces else others
    for key in settled:
        _settle(tx, key, max_attempts)
    return len(keys) < limit and len(settled) == len(others)


def _settle(tx: Tx, key: int, max_attempts: int | None) -> None:
    message = tx.current(key)
    if message is None or not _is_due(tx, message):  # an earlier one of this pass has moved it, or its worker has
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
