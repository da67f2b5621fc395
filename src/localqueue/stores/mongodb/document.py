"""A message as a document, as a row that the engine decides about, and as the port shows it.

The fields of a document; those that are None are left out:

    _id  key          n   namespace     q   queue         s   state         p   priority      a   attempts
    c    created_at   at  available_at  due next timer    x   expires_at    e   ended_at      b   payload
    co   codec        hd  headers       dk  dedupe key    u   the same while it is live        ok  ordering key
    r    run          w   waiting on    dep dependents    la  leased_at     lb  leased_by     m   most attempts
    fg   forgiven     er  last error    ft  failed_at     h   finished attempts
    k    what listeners are to hear                       j   1: written by a transaction that keeps a journal

What listeners hear (`k`, also of the one document of `lq_wakes`): `c` is the channel, `ready:<namespace>` for messages
that can be claimed, `room:<namespace>` for those that left the ready ones, `run:<namespace>` for changes of a run,
`record:<namespace>` for records, which tell of themselves in their field `told`. `q` is the queue, or a number that
stands for the record. `t` makes it differ from what was said before, because the server tells of fields that changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar
from zlib import crc32

from bson.int64 import Int64
from bson.objectid import ObjectId

from localqueue.errors import PayloadError
from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.engine.row import BLOCKED, DEAD, DELAYED, INFLIGHT, READY, WAITING, Row, from_json, to_json
from localqueue.stores.port import STATES, NewMessage, Payload, StoredMessage
from localqueue.stores.rules import Attempt

K = TypeVar("K")
V = TypeVar("V")
Document = dict[str, Any]

LIVE = [READY, DELAYED, INFLIGHT, WAITING, BLOCKED]
HEADS = [READY, DELAYED, INFLIGHT]

#: Everything but the content, for a transaction that only moves the message.
WITHOUT_CONTENT = {"b": 0, "hd": 0, "co": 0, "h": 0}

#: Bytes of content: a document has 16 MB, and room must be left for a lease and the errors of the last attempts.
LARGEST = 15 * 1024 * 1024

#: The channels of listeners.
TO_CLAIM, ROOM, RUN, RECORD = "ready", "room", "run", "record"


def row_of(document: Document) -> Row:
    get, state = document.get, document["s"]
    return Row(
        document["_id"], document["q"], state, document["p"], document["c"], document["at"], document["a"], get("x"),
        get("e"), get("due") if state == INFLIGHT else None, get("la"), get("lb"), get("m"), get("fg", 0), get("w", 0),
        get("dep", 0), 0, get("r"), get("ok"), get("dk"), get("er"), get("ft"),
    )  # fmt: skip


def fields_of(row: Row) -> Document:
    """What can change of a message."""
    return {
        "s": row.state, "a": row.attempts, "at": row.available_at, "due": row.due_at, "e": row.ended_at,
        "x": row.expires_at, "la": row.leased_at, "lb": row.leased_by, "m": row.most, "er": row.last_error,
        "ft": row.failed_at, "fg": row.forgiven or None, "w": row.waiting_on or None, "dep": row.dependents or None,
        "u": row.dedupe_key if row.state < DEAD else None,
    }  # fmt: skip


def to_fields(fields: Document) -> Document:
    """The update that gives a document these fields, or takes away those that are None."""
    return {
        "$set": {name: value for name, value in fields.items() if value is not None},
        "$unset": {name: "" for name, value in fields.items() if value is None},
    }


def new_document(namespace: int, row: Row, message: NewMessage) -> Document:
    _require_room(message.payload, message.headers, row.dedupe_key, row.dedupe_key, row.ordering_key)
    document: Document = {
        "_id": Int64(row.key), "n": namespace, "q": row.queue, "p": row.priority, "c": row.created_at,
        "b": message.payload, "co": message.codec, "hd": message.headers, "dk": row.dedupe_key,
        "ok": row.ordering_key, "r": row.run, **fields_of(row),
    }  # fmt: skip
    if message.past is not None and (attempts := rules.attempts_of(message.past.history)):
        document["h"] = [attempt_values(one) for one in attempts]
    return {name: value for name, value in document.items() if value is not None}


def _require_room(*content: Payload | None) -> None:
    parts = [part for part in content if part]
    size = sum(map(len, parts))
    if size > LARGEST // 4:  # a character has up to four bytes
        size = sum(len(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part) for part in parts)
    if size > LARGEST:
        raise PayloadError(
            f"a message of {size} bytes is larger than the 15 MB that MongoDB keeps of one, as a document of 16 MB "
            "also holds the errors of its attempts; put the content elsewhere and its address into the message"
        )


def attempt_values(attempt: Attempt) -> list[Any]:
    return [*attempt[:5], to_json(attempt.error)]


def _attempt_of(attempt: int, event: str, at: float, since: float | None, by: str | None, error: str | None) -> Attempt:
    return Attempt(attempt, event, at, since, by, from_json(error))


def plain(namespace: int, key: int, queue: int, payload: Payload, codec: str | None, now: float) -> Document:
    """The document of a message without options."""
    _require_room(payload)
    document = {
        "_id": Int64(key), "n": namespace, "q": queue, "s": READY, "p": 0, "a": 0, "c": now, "at": now, "b": payload,
    }  # fmt: skip
    if codec is not None:
        document["co"] = codec
    return document


def simple(namespace: int, key: int, queue: int, state: int, message: NewMessage, now: float) -> Document:
    """The document of a new message that nothing but its keys and times decide about: what `new_document` makes of one,
    in half the time."""
    _require_room(message.payload, message.headers, message.dedupe_key, message.dedupe_key, message.ordering_key)
    document = plain(namespace, key, queue, message.payload, message.codec, now)
    document["s"], document["p"], document["at"] = state, message.priority, now + message.delay
    if message.ttl is not None:
        document["x"] = now + message.ttl
    due = rules.due_at(STATES[state], available_at=document["at"], expires_at=document.get("x"))
    if due is not None:
        document["due"] = due
    if message.dedupe_key is not None:
        document["dk"] = document["u"] = message.dedupe_key
    if message.ordering_key is not None:
        document["ok"] = message.ordering_key
    if message.headers is not None:
        document["hd"] = message.headers
    return document


def stored_message(ids: Mint, document: Document, queue: str) -> StoredMessage:
    """A whole document as the port shows it."""
    get = document.get
    state, attempts = document["s"], document["a"]
    leased_at, leased_by = get("la"), get("lb")
    finished = [_attempt_of(*one) for one in document["h"]] if "h" in document else ()
    return StoredMessage(
        ids.id_of(document["_id"]), queue, STATES[state], document["b"], get("co"), document["p"], attempts,
        document["c"], document["at"], get("due") if state == INFLIGHT else None, leased_by,
        from_json(get("er")), get("ft"), get("dk"), get("ok"), get("x"), get("r"), get("hd"),
        get("w", 0), rules.history(finished, attempts=attempts, leased_at=leased_at, leased_by=leased_by),
        get("fg", 0),
    )  # fmt: skip


def numbers(keys: Iterable[int]) -> list[Int64]:
    return [Int64(key) for key in keys]


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def channel(kind: str, namespace: int) -> str:
    return f"{kind}:{namespace}"


def record_number(kind: str, key: str) -> int:
    """Two records with the same number cost a look at the store and nothing else."""
    return crc32(key.encode(), crc32(kind.encode()))


def say(kind: str, namespace: int, queue: int) -> Document:
    return {"c": channel(kind, namespace), "q": queue, "t": ObjectId()}
