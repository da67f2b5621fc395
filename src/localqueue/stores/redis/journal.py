"""The journal: a switch in the namespace that every function obeys, and a stream that they write."""

from __future__ import annotations

from typing import Any

from localqueue.events.journal import JOURNAL_TYPES, JournalEvent
from localqueue.stores.redis import values
from localqueue.stores.redis.calling import Calls
from localqueue.stores.redis.reading import most, pairs
from localqueue.stores.rules import check_retention


class KeepsJournal(Calls):
    def enable_journal(self, *, keep_seconds: float | None = None, keep_events: int | None = None) -> None:
        check_retention(keep_seconds, keep_events)
        self._write("enable_journal", values.number(keep_seconds), values.number(keep_events), again=True)

    def disable_journal(self) -> None:
        self._write("disable_journal", again=True)

    def journal_enabled(self) -> bool:
        return bool(self._link.command(b"HGET", self._root, b"journal") == b"1")

    def events(self, after: int = 0, limit: int | None = None, queue: str | None = None) -> list[JournalEvent]:
        of = b"" if queue is None else self._digest(queue)
        found = self._read("events", str(max(after, 0)).encode(), most(limit), of)[1]
        return [self._event(number, pairs(fields)) for number, fields in found]

    def _event(self, number: bytes, fields: dict[bytes, Any]) -> JournalEvent:
        body = None if b"b" not in fields else values.Body(fields[b"b"])
        attempt = fields.get(b"n")
        return JournalEvent(
            int(number.partition(b"-")[0]), float(fields[b"at"]), JOURNAL_TYPES[int(fields[b"t"]) - 1],
            self._name_of(fields[b"q"]), self._id_of(fields[b"k"]), None if attempt is None else int(attempt),
            values.text(fields.get(b"w")), values.from_json(fields.get(b"e")),
            None if body is None else body.payload, None if body is None else body.codec,
        )  # fmt: skip

    def prune_events(self, *, older_than: float) -> int:
        return int(self._write("prune_events", values.number(older_than))[1])
