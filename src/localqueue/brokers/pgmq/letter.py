"""How a message stands in a queue of PGMQ, whose messages are JSON, and how one of another program is read.

A message of ours is `{"body": "..."}` with headers of its own; the header `localqueue-body` says whether the body is
the text itself or base64. It can not be the JSON that a body may be: PostgreSQL keeps neither the blanks nor the order
of keys of the JSON it is given, and takes no NUL. A PGMQ that has no headers yet gets them beside the body.

Whatever has no such header was sent by another program: its body is the text of its JSON.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Any, NamedTuple

from localqueue.brokers import envelope
from localqueue.brokers.port import Delivery, Outgoing

#: PGMQ's own name for what keeps messages in order among themselves (`pgmq.read_grouped`).
GROUP = "x-pgmq-group"

_BODY = "localqueue-body"
_TEXT, _BASE64 = "text", "base64"
_PLAIN = json.dumps({_BODY: _TEXT})


class Receipt(NamedTuple):
    """A message and how often it had been read: who reads it after that makes this one worthless."""

    msg_id: int
    reads: int
    dead: bool = False


class Letter(NamedTuple):
    """Both are JSON; `headers` is None where the message holds them."""

    message: str
    headers: str | None


def written(one: Outgoing, *, headers_apart: bool) -> Letter:
    kind, body = _encoded(one.body)
    headers = {**one.headers, _BODY: kind}
    if one.id is not None:
        headers[envelope.ID] = one.id
    if one.key is not None:
        headers[GROUP] = one.key
    if not headers_apart:
        return Letter(json.dumps({"body": body, "headers": headers}), None)
    return Letter(json.dumps({"body": body}), _PLAIN if kind == _TEXT and len(headers) == 1 else json.dumps(headers))


def _encoded(body: bytes) -> tuple[str, str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return _BASE64, b64encode(body).decode()
    return (_BASE64, b64encode(body).decode()) if "\0" in text else (_TEXT, text)


def read(message: str | None, headers: str | None) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of what stands in a queue."""
    found = _object(headers)
    content = None
    if _BODY in found:
        content = _object(message)
    elif message is not None and _BODY in message:
        content = _object(message)
        within = content.get("headers")
        if isinstance(within, dict) and _BODY in within:
            found = within
    body = None if content is None else _decoded(found.get(_BODY), content.get("body"))
    if body is None:
        return (message or "null").encode(), _texts(found)
    del found[_BODY]
    return body, _texts(found)


def _decoded(kind: Any, body: Any) -> bytes | None:
    """None for what is not ours, whatever it says."""
    if not isinstance(body, str):
        return None
    if kind == _TEXT:
        return body.encode()
    try:
        return b64decode(body, validate=True) if kind == _BASE64 else None
    except (NotBase64, ValueError):
        return None


def _object(text: str | None) -> dict[str, Any]:
    found = None if text is None else json.loads(text)
    return found if isinstance(found, dict) else {}


def _texts(headers: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in headers.items()}


def delivery(
    queue: str,
    msg_id: int,
    reads: int,
    sent_at: float,
    until: float | None,
    message: str | None,
    headers: str | None,
    *,
    dead: bool = False,
) -> Delivery:
    body, found = read(message, headers)
    message_id, key = found.pop(envelope.ID, None), found.pop(GROUP, None)
    attempts = found.get(envelope.ATTEMPTS, "") if dead else ""
    return Delivery(
        queue,
        str(msg_id) if message_id is None else message_id,
        body,
        found,
        int(attempts) if attempts.isdecimal() else reads,
        Receipt(msg_id, reads, dead),
        key,
        0,
        sent_at,
        until,
        None,
        str(msg_id),
    )


def dead_letter(row: tuple[Any, ...], why: Mapping[str, str]) -> Outgoing:
    """A message (its number, reads, JSON and headers) as it is sent on to the dead ones, under the id it had."""
    msg_id, reads, message, headers = row
    one = delivery("", msg_id, reads, 0.0, None, message, headers)
    return Outgoing(one.body, {**one.headers, envelope.ATTEMPTS: str(reads), **why}, one.id, one.key)
