"""The journal: a switch in the file that makes triggers, and the reading of what they wrote."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from localqueue.events.journal import JOURNAL_TYPES, JournalEvent
from localqueue.stores.rules import check_retention
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.reader import ReadsQueues
from localqueue.stores.sqlite.rows import from_json
from localqueue.stores.sqlite.schema import run_script
from localqueue.stores.sqlite.tx import Tx

T = TypeVar("T")

SEQ_BITS = 48


class KeepsJournal(ReadsQueues):
    """The journal's part of the port, for a store that writes through `_write`."""

    _write: Callable[[Callable[[Tx], Any]], Any]

    def enable_journal(self, *, keep_seconds: float | None = None, keep_events: int | None = None) -> None:
        check_retention(keep_seconds, keep_events)
        namespace = self.namespace_id

        def work(tx: Tx) -> None:
            tx.connection.execute(
                "INSERT INTO lq_journals (namespace, enabled, last, keep_seconds, keep_events) VALUES (?, 1, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET enabled = 1, keep_seconds = excluded.keep_seconds, "
                "keep_events = excluded.keep_events",
                (namespace, namespace << SEQ_BITS, keep_seconds, keep_events),
            )
            run_script(tx.connection, sql.JOURNAL_ON)

        self._write(work)

    def disable_journal(self) -> None:
        def work(tx: Tx) -> None:
            tx.connection.execute("UPDATE lq_journals SET enabled = 0 WHERE namespace = ?", (self.namespace_id,))
            if not tx.connection.execute("SELECT 1 FROM lq_journals WHERE enabled LIMIT 1").fetchone():
                run_script(tx.connection, sql.JOURNAL_OFF)

        self._write(work)

    def journal_enabled(self) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            find = "SELECT enabled FROM lq_journals WHERE namespace = ?"
            row = connection.execute(find, (self.namespace_id,)).fetchone()
            return row is not None and bool(row[0])

        return self._reader.run(work)

    def events(self, after: int = 0, limit: int | None = None, queue: str | None = None) -> list[JournalEvent]:
        wanted = None if queue is None else self._find_queue(queue)
        if queue is not None and wanted is None:
            return []
        base = self.namespace_id << SEQ_BITS
        most = -1 if limit is None else limit
        bounds = (base + max(after, 0), base + (1 << SEQ_BITS), wanted, most)
        rows = self._reader.run(lambda c: c.execute(sql.JOURNAL_EVENTS, bounds).fetchall())
        return [
            JournalEvent(
                entry - base, at, JOURNAL_TYPES[code - 1], name, self.ids.id_of(key), attempt, worker,
                from_json(error), payload, codec, from_json(options) or None,
            )
            for entry, at, code, name, key, attempt, worker, error, payload, codec, options in rows
        ]  # fmt: skip

    def journal_span(self) -> tuple[int, int]:
        found = self._reader.one(sql.JOURNAL_SPAN, (self.namespace_id,))
        if found is None:
            return 1, 0
        base = self.namespace_id << SEQ_BITS
        first, last = found
        return (last + 1 if first is None else first) - base, last - base

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        def work(tx: Tx) -> int:
            first = self.namespace_id << SEQ_BITS
            end = first + (1 << SEQ_BITS)
            stop = end if through is None else min(first + max(through, 0) + 1, end)
            newest = "SELECT max(id) FROM lq_journal WHERE id > ?1 AND id < ?2"
            tx.connection.execute(
                f"UPDATE lq_journals SET last = max(last, coalesce(({newest}), 0)) WHERE namespace = ?3",
                (first, end, self.namespace_id),
            )
            return tx.connection.execute(
                "DELETE FROM lq_journal WHERE id > ? AND id < ? AND at <= ?", (first, stop, tx.now - older_than)
            ).rowcount

        removed: int = self._write(work)
        return removed
