"""Claiming: the timers that have passed come first, then the front of the line."""

from __future__ import annotations

from localqueue.stores.engine.port import Wanted
from localqueue.stores.engine.settlement import ack_all
from localqueue.stores.engine.timers import A_CLAIM, settle_due
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import LeaseRequest, StoredMessage


def lease(unit: Unit, request: LeaseRequest, *, settle_all: bool = False) -> list[StoredMessage] | None:
    """Claim messages.

    So many timers may have passed that one claim does not settle all of them. Then it takes what is there, if the store
    says that this is `claimable`, or returns None: what was settled should be committed, and the claim tried again.
    With `settle_all` it settles them in this commit.
    """
    queue = unit.rows.find_queue(request.queue)
    if queue is None:
        return []
    unit.flush()
    if unit.rows.paused(queue, request.leased_by):
        return []
    while not settle_due(unit, queue, max_attempts=request.max_attempts, limit=A_CLAIM):
        if not settle_all:
            unit.flush()
            if unit.rows.claimable(queue, unit.now):
                break
            return None
    return claim(unit, queue, request)


def claim(unit: Unit, queue: int, request: LeaseRequest) -> list[StoredMessage]:
    """Take what is at the front of the line; what is consumed is acked as well."""
    messages = unit.rows.claim(queue, request, unit.now)
    if messages:
        unit.changed_queues.add(queue)
    if request.consume and messages:
        keys = [key for message in messages if (key := unit.rows.ids.key_of(message.id)) is not None]
        unit.forget(keys)
        unit.fetch(Wanted(keys=set(keys)))
        rows = [row for key in keys if (row := unit.row(key)) is not None]
        unit.look_behind([row for row in rows if row.holds_key], [row.key for row in rows if row.dependents])
        ack_all(unit, rows)
    return messages
