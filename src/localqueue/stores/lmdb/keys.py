"""The keys of the environment: one ordered map, where the first byte of a key names its table.

    meta           0x00 "localqueue"                                    magic, schema version
    namespaces     N  name                                              id, secret
    queue ids      Q  namespace, name                                   queue
    queues         q  queue                                             QueueRow: counts, due, paused, ...
    messages       M  key                                               MessageRow: everything but the content
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

Numbers are big-endian, so that bytes sort like numbers. Texts of users can be longer than the 511 bytes of an LMDB
key: where they end a key they are cut and completed by a digest, and the row holds them whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from localqueue.stores.lmdb.driver import Txn

META = b"\x00localqueue"
INDEX_TABLES = (b"r", b"d", b"e", b"D", b"H", b"B", b"m")

LONGEST_TEXT = 400  # bytes of a text that take part in the order of the keys

_TOP = 1 << 63
_ALL = (1 << 64) - 1
_DOUBLE = struct.Struct(">d")
_BITS = struct.Struct(">Q")
_ONE = struct.Struct(">cQ")
_TWO = struct.Struct(">cQQ")
_READY = struct.Struct(">cIQQQ")
_TIMED = struct.Struct(">cIBQQ")
_ATTEMPT = struct.Struct(">cQI")
_IN_QUEUE = struct.Struct(">cI")
_IN_STATE = struct.Struct(">cIB")
_KEY = struct.Struct(">Q")


def ordered(number: float) -> int:
    """A 64-bit number that sorts like the float."""
    bits: int = _BITS.unpack(_DOUBLE.pack(number))[0]
    return bits ^ (_ALL if bits & _TOP else _TOP)


def unordered(bits: int) -> float:
    number: float = _DOUBLE.unpack(_BITS.pack(bits ^ (_TOP if bits & _TOP else _ALL)))[0]
    return number


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def text_key(text: str) -> bytes:
    """The text as the end of a key: sorts like the text up to `LONGEST_TEXT` bytes, and is never ambiguous."""
    raw = encoded(text)
    return raw if len(raw) <= LONGEST_TEXT else raw[:LONGEST_TEXT] + blake2b(raw, digest_size=32).digest()


def digest(text: str) -> bytes:
    """192 bits that stand for the text where only equality matters."""
    return blake2b(encoded(text), digest_size=24).digest()


def key_bytes(key: int) -> bytes:
    return _KEY.pack(key)


def last_number(key: bytes) -> int:
    """The message key that many keys (and some values) end with."""
    return int.from_bytes(key[-8:], "big")


def namespace(name: str) -> bytes:
    return b"N" + text_key(name)


def queue_id(namespace_id: int, name: str) -> bytes:
    return _IN_QUEUE.pack(b"Q", namespace_id) + text_key(name)


def queue_ids(namespace_id: int) -> bytes:
    return _IN_QUEUE.pack(b"Q", namespace_id)


def queue(queue: int) -> bytes:
    return _IN_QUEUE.pack(b"q", queue)


def message(key: int) -> bytes:
    return _ONE.pack(b"M", key)


def content(key: int) -> bytes:
    return _ONE.pack(b"P", key)


def ready(queue: int, priority: int, available_at: float, key: int) -> bytes:
    return _READY.pack(b"r", queue, _TOP - 1 - priority, ordered(available_at), key)


def ready_of(queue: int) -> bytes:
    return _IN_QUEUE.pack(b"r", queue)


def ready_parts(ready_key: bytes) -> tuple[int, float, int]:
    """The inverted priority, `available_at` and the message's key."""
    _, _, inverted, at, key = _READY.unpack(ready_key)
    return inverted, unordered(at), key


def next_priority(queue: int, inverted: int) -> bytes | None:
    """Where the ready messages of lower priority start."""
    return None if inverted == _ALL else _IN_QUEUE.pack(b"r", queue) + _BITS.pack(inverted + 1)


def timed(table: bytes, queue: int, state: int, at: float, key: int) -> bytes:
    """A key of the tables `d` (due) and `e` (ended)."""
    return _TIMED.pack(table, queue, state, ordered(at), key)


def timed_of(table: bytes, queue: int, state: int) -> bytes:
    return _IN_STATE.pack(table, queue, state)


def timed_parts(timed_key: bytes) -> tuple[int, float, int]:
    """State, time and the message's key."""
    _, _, state, at, key = _TIMED.unpack(timed_key)
    return state, unordered(at), key


def dedupe(queue: int, dedupe_key: str) -> bytes:
    return _IN_QUEUE.pack(b"D", queue) + digest(dedupe_key)


def head(queue: int, ordering_key: str) -> bytes:
    return _IN_QUEUE.pack(b"H", queue) + digest(ordering_key)


def blocked_behind(queue: int, ordering_key: str) -> bytes:
    return _IN_QUEUE.pack(b"B", queue) + digest(ordering_key)


def blocked_of(queue: int) -> bytes:
    return _IN_QUEUE.pack(b"B", queue)


def run_member(run: int, key: int) -> bytes:
    return _TWO.pack(b"m", run, key)


def run_members(run: int) -> bytes:
    return _ONE.pack(b"m", run)


def attempt(key: int, n: int) -> bytes:
    return _ATTEMPT.pack(b"a", key, n)


def attempts(key: int) -> bytes:
    return _ONE.pack(b"a", key)


def dependent(upstream: int, dependent: int) -> bytes:
    return _TWO.pack(b"u", upstream, dependent)


def dependents(upstream: int) -> bytes:
    return _ONE.pack(b"u", upstream)


def upstream(dependent: int, upstream: int) -> bytes:
    return _TWO.pack(b"w", dependent, upstream)


def upstreams(dependent: int) -> bytes:
    return _ONE.pack(b"w", dependent)


def removed(key: int) -> bytes:
    return _ONE.pack(b"x", key)


def run_id(namespace_id: int, name: str) -> bytes:
    return _IN_QUEUE.pack(b"U", namespace_id) + text_key(name)


def run_ids(namespace_id: int) -> bytes:
    return _IN_QUEUE.pack(b"U", namespace_id)


def run(run: int) -> bytes:
    return _ONE.pack(b"V", run)


def worker(queue: int, name: str) -> bytes:
    return _IN_QUEUE.pack(b"W", queue) + text_key(name)


def workers(queue: int) -> bytes:
    return _IN_QUEUE.pack(b"W", queue)


def subscription(queue: int, name: str) -> bytes:
    return _IN_QUEUE.pack(b"S", queue) + text_key(name)


def subscriptions(queue: int) -> bytes:
    return _IN_QUEUE.pack(b"S", queue)


def records(namespace_id: int, kind: str) -> bytes:
    return _IN_QUEUE.pack(b"R", namespace_id) + digest(kind)


def record(namespace_id: int, kind: str, key: str) -> bytes:
    return records(namespace_id, kind) + text_key(key)


def journal_switch(namespace_id: int) -> bytes:
    return _IN_QUEUE.pack(b"j", namespace_id)


def journal_of(namespace_id: int) -> bytes:
    return _IN_QUEUE.pack(b"J", namespace_id)


def journal_entry(namespace_id: int, seq: int) -> bytes:
    return _IN_QUEUE.pack(b"J", namespace_id) + _KEY.pack(seq)


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
    cursor = txn.cursor()
    try:
        if cursor.set_range(prefix if start is None else start):
            key: Any
            for key in cursor.iternext(values=False):
                if not key.startswith(prefix):
                    return
                yield key
    finally:
        cursor.close()


def next_number(txn: Txn, table: bytes, size: int) -> int:
    """One more than the highest number in a table whose keys are numbers of `size` bytes."""
    cursor = txn.cursor()
    try:
        found = cursor.prev() if cursor.set_range(bytes([table[0] + 1])) else cursor.last()
        key = cursor.key() if found else b""
        return int.from_bytes(key[1 : 1 + size], "big") + 1 if key[:1] == table else 1
    finally:
        cursor.close()
