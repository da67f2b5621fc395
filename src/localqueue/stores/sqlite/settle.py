"""Settling: ack, release, dead-letter and cancel, and what follows from each in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from localqueue.errors import LeaseLost
from localqueue.stores import rules
from localqueue.stores.port import Settle
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.tx import BLOCKED, CANCELLED, CODE, DEAD, INFLIGHT, WAITING, Tx, to_json


NOTHING_FOLLOWS = (1, 0, None, None)  # acked at the first attempt, with no dependents, run or ordering key


def settle(tx: Tx, settles: Sequence[Settle], *, strict: bool) -> list[bool]:
    if len(settles) > 1 and all(one.action == "ack" and one.token is not None for one in settles):
        acked = _ack_many(tx, settles)
        if strict and not all(acked):
            stale = settles[acked.index(False)]
            raise LeaseLost(stale.queue, stale.id, stale.token)
        return acked
    done = []
    for one in settles:
        applied = _settle_one(tx, one)
        if strict and not applied:
            raise LeaseLost(one.queue, one.id, one.token)
        done.append(applied)
    return done


def _settle_one(tx: Tx, one: Settle) -> bool:
    key = tx.store.ids.key_of(one.id)
    if key is None:
        return False
    queue = tx.queue_id(one.queue)
    if one.action == "ack" and one.token is not None:
        rows = tx.connection.execute(sql.DELETE_LEASED, (key, queue, one.token)).fetchall()
        if not rows:
            return False
        tx.count(queue, INFLIGHT, -1)
        follow_ack(tx, queue, key, *rows[0])
        return True
    row = tx.connection.execute(sql.SETTLE_ROW, (key, queue)).fetchone()
    if row is None or (one.token is not None and (row[0] != INFLIGHT or row[1] != one.token)):
        return False
    if one.action == "ack":
        return _ack_any(tx, queue, key, row)
    return _leave(tx, queue, key, one, row)


def _ack_many(tx: Tx, settles: Sequence[Settle]) -> list[bool]:
    """Acks of leased messages, one statement for each queue and token among them."""
    groups: dict[tuple[str, int | None], list[int]] = {}
    keys = [tx.store.ids.key_of(one.id) for one in settles]
    for one, key in zip(settles, keys, strict=True):
        if key is not None:
            groups.setdefault((one.queue, one.token), []).append(key)
    acked: set[int] = set()
    for (name, token), wanted in groups.items():
        queue = tx.queue_id(name)
        rows = tx.connection.execute(sql.DELETE_LEASED_MANY, (json.dumps(wanted), queue, token)).fetchall()
        tx.count(queue, INFLIGHT, -len(rows))
        acked.update(row[0] for row in rows)
        for row in sorted(rows):
            if row[1:] != NOTHING_FOLLOWS:
                follow_ack(tx, queue, *row)
    return [key in acked and not acked.discard(key) for key in keys]


def _ack_any(tx: Tx, queue: int, key: int, row: tuple[Any, ...]) -> bool:
    """An operator's ack: whatever the state, the message counts as done."""
    state, attempts, *_ = row
    ordering_key, dependents, run = row[7:10]
    tx.connection.execute("DELETE FROM messages WHERE key = ?", (key,))
    tx.connection.execute("DELETE FROM dependencies WHERE dependent = ?", (key,))
    tx.connection.execute("DELETE FROM attempts WHERE message = ?", (key,))
    tx.count(queue, state, -1)
    follow_ack(tx, queue, key, attempts, dependents, run, ordering_key if state <= INFLIGHT else None)
    return True


def follow_ack(
    tx: Tx, queue: int, key: int, attempts: int, dependents: int, run: int | None, ordering_key: str | None
) -> None:
    """What an ack sets free: its history, its run's count, its key and the messages that waited for it."""
    if attempts > 1:
        tx.connection.execute("DELETE FROM attempts WHERE message = ?", (key,))
    if run is not None:
        tx.connection.execute("UPDATE runs SET done = done + 1 WHERE id = ?", (run,))
    if ordering_key is not None:
        tx.free_key(queue, ordering_key)
    if dependents:
        _free_dependents(tx, key)


def _free_dependents(tx: Tx, upstream: int) -> None:
    freed = tx.connection.execute(
        "UPDATE messages SET waiting_on = waiting_on - 1 "
        "WHERE key IN (SELECT dependent FROM dependencies WHERE upstream = ?) "
        "RETURNING key, queue, state, waiting_on, available_at, expires_at, ordering_key",
        (upstream,),
    ).fetchall()
    tx.connection.execute("DELETE FROM dependencies WHERE upstream = ?", (upstream,))
    for key, queue, state, waiting_on, available_at, expires_at, ordering_key in sorted(freed):
        if state != WAITING or waiting_on:
            continue
        available_at = max(available_at, tx.now)
        landed = rules.landing(
            now=tx.now,
            available_at=available_at,
            expires_at=expires_at,
            key_busy=tx.key_busy(queue, ordering_key),
        )
        tx.move(queue, key, WAITING, CODE[landed], available_at=available_at, expires_at=expires_at)
        tx.touched.add(tx.store.queue_name(tx.connection, queue))


def _leave(tx: Tx, queue: int, key: int, one: Settle, row: tuple[Any, ...]) -> bool:
    """Release, dead-letter or cancel."""
    (state, attempts, forgiven, available_at, expires_at, leased_at, leased_by, ordering_key, _dependents, _run,
     last_error) = row  # fmt: skip
    if state >= DEAD:
        return False
    error = to_json(one.error)
    if one.action == "release":
        if state in (WAITING, BLOCKED):
            return False
        event = "released"
        available_at = tx.now + one.delay
        used = attempts - forgiven
        if one.max_attempts is not None and state == INFLIGHT and used >= one.max_attempts:
            after, event = DEAD, "dead_lettered"
            error = error or json.dumps(rules.attempts_exhausted(used, "it was released"))
        else:
            after = CODE[rules.landing(now=tx.now, available_at=available_at, expires_at=expires_at)]
    elif one.action == "dead-letter":
        after, event = DEAD, "dead_lettered"
    else:
        after, event = CANCELLED, "cancelled"
    tx.remember(key, attempts, event, leased_at=leased_at, leased_by=leased_by, error=error or last_error)
    tx.move(queue, key, state, after, available_at=available_at, expires_at=expires_at, error=error)
    if after >= DEAD and ordering_key is not None and state <= INFLIGHT:
        tx.free_key(queue, ordering_key)
    return True


def cancel(tx: Tx, queue: int, name: str, key: int) -> bool:
    row = tx.connection.execute(sql.SETTLE_ROW, (key, queue)).fetchone()
    return row is not None and _leave(tx, queue, key, Settle(name, "", "cancel"), row)
