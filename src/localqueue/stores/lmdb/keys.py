"""The keys of the environment: one ordered map, where the first byte of a key names its table.

    meta           0x00 "localqueue"                                    magic, schema version
    namespaces     N  name                                              id, secret
    queue ids      Q  namespace, name                                   queue
    queues         q  queue                                             QueueRow: counts, due, paused, ...
    messages       M  key                                               Row: everything but the content
    contents       P  key                                               payload, codec, headers; written once
    ready          r  queue, -priority, available_at, key
    due            d  queue, state, due_at, key                         expires_at
    ended          e  queue, state, ended_at, key
    dedupe         D  queue, digest of the dedupe key                   key of the live message
    heads          H  queue, digest of the ordering key                 key of the message in delivery
    blocked        B  queue, digest of the ordering key, key
    run members    m  run, key
    attempts       a  key, n                                            one finished attempt
    dependents     u  upstream, dependent
    upstreams      w  dependent, upstream
    removed        x  key
    run ids        U  namespace, name                                   run
    runs           V  run                                               RunRow
    workers        W  queue, name                                       leases, last_seen, paused
    subscriptions  S  queue, name                                       n
    records        R  namespace, digest of the kind, key                version, updated_at, value
    journals       j  namespace                                         Switch: enabled, last seq, retention
    journal        J  namespace, seq                                    one entry

Numbers are big-endian, so that bytes sort like numbers; namespaces and queues have 4 bytes. Texts of users can be
longer than the 511 bytes of an LMDB key: where they end a key they are cut and completed by a digest, and the row holds
them whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Protocol

META = b"\x00localqueue"
NAMESPACES, QUEUE_IDS, QUEUES, MESSAGES, CONTENTS = b"N", b"Q", b"q", b"M", b"P"
READY, DUE, ENDED, DEDUPE, HEADS, BLOCKED, RUN_MEMBERS = INDEXES = b"r", b"d", b"e", b"D", b"H", b"B", b"m"
ATTEMPTS, DEPENDENTS, UPSTREAMS, REMOVED, RUN_IDS, RUNS = b"a", b"u", b"w", b"x", b"U", b"V"
WORKERS, SUBSCRIPTIONS, RECORDS, JOURNALS, JOURNAL = b"W", b"S", b"R", b"j", b"J"

LONGEST_TEXT = 400  # bytes of a text that take part in the order of the keys

_TOP = 1 << 63
_ALL = (1 << 64) - 1
_DOUBLE = struct.Struct(">d")
_NUMBER = struct.Struct(">Q")
_WITHIN = struct.Struct(">cI")
_ONE = struct.Struct(">cQ")
_PAIR = struct.Struct(">cQQ")
_ENTRY = struct.Struct(">cIQ")
_READY = struct.Struct(">cIQQQ")
_TIMED = struct.Struct(">cIBQQ")
_IN_STATE = struct.Struct(">cIB")
_ATTEMPT = struct.Struct(">cQI")


class Cursor(Protocol):
    """What we use of a cursor."""

    def set_range(self, key: bytes) -> bool: ...
    def first(self) -> bool: ...
    def last(self) -> bool: ...
    def prev(self) -> bool: ...
    def key(self) -> bytes: ...
    def iternext(self) -> Iterator[tuple[bytes, bytes]]: ...
    def close(self) -> None: ...


class Txn(Protocol):
    """What we use of a transaction, reading or writing."""

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes, dupdata: bool = True, overwrite: bool = True) -> bool: ...
    def delete(self, key: bytes) -> bool: ...
    def cursor(self) -> Cursor: ...


# numbers and texts as bytes


def ordered(number: float) -> int:
    """A 64-bit number that sorts like the float."""
    bits: int = _NUMBER.unpack(_DOUBLE.pack(number))[0]
    return bits ^ (_ALL if bits & _TOP else _TOP)


def unordered(bits: int) -> float:
    number: float = _DOUBLE.unpack(_NUMBER.pack(bits ^ (_TOP if bits & _TOP else _ALL)))[0]
    return number


number = _NUMBER.pack


def last_number(key: bytes) -> int:
    """The number that many keys (and some values) end with."""
    return int.from_bytes(key[-8:], "big")


def first_number(key: bytes) -> int:
    """The number behind the table."""
    return int.from_bytes(key[1:9], "big")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def text_key(text: str) -> bytes:
    """The text as the end of a key: sorts like the text up to `LONGEST_TEXT` bytes, and is never ambiguous."""
    raw = encoded(text)
    return raw if len(raw) <= LONGEST_TEXT else raw[:LONGEST_TEXT] + blake2b(raw, digest_size=32).digest()


def digest(text: str) -> bytes:
    """192 bits that stand for the text where only equality matters."""
    return blake2b(encoded(text), digest_size=24).digest()


# keys, and the beginnings of keys to walk over

within = _WITHIN.pack  # all of a queue's or a namespace's in a table
one = _ONE.pack  # what a table has about a message or a run
pair = _PAIR.pack
entry = _ENTRY.pack  # of a journal
attempt = _ATTEMPT.pack
of_state = _IN_STATE.pack  # a queue's in one state, in the tables `due` and `ended`


def message(key: int) -> bytes:
    return _ONE.pack(b"M", key)


def named(table: bytes, number: int, name: str) -> bytes:
    """Something with a name, of a queue or a namespace."""
    return _WITHIN.pack(table, number) + text_key(name)


def held(table: bytes, queue: int, key: str) -> bytes:
    """A dedupe key or an ordering key of a queue."""
    return _WITHIN.pack(table, queue) + digest(key)


def record(namespace: int, kind: str, key: str) -> bytes:
    return held(RECORDS, namespace, kind) + text_key(key)


def ready(queue: int, priority: int, available_at: float, key: int) -> bytes:
    return _READY.pack(b"r", queue, _TOP - 1 - priority, ordered(available_at), key)


def ready_parts(ready_key: bytes) -> tuple[float, int]:
    """`available_at` and the message's key."""
    _, _, _, at, key = _READY.unpack(ready_key)
    return unordered(at), key


def line_of(ready_key: bytes) -> tuple[bytes, bytes]:
    """What the ready messages of the same priority begin with, and where those of lower priority start."""
    _, queue, inverted, _, _ = _READY.unpack(ready_key)
    after = _ENTRY.pack(b"r", queue, inverted + 1) if inverted < _ALL else _WITHIN.pack(b"r", queue + 1)
    return _ENTRY.pack(b"r", queue, inverted), after


def timed(table: bytes, queue: int, state: int, at: float, key: int) -> bytes:
    """A key of the tables `due` and `ended`."""
    return _TIMED.pack(table, queue, state, ordered(at), key)


def timed_parts(timed_key: bytes) -> tuple[float, int]:
    """The time and the message's key."""
    _, _, _, at, key = _TIMED.unpack(timed_key)
    return unordered(at), key


# looking


def walk(txn: Txn, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Entries whose keys begin with `prefix`, ascending, from `start` on. Not for changing what it walks over."""
    cursor = txn.cursor()
    try:
        if cursor.set_range(prefix if start is None else start):
            for key, value in cursor.iternext():
                if not key.startswith(prefix):
                    return
                yield key, value
    finally:
        cursor.close()


def walk_keys(txn: Txn, prefix: bytes, start: bytes | None = None) -> Iterator[bytes]:
    return (key for key, _ in walk(txn, prefix, start))


def walk_keys_back(txn: Txn, prefix: bytes, end: bytes) -> Iterator[bytes]:
    """Keys that begin with `prefix`, descending, those before `end`."""
    cursor = txn.cursor()
    try:
        found = cursor.prev() if cursor.set_range(end) else cursor.last()
        while found and (key := cursor.key()).startswith(prefix):
            yield key
            found = cursor.prev()
    finally:
        cursor.close()


def next_number(txn: Txn, table: bytes, size: int) -> int:
    """One more than the highest number in a table whose keys are numbers of `size` bytes."""
    last = next(walk_keys_back(txn, table, bytes([table[0] + 1])), b"")
    return int.from_bytes(last[1 : 1 + size], "big") + 1
