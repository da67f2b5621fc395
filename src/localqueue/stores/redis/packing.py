"""A commit as arguments of a function, in the order in which the function reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, RecordWrite, Settle, StoredMessage
from localqueue.stores.redis.names import digest
from localqueue.stores.redis.values import number, optional, sized, tail, to_json

Digest = Callable[[str], bytes]

_NEVER = b"never"  # no version is written like this


def count(of: Sequence[object]) -> bytes:
    return str(len(of)).encode()


def flag(value: object) -> bytes:
    return b"1" if value else b"0"


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


def is_step(changes: Changes) -> bool:
    """Whether it is what a worker does all day: acks of leases, records and the next lease."""
    return not (changes.enqueue or changes.edges or changes.topics) and all(
        one.action == "ack" and one.token is not None for one in changes.settle
    )


def key_of(ids: Mint, message_id: str) -> bytes:
    key = ids.key_of(message_id)
    return b"" if key is None else key.to_bytes(8)


def own_key(ids: Mint, message_id: str) -> bytes:
    key = key_of(ids, message_id)
    if not key:
        raise ValueError(f"{message_id!r} is not an id of this namespace; ids of new messages come from mint()")
    return key


def new_message(ids: Mint, queue: Digest, message: NewMessage) -> list[bytes]:
    parts = [
        own_key(ids, message.id), queue(message.queue),
        tail(message.payload, message.codec, message.priority, message.headers),
    ]  # fmt: skip
    if is_plain(message):
        parts.append(b"p")
        return parts
    run = None if message.run_id is None else b"=" + digest(message.run_id) + message.run_id.encode()
    parts += [
        b"x" if message.past is None else b"o", number(message.delay), number(message.ttl),
        optional(message.dedupe_key), optional(message.ordering_key), run or b"",
        count(message.after), *(key_of(ids, one) for one in message.after),
    ]  # fmt: skip
    if message.past is not None:
        parts += _past(message.past)
    return parts


def _past(past: StoredMessage) -> list[bytes]:
    ended = past.state in rules.ENDED
    attempts = rules.attempts_of(past.history)
    parts = [
        number(past.created_at), number(past.available_at), number(past.expires_at), number(past.attempts),
        number(past.forgiven), optional(to_json(past.last_error)), number(past.failed_at),
        optional(past.state if ended else None), number(rules.ended_at(past) if ended else None), count(attempts),
    ]  # fmt: skip
    for one in attempts:
        parts += [
            number(one.attempt), one.event.encode(), number(one.at), number(one.leased_at), optional(one.leased_by),
            optional(to_json(one.error)),
        ]  # fmt: skip
    return parts


def settle(ids: Mint, queue: Digest, one: Settle) -> tuple[bytes, ...]:
    return (
        queue(one.queue), key_of(ids, one.id), one.action.encode(), number(one.token), number(one.delay),
        optional(to_json(one.error)), number(one.max_attempts), flag(one.forgive),
    )  # fmt: skip


def records(ids: Mint, writes: Sequence[RecordWrite]) -> list[bytes]:
    parts = [count(writes)]
    for kind, key, value, expect in writes:
        version = ids.reserve().to_bytes(8) if value is not None else b""
        parts += [kind.encode(), key.encode(), b"" if value is None else b"=" + value, version, _expected(expect)]
    return parts


def _expected(version: int | None) -> bytes:
    if version is None:
        return b""
    return version.to_bytes(8) if 0 <= version < 1 << 64 else _NEVER


def lease(queue: Digest, request: LeaseRequest) -> tuple[bytes, ...]:
    ledger = None
    if request.ledger is not None:
        ledger = b"=" + sized(request.ledger.encode()) + request.queue.encode() + b":"
    return (
        queue(request.queue), number(request.limit), number(request.timeout), optional(request.leased_by),
        number(request.max_attempts), flag(request.consume), flag(request.counted), ledger or b"",
    )  # fmt: skip


def step(ids: Mint, queue: Digest, changes: Changes) -> list[bytes]:
    parts = [flag(changes.strict), count(changes.settle)]
    for one in changes.settle:
        parts += (queue(one.queue), key_of(ids, one.id), number(one.token))
    return parts + _ending(ids, queue, changes)


def commit(ids: Mint, queue: Digest, changes: Changes, in_order: Sequence[NewMessage]) -> list[bytes]:
    parts = [flag(changes.strict), str(len(changes.topics)).encode()]
    for topic, version in changes.topics.items():
        parts += (queue(topic), number(version))
    parts.append(str(len(changes.limits)).encode())
    for name, limit in changes.limits.items():
        spill = None if limit.overflow_queue is None else b"=" + queue(limit.overflow_queue)
        if limit.overflow == "overflow-queue" and spill is None:
            raise ValueError(f"limit {limit!r} names no overflow_queue")
        parts += (queue(name), number(limit.maxsize), limit.overflow.encode(), spill or b"")
    parts.append(count(in_order))
    for message in in_order:
        parts += new_message(ids, queue, message)
    parts.append(count(changes.edges))
    for edge in changes.edges:
        parts += (key_of(ids, edge.upstream), key_of(ids, edge.dependent))
    parts.append(count(changes.settle))
    for one in changes.settle:
        parts += settle(ids, queue, one)
    return parts + _ending(ids, queue, changes)


def _ending(ids: Mint, queue: Digest, changes: Changes) -> list[bytes]:
    parts = records(ids, changes.records)
    if changes.lease is None:
        parts.append(b"0")
    else:
        parts += (b"1", *lease(queue, changes.lease))
    return parts
