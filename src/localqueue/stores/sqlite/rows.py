"""From rows to the port's messages."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.port import STATES, StoredMessage
from localqueue.stores.sqlite.tx import INFLIGHT


def from_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def finished_attempts(connection: sqlite3.Connection, key: int) -> list[rules.Attempt]:
    rows = connection.execute(
        "SELECT attempt, event, at, leased_at, leased_by, error FROM attempts WHERE message = ? ORDER BY n", (key,)
    ).fetchall()
    return [
        rules.Attempt(attempt, event, at, leased_at, leased_by, from_json(error))
        for attempt, event, at, leased_at, leased_by, error in rows
    ]


def stored_message(ids: Mint, connection: sqlite3.Connection, row: tuple[Any, ...]) -> StoredMessage:
    """A message from a row of `full_row.sql`."""
    (key, queue, state, payload, codec, priority, attempts, created_at, available_at, due_at, leased_at, leased_by,
     last_error, failed_at, dedupe_key, ordering_key, expires_at, run_id, headers, waiting_on) = row  # fmt: skip
    return StoredMessage(
        id=ids.id_of(key),
        queue=queue,
        state=STATES[state],
        payload=payload,
        codec=codec,
        priority=priority,
        attempts=attempts,
        created_at=created_at,
        available_at=available_at,
        leased_until=due_at if state == INFLIGHT else None,
        leased_by=leased_by,
        last_error=from_json(last_error),
        failed_at=failed_at,
        dedupe_key=dedupe_key,
        ordering_key=ordering_key,
        expires_at=expires_at,
        run_id=run_id,
        headers=headers,
        waiting_on=waiting_on,
        history=rules.history(
            finished_attempts(connection, key), attempts=attempts, leased_at=leased_at, leased_by=leased_by
        ),
    )


def claimed_message(
    ids: Mint,
    connection: sqlite3.Connection,
    queue: str,
    row: tuple[Any, ...],
    leased_until: float,
    leased_by: str | None,
    run_id: str | None,
) -> StoredMessage:
    """A message from a row that `claim_one.sql` or `claim_many.sql` returned."""
    (key, payload, codec, priority, attempts, created_at, available_at, leased_at, headers,
     dedupe_key, ordering_key, expires_at, _run, last_error, failed_at) = row  # fmt: skip
    if attempts == 1:
        event = {"type": "leased", "at": leased_at, "attempt": 1}
        if leased_by is not None:
            event["leased_by"] = leased_by
        history: tuple[dict[str, Any], ...] = (event,)
    else:
        history = rules.history(
            finished_attempts(connection, key), attempts=attempts, leased_at=leased_at, leased_by=leased_by
        )
    return StoredMessage(
        ids.id_of(key), queue, STATES[INFLIGHT], payload, codec, priority, attempts, created_at, available_at,
        leased_until, leased_by, None if last_error is None else json.loads(last_error), failed_at, dedupe_key,
        ordering_key, expires_at, run_id, headers, 0, history,
    )  # fmt: skip
