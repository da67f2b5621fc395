"""Messages, records and commits as bytes, and messages and records back. `lua/message.lua` is the other side of this.

Arguments of a function are MessagePack with the names that the function uses; None is nil there.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import Any

from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.kept_error import error_text
from localqueue.stores.port import (
    Changes,
    LeaseRequest,
    Limit,
    NewMessage,
    Payload,
    Record,
    RecordWrite,
    Settle,
    StoredMessage,
)
from localqueue.stores.redis.schema import digest
from localqueue.stores.wake import told_records

with suppress(ImportError):  # a store that is opened without them says what is missing
    from msgpack import Packer, unpackb

Digest = Callable[[str], bytes]

_QUEUE = 22
_TAIL = Struct(">qB")
_HEAD = Struct(">dqB")
_SIZE = Struct(">I")
_LEASE = Struct(">Iddi")
_STAMP = Struct(">Qd")
_TEXT, _CODEC, _HEADERS = 1, 2, 4
_LARGE = 1 << 20
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


class _Own(threading.local):
    """A packer of this thread's own: to make one costs more than to use it."""

    def __init__(self) -> None:
        self.packer = Packer(use_bin_type=False)  # Lua knows one kind of text


def pack(arguments: Any) -> bytes:
    packed: bytes = _own.packer.pack(arguments)
    if len(packed) > _LARGE:  # its buffer would stay as large
        _own.packer = Packer(use_bin_type=False)
    return packed


_own = _Own()


def unpack(data: bytes | None) -> dict[bytes, Any]:
    """What Lua has packed: names and texts as bytes. A table without anything could be a list as well."""
    return {} if data is None else dict(unpackb(data, raw=True))


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
    x = unpack(packed)
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
    x = unpack(packed)
    lease = LeaseValue.__new__(LeaseValue)
    lease.token, lease.until, lease.since, lease.by, lease.most = x.get(b"at", 0) + 1, until, since, by, None
    return _build(ids, queue, key, body, x, lease.token, lease)


def record(kind: str, key: str, value: bytes) -> Record:
    version, at = _STAMP.unpack_from(value)
    return Record(kind, key, value[_STAMP.size :], version, at)


# commits


def key_of(ids: Mint, message_id: str) -> bytes:
    """The key inside an id, or '' for anything else."""
    key = ids.key_of(message_id)
    return b"" if key is None else key.to_bytes(8)


def own_keys(ids: Mint, message_ids: Sequence[str]) -> Sequence[int]:
    """The keys of new messages."""
    keys = ids.keys_of(message_ids)
    own = [key for key in keys if key is not None]
    if len(own) < len(keys):
        wrong = message_ids[keys.index(None)]
        raise ValueError(f"{wrong!r} is not an id of this namespace; ids of new messages come from mint()")
    return own


def packed_keys(keys: Sequence[int]) -> dict[str, bytes]:
    """The keys of a batch, one behind the other, and which of them is the oldest and the newest."""
    ends = {"oldest": min(keys).to_bytes(8), "newest": max(keys).to_bytes(8)}
    return {"keys": struct.pack(f">{len(keys)}Q", *keys), **ends}


def is_plain(message: NewMessage) -> bool:
    """Whether the message lands ready, with nothing to look up."""
    return (
        message.delay == 0.0
        and message.dedupe_key is None
        and message.ordering_key is None
        and message.ttl is None
        and message.run_id is None
        and not message.after
        and message.past is None
    )


def commit(
    ids: Mint, queue: Digest, changes: Changes, in_order: Sequence[NewMessage], records: list[dict[str, Any]]
) -> dict[str, Any]:
    """What there is of a commit."""
    plain_acks = all(one.action == "ack" and one.token is not None for one in changes.settle)
    settles = [_ack(ids, queue, one) if plain_acks else _settle(ids, queue, one) for one in changes.settle]
    parts = {
        "strict": changes.strict,
        "topics": [(queue(topic), str(version)) for topic, version in changes.topics.items()],
        "limits": {queue(name): _limit(queue, limit) for name, limit in changes.limits.items()},
        "batch": in_order and batch(ids, queue, in_order, changes),
        "edges": [(key_of(ids, edge.upstream), key_of(ids, edge.dependent)) for edge in changes.edges],
        "acks" if plain_acks else "settle": settles,
        "records": records,
        "told": [*told(changes.records)],
        "lease": changes.lease and lease(queue, changes.lease),
    }
    return {name: part for name, part in parts.items() if part}


def _ack(ids: Mint, queue: Digest, one: Settle) -> Any:
    return queue(one.queue), key_of(ids, one.id), one.token


def _settle(ids: Mint, queue: Digest, one: Settle) -> Any:
    return {
        "queue": queue(one.queue), "key": key_of(ids, one.id), "action": one.action, "token": one.token,
        "delay": one.delay, "error": error_text(one.error), "most": one.max_attempts, "forgive": one.forgive,
    }  # fmt: skip


def batch(ids: Mint, queue: Digest, messages: Sequence[NewMessage], changes: Changes) -> dict[str, Any]:
    """The new messages of these changes as columns; a column that no message has anything in is None."""
    names = list(dict.fromkeys([message.queue for message in messages]))
    numbers = {name: number for number, name in enumerate(names, 1)}
    runs = _column([message.run_id for message in messages])
    dedupe = _column([message.dedupe_key for message in messages])
    ordering = _column([message.ordering_key for message in messages])
    after = _column([message.after or None for message in messages])
    past = _column([message.past for message in messages])
    return {
        **packed_keys(own_keys(ids, [message.id for message in messages])),
        "keep": changes.keep_ids,
        "nth": None if messages is changes.enqueue else _places(messages, changes.enqueue),
        "queues": [queue(name) for name in names],
        "of": None if len(names) <= 1 else [numbers[message.queue] for message in messages],
        "bodies": [tail(one.payload, one.codec, one.priority, one.headers) for one in messages],
        "score": _column([-message.priority or None for message in messages]),
        "delay": _column([message.delay or None for message in messages]),
        "ttl": _column([message.ttl for message in messages]),
        "dk": dedupe,
        "ok": ordering,
        "sparse": None in (dedupe or ()) or None in (ordering or ()),
        "run": runs,
        "rid": runs and [run and digest(run) for run in runs],
        "after": after and [one and [key_of(ids, upstream) for upstream in one] for one in after],
        "past": past and [one and _past(one) for one in past],
    }


def _places(messages: Sequence[NewMessage], given: Sequence[NewMessage]) -> list[int]:
    """Where each of the messages stands among those that were given."""
    places = {message.id: place for place, message in enumerate(given, 1)}
    return [places[message.id] for message in messages]


def _column(values: list[Any]) -> list[Any] | None:
    return None if values.count(None) == len(values) else values


def _past(past: StoredMessage) -> dict[str, Any]:
    ended = past.state in rules.ENDED
    return {
        "created": past.created_at, "available": past.available_at, "expires": past.expires_at,
        "attempts": past.attempts, "forgiven": past.forgiven, "error": error_text(past.last_error),
        "failed": past.failed_at, "ended": past.state if ended else None,
        "ended_at": rules.ended_at(past) if ended else None,
        "history": [
            [False if value is None else value for value in (*attempt, error_text(error))]
            for *attempt, error in rules.attempts_of(past.history)
        ],
    }  # fmt: skip


def _limit(queue: Digest, limit: Limit) -> dict[str, Any]:
    spill = limit.overflow_queue
    if limit.overflow == "overflow-queue" and spill is None:
        raise ValueError(f"limit {limit!r} names no overflow_queue")
    return {"maxsize": limit.maxsize, "overflow": limit.overflow, "spill": None if spill is None else queue(spill)}


def lease(queue: Digest, request: LeaseRequest) -> dict[str, Any]:
    name, limit, timeout, by, most, consume, counted, kind = request
    ledger = None if kind is None else sized(kind.encode()) + name.encode() + b":"
    return {
        "queue": queue(name), "limit": limit, "timeout": timeout, "by": by, "most": most, "consume": consume,
        "counted": counted, "ledger": ledger,
    }  # fmt: skip


def record_writes(ids: Mint, writes: Sequence[RecordWrite]) -> tuple[list[dict[str, Any]], list[int]]:
    """Writes of records, and the versions they will be in."""
    versions = [0 if write.value is None else ids.reserve() for write in writes]
    return [
        {"field": record_field(kind, key), "value": value, "version": version.to_bytes(8), "expect": _expected(expect)}
        for (kind, key, value, expect, _), version in zip(writes, versions, strict=True)
    ], versions


def told(writes: Sequence[RecordWrite]) -> Iterator[bytes]:
    """What those are woken by who wait for these records."""
    for name in told_records(writes):
        yield record_token(*name)


def record_token(kind: str, key: str) -> bytes:
    return digest(f"record {len(kind)} {kind} {key}")


def record_field(kind: str, key: str) -> bytes:
    return sized(kind.encode()) + key.encode()


def _expected(version: int | None) -> bytes | None:
    if version is None:
        return None
    return version.to_bytes(8) if 0 <= version < 1 << 64 else b"never"  # no version is written like this
