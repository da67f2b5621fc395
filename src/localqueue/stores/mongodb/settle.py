"""Settling: ack, release, dead-letter and cancel, and what follows from each in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import LeaseLost
from localqueue.stores import rules
from localqueue.stores.mongodb.dependencies import forget_upstreams, free_dependents
from localqueue.stores.mongodb.rows import BLOCKED, CANCELLED, CODE, DEAD, INFLIGHT, WAITING, Row
from localqueue.stores.mongodb.tx import Tx, to_json
from localqueue.stores.port import Settle


def settle(tx: Tx, settles: Sequence[Settle], *, strict: bool) -> list[bool]:
    done = []
    for one in settles:
        applied = settle_one(tx, one)
        if strict and not applied:
            raise LeaseLost(one.queue, one.id, one.token)
        done.append(applied)
    return done


def settle_one(tx: Tx, one: Settle) -> bool:
    key = tx.store.ids.key_of(one.id)
    if key is None:
        return False
    row = tx.load(key, tx.queue_id(one.queue))
    if row is None or (one.token is not None and (row.state != INFLIGHT or row.attempts != one.token)):
        return False
    if one.action == "ack":
        ack(tx, row)
        return True
    return leave(tx, row, one)


def ack(tx: Tx, row: Row) -> None:
    """Remove a message as done, and set free what it held: its run's count, its ordering key, its dependents."""
    tx.remove(row)
    if row.waiting_on:
        forget_upstreams(tx, [row.key])  # an operator's ack of a message that still waits
    if row.run is not None:
        tx.count_done(row)
    if row.holds_key:
        tx.free_key(row.queue, row.ordering_key)
    if row.dependents:
        free_dependents(tx, row.key)


def leave(tx: Tx, row: Row, one: Settle) -> bool:
    """Release, dead-letter or cancel."""
    if row.state >= DEAD:
        return False
    error = to_json(one.error)
    available_at = row.available_at
    if one.action == "release":
        if row.state in (WAITING, BLOCKED):
            return False
        event, inflight = "released", row.state == INFLIGHT
        if one.forgive and inflight:
            row.forgiven += 1
        else:
            available_at = tx.now + one.delay
        used = row.attempts - row.forgiven
        if not one.forgive and one.max_attempts is not None and inflight and used >= one.max_attempts:
            after, event = DEAD, "dead_lettered"
            error = error or to_json(rules.attempts_exhausted(used, "it was released"))
        else:
            after = CODE[rules.landing(now=tx.now, available_at=available_at, expires_at=row.expires_at)]
    elif one.action == "dead-letter":
        after, event = DEAD, "dead_lettered"
    else:
        after, event = CANCELLED, "cancelled"
    tx.remember(row, event, error or row.last_error)
    tx.move(row, after, available_at=available_at, error=error)
    return True
