"""Timers: delayed messages that became available, leases and lives that ran out.

Nothing runs in the background. The first claim after a timer passed settles it (and a put that must drop the oldest
message), a bounded number at a time, so that no consumer pays for ten thousand expired leases of others.
"""

from __future__ import annotations

from localqueue.stores import rules
from localqueue.stores.engine.row import CODE, DEAD, INFLIGHT, Row
from localqueue.stores.engine.unit import Unit
from localqueue.stores.kept_error import error_text
from localqueue.stores.port import STATES

A_CLAIM = 500  # timers that one claim settles
_A_DROP = 10_000


def settle_due(unit: Unit, queue: int, *, max_attempts: int | None, limit: int) -> bool:
    """Move up to `limit` due messages of a queue on; whether none is left.

    An expired lease is judged by the attempt limit it was taken with, or else by `max_attempts`.
    """
    unit.flush()
    due = unit.adopt(unit.rows.due(queue, unit.now, limit))
    unit.look_behind([row for row in due if row.holds_key and CODE[_fallen(unit, row, max_attempts).state] >= DEAD])
    for row in due:
        if row.is_due(unit.now):  # else an earlier one of these has moved it
            _settle(unit, row, max_attempts)
    if len(due) == limit:
        return False
    unit.flush()
    unit.rows.timers_settled(queue)
    return True


def settle_all(unit: Unit, queue: int) -> None:
    """Settle every timer of a queue that has passed, once for a commit: its time stands still."""
    if queue not in unit.settled:
        while not settle_due(unit, queue, max_attempts=None, limit=_A_DROP):
            pass
        unit.settled.add(queue)


def is_outlived(unit: Unit, row: Row) -> bool:
    """Whether the time to live of a message is over, and nobody is working on it."""
    return row.expires_at is not None and row.expires_at <= unit.now and row.is_due(unit.now)


def settle_outlived(unit: Unit, row: Row) -> None:
    """Have a message leave delivery that has outlived its time."""
    _settle(unit, row, None)


def _fallen(unit: Unit, row: Row, max_attempts: int | None) -> rules.Fallen:
    return rules.fall_due(
        STATES[row.state],
        now=unit.now,
        available_at=row.available_at,
        expires_at=row.expires_at,
        attempts_used=row.attempts - row.forgiven,
        max_attempts=max_attempts if row.most is None else row.most,
    )


def _settle(unit: Unit, row: Row, max_attempts: int | None) -> None:
    fallen = _fallen(unit, row, max_attempts)
    error = error_text(fallen.error)
    if fallen.event is not None:
        unit.remember(row, fallen.event, error)
    available_at = row.leased_until if row.state == INFLIGHT else row.available_at
    unit.move(row, CODE[fallen.state], available_at=available_at, error=error)
