"""Our messages as RabbitMQ takes them, and what it delivers as ours."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from localqueue.brokers import envelope
from localqueue.brokers.port import Delivery, Outgoing
from localqueue.brokers.rabbitmq.errors import load
from localqueue.brokers.rabbitmq.lane import Arrival, Lane

#: Headers that the server writes, or that would send a copy to other queues as well.
_SERVERS = frozenset(
    {"x-delivery-count", "x-acquired-count", "x-death", "x-opt-deaths", "CC", "BCC"}
    | {f"x-{which}-death-{what}" for which in ("first", "last") for what in ("queue", "exchange", "reason")}
)
_OURS = frozenset({envelope.ATTEMPTS, envelope.KEY})
_LONGEST_WORD = 255
_PERSISTENT = 2


class Receipt(NamedTuple):
    """By what a delivery is settled."""

    lane: Lane
    tag: int
    properties: Any
    is_dead: bool


def checked(message: Outgoing) -> None:
    """Refuse what the protocol can not carry, before anything is sent."""
    if message.id is not None:
        _check_word("the id of a message", message.id)
    if message.headers:
        for name, value in message.headers.items():
            _check_word("the name of a header", name)
            if not isinstance(value, str):
                raise TypeError(f"the header {name!r} is a text, not a {type(value).__name__}")
            value.encode()
    if message.key is not None:
        message.key.encode()


def _check_word(what: str, word: str) -> None:
    if not isinstance(word, str):
        raise TypeError(f"{what} is a text, not a {type(word).__name__}")
    size = len(word.encode())
    if not 0 < size <= _LONGEST_WORD:
        raise ValueError(f"{what} takes 1 to {_LONGEST_WORD} bytes in RabbitMQ, {word[:40]!r} takes {size}")


def properties_of(message: Outgoing, message_id: str, now: int) -> Any:
    headers: dict[str, Any] | None = dict(message.headers) if message.headers else None
    if message.key is not None:
        headers = {**(headers or {}), envelope.KEY: message.key}
    return load().BasicProperties(
        headers=headers,
        delivery_mode=_PERSISTENT,
        priority=message.priority or None,
        message_id=message_id,
        timestamp=now,
    )


def copy_of(delivery: Delivery, **added: str) -> Any:
    """The properties of a copy: as another program may have set them, with headers added."""
    given = delivery.receipt.properties
    own = {name: value for name, value in (given.headers or {}).items() if name not in _SERVERS}
    words = {name: getattr(given, name) for name in _KEPT}
    words |= {"delivery_mode": _PERSISTENT, "message_id": delivery.id, "headers": {**own, **added}}
    return load().BasicProperties(**words)


_KEPT = ("content_type", "content_encoding", "priority", "correlation_id", "reply_to", "timestamp", "type", "app_id")


def delivery_of(queue: str, lane: Lane, arrival: Arrival, *, is_dead: bool = False) -> Delivery:
    properties = arrival.properties
    given: Mapping[str, Any] = properties.headers or {}
    headers = {
        name: value if isinstance(value, str) else _text(value)
        for name, value in given.items()
        if name not in _SERVERS and name not in _OURS
    }
    key, origin = given.get(envelope.KEY), properties.message_id
    return Delivery(
        queue,
        origin or _name(properties),
        arrival.body,
        headers,
        _attempts(given, arrival.redelivered, is_dead),
        Receipt(lane, arrival.tag, properties, is_dead),
        None if key is None else _text(key),
        properties.priority or 0,
        properties.timestamp,
        origin=origin,
        redelivered=arrival.redelivered,
    )


def _attempts(given: Mapping[str, Any], redelivered: bool, is_dead: bool) -> int:
    """Those of the copies before this one, and the deliveries of this one: a classic queue knows only of one more."""
    try:
        before = int(given.get(envelope.ATTEMPTS, 0))
    except (TypeError, ValueError):
        before = 0
    if is_dead:
        return max(1, before)
    counted = given.get("x-delivery-count")
    return before + 1 + (int(counted) if isinstance(counted, int) else redelivered)


def _name(properties: Any) -> str:
    """An id for a message whose sender gave it none, as long as this delivery lasts."""
    properties.message_id = secrets.token_hex(16)
    return str(properties.message_id)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return json.dumps(value, default=str)
