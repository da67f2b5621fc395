"""Between rows and the port's messages. Users' text is stored as the bytes of its UTF-8, see the schema."""

from __future__ import annotations

import json
from typing import Any

from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.port import INFLIGHT, STATES, LeaseRequest, Payload, Record, StoredMessage


def raw(text: str) -> bytes:
    """Text as it is stored; text that is no Unicode is a `ValueError`."""
    return text.encode()


def raw_or_none(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def text_or_none(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def raw_payload(payload: Payload) -> tuple[bytes, bool]:
    """A payload and whether it was text."""
    return (payload.encode(), True) if isinstance(payload, str) else (bytes(payload), False)


def to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), default=str)


def from_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def finished_attempts(history: str | None) -> list[rules.Attempt]:
    """The entries that `lq_history` lists."""
    if history is None:
        return []
    return [
        rules.Attempt(
            attempt, event, at, leased_at, None if by is None else bytes.fromhex(by).decode(), from_json(error)
        )
        for attempt, event, at, leased_at, by, error in json.loads(history)
    ]


def stored_message(ids: Mint, row: tuple[Any, ...]) -> StoredMessage:
    """A message from a row of `full_row.sql`."""
    (key, queue, state, payload, is_text, codec, priority, attempts, created_at, available_at, until, by, last_error,
     failed_at, dedupe_key, ordering_key, expires_at, run, headers, waiting_on, since, forgiven,
     history) = row[:23]  # fmt: skip
    leased_by = text_or_none(by)
    return StoredMessage(
        id=ids.id_of(key),
        queue=queue.decode(),
        state=STATES[state],
        payload=payload.decode() if is_text else payload,
        codec=codec,
        priority=priority,
        attempts=attempts,
        created_at=created_at,
        available_at=available_at,
        leased_until=until,
        leased_by=leased_by,
        last_error=from_json(last_error),
        failed_at=failed_at,
        dedupe_key=text_or_none(dedupe_key),
        ordering_key=text_or_none(ordering_key),
        expires_at=expires_at,
        run_id=text_or_none(run),
        headers=text_or_none(headers),
        waiting_on=waiting_on,
        history=rules.history(finished_attempts(history), attempts=attempts, leased_at=since, leased_by=leased_by),
        forgiven=forgiven,
    )


def claimed_message(ids: Mint, request: LeaseRequest, row: tuple[Any, ...]) -> StoredMessage:
    """A message that was just leased, from a row of `lq_claim`."""
    (key, now, payload, is_text, codec, priority, attempts, created_at, available_at, headers, dedupe_key, ordering_key,
     expires_at, run, last_error, failed_at, forgiven, history, record, version, updated_at) = row  # fmt: skip
    by = request.leased_by
    if history is None:
        leased: dict[str, Any] = {"type": "leased", "at": now, "attempt": attempts}
        if by is not None:
            leased["leased_by"] = by
        events: tuple[dict[str, Any], ...] = (leased,)
    else:
        events = rules.history(finished_attempts(history), attempts=attempts, leased_at=now, leased_by=by)
    found = None
    if record is not None and request.ledger is not None:
        found = Record(request.ledger, f"{request.queue}:{dedupe_key.decode()}", record, version, updated_at)
    return StoredMessage(
        ids.id_of(key), request.queue, INFLIGHT, payload.decode() if is_text else payload, codec, priority, attempts,
        created_at, available_at, now + request.timeout, by, from_json(last_error), failed_at,
        text_or_none(dedupe_key), text_or_none(ordering_key), expires_at, text_or_none(run), text_or_none(headers),
        0, events, forgiven, found,
    )  # fmt: skip
