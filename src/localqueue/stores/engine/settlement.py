"""Settling: ack, release, dead-letter and cancel, and what follows from each in the same commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from localqueue.errors import LeaseLost
from localqueue.stores import rules
from localqueue.stores.engine.dependencies import free_dependents
from localqueue.stores.engine.row import BLOCKED, CANCELLED, DEAD, INFLIGHT, WAITING, Row
from localqueue.stores.engine.unit import Unit
from localqueue.stores.kept_error import error_text
from localqueue.stores.port import Settle


def settle(unit: Unit, settles: Sequence[Settle], *, strict: bool) -> list[bool]:
    done = [_settle_one(unit, one) for one in settles]
    if strict and not all(done):
        stale = settles[done.index(False)]
        raise LeaseLost(stale.queue, stale.id, stale.token)
    return done


def _settle_one(unit: Unit, one: Settle) -> bool:
    row = unit.row(unit.rows.ids.key_of(one.id))
    if row is None or row.queue != unit.rows.find_queue(one.queue):
        return False
    if one.token is not None and one.token != row.token:
        return False
    if one.action == "ack":
        ack(unit, row)
        return True
    return leave_delivery(unit, row, one)


def ack_all(unit: Unit, rows: Iterable[Row]) -> None:
    """Ack messages whose claim is their ack."""
    for row in rows:
        ack(unit, row)


def ack(unit: Unit, row: Row) -> None:
    """Remove a message as done, and set free what it held: its ordering key, its run's count, its dependents."""
    unit.delete(row)
    if row.run is not None:
        unit.writes.run(row.run).done += 1
    if row.dependents:
        free_dependents(unit, row.key)


def leave_delivery(unit: Unit, row: Row, one: Settle) -> bool:
    """Release, dead-letter or cancel; whether there was something to it."""
    if row.state >= DEAD:
        return False
    error = error_text(one.error)
    if one.action == "release":
        if row.state in (WAITING, BLOCKED):
            return False
        used, inflight = row.attempts - row.forgiven, row.state == INFLIGHT
        if not inflight or one.forgive or one.max_attempts is None or used < one.max_attempts:
            _release(unit, row, one, error)
            return True
        after, event = DEAD, "dead_lettered"
        error = error or error_text(rules.attempts_exhausted(used, "it was released"))
    elif one.action == "dead-letter":
        after, event = DEAD, "dead_lettered"
    else:
        after, event = CANCELLED, "cancelled"
    unit.remember(row, event, error or row.last_error)
    unit.move(row, after, error=error)
    return True


def _release(unit: Unit, row: Row, one: Settle, error: str | None) -> None:
    unit.remember(row, "released", error or row.last_error)
    if error is not None:
        row.last_error, row.failed_at = error, unit.now
    if one.forgive and row.state == INFLIGHT:
        row.forgiven += 1
        unit.land(row, row.available_at, row.expires_at)
    else:
        unit.land(row, unit.now + one.delay, row.expires_at)
