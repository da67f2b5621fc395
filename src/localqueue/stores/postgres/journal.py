"""The journal: a switch in the database that makes triggers, and the reading of what they wrote."""

from __future__ import annotations

import json
from typing import Any

from localqueue.events.journal import JOURNAL_TYPES, JournalEvent
from localqueue.ids import Mint
from localqueue.stores.engine.row import from_json
from localqueue.stores.engine.unit import Unit
from localqueue.stores.postgres.fast import FastPaths
from localqueue.stores.postgres.reads import text_or_none
from localqueue.stores.postgres.rows import PostgresRows, rows_of
from localqueue.stores.postgres.schema import Statements
from localqueue.stores.rules import kept_options

_SWITCH = "SELECT pg_advisory_xact_lock(1819373159, 0)"
_TRIGGERS = "SELECT 1 FROM pg_trigger WHERE tgrelid = $1::regclass AND tgname = 'lq_journal_put'"


def events_of(sql: Statements, where: str) -> str:
    """The entries of a queue or a namespace ($1) behind one, in their order."""
    return f"{sql.JOURNAL_EVENTS} WHERE {where} = $1::int AND e.seq > $2::bigint ORDER BY e.seq LIMIT $3::bigint"


def journal_event(ids: Mint, row: tuple[Any, ...]) -> JournalEvent:
    """An entry from a row of `journal_events.sql`."""
    seq, at, code, name, key, attempt, worker, error, payload, is_text, codec, options = row
    return JournalEvent(
        seq, at, JOURNAL_TYPES[code - 1], name.decode(), ids.id_of(key), attempt, text_or_none(worker),
        from_json(error), text_or_none(payload) if is_text else payload, codec, _options(options),
    )  # fmt: skip


def _options(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    found = json.loads(text)
    for name in ("dedupe_key", "ordering_key", "run_id", "headers"):
        found[name] = bytes.fromhex(found[name]).decode() if name in found else None
    return kept_options(**{"priority": 0, "delay": 0.0, "ttl": None, **found})


class KeepsJournal(FastPaths):
    """The journal's part of the port."""

    def _set_journal(self, enabled: bool, keep_seconds: float | None, keep_events: int | None) -> None:
        def work(rows: PostgresRows) -> None:
            rows.ask(_SWITCH)
            if enabled:
                rows.ask(self.sql.JOURNAL_KEEP, (self.namespace_id, keep_seconds, keep_events))
                if not rows.ask_for(_TRIGGERS, (self.sql.here("localqueue.lq_messages"),)):
                    rows.run_script(self.sql.JOURNAL_ON)
                return
            off = "UPDATE localqueue.lq_journals SET enabled = false WHERE namespace = $1"
            rows.ask(self.sql.here(off), (self.namespace_id,))
            if not rows.ask_for(self.sql.here("SELECT 1 FROM localqueue.lq_journals WHERE enabled LIMIT 1")):
                rows.run_script(self.sql.JOURNAL_OFF)

        self._write(lambda unit: work(rows_of(unit)))

    def journal_enabled(self) -> bool:
        find = self.sql.here("SELECT enabled FROM localqueue.lq_journals WHERE namespace = $1")
        row = self._one(find, (self.namespace_id,))
        return row is not None and bool(row[0])

    def _events(self, after: int, limit: int | None, queue: int | None) -> list[JournalEvent]:
        where, of = ("e.namespace", self.namespace_id) if queue is None else ("e.queue", queue)
        return [journal_event(self.ids, row) for row in self._all(events_of(self.sql, where), (of, after, limit))]

    def journal_span(self) -> tuple[int, int]:
        # The number of the last entry is written under a lock that is held until the commit: what it says is whole.
        found = self._one(self.sql.JOURNAL_SPAN, (self.namespace_id,))
        if found is None:
            return 1, 0
        first, last = found
        return (last + 1 if first is None else first), last

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        def work(unit: Unit) -> int:
            values = (self.namespace_id, unit.now - older_than, through)
            return int(rows_of(unit).ask(self.sql.PRUNE_EVENTS, values).rowcount)

        return self._write(work)
