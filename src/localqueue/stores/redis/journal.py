"""The journal: a switch in the namespace that every function obeys, and a stream that they write."""

from __future__ import annotations

from typing import Any

from localqueue.events.journal import JOURNAL_TYPES, JournalEvent
from localqueue.stores.redis import rows
from localqueue.stores.redis.namespace import Namespace
from localqueue.stores.redis.reads import most, pairs
from localqueue.stores.rules import entry_behind, kept_options


class Journal(Namespace):
    def _set_journal(self, enabled: bool, keep_seconds: float | None, keep_events: int | None) -> None:
        self._write("set_journal", again=True, on=enabled, seconds=keep_seconds, events=keep_events)

    def journal_enabled(self) -> bool:
        return bool(self._server.ask(b"HGET", self._root, b"journal", again=True) == b"1")

    def events(self, after: int = 0, limit: int | None = None, queue: str | None = None) -> list[JournalEvent]:
        of = None if queue is None else self._digest(queue)
        found = self._read("events", after=entry_behind(after), limit=most(limit), queue=of)[1]
        return [self._event(number, pairs(fields)) for number, fields in found]

    def _event(self, number: bytes, fields: dict[bytes, Any]) -> JournalEvent:
        body = None if b"b" not in fields else rows.Body(fields[b"b"])
        attempt = fields.get(b"n")
        return JournalEvent(
            _seq(number), float(fields[b"at"]), JOURNAL_TYPES[int(fields[b"t"]) - 1],
            self._name_of(fields[b"q"]), self._id_of(fields[b"k"]), None if attempt is None else int(attempt),
            rows.text(fields.get(b"w")), rows.from_json(fields.get(b"e")),
            None if body is None else body.payload, None if body is None else body.codec,
            None if body is None else _options(body, fields.get(b"o")),
        )  # fmt: skip

    def journal_span(self) -> tuple[int, int]:
        last, first = self._read("journal_span")[1]
        return (int(last) + 1 if first is None else _seq(first)), int(last)

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        last = None if through is None else str(max(through, 0))
        return int(self._write("prune_events", older_than=older_than, through=last)[1])


def _seq(number: bytes) -> int:
    return int(number.partition(b"-")[0])


def _options(body: rows.Body, packed: bytes | None) -> dict[str, Any] | None:
    """Of an enqueued message: what its body knows, and what was written beside it."""
    more = rows.unpack(packed)
    return kept_options(
        priority=body.priority,
        dedupe_key=rows.text(more.get(b"dk")),
        ordering_key=rows.text(more.get(b"ok")),
        run_id=rows.text(more.get(b"run")),
        headers=body.headers,
        delay=more.get(b"delay", 0.0),
        ttl=more.get(b"ttl"),
    )
