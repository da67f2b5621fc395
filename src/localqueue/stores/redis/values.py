"""Messages as bytes, and back. `lua/message.lua` is the other side of this."""

from __future__ import annotations

import json
from struct import Struct
from typing import Any

from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.port import Payload, Record, StoredMessage
from localqueue.stores.redis.msgpack import unpack

_QUEUE = 22
_TAIL = Struct(">qB")
_HEAD = Struct(">dqB")
_SIZE = Struct(">I")
_LEASE = Struct(">Iddi")
_STAMP = Struct(">Qd")
_TEXT, _CODEC, _HEADERS = 1, 2, 4
_BEHIND = _QUEUE + _HEAD.size
_BY = _QUEUE + _LEASE.size

PLAIN_TEXT = _TAIL.pack(0, _TEXT)
PLAIN_BYTES = _TAIL.pack(0, 0)


def tail(payload: Payload, codec: str | None, priority: int = 0, headers: str | None = None) -> bytes:
    """A message's body without the queue and the time, which the server puts in front."""
    data = payload.encode() if isinstance(payload, str) else bytes(payload)
    if codec is None and headers is None and not priority:
        return (PLAIN_TEXT if isinstance(payload, str) else PLAIN_BYTES) + data
    flags, extra = _TEXT if isinstance(payload, str) else 0, b""
    if codec is not None:
        flags |= _CODEC
        extra += sized(codec.encode())
    if headers is not None:
        flags |= _HEADERS
        extra += sized(headers.encode())
    if not -(1 << 63) <= priority < 1 << 63:
        raise ValueError(f"priority {priority} does not fit 64 bits")
    return _TAIL.pack(priority, flags) + extra + data


def sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def optional(text: str | None) -> bytes:
    return b"" if text is None else b"=" + text.encode()


def number(value: float | None) -> bytes:
    return b"" if value is None else repr(value).encode()


def to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), default=str)


def from_json(data: Any) -> Any:
    return None if not data else json.loads(data)


class Body:
    """What `tail` and the server packed."""

    __slots__ = ("codec", "created_at", "headers", "payload", "priority")

    def __init__(self, data: bytes) -> None:
        self.created_at, self.priority, flags = _HEAD.unpack_from(data, _QUEUE)
        at = _BEHIND
        self.codec: str | None = None
        self.headers: str | None = None
        if flags & _CODEC:
            end = at + 4 + _SIZE.unpack_from(data, at)[0]
            self.codec, at = data[at + 4 : end].decode(), end
        if flags & _HEADERS:
            end = at + 4 + _SIZE.unpack_from(data, at)[0]
            self.headers, at = data[at + 4 : end].decode(), end
        self.payload: Payload = data[at:].decode() if flags & _TEXT else data[at:]


def queue_of(body: bytes) -> bytes:
    return body[:_QUEUE]


class LeaseValue:
    """What `pack_lease` packed."""

    __slots__ = ("by", "most", "since", "token", "until")

    def __init__(self, data: bytes) -> None:
        self.token, self.until, self.since, most = _LEASE.unpack_from(data, _QUEUE)
        self.most: int | None = most if most >= 0 else None
        self.by: str | None = data[_BY + 1 :].decode() if len(data) > _BY else None


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def real(value: Any) -> float | None:
    return None if value is None else float(value)


def stored_message(
    ids: Mint, queue: str, key: bytes, data: bytes, packed: bytes | None, leased: bytes | None
) -> StoredMessage:
    body = Body(data)
    lease = None if leased is None else LeaseValue(leased)
    x: dict[bytes, Any] = {} if packed is None else dict(unpack(packed))
    attempts = x.get(b"at", 0) if lease is None else lease.token
    return _build(ids, queue, key, body, x, attempts, lease)


def _build(
    ids: Mint, queue: str, key: bytes, body: Body, x: dict[bytes, Any], attempts: int, lease: LeaseValue | None
) -> StoredMessage:
    since, by = (None, None) if lease is None else (lease.since, lease.by)
    return StoredMessage(
        id=ids.id_of(int.from_bytes(key)),
        queue=queue,
        state="inflight" if lease is not None else x.get(b"st", b"ready").decode(),
        payload=body.payload,
        codec=body.codec,
        priority=body.priority,
        attempts=attempts,
        created_at=body.created_at,
        available_at=float(x.get(b"av", body.created_at)),
        leased_until=None if lease is None else lease.until,
        leased_by=by,
        last_error=from_json(x.get(b"er")),
        failed_at=real(x.get(b"fa")),
        dedupe_key=text(x.get(b"dk")),
        ordering_key=text(x.get(b"ok")),
        expires_at=real(x.get(b"ex")),
        run_id=text(x.get(b"run")),
        headers=body.headers,
        waiting_on=x.get(b"wo", 0),
        history=rules.history(finished(x), attempts=attempts, leased_at=since, leased_by=by),
        forgiven=x.get(b"fo", 0),
    )


def finished(x: dict[bytes, Any]) -> list[rules.Attempt]:
    return [
        rules.Attempt(
            attempt, event.decode(), float(at), float(since) if since is not False else None,
            by.decode() if by is not False else None, from_json(error),
        )
        for attempt, event, at, since, by, error in x.get(b"hi", ())
    ]  # fmt: skip


def leased_message(
    ids: Mint, queue: str, key: bytes, data: bytes, packed: bytes | None, since: float, until: float, by: str | None
) -> StoredMessage:
    """A message that was just leased."""
    body = Body(data)
    if packed is None:
        leased: dict[str, Any] = {"type": "leased", "at": since, "attempt": 1}
        if by is not None:
            leased["leased_by"] = by
        return StoredMessage(
            ids.id_of(int.from_bytes(key)), queue, "inflight", body.payload, body.codec, body.priority, 1,
            body.created_at, body.created_at, until, by, None, None, None, None, None, None, body.headers, 0, (leased,),
        )  # fmt: skip
    x = dict(unpack(packed))
    lease = LeaseValue.__new__(LeaseValue)
    lease.token, lease.until, lease.since, lease.by, lease.most = x.get(b"at", 0) + 1, until, since, by, None
    return _build(ids, queue, key, body, x, lease.token, lease)


def record(kind: str, key: str, value: bytes) -> Record:
    version, at = _STAMP.unpack_from(value)
    return Record(kind, key, value[_STAMP.size :], version, at)
