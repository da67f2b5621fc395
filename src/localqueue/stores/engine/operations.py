"""What an operator does to messages: requeue, cancel and remove. Of many messages a piece at a time."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.events.event import PRUNED, PURGED, RENEWED
from localqueue.stores import refusals
from localqueue.stores.engine.port import Wanted
from localqueue.stores.engine.row import DEAD, Row
from localqueue.stores.engine.settlement import leave_delivery
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Lease, Settle

Behind = tuple[float, int]  # the last message of a piece: when it left delivery, and its key


def renew(unit: Unit, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    """The new expiry of each lease that is still held."""
    keys = [unit.rows.ids.key_of(one.id) for one in leases]
    unit.fetch(Wanted(keys={key for key in keys if key is not None}))
    until = unit.now + timeout
    return [_renew(unit, unit.row(key), one, until) for key, one in zip(keys, leases, strict=True)]


def _renew(unit: Unit, row: Row | None, lease: Lease, until: float) -> float | None:
    if row is None or row.token != lease.token or row.queue != unit.rows.find_queue(lease.queue):
        return None
    unit.mark(row)
    row.leased_until = until
    unit.note(RENEWED, row, told=False, lease=True)
    return until


def requeue(unit: Unit, name: str, ids: Sequence[str], delay: float) -> int:
    """Return the messages with these ids to delivery."""
    queue = unit.rows.find_queue(name)
    if queue is None:
        return 0
    keys = [key for key in map(unit.rows.ids.key_of, ids) if key is not None]
    unit.fetch(Wanted(keys=set(keys)))
    rows = [row for key in dict.fromkeys(keys) if (row := unit.row(key)) is not None and row.queue == queue]
    return _requeue_rows(unit, rows, delay, refuse=name)


def requeue_dead(
    unit: Unit, queue: int, delay: float, until: float, behind: Behind, limit: int
) -> tuple[int, Behind | None]:
    """Return a piece of those that were dead at `until` to delivery; how many, and behind which one the next piece
    begins."""
    dead = unit.adopt(unit.rows.ended(queue, DEAD, until, behind, limit))
    last = (dead[-1].ended_at or 0.0, dead[-1].key) if len(dead) == limit else None
    return _requeue_rows(unit, dead, delay), last


def _requeue_rows(unit: Unit, rows: Sequence[Row], delay: float, *, refuse: str | None = None) -> int:
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
            raise refusals.dedupe_key_in_use(unit.rows.ids.id_of(row.key), refuse, row.dedupe_key)
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


def cancel_run(unit: Unit, run_id: str, before: int, limit: int) -> tuple[int, int | None]:
    """Cancel a piece of the live messages of a run, which takes no more; how many, and before which one the next piece
    begins."""
    rows = unit.adopt(unit.rows.cancel(run_id, unit.now, before, limit))
    last = rows[-1].key if len(rows) == limit else None
    unit.look_behind([row for row in rows if row.holds_key])
    count = sum(leave_delivery(unit, row, Settle("", "", "cancel")) for row in rows)
    return count, last


def prune(unit: Unit, queue: int, state: int, until: float, limit: int) -> tuple[int, bool | None]:
    """Remove a piece of the messages that left delivery for a state until then; how many, and whether there may be
    others."""
    rows = unit.adopt(unit.rows.ended(queue, state, until, (0.0, 0), limit))
    for row in rows:
        unit.delete(row, PRUNED)
    return len(rows), True if len(rows) == limit else None


def purge(unit: Unit, queue: int, behind: int, limit: int) -> tuple[int, int | None]:
    """Remove a piece of the messages of a queue; how many, and behind which one the next piece begins."""
    rows = unit.adopt(unit.rows.of_queue(queue, behind, limit))
    last = rows[-1].key if len(rows) == limit else None
    heads = [row for row in rows if row.holds_key]
    for row in rows:
        if not row.holds_key:
            unit.delete(row, PURGED)
    unit.flush()  # so that nobody comes free who goes as well
    unit.look_behind(heads)
    for row in heads:
        unit.delete(row, PURGED)
    if last is None:
        unit.flush()
        unit.rows.clear(queue)
    unit.changed_queues.add(queue)
    return len(rows), last
