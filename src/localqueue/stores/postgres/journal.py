"""The journal: a switch in the database that makes triggers, and the reading of what they wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from localqueue.events.journal import JOURNAL_TYPES, JournalEvent
from localqueue.ids import Mint
from localqueue.stores.postgres.reads import ReadsQueues
from localqueue.stores.postgres.rows import from_json, text_or_none
from localqueue.stores.postgres.tx import Tx
from localqueue.stores.rules import check_retention, kept_options

_SWITCH = "SELECT pg_advisory_xact_lock(1819373159, 0)"
_TRIGGERS = "SELECT 1 FROM pg_trigger WHERE tgrelid = $1::regclass AND tgname = 'lq_journal_put'"


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


class KeepsJournal(ReadsQueues):
    """The journal's part of the port, for a store that writes through `_write`."""

    _write: Callable[..., Any]

    def enable_journal(self, *, keep_seconds: float | None = None, keep_events: int | None = None) -> None:
        check_retention(keep_seconds, keep_events)

        def work(tx: Tx) -> None:
            tx.execute(_SWITCH)
            tx.run_sql(
                "INSERT INTO localqueue.lq_journals (namespace, enabled, keep_seconds, keep_events) "
                "VALUES ($1, true, $2, $3) ON CONFLICT (namespace) DO UPDATE SET enabled = true, "
                "keep_seconds = excluded.keep_seconds, keep_events = excluded.keep_events",
                (self.namespace_id, keep_seconds, keep_events),
            )
            if tx.execute(_TRIGGERS, (self.sql.here("localqueue.lq_messages"),)).fetchone() is None:
                tx.connection.execute(self.sql.JOURNAL_ON)

        self._write(work)

    def disable_journal(self) -> None:
        def work(tx: Tx) -> None:
            tx.execute(_SWITCH)
            off = "UPDATE localqueue.lq_journals SET enabled = false WHERE namespace = $1"
            tx.run_sql(off, (self.namespace_id,))
            if tx.run_sql("SELECT 1 FROM localqueue.lq_journals WHERE enabled LIMIT 1").fetchone() is None:
                tx.connection.execute(self.sql.JOURNAL_OFF)

        self._write(work)

    def journal_enabled(self) -> bool:
        find = self.sql.here("SELECT enabled FROM localqueue.lq_journals WHERE namespace = $1")
        row = self._one(find, (self.namespace_id,))
        return row is not None and bool(row[0])

    def events(self, after: int = 0, limit: int | None = None, queue: str | None = None) -> list[JournalEvent]:
        wanted = None if queue is None else self._find_queue(queue)
        if queue is not None and wanted is None:
            return []
        statement = self.sql.JOURNAL_EVENTS if queue is None else self.sql.JOURNAL_EVENTS_OF_QUEUE
        rows = self._all(statement, (self.namespace_id if wanted is None else wanted, max(after, 0), limit))
        return [journal_event(self.ids, row) for row in rows]

    def journal_span(self) -> tuple[int, int]:
        # The number of the last entry is written under a lock that is held until the commit: what it says is whole.
        found = self._one(self.sql.JOURNAL_SPAN, (self.namespace_id,))
        if found is None:
            return 1, 0
        first, last = found
        return (last + 1 if first is None else first), last

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        def work(tx: Tx) -> int:
            old = (
                "DELETE FROM localqueue.lq_journal"
                " WHERE namespace = $1 AND at <= $2 AND seq <= coalesce($3::bigint, seq)"
            )
            return int(tx.run_sql(old, (self.namespace_id, tx.now - older_than, through)).rowcount)

        removed: int = self._write(work)
        return removed
