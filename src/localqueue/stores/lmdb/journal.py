"""The journal: a switch in the environment, and entries that a transaction appends when it is done."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from localqueue.events.event import ENQUEUED
from localqueue.events.journal import JOURNAL_CODES, JOURNAL_TYPES, JournalEvent
from localqueue.stores import retention
from localqueue.stores.engine.port import Note
from localqueue.stores.engine.row import Row, from_json, options_of, to_json
from localqueue.stores.lmdb import keys, schema
from localqueue.stores.lmdb.reads import Reads
from localqueue.stores.lmdb.schema import LAYOUT
from localqueue.stores.port import NewMessage

_ENTRY = struct.Struct("<BBIQdiii")
_SPARE = 8  # how many more entries than twice those it wrote a transaction may remove


@dataclass(slots=True)
class Switch:
    """Whether a namespace keeps a journal, how long, and the number of the last entry it ever wrote."""

    enabled: bool = False
    last: int = 0
    keep_seconds: float | None = None
    keep_events: int | None = None

    @staticmethod
    def read(reads: Reads) -> Switch:
        value = reads.txn.get(keys.within(keys.JOURNALS, reads.namespace))
        if value is None:
            return Switch()
        _, enabled, last, seconds, events = schema.JOURNAL.unpack(value)
        return Switch(bool(enabled), last, seconds, events or None)

    def write(self, reads: Reads) -> None:
        packed = schema.JOURNAL.pack("", self.enabled, self.last, self.keep_seconds, self.keep_events or 0)
        reads.txn.put(keys.within(keys.JOURNALS, reads.namespace), packed)


def append(reads: Reads, switch: Switch, notes: Sequence[Note]) -> None:
    """Append entries, and let go of some that are beyond what the journal keeps.

    An enqueued message has no error and no attempt: where the error stands are its options, and its content follows.
    """
    now = reads.now
    for note in notes:
        row, message, attempt, text, content = note.row, note.message, note.attempt, note.error, b""
        if message is not None:
            attempt, text = -1, _options(row, message, now)
            content = schema.pack_content(message.payload, message.codec, message.headers)
        lengths, texts = schema.pack_texts(note.leased_by, text)
        switch.last += 1
        fixed = _ENTRY.pack(LAYOUT, JOURNAL_CODES[note.type], row.queue, row.key, now, attempt, *lengths)
        reads.txn.put(_place(reads, switch.last), fixed + texts + content)
    switch.write(reads)
    if switch.keep_seconds is not None or switch.keep_events is not None:
        _let_go(reads, switch, 2 * len(notes) + _SPARE)


def _options(row: Row, message: NewMessage, now: float) -> str | None:
    """Without the headers, which are part of the content."""
    return to_json(options_of(row, message._replace(headers=None), now))


def _let_go(reads: Reads, switch: Switch, most: int) -> None:
    def time_of(number: int) -> float | None:
        entry = reads.txn.get(_place(reads, number))
        return None if entry is None else _at(entry)

    gone = retention.beyond(
        list(islice(_times(reads), most)),
        time_of,
        last=switch.last,
        now=reads.now,
        keep_seconds=switch.keep_seconds,
        keep_events=switch.keep_events,
    )
    _delete(reads, gone)


def _place(reads: Reads, number: int) -> bytes:
    return keys.entry(keys.JOURNAL, reads.namespace, number)


def _at(entry: bytes) -> float:
    at: float = _ENTRY.unpack_from(entry)[4]
    return at


def _times(reads: Reads, after: int = 0) -> Iterator[tuple[int, float]]:
    """The number and the time of each entry behind one."""
    entries = keys.walk(reads.txn, keys.within(keys.JOURNAL, reads.namespace), _place(reads, after + 1))
    return ((keys.last_number(key), _at(value)) for key, value in entries)


def _delete(reads: Reads, numbers: Iterable[int]) -> int:
    return sum(reads.txn.delete(_place(reads, number)) for number in numbers)


def events(reads: Reads, after: int, limit: int | None, queue: int | None) -> list[JournalEvent]:
    entries = keys.walk(reads.txn, keys.within(keys.JOURNAL, reads.namespace), _place(reads, after + 1))
    wanted = (entry for entry in entries if queue is None or _ENTRY.unpack_from(entry[1])[2] == queue)
    return [_event(reads, key, value) for key, value in islice(wanted, limit)]


def _event(reads: Reads, key: bytes, value: bytes) -> JournalEvent:
    layout, code, queue, message, at, attempt, *lengths = _ENTRY.unpack_from(value)
    schema.require_layout(layout, "journal entry")
    (worker, error), end = schema.unpack_texts(value, _ENTRY.size, lengths)
    payload, codec, headers = schema.unpack_content(value[end:]) if end < len(value) else (None, None, None)
    described, options = from_json(error), None
    if JOURNAL_TYPES[code - 1] == ENQUEUED:
        described, options = None, described
        if headers is not None:
            options = {**(options or {}), "headers": json.loads(headers)}
    return JournalEvent(
        keys.last_number(key), at, JOURNAL_TYPES[code - 1], reads.queue_name(queue), reads.ids.id_of(message),
        None if attempt < 0 else attempt, worker, described, payload, codec, options,
    )  # fmt: skip


def span(reads: Reads) -> tuple[int, int]:
    last = Switch.read(reads).last
    return next((number for number, _ in _times(reads)), last + 1), last


def prune(reads: Reads, until: float, through: int | None, behind: int, limit: int) -> tuple[int, int | None]:
    """Look at a piece of the entries and remove the old ones; how many, and behind which one the next piece begins."""
    looked = list(islice(_times(reads, behind), limit))
    wanted = (number for number, at in looked if at <= until and (through is None or number <= through))
    following = looked[-1][0] if len(looked) == limit and (through is None or looked[-1][0] < through) else None
    return _delete(reads, wanted), following
