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
        "SELECT attempt, event, at, leased_at, leased_by, error FROM lq_attempts WHERE message = ? ORDER BY n", (key,)
    ).fetchall()
    return [
        rules.Attempt(attempt, event, at, leased_at, leased_by, from_json(error))
        for attempt, event, at, leased_at, leased_by, error in rows
    ]


def stored_message(ids: Mint, connection: sqlite3.Connection, row: tuple[Any, ...]) -> StoredMessage:
    """A message from a row of `full_row.sql`."""
    (key, queue, state, payload, codec, priority, attempts, created_at, available_at, last_error, failed_at, dedupe_key,
     ordering_key, expires_at, run_id, headers, waiting_on, history, token, until, since, by,
     forgiven) = row  # fmt: skip
    if token is not None:
        state, attempts = INFLIGHT, token
    finished = finished_attempts(connection, key) if history else []
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
        leased_until=until,
        leased_by=by,
        last_error=from_json(last_error),
        failed_at=failed_at,
        dedupe_key=dedupe_key,
        ordering_key=ordering_key,
        expires_at=expires_at,
        run_id=run_id,
        headers=headers,
        waiting_on=waiting_on,
        history=rules.history(finished, attempts=attempts, leased_at=since, leased_by=by),
        forgiven=forgiven,
    )


def claimed_message(
    ids: Mint, queue: str, key: int, token: int, row: tuple[Any, ...], since: float, until: float, by: str | None = None
) -> StoredMessage | None:
    """A message that was just leased, from the columns of `claimed_message.sql`; None if more has to be read for it."""
    (payload, codec, priority, created_at, available_at, headers, dedupe_key, ordering_key, expires_at, run, last_error,
     failed_at, history) = row  # fmt: skip
    if history or run is not None:
        return None
    leased: dict[str, Any] = {"type": "leased", "at": since, "attempt": token}
    if by is not None:
        leased["leased_by"] = by
    return StoredMessage(
        ids.id_of(key), queue, "inflight", payload, codec, priority, token, created_at, available_at, until, by,
        None if last_error is None else json.loads(last_error), failed_at, dedupe_key, ordering_key, expires_at, None,
        headers, 0, (leased,),
    )  # fmt: skip
