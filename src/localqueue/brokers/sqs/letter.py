"""How a message travels through SQS, and how one of another program is read.

A body that is text of characters which XML allows is the body of the message, as it is. Any other is base64, and the
attribute `localqueue` says so. That attribute is JSON and holds all that has no other place: the id, the headers of
localqueue, and those of the application that can not be attributes of their own. SQS has ten at most, none empty.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import uuid
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from localqueue.brokers import envelope
from localqueue.brokers.port import Delivery, Outgoing

ATTRIBUTE = "localqueue"
_MOST_HEADERS = 9  # beside our own attribute

#: A carriage return is allowed, and becomes a line feed in answers that are XML.
_NO_TEXT = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"(?!(?i:aws|amazon)\.)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_TOKEN = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
_FRESH = "localqueue-"


class Receipt(NamedTuple):
    """Where a message was received, and what settles it."""

    url: str
    handle: str


def written(one: Outgoing, queue: str, *, fifo: bool) -> dict[str, Any]:
    """The message as an entry of a batch, without the number of the entry."""
    own: dict[str, Any] = {}
    entry: dict[str, Any] = {"MessageBody": _encoded(one.body, own)}
    attributes: dict[str, Any] = {}
    kept: dict[str, str] = {}
    for name, value in one.headers.items():
        fits = len(attributes) < _MOST_HEADERS and _is_attribute(name, value)
        if fits:
            attributes[name] = _string(value)
        else:
            kept[name] = value
    if kept:
        own["headers"] = kept
    if one.id is not None:
        own["id"] = one.id
    if fifo:
        entry["MessageGroupId"] = _group(one.key, queue, own)
        entry["MessageDeduplicationId"] = _duplicate(one.dedupe_key, own)
    elif one.key is not None:
        own["key"] = one.key
    if one.delay:
        entry["DelaySeconds"] = math.ceil(one.delay)
    if own:
        attributes[ATTRIBUTE] = _string(json.dumps(own, separators=(",", ":")))
    if attributes:
        entry["MessageAttributes"] = attributes
    return entry


def size(entry: Mapping[str, Any]) -> int:
    """How many bytes of an entry count for the limits of SQS."""
    attributes = entry.get("MessageAttributes", {})
    texts = [entry["MessageBody"]]
    for name, value in attributes.items():
        texts += (name, value["DataType"], value["StringValue"])
    return sum(len(text) if text.isascii() else len(text.encode()) for text in texts)


def _string(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


def _encoded(body: bytes, own: dict[str, Any]) -> str:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text and _NO_TEXT.search(text) is None:
        return text
    own["body"] = "base64"
    return b64encode(body).decode() or "="  # an empty one is refused


def _is_attribute(name: str, value: str) -> bool:
    return (
        not name.startswith(ATTRIBUTE)
        and 0 < len(name) <= 256
        and _NAME.fullmatch(name) is not None
        and bool(value)
        and _NO_TEXT.search(value) is None
    )


def _group(key: str | None, queue: str, own: dict[str, Any]) -> str:
    if key is None:
        return queue
    group = _token(key)
    if group != key or key == queue:
        own["key"] = key
    return group


def _duplicate(key: str | None, own: dict[str, Any]) -> str:
    if key is None:
        return f"{_FRESH}{uuid.uuid4().hex}"
    own["dedupe"] = key
    return _token(key)


def _token(key: str) -> str:
    """A key as SQS takes it: itself, or a digest."""
    return key if _TOKEN.fullmatch(key) else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def delivery(message: Mapping[str, Any], queue: str, url: str, until: float, *, fifo: bool) -> Delivery:
    """A message that was received from the address of a queue."""
    attributes = dict(message.get("MessageAttributes", {}))
    own = _own(attributes)
    system = message.get("Attributes", {})
    headers = {name: _text(value) for name, value in attributes.items()}
    for name, value in (own.get("headers") or {}).items():
        headers[name] = value
    group, duplicate = system.get("MessageGroupId"), system.get("MessageDeduplicationId", "")
    key = own.get("key", None if not fifo or group == queue else group)
    dedupe_key = own.get("dedupe")
    if dedupe_key is None and not own and fifo and not duplicate.startswith(_FRESH):
        dedupe_key = duplicate or None
    body: str = message["Body"]
    plain = own.get("body") != "base64"
    sent = system.get("SentTimestamp")
    return Delivery(
        queue,
        own.get("id", message["MessageId"]),
        body.encode("utf-8", "surrogatepass") if plain else b64decode("" if body == "=" else body),
        headers,
        int(system.get("ApproximateReceiveCount", 1)),
        Receipt(url, message["ReceiptHandle"]),
        key,
        0,
        None if sent is None else int(sent) / 1000,
        until,
        dedupe_key,
        message["MessageId"],
    )


def _own(attributes: dict[str, Any]) -> dict[str, Any]:
    """What we have said of a message, taken out of its attributes."""
    try:
        found = json.loads(attributes[ATTRIBUTE]["StringValue"])
    except (KeyError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    del attributes[ATTRIBUTE]
    return found


def _text(attribute: Mapping[str, Any]) -> str:
    if "BinaryValue" in attribute:
        return b64encode(attribute["BinaryValue"]).decode()
    return str(attribute.get("StringValue", ""))


def dead_letter(one: Delivery, why: Mapping[str, str]) -> Outgoing:
    """A message as it is sent on to the dead ones, under the id it had."""
    return Outgoing(one.body, {**one.headers, envelope.ATTEMPTS: str(one.attempts), **why}, one.id, one.key)


def with_attempts(one: Delivery) -> Delivery:
    """A dead letter with the attempts it had, not those to look at it."""
    attempts = one.headers.get(envelope.ATTEMPTS, "")
    return one._replace(attempts=int(attempts)) if attempts.isdecimal() else one
