"""The values of the environment: rows as packed structs, each beginning with the version of its layout.

A message is two values. `MessageRow` holds what the store decides on and is rewritten with every change of state; the
content (payload, codec, headers) is written once, so that a large payload never costs anything again.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from localqueue.errors import QueueStoreCorruptError
from localqueue.stores import rules
from localqueue.stores.lmdb import keys
from localqueue.stores.port import STATES, Payload

CODE = {name: code for code, name in enumerate(STATES)}
READY, DELAYED, INFLIGHT, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED = range(len(STATES))

LAYOUT = 1

_NONE = math.nan  # stands for None in a float field; no time is ever NaN
_MESSAGE = struct.Struct("<BBBIqIIIIiQ7d4i")
_CONTENT = struct.Struct("<BBii")
_QUEUE = struct.Struct("<BB8qdqq")
_RUN = struct.Struct("<BQQd")
_WORKER = struct.Struct("<BBQd")
_RECORD = struct.Struct("<BQdI")
_SUBSCRIPTION = struct.Struct("<BQ")
_EXPIRY = struct.Struct("<d")


def pack_optional(number: float | None) -> bytes:
    return _EXPIRY.pack(_NONE if number is None else number)


def unpack_optional(value: bytes) -> float | None:
    number: float = _EXPIRY.unpack(value)[0]
    return None if number != number else number


def require_layout(layout: int, what: str) -> None:
    if layout != LAYOUT:
        raise QueueStoreCorruptError(f"a {what} has the unknown layout {layout}: restore a backup")


@dataclass(slots=True)
class MessageRow:
    """A message without its content. `indexed` is what the indexes held about it when it was loaded."""

    key: int
    queue: int
    state: int
    priority: int
    available_at: float
    created_at: float
    attempts: int = 0  # deliveries so far, and the token of the current lease
    forgiven: int = 0  # attempts that a requeue took off the budget
    waiting_on: int = 0
    dependents: int = 0  # 1 when some message waits for this one
    history: int = 0  # number of the last finished attempt that was written down
    run: int = 0  # 0 is none
    most: int = -1  # deliveries that the current lease allows in all; -1 is as many as it takes
    due_at: float | None = None  # next time the state changes by itself
    leased_at: float | None = None
    expires_at: float | None = None
    failed_at: float | None = None
    ended_at: float | None = None  # when it became dead, expired or cancelled
    leased_by: str | None = None
    ordering_key: str | None = None
    dedupe_key: str | None = None
    last_error: str | None = None  # JSON
    before: int = -1  # the state it was loaded in
    said: str = ""  # what its history was last told since it was loaded
    indexed: dict[bytes, bytes] = field(default_factory=dict)

    def pack(self) -> bytes:
        texts = [
            None if text is None else keys.encoded(text)
            for text in (self.leased_by, self.ordering_key, self.dedupe_key, self.last_error)
        ]
        fixed = _MESSAGE.pack(
            LAYOUT, self.state, self.dependents, self.queue, self.priority, self.attempts, self.forgiven,
            self.waiting_on, self.history, self.most, self.run, self.available_at, self.created_at,
            _NONE if self.due_at is None else self.due_at,
            _NONE if self.leased_at is None else self.leased_at,
            _NONE if self.expires_at is None else self.expires_at,
            _NONE if self.failed_at is None else self.failed_at,
            _NONE if self.ended_at is None else self.ended_at,
            *(-1 if text is None else len(text) for text in texts),
        )  # fmt: skip
        return fixed + b"".join(filter(None, texts))

    @staticmethod
    def unpack(key: int, value: bytes) -> MessageRow:
        (layout, state, dependents, queue, priority, attempts, forgiven, waiting_on, history, most, run, available_at,
         created_at, due_at, leased_at, expires_at, failed_at, ended_at, *lengths,
         ) = _MESSAGE.unpack_from(value)  # fmt: skip
        if layout != LAYOUT:
            require_layout(layout, "message")
        row = MessageRow(
            key, queue, state, priority, available_at, created_at, attempts, forgiven, waiting_on, dependents,
            history, run, most,
            None if due_at != due_at else due_at,
            None if leased_at != leased_at else leased_at,
            None if expires_at != expires_at else expires_at,
            None if failed_at != failed_at else failed_at,
            None if ended_at != ended_at else ended_at,
        )  # fmt: skip
        if lengths != _NO_TEXTS:
            row.leased_by, row.ordering_key, row.dedupe_key, row.last_error = _texts(value, _MESSAGE.size, lengths)
        return row

    def index_entries(self) -> dict[bytes, bytes]:
        """Everything the indexes hold about this message; `check` compares them with it."""
        entries: dict[bytes, bytes] = {}
        state, queue, key = self.state, self.queue, self.key
        if state == READY:
            entries[keys.ready(queue, self.priority, self.available_at, key)] = b""
        if self.due_at is not None:
            entries[keys.timed(b"d", queue, state, self.due_at, key)] = pack_optional(self.expires_at)
        if state >= DEAD:
            assert self.ended_at is not None
            entries[keys.timed(b"e", queue, state, self.ended_at, key)] = b""
        elif self.dedupe_key is not None:
            entries[keys.dedupe(queue, self.dedupe_key)] = keys.key_bytes(key)
        if self.ordering_key is not None:
            if state <= INFLIGHT:
                entries[keys.head(queue, self.ordering_key)] = keys.key_bytes(key)
            elif state == BLOCKED:
                entries[keys.blocked_behind(queue, self.ordering_key) + keys.key_bytes(key)] = b""
        if self.run:
            entries[keys.run_member(self.run, key)] = b""
        return entries


_NO_TEXTS = [-1, -1, -1, -1]


def _texts(value: bytes, at: int, lengths: list[int]) -> list[str | None]:
    texts: list[str | None] = []
    for length in lengths:
        texts.append(None if length < 0 else value[at : at + length].decode("utf-8", "surrogatepass"))
        at += max(length, 0)
    return texts


def queue_of(value: bytes) -> int:
    """The queue of a packed message, without unpacking the rest."""
    return int.from_bytes(value[3:7], "little")


def state_of(value: bytes) -> int:
    return value[1]


def pack_content(payload: Payload, codec: str | None, headers: str | None) -> bytes:
    codec_raw = b"" if codec is None else keys.encoded(codec)
    headers_raw = b"" if headers is None else keys.encoded(headers)
    is_text = isinstance(payload, str)
    fixed = _CONTENT.pack(
        LAYOUT, is_text, -1 if codec is None else len(codec_raw), -1 if headers is None else len(headers_raw)
    )
    raw = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
    return b"".join((fixed, codec_raw, headers_raw, raw))


def unpack_content(value: bytes) -> tuple[Payload, str | None, str | None]:
    layout, is_text, *lengths = _CONTENT.unpack_from(value)
    if layout != LAYOUT:
        require_layout(layout, "payload")
    at = _CONTENT.size
    codec: str | None = None
    headers: str | None = None
    if lengths != [-1, -1]:
        codec, headers = _texts(value, at, lengths)
        at += sum(max(length, 0) for length in lengths)
    raw = value[at:]
    return (raw.decode("utf-8", "surrogatepass") if is_text else raw), codec, headers


@dataclass(slots=True)
class QueueRow:
    """A queue with its kept counts by state. `due` is a lower bound of its messages' `due_at`."""

    id: int
    name: str
    counts: list[int] = field(default_factory=lambda: [0] * len(STATES))
    due: float = rules.NEVER
    paused: bool = False
    dropped: int = 0
    subscriptions: int = 0
    packed: bytes = b""

    def pack(self) -> bytes:
        fixed = _QUEUE.pack(LAYOUT, self.paused, *self.counts, self.due, self.dropped, self.subscriptions)
        return fixed + keys.encoded(self.name)

    @staticmethod
    def unpack(queue: int, value: bytes) -> QueueRow:
        layout, paused, *counts, due, dropped, subscriptions = _QUEUE.unpack_from(value)
        if layout != LAYOUT:
            require_layout(layout, "queue")
        name = value[_QUEUE.size :].decode("utf-8", "surrogatepass")
        return QueueRow(queue, name, counts, due, bool(paused), dropped, subscriptions, value)

    def due_by(self, at: float | None) -> None:
        if at is not None and at < self.due:
            self.due = at


@dataclass(slots=True)
class RunRow:
    id: int
    name: str
    total: int = 0
    done: int = 0
    cancelled_at: float | None = None

    def pack(self) -> bytes:
        cancelled_at = _NONE if self.cancelled_at is None else self.cancelled_at
        return _RUN.pack(LAYOUT, self.total, self.done, cancelled_at) + keys.encoded(self.name)

    @staticmethod
    def unpack(run: int, value: bytes) -> RunRow:
        layout, total, done, cancelled_at = _RUN.unpack_from(value)
        require_layout(layout, "run")
        name = value[_RUN.size :].decode("utf-8", "surrogatepass")
        return RunRow(run, name, total, done, None if cancelled_at != cancelled_at else cancelled_at)


class WorkerRow(NamedTuple):
    """What a queue knows about a worker."""

    name: str
    leases: int = 0
    last_seen: float | None = None
    paused: bool = False

    def pack(self) -> bytes:
        last_seen = _NONE if self.last_seen is None else self.last_seen
        return _WORKER.pack(LAYOUT, self.paused, self.leases, last_seen) + keys.encoded(self.name)

    @staticmethod
    def unpack(value: bytes) -> WorkerRow:
        layout, paused, leases, last_seen = _WORKER.unpack_from(value)
        require_layout(layout, "worker")
        name = value[_WORKER.size :].decode("utf-8", "surrogatepass")
        return WorkerRow(name, leases, None if last_seen != last_seen else last_seen, bool(paused))


def pack_record(key: str, value: bytes, version: int, updated_at: float) -> bytes:
    raw = keys.encoded(key)
    return b"".join((_RECORD.pack(LAYOUT, version, updated_at, len(raw)), raw, value))


def unpack_record(packed: bytes) -> tuple[str, bytes, int, float]:
    layout, version, updated_at, length = _RECORD.unpack_from(packed)
    require_layout(layout, "record")
    at = _RECORD.size
    return packed[at : at + length].decode("utf-8", "surrogatepass"), packed[at + length :], version, updated_at


def pack_subscription(name: str, n: int) -> bytes:
    return _SUBSCRIPTION.pack(LAYOUT, n) + keys.encoded(name)


def unpack_subscription(value: bytes) -> tuple[str, int]:
    layout, n = _SUBSCRIPTION.unpack_from(value)
    require_layout(layout, "subscription")
    return value[_SUBSCRIPTION.size :].decode("utf-8", "surrogatepass"), n
