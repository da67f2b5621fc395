"""Claiming and renewing."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from localqueue.ids import Mint
from localqueue.stores.port import Lease, LeaseRequest, StoredMessage
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.due import settle_due
from localqueue.stores.sqlite.rows import claimed_message
from localqueue.stores.sqlite.settle import follow_ack
from localqueue.stores.sqlite.tx import INFLIGHT, READY, Tx

_DUE_A_CLAIM = 500


def lease(tx: Tx, request: LeaseRequest) -> list[StoredMessage]:
    """Claim down the ready index, after settling the timers that have passed."""
    queue = tx.queue_id(request.queue)
    tx.flush()
    ready, due, paused = tx.connection.execute(
        "SELECT ready, due, paused FROM queues WHERE id = ?", (queue,)
    ).fetchone()
    if paused:
        return []
    if due <= tx.now:
        settle_due(tx, queue, max_attempts=request.max_attempts, limit=max(_DUE_A_CLAIM, request.limit))
        ready = tx.connection.execute("SELECT ready FROM queues WHERE id = ?", (queue,)).fetchone()[0]
    if not ready:
        return []
    until = tx.now + request.timeout
    rows = tx.connection.execute(sql.CLAIM_MANY, (until, tx.now, request.leased_by, queue, request.limit)).fetchall()
    rows.sort(key=_claim_order)
    tx.count(queue, READY, -len(rows))
    tx.count(queue, INFLIGHT, len(rows))
    tx.due(queue, until)
    if request.leased_by is not None:
        count_leases(tx.connection, queue, request.leased_by, len(rows))
    messages = [claimed(tx.store.ids, tx.connection, request, row, until) for row in rows]
    if request.consume:
        _consume(tx, queue, rows)
    return messages


def claimed(
    ids: Mint, connection: sqlite3.Connection, request: LeaseRequest, row: tuple[Any, ...], until: float
) -> StoredMessage:
    run_id = None if row[12] is None else _run_name(connection, row[12])
    return claimed_message(ids, connection, request.queue, row, until, request.leased_by, run_id)


def _claim_order(row: tuple[Any, ...]) -> tuple[int, float, int]:
    return (-row[3], row[6], row[0])


def _run_name(connection: sqlite3.Connection, run: int) -> str:
    return str(connection.execute("SELECT name FROM runs WHERE id = ?", (run,)).fetchone()[0])


def count_leases(connection: sqlite3.Connection, queue: int, worker: str, count: int) -> None:
    connection.execute(
        "INSERT INTO workers (queue, worker, leases) VALUES (?, ?, ?) "
        "ON CONFLICT DO UPDATE SET leases = leases + excluded.leases",
        (queue, worker, count),
    )


def _consume(tx: Tx, queue: int, rows: list[tuple[Any, ...]]) -> None:
    """At most once: the claim is also the ack."""
    for row in rows:
        deleted = tx.connection.execute(sql.DELETE_LEASED, (row[0], queue, row[4])).fetchall()
        tx.count(queue, INFLIGHT, -1)
        follow_ack(tx, queue, row[0], *deleted[0])


def renew(tx: Tx, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    until = tx.now + timeout
    renewed: list[float | None] = []
    for one in leases:
        changed = tx.connection.execute(
            "UPDATE messages SET due_at = ? WHERE key = ? AND queue = ? AND state = 2 AND attempts = ?",
            (until, tx.store.ids.key_of(one.id), tx.queue_id(one.queue), one.token),
        )
        if changed.rowcount:
            tx.due(tx.queue_id(one.queue), until)
        renewed.append(until if changed.rowcount else None)
    return renewed
