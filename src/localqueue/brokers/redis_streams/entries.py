"""A message as an entry of a stream, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from localqueue.brokers import envelope
from localqueue.brokers.port import NO_HEADERS, Delivery, Outgoing

if TYPE_CHECKING:
    from localqueue.brokers.redis_streams.subscription import StreamSubscription

_BODY, _ID, _KEY, _HEADERS, _ERROR, _ATTEMPTS = b"body", b"id", b"key", b"headers", b"error", b"attempts"
_OURS = frozenset((_BODY, _ID, _KEY, _HEADERS, _ERROR, _ATTEMPTS))


class Receipt(NamedTuple):
    """The name of a lease, or the id of a dead letter, and the subscription that counts it."""

    name: bytes
    dead: bool = False
    holder: StreamSubscription | None = None


def fields_of(message: Outgoing, message_id: str | None) -> list[bytes]:
    fields = [_BODY, message.body]
    if message.headers:
        fields += (_HEADERS, json.dumps(dict(message.headers), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if message_id is not None:
        fields += (_ID, message_id.encode())
    if message.key is not None:
        fields += (_KEY, message.key.encode())
    return fields


def lease_name(entry: bytes, count: int) -> bytes:
    """As `named` of `lua/base.lua` has it."""
    ms, _, sequence = entry.partition(b"-")
    return b"%b-%b:%d" % (ms, sequence.zfill(10), count)


def delivered(
    queue: str, entry: bytes, fields: Sequence[bytes], count: int, until: float, holder: StreamSubscription | None
) -> Delivery:
    receipt = Receipt(lease_name(entry, count), False, holder)
    return _delivery(queue, entry, fields, count, receipt, until)


def dead_letter(queue: str, entry: bytes, fields: Sequence[bytes]) -> Delivery:
    return _delivery(queue, entry, fields, 0, Receipt(entry, True), None)


def _delivery(
    queue: str, entry: bytes, fields: Sequence[bytes], count: int, receipt: Receipt, until: float | None
) -> Delivery:
    sent = int(entry.partition(b"-")[0]) / 1000
    origin = entry.decode()
    if len(fields) == 2 and fields[0] == _BODY:
        return Delivery(queue, origin, fields[1], NO_HEADERS, count, receipt, None, 0, sent, until, None, origin)
    pairs = iter(fields)
    named = dict(zip(pairs, pairs, strict=True))
    body, key, message_id = named.get(_BODY), named.get(_KEY), named.get(_ID)
    return Delivery(
        queue,
        message_id.decode() if message_id else origin,
        _as_json(named) if body is None else body,
        _headers(named) if len(named) > 1 else NO_HEADERS,
        count or int(named.get(_ATTEMPTS, b"1")),
        receipt,
        None if key is None else key.decode(),
        sent_at=sent,
        leased_until=until,
        origin=origin,
    )


def _headers(named: Mapping[bytes, bytes]) -> Mapping[str, str]:
    headers: dict[str, str] = dict(_foreign(named))
    if _HEADERS in named:
        headers |= _read(named[_HEADERS])
    if _ERROR in named:
        headers[envelope.ERROR] = named[_ERROR].decode("utf-8", "replace")
    return headers


def _foreign(named: Mapping[bytes, bytes]) -> Iterator[tuple[str, str]]:
    if _BODY in named:
        for name, value in named.items():
            if name not in _OURS:
                yield name.decode("utf-8", "replace"), value.decode("utf-8", "replace")


def _read(written: bytes) -> dict[str, str]:
    """The headers of a message of ours; what another program has put there is one header."""
    text = written.decode("utf-8", "surrogatepass" if b"\xed" in written else "replace")
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {"headers": text}


def _as_json(named: Mapping[bytes, bytes]) -> bytes:
    """The body of an entry that has none."""
    fields = {name: value for name, value in named.items() if name not in (_ERROR, _ATTEMPTS)}
    texts = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in fields.items()}
    return json.dumps(texts, ensure_ascii=False).encode()
