"""Claiming and renewing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from localqueue.stores.port import Lease, LeaseRequest, Record, StoredMessage
from localqueue.stores.sqlite import reads
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.due import settle_due
from localqueue.stores.sqlite.rows import claimed_message, stored_message
from localqueue.stores.sqlite.settle import follow_ack
from localqueue.stores.sqlite.tx import READY, Tx

_DUE_A_CLAIM = 500


def lease(tx: Tx, request: LeaseRequest, *, settle_all: bool = False) -> list[StoredMessage] | None:
    """Claim from the front of the line, after settling the timers that have passed.

    None when so many were due that it is not known yet what may be claimed: what was settled should be committed, and
    the claim tried again. With `settle_all` it settles them in this transaction.
    """
    queue = tx.queue_id(request.queue)
    tx.flush()
    until, paused_at, pauses = tx.connection.execute(
        "SELECT until, since, most FROM lq_line WHERE queue = ? AND part = 0", (queue,)
    ).fetchone()
    if paused_at is not None or (pauses is not None and reads.is_paused(tx.connection, queue, request.leased_by)):
        return []
    if until <= tx.now:
        while not settle_due(tx, queue, max_attempts=request.max_attempts, limit=_DUE_A_CLAIM):
            tx.flush()
            if not settle_all:
                if _may_claim(tx, queue):
                    break
                return None
    rows = tx.connection.execute(sql.NEXT_IN_LINE, (queue, request.limit)).fetchall()
    if not rows:
        return []
    messages = _claim(tx, queue, request, rows)
    if request.leased_by is not None and request.counted:
        count_leases(tx.connection, queue, request.leased_by, len(rows))
    if request.ledger is not None:
        return [with_record(tx.connection.execute, tx.store.namespace_id, request, message) for message in messages]
    return messages


def with_record(
    execute: Callable[..., sqlite3.Cursor], namespace: int, request: LeaseRequest, message: StoredMessage
) -> StoredMessage:
    """The message with what the ledger says about its dedupe key."""
    if message.dedupe_key is None:
        return message
    key = f"{request.queue}:{message.dedupe_key}"
    row = execute(reads.RECORD, (namespace, request.ledger, key)).fetchone()
    return message if row is None else message._replace(record=Record(*row))


def is_plain(request: LeaseRequest) -> bool:
    """Whether one message is wanted, with nothing to do but to lease it."""
    return request.limit == 1 and not request.consume and (request.leased_by is None or not request.counted)


def _may_claim(tx: Tx, queue: int) -> bool:
    """Whether something is ready and nothing that is ready has outlived its time."""
    ready = tx.connection.execute("SELECT 1 FROM lq_line WHERE queue = ? AND part = 2 LIMIT 1", (queue,)).fetchone()
    overdue = tx.connection.execute(
        "SELECT 1 FROM lq_messages WHERE queue = ? AND due_at <= ? AND state = 0 LIMIT 1", (queue, tx.now)
    ).fetchone()
    return ready is not None and overdue is None


def _claim(tx: Tx, queue: int, request: LeaseRequest, rows: list[tuple[Any, ...]]) -> list[StoredMessage]:
    until = tx.now + request.timeout
    last = rows[-1][:3]
    leases = (until, tx.now, request.leased_by, request.max_attempts, queue, *last)
    tx.connection.execute(sql.LEASE_UP_TO, leases)
    tx.connection.execute(sql.LEAVE_LINE_UP_TO, (queue, *last))
    tx.count(queue, READY, -len(rows))
    messages = [_claimed(tx, request, row, until) for row in rows]
    if request.consume:
        keys = json.dumps([row[2] for row in rows])
        for consumed in sorted(tx.connection.execute(sql.DELETE_CONSUMED, (keys,)).fetchall()):
            follow_ack(tx, queue, *consumed)
        return messages
    tx.due(queue, until)
    for row in rows:
        if row[12] is not None:  # whether it has expired is decided when the lease ends
            tx.connection.execute("UPDATE lq_messages SET due_at = NULL WHERE key = ?", (row[2],))
    return messages


def _claimed(tx: Tx, request: LeaseRequest, row: tuple[Any, ...], until: float) -> StoredMessage:
    key, attempts = row[2:4]
    message = claimed_message(tx.store.ids, request.queue, key, attempts + 1, row[4:], tx.now, until, request.leased_by)
    return message or full_message(tx, key)


def full_message(tx: Tx, key: int) -> StoredMessage:
    found = tx.connection.execute(f"{sql.FULL_ROW} WHERE m.key = ?", (key,)).fetchone()
    return stored_message(tx.store.ids, tx.connection, found)


def count_leases(connection: sqlite3.Connection, queue: int, worker: str, count: int) -> None:
    connection.execute(
        "INSERT INTO lq_workers (queue, worker, leases) VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET leases = leases + excluded.leases",
        (queue, worker, count),
    )


def renew(tx: Tx, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    until = tx.now + timeout
    renewed: list[float | None] = []
    for one in leases:
        queue = tx.queue_id(one.queue)
        changed = tx.connection.execute(
            sql.RENEW_LEASE, (until, queue, tx.store.ids.key_of(one.id), one.token)
        ).rowcount
        if changed:
            tx.due(queue, until)
        renewed.append(until if changed else None)
    return renewed
