"""The journal: a switch in the environment, and entries that a transaction appends when it is done."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from localqueue.events.event import ENQUEUED
from localqueue.events.journal import JOURNAL_CODES, JOURNAL_TYPES, JournalEvent
from localqueue.ids import Mint
from localqueue.stores.engine.port import Note
from localqueue.stores.engine.row import Row, from_json, options_of, to_json
from localqueue.stores.lmdb import keys, reads, schema
from localqueue.stores.lmdb.keys import Txn
from localqueue.stores.lmdb.schema import LAYOUT
from localqueue.stores.port import NewMessage

_NONE = math.nan  # stands for None in a float field; no time is ever NaN
_SWITCH = struct.Struct("<BBQdq")
_ENTRY = struct.Struct("<BBIQdiii")
_SPARE = 8  # how many more entries than twice those it wrote a transaction may remove


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
        value = txn.get(keys.within(keys.JOURNALS, namespace))
        if value is None:
            return Switch()
        layout, enabled, last, seconds, events = _SWITCH.unpack(value)
        schema.require_layout(layout, "journal")
        return Switch(bool(enabled), last, None if seconds != seconds else seconds, events or None)

    def write(self, txn: Txn, namespace: int) -> None:
        txn.put(keys.within(keys.JOURNALS, namespace), self.pack())


def set_kept(txn: Txn, namespace: int, enabled: bool, keep_seconds: float | None, keep_events: int | None) -> None:
    Switch(enabled, Switch.read(txn, namespace).last, keep_seconds, keep_events).write(txn, namespace)


def append(txn: Txn, namespace: int, switch: Switch, notes: Sequence[Note], now: float) -> None:
    """Append entries, and let go of some that are beyond what the journal keeps.

    An enqueued message has no error and no attempt: where the error stands are its options, and its content follows.
    """
    for note in notes:
        row, message, attempt, text, content = note.row, note.message, note.attempt, note.error, b""
        if message is not None:
            attempt, text = -1, _options(row, message, now)
            content = schema.pack_content(message.payload, message.codec, message.headers)
        lengths, texts = schema.pack_texts(note.leased_by, text)
        switch.last += 1
        fixed = _ENTRY.pack(LAYOUT, JOURNAL_CODES[note.type], row.queue, row.key, now, attempt, *lengths)
        txn.put(keys.entry(keys.JOURNAL, namespace, switch.last), fixed + texts + content)
    switch.write(txn, namespace)
    if switch.keep_seconds is not None or switch.keep_events is not None:
        _let_go(txn, namespace, switch, now, 2 * len(notes) + _SPARE)


def _options(row: Row, message: NewMessage, now: float) -> str | None:
    """Without the headers, which are part of the content."""
    return to_json(options_of(row, message._replace(headers=None), now))


def _let_go(txn: Txn, namespace: int, switch: Switch, now: float, most: int) -> None:
    first = switch.last - (switch.keep_events or switch.last) + 1
    since = -math.inf if switch.keep_seconds is None else now - switch.keep_seconds
    gone = [
        key
        for key, value in islice(keys.walk(txn, keys.within(keys.JOURNAL, namespace)), most)
        if keys.last_number(key) < first or _ENTRY.unpack_from(value)[4] < since
    ]
    for key in gone:
        txn.delete(key)


def events(txn: Txn, ids: Mint, namespace: int, after: int, limit: int | None, queue: int | None) -> list[JournalEvent]:
    names: dict[int, str] = {}
    entries = keys.walk(txn, keys.within(keys.JOURNAL, namespace), keys.entry(keys.JOURNAL, namespace, after + 1))
    wanted = (entry for entry in entries if queue is None or _ENTRY.unpack_from(entry[1])[2] == queue)
    return [_event(txn, ids, names, key, value) for key, value in islice(wanted, limit)]


def _event(txn: Txn, ids: Mint, names: dict[int, str], key: bytes, value: bytes) -> JournalEvent:
    layout, code, queue, message, at, attempt, *lengths = _ENTRY.unpack_from(value)
    schema.require_layout(layout, "journal entry")
    (worker, error), end = schema.unpack_texts(value, _ENTRY.size, lengths)
    payload, codec, headers = schema.unpack_content(value[end:]) if end < len(value) else (None, None, None)
    described = from_json(error)
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
    first = next(keys.walk_keys(txn, keys.within(keys.JOURNAL, namespace)), None)
    return (last + 1 if first is None else keys.last_number(first)), last


def prune(txn: Txn, namespace: int, until: float, through: int | None) -> int:
    entries = keys.walk(txn, keys.within(keys.JOURNAL, namespace))
    if through is not None:
        last = keys.entry(keys.JOURNAL, namespace, max(through, 0))
        entries = takewhile(lambda entry: entry[0] <= last, entries)
    gone = [key for key, value in entries if _ENTRY.unpack_from(value)[4] <= until]
    for key in gone:
        txn.delete(key)
    return len(gone)
