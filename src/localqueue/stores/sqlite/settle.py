"""Settling: ack, release, dead-letter and cancel, and what follows from each in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence

from localqueue.errors import LeaseLost
from localqueue.stores import rules
from localqueue.stores.port import Settle
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.tx import BLOCKED, CANCELLED, DEAD, INFLIGHT, WAITING, Current, Tx, to_json

NOTHING_FOLLOWS = (0, 0, None, None)  # acked with no history, dependents, run or ordering key


def settle(tx: Tx, settles: Sequence[Settle], *, strict: bool) -> list[bool]:
    if not settles:
        return []
    if len(settles) > 1 and all(one.action == "ack" and one.token is not None for one in settles):
        done = _ack_many(tx, settles)
    else:
        done = [_settle_one(tx, one) for one in settles]
    if strict and not all(done):
        stale = settles[done.index(False)]
        raise LeaseLost(stale.queue, stale.id, stale.token)
    return done


def _settle_one(tx: Tx, one: Settle) -> bool:
    key = tx.store.ids.key_of(one.id)
    message = None if key is None else tx.current(key)
    if message is None or message.queue != tx.queue_id(one.queue):
        return False
    if one.token is not None and one.token != message.token:
        return False
    if one.action == "ack":
        tx.delete(message)
        follow_ack(tx, message.queue, message.key, 0, message.dependents, message.run, None)
        return True
    return leave_delivery(tx, message, one)


def _ack_many(tx: Tx, settles: Sequence[Settle]) -> list[bool]:
    """Acks of leased messages, one statement for each queue and token among them."""
    keys = [tx.store.ids.key_of(one.id) for one in settles]
    groups: dict[tuple[str, int | None], list[int]] = {}
    for one, key in zip(settles, keys, strict=True):
        if key is not None:
            groups.setdefault((one.queue, one.token), []).append(key)
    acked: set[int] = set()
    for (name, token), wanted in groups.items():
        queue = tx.queue_id(name)
        rows = tx.connection.execute(sql.DELETE_ACKED, (json.dumps(wanted), queue, token)).fetchall()
        acked.update(row[0] for row in rows)
        for row in sorted(rows, key=lambda row: row[0]):
            if row[1:] != NOTHING_FOLLOWS:
                follow_ack(tx, queue, *row)
    done = []
    for key in keys:
        done.append(key in acked)
        acked.discard(key or 0)  # the same message twice in one batch is acked once
    return done


def follow_ack(
    tx: Tx, queue: int, key: int, history: int, dependents: int, run: int | None, ordering_key: str | None
) -> None:
    """What an ack sets free: its history, its run's count, its key and the messages that waited for it."""
    if history:
        tx.connection.execute("DELETE FROM lq_attempts WHERE message = ?", (key,))
    if run is not None:
        tx.connection.execute("UPDATE lq_runs SET done = done + 1 WHERE id = ?", (run,))
    if ordering_key is not None:
        tx.free_key(queue, ordering_key)
    if dependents:
        _free_dependents(tx, key)


def _free_dependents(tx: Tx, upstream: int) -> None:
    freed = tx.connection.execute(
        "UPDATE lq_messages SET waiting_on = waiting_on - 1 "
        "WHERE key IN (SELECT dependent FROM lq_dependencies WHERE upstream = ?) RETURNING key, waiting_on, state",
        (upstream,),
    ).fetchall()
    tx.connection.execute("DELETE FROM lq_dependencies WHERE upstream = ?", (upstream,))
    for key, waiting_on, state in sorted(freed):
        message = None if waiting_on or state != WAITING else tx.current(key)
        if message is not None:
            tx.land(message, max(message.available_at, tx.now), message.expires_at)
            tx.touched.add(tx.store.queue_name(tx.connection, message.queue))


def leave_delivery(tx: Tx, message: Current, one: Settle) -> bool:
    """Release, dead-letter or cancel."""
    if message.state >= DEAD:
        return False
    error = to_json(one.error)
    if one.action == "release":
        if message.state in (WAITING, BLOCKED):
            return False
        used = message.attempts - message.forgiven
        if message.state != INFLIGHT or one.forgive or one.max_attempts is None or used < one.max_attempts:
            tx.remember(message, "released", error or message.last_error)
            if error is not None:
                _keep_error(tx, message, error)
            if one.forgive and message.state == INFLIGHT:
                tx.connection.execute("UPDATE lq_messages SET forgiven = forgiven + 1 WHERE key = ?", (message.key,))
                tx.land(message, message.available_at, message.expires_at)
            else:
                tx.land(message, tx.now + one.delay, message.expires_at)
            return True
        after, event = DEAD, "dead_lettered"
        error = error or to_json(rules.attempts_exhausted(used, "it was released"))
    elif one.action == "dead-letter":
        after, event = DEAD, "dead_lettered"
    else:
        after, event = CANCELLED, "cancelled"
    tx.remember(message, event, error or message.last_error)
    tx.move(message, after, error=error)
    return True


def _keep_error(tx: Tx, message: Current, error: str) -> None:
    tx.connection.execute(
        "UPDATE lq_messages SET last_error = ?, failed_at = ? WHERE key = ?", (error, tx.now, message.key)
    )
