"""The journal: a switch in the environment, and entries that a transaction appends when it is done."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, NamedTuple

from localqueue.events.event import ENQUEUED
from localqueue.events.journal import JOURNAL_TYPES, JournalEvent
from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.lmdb import keys, reads
from localqueue.stores.lmdb.driver import Txn
from localqueue.stores.lmdb.rows import LAYOUT, require_layout, unpack_content

_NONE = math.nan  # stands for None in a float field; no time is ever NaN
_SWITCH = struct.Struct("<BBQdq")
_ENTRY = struct.Struct("<BBIQdiii")
_SPARE = 8  # how many more entries than twice those it wrote a transaction may remove


class Entry(NamedTuple):
    """What a transaction will append.

    `content` is that of an enqueued message. It has no error: what stands there are its options, without the headers,
    which are part of the content.
    """

    type: int
    queue: int
    key: int
    attempt: int
    worker: str | None = None
    error: str | None = None
    content: bytes = b""


@dataclass(slots=True)
class Switch:
    """Whether a namespace keeps a journal, how long, and the number of the last entry it ever wrote."""

    enabled: bool = False
    last: int = 0
    keep_seconds: float | None = None
    keep_events: int | None = None

    def pack(self) -> bytes:
        seconds = _NONE if self.keep_seconds is None else self.keep_seconds
        return _SWITCH.pack(LAYOUT, self.enabled, self.last, seconds, self.keep_events or 0)

    @staticmethod
    def read(txn: Txn, namespace: int) -> Switch:
        value = txn.get(keys.journal_switch(namespace))
        if value is None:
            return Switch()
        layout, enabled, last, seconds, events = _SWITCH.unpack(value)
        require_layout(layout, "journal")
        return Switch(bool(enabled), last, None if seconds != seconds else seconds, events or None)

    def write(self, txn: Txn, namespace: int) -> None:
        txn.put(keys.journal_switch(namespace), self.pack())


def append(txn: Txn, namespace: int, switch: Switch, entries: list[Entry], now: float) -> None:
    """Append entries, and let go of some that are beyond what the journal keeps."""
    for entry in entries:
        switch.last += 1
        texts = [None if text is None else keys.encoded(text) for text in (entry.worker, entry.error)]
        fixed = _ENTRY.pack(
            LAYOUT, entry.type, entry.queue, entry.key, now, entry.attempt,
            *(-1 if text is None else len(text) for text in texts),
        )  # fmt: skip
        txn.put(keys.journal_entry(namespace, switch.last), b"".join((fixed, *filter(None, texts), entry.content)))
    switch.write(txn, namespace)
    if switch.keep_seconds is not None or switch.keep_events is not None:
        _let_go(txn, namespace, switch, now, 2 * len(entries) + _SPARE)


def _let_go(txn: Txn, namespace: int, switch: Switch, now: float, most: int) -> None:
    first = switch.last - (switch.keep_events or switch.last) + 1
    since = -math.inf if switch.keep_seconds is None else now - switch.keep_seconds
    gone = [
        key
        for key, value in islice(keys.walk(txn, keys.journal_of(namespace)), most)
        if keys.last_number(key) < first or _ENTRY.unpack_from(value)[4] < since
    ]
    for key in gone:
        txn.delete(key)


def events(txn: Txn, ids: Mint, namespace: int, after: int, limit: int | None, queue: int | None) -> list[JournalEvent]:
    names: dict[int, str] = {}
    entries = keys.walk(txn, keys.journal_of(namespace), keys.journal_entry(namespace, max(after, 0) + 1))
    wanted = (entry for entry in entries if queue is None or _ENTRY.unpack_from(entry[1])[2] == queue)
    return [_event(txn, ids, names, key, value) for key, value in islice(wanted, limit)]


def _event(txn: Txn, ids: Mint, names: dict[int, str], key: bytes, value: bytes) -> JournalEvent:
    layout, code, queue, message, at, attempt, *lengths = _ENTRY.unpack_from(value)
    require_layout(layout, "journal entry")
    position = _ENTRY.size
    texts: list[str | None] = []
    for length in lengths:
        texts.append(None if length < 0 else value[position : position + length].decode("utf-8", "surrogatepass"))
        position += max(length, 0)
    worker, error = texts
    payload, codec, headers = unpack_content(value[position:]) if position < len(value) else (None, None, None)
    described = None if error is None else json.loads(error)
    options = None
    if JOURNAL_TYPES[code - 1] == ENQUEUED:
        described, options = None, described
        if headers is not None:
            options = {**(options or {}), "headers": json.loads(headers)}
    if queue not in names:
        names[queue] = reads.queue_row(txn, queue).name
    return JournalEvent(
        keys.last_number(key), at, JOURNAL_TYPES[code - 1], names[queue], ids.id_of(message),
        None if attempt < 0 else attempt, worker, described, payload, codec, options,
    )  # fmt: skip


def span(txn: Txn, namespace: int) -> tuple[int, int]:
    last = Switch.read(txn, namespace).last
    first = next(keys.walk_keys(txn, keys.journal_of(namespace)), None)
    return (last + 1 if first is None else keys.last_number(first)), last


def prune(txn: Txn, namespace: int, until: float, through: int | None) -> int:
    entries = keys.walk(txn, keys.journal_of(namespace))
    if through is not None:
        last = keys.journal_entry(namespace, max(through, 0))
        entries = takewhile(lambda entry: entry[0] <= last, entries)
    gone = [key for key, value in entries if _ENTRY.unpack_from(value)[4] <= until]
    for key in gone:
        txn.delete(key)
    return len(gone)


class KeepsJournal:
    """The journal's part of the port, for a store with `_read` and `_write`."""

    ids: Mint
    namespace_id: int
    _read: Callable[[Callable[[Txn], Any]], Any]
    _write: Callable[[Callable[[Any], Any]], Any]
    _find_queue: Callable[[str], int | None]

    def enable_journal(self, *, keep_seconds: float | None = None, keep_events: int | None = None) -> None:
        rules.check_retention(keep_seconds, keep_events)
        self._write(lambda tx: self._switch(tx.txn, True, keep_seconds, keep_events))

    def disable_journal(self) -> None:
        self._write(lambda tx: self._switch(tx.txn, False, None, None))

    def _switch(self, txn: Txn, enabled: bool, keep_seconds: float | None, keep_events: int | None) -> None:
        last = Switch.read(txn, self.namespace_id).last
        Switch(enabled, last, keep_seconds, keep_events).write(txn, self.namespace_id)

    def journal_enabled(self) -> bool:
        return bool(self._read(lambda txn: Switch.read(txn, self.namespace_id).enabled))

    def events(self, after: int = 0, limit: int | None = None, queue: str | None = None) -> list[JournalEvent]:
        wanted = None if queue is None else self._find_queue(queue)
        if queue is not None and wanted is None:
            return []
        found: list[JournalEvent] = self._read(
            lambda txn: events(txn, self.ids, self.namespace_id, after, limit, wanted)
        )
        return found

    def journal_span(self) -> tuple[int, int]:
        found: tuple[int, int] = self._read(lambda txn: span(txn, self.namespace_id))
        return found

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        return int(self._write(lambda tx: prune(tx.txn, self.namespace_id, tx.now - older_than, through)))
