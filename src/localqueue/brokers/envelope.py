"""How a message of a queue travels through a broker: its payload is the body, the rest is headers.

Headers of the application keep their names, so that other programs see them; what localqueue needs of its own begins
with `localqueue-`. A message that another program sent has none of those: it is text where its body is, else bytes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from localqueue.brokers.port import Delivery, Outgoing
from localqueue.stores import rules
from localqueue.stores.port import INFLIGHT, NewMessage, Payload, StoredMessage

PREFIX = "localqueue-"
ID = "localqueue-id"
CODEC = "localqueue-codec"
TEXT = "localqueue-text"
CREATED = "localqueue-created"
ERROR = "localqueue-error"
KEY = "localqueue-key"
DEDUPE = "localqueue-dedupe"
ATTEMPTS = "localqueue-attempts"


def outgoing(message: NewMessage) -> Outgoing:
    """A new message of a queue as a broker takes it."""
    headers: dict[str, str] = json.loads(message.headers) if message.headers else {}
    headers[CREATED] = repr(time.time())
    return Outgoing(
        _body(message.payload, message.codec, headers),
        headers,
        message.id,
        message.ordering_key,
        message.delay,
        message.priority,
        message.dedupe_key,
    )


def plain(message_id: str, payload: Payload, codec: str | None, at: float) -> Outgoing:
    """The same for a message without options."""
    headers = {CREATED: repr(at)}
    return Outgoing(_body(payload, codec, headers), headers, message_id)


def _body(payload: Payload, codec: str | None, headers: dict[str, str]) -> bytes:
    if codec is not None:
        headers[CODEC] = codec
    if isinstance(payload, bytes):
        headers[TEXT] = "0"
        return payload
    return payload.encode("utf-8", "surrogatepass")


def draft(message_id: str, queue: str, one: Outgoing) -> NewMessage:
    """A message on its way as a store takes it."""
    own = {name: value for name, value in one.headers.items() if not name.startswith(PREFIX)}
    return NewMessage(
        message_id,
        queue,
        payload_of(one.body, one.headers),
        one.headers.get(CODEC),
        one.delay,
        one.priority,
        one.dedupe_key,
        one.key,
        headers=json.dumps(own, ensure_ascii=False) if own else None,
    )


def stored(delivery: Delivery, leased_by: str | None = None) -> StoredMessage:
    """A delivery as the message of a queue that is leased."""
    headers = delivery.headers
    own = {name: value for name, value in headers.items() if not name.startswith(PREFIX)}
    created = _time(headers.get(CREATED)) or delivery.sent_at or time.time()
    return StoredMessage(
        id=delivery.id,
        queue=delivery.queue,
        state=INFLIGHT,
        payload=payload_of(delivery.body, headers),
        codec=headers.get(CODEC),
        priority=delivery.priority,
        attempts=delivery.attempts,
        created_at=created,
        available_at=created,
        leased_until=delivery.leased_until,
        leased_by=leased_by,
        last_error=error_of(headers),
        dedupe_key=delivery.dedupe_key,
        ordering_key=delivery.key,
        headers=json.dumps(own, ensure_ascii=False) if own else None,
        history=rules.history((), attempts=delivery.attempts, leased_at=time.time(), leased_by=leased_by),
    )


def payload_of(body: bytes, headers: Mapping[str, str]) -> Payload:
    if headers.get(TEXT) == "0":
        return body
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body


def error_of(headers: Mapping[str, str]) -> dict[str, Any] | None:
    """Why a dead letter is one, if it says so."""
    try:
        error = json.loads(headers[ERROR])
    except (KeyError, ValueError, RecursionError):
        return None
    return error if isinstance(error, dict) else None


def error_header(error: Mapping[str, Any] | None) -> dict[str, str]:
    return {} if error is None else {ERROR: json.dumps(dict(error), default=str)}


def _time(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
