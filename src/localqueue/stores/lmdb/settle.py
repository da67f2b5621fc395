"""Settling: ack, release, dead-letter and cancel, and what follows from each in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import LeaseLost
from localqueue.stores import rules
from localqueue.stores.lmdb import keys
from localqueue.stores.lmdb.rows import BLOCKED, CANCELLED, CODE, DEAD, INFLIGHT, WAITING, MessageRow
from localqueue.stores.lmdb.tx import Tx, to_json
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


def ack(tx: Tx, row: MessageRow) -> None:
    """Remove a message as done, and set free what it held: its run's count, its ordering key, its dependents."""
    tx.remove(row)
    if row.waiting_on:
        tx.forget_upstreams(row.key)  # an operator's ack of a message that still waits
    if row.run:
        run = tx.run_row(row.run)
        run.done += 1
        tx.save_run(run)
    if row.ordering_key is not None and row.state <= INFLIGHT:
        tx.free_key(row.queue, row.ordering_key)
    if row.dependents:
        _free_dependents(tx, row.key)


def _free_dependents(tx: Tx, upstream: int) -> None:
    for found in list(keys.walk_keys(tx.txn, keys.dependents(upstream))):
        dependent = keys.last_number(found)
        tx.txn.delete(found)
        tx.txn.delete(keys.upstream(dependent, upstream))
        row = tx.load(dependent)
        if row is None:
            continue
        row.waiting_on -= 1
        if row.state != WAITING or row.waiting_on:
            tx.save(row)
            continue
        available_at = max(row.available_at, tx.now)
        landed = rules.landing(
            now=tx.now,
            available_at=available_at,
            expires_at=row.expires_at,
            key_busy=tx.key_busy(row.queue, row.ordering_key),
        )
        tx.move(row, CODE[landed], available_at=available_at)
        tx.touched.add(tx.queue(row.queue).name)


def leave(tx: Tx, row: MessageRow, one: Settle) -> bool:
    """Release, dead-letter or cancel."""
    state = row.state
    if state >= DEAD:
        return False
    error = to_json(one.error)
    available_at = row.available_at
    if one.action == "release":
        if state in (WAITING, BLOCKED):
            return False
        event = "released"
        if one.forgive and state == INFLIGHT:
            row.forgiven += 1
        else:
            available_at = tx.now + one.delay
        used = row.attempts - row.forgiven
        if not one.forgive and one.max_attempts is not None and state == INFLIGHT and used >= one.max_attempts:
            after, event = DEAD, "dead_lettered"
            error = error or to_json(rules.attempts_exhausted(used, "it was released"))
        else:
            after = CODE[rules.landing(now=tx.now, available_at=available_at, expires_at=row.expires_at)]
    elif one.action == "dead-letter":
        after, event = DEAD, "dead_lettered"
    else:
        after, event = CANCELLED, "cancelled"
    tx.remember(row, event, leased_at=row.leased_at, leased_by=row.leased_by, error=error or row.last_error)
    tx.move(row, after, available_at=available_at, error=error)
    if after >= DEAD and row.ordering_key is not None and state <= INFLIGHT:
        tx.free_key(row.queue, row.ordering_key)
    return True
