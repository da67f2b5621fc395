"""What an operator does to messages: requeue and cancel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from localqueue.errors import DedupeKeyInUse
from localqueue.stores.engine.port import Wanted
from localqueue.stores.engine.row import DEAD, Row
from localqueue.stores.engine.settlement import leave_delivery
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Settle


def requeue(unit: Unit, name: str, ids: Sequence[str] | None, delay: float) -> int:
    """Return messages to delivery: those with these ids, or all that are dead."""
    queue = unit.rows.find_queue(name)
    if queue is None:
        return 0
    if ids is None:
        return requeue_rows(unit, unit.adopt(unit.rows.ended(queue, DEAD)), delay)
    keys = [key for key in map(unit.rows.ids.key_of, ids) if key is not None]
    unit.fetch(Wanted(keys=set(keys)))
    rows = [row for key in dict.fromkeys(keys) if (row := unit.row(key)) is not None and row.queue == queue]
    return requeue_rows(unit, rows, delay, refuse=name)


def requeue_rows(unit: Unit, rows: Sequence[Row], delay: float, *, refuse: str | None = None) -> int:
    """Return messages that left delivery; how many did. One whose dedupe key is held by a live one stays, or with
    `refuse` (the name of the queue) is an error."""
    rows = [row for row in rows if row.state >= DEAD]
    unit.fetch(
        Wanted(
            holders={(row.queue, row.dedupe_key) for row in rows if row.dedupe_key is not None},
            heads={(row.queue, row.ordering_key) for row in rows if row.ordering_key is not None},
        )
    )
    count = 0
    for row in rows:
        if row.dedupe_key is not None and unit.holder(row.queue, row.dedupe_key) is not None:
            if refuse is None:
                continue
            raise DedupeKeyInUse(
                f"message {unit.rows.ids.id_of(row.key)} can not return to queue {refuse!r}: a live message has its "
                f"dedupe key {row.dedupe_key!r}; settle that one first"
            )
        _requeue(unit, row, delay)
        count += 1
    return count


def _requeue(unit: Unit, row: Row, delay: float) -> None:
    """Return a message to delivery with a fresh attempt budget, and without a life that is over."""
    expires_at = row.expires_at
    if expires_at is not None and expires_at <= unit.now + delay:
        expires_at = None
    unit.remember(row, "requeued")
    row.forgiven = row.attempts
    unit.land(row, unit.now + delay, expires_at, row.waiting_on)


def cancel_run(unit: Unit, run_id: str) -> int:
    """Cancel the live messages of a run, which takes no more; how many there were."""
    rows = unit.adopt(unit.rows.cancel(run_id, unit.now))
    unit.look_behind([row for row in rows if row.holds_key])
    return sum(leave_delivery(unit, row, Settle("", "", "cancel")) for row in rows)


def note_removed(unit: Unit, rows: Iterable[Row], why: str) -> None:
    """Note messages that a store removes by itself, in bulk."""
    for row in rows:
        unit.note(why, row, lease=True)
