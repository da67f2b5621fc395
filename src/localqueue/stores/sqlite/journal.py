"""The journal: a switch in the file that makes triggers, and the reading of what they wrote."""

from __future__ import annotations

import sqlite3

from localqueue.events.journal import JOURNAL_TYPES, JournalEvent
from localqueue.stores.engine.row import from_json
from localqueue.stores.engine.unit import Unit
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.reads import Reads
from localqueue.stores.sqlite.rows import SQLiteRows
from localqueue.stores.sqlite.schema import run_script

SEQ_BITS = 48


class KeepsJournal(Reads):
    """The journal's part of the port."""

    def _connection_of(self, unit: Unit) -> sqlite3.Connection:
        assert isinstance(unit.rows, SQLiteRows)
        return unit.rows.connection

    def _set_journal(self, enabled: bool, keep_seconds: float | None, keep_events: int | None) -> None:
        namespace = self.namespace_id

        def work(unit: Unit) -> None:
            connection = self._connection_of(unit)
            if enabled:
                connection.execute(sql.KEEP_JOURNAL, (namespace, namespace << SEQ_BITS, keep_seconds, keep_events))
                run_script(connection, sql.JOURNAL_ON)
                return
            connection.execute("UPDATE lq_journals SET enabled = 0 WHERE namespace = ?", (namespace,))
            if not connection.execute("SELECT 1 FROM lq_journals WHERE enabled LIMIT 1").fetchone():
                run_script(connection, sql.JOURNAL_OFF)

        self._write(work)

    def journal_enabled(self) -> bool:
        found = self._reader.one("SELECT enabled FROM lq_journals WHERE namespace = ?", (self.namespace_id,))
        return found is not None and bool(found[0])

    def _events(self, after: int, limit: int | None, queue: int | None) -> list[JournalEvent]:
        base = self.namespace_id << SEQ_BITS
        bounds = (base + after, base + (1 << SEQ_BITS), queue, -1 if limit is None else limit)

        def read(connection: sqlite3.Connection) -> list[JournalEvent]:
            return [
                JournalEvent(
                    entry - base, at, JOURNAL_TYPES[code - 1], name, self.ids.id_of(key), attempt, worker,
                    from_json(error), payload, codec, from_json(options) or None,
                )
                for entry, at, code, name, key, attempt, worker, error, payload, codec, options
                in connection.execute(sql.JOURNAL_EVENTS, bounds)
            ]  # fmt: skip

        return self._reader.read(read)

    def journal_span(self) -> tuple[int, int]:
        def read(connection: sqlite3.Connection) -> tuple[int, int]:
            found = connection.execute(sql.JOURNAL_SPAN, (self.namespace_id,)).fetchone()
            if found is None:
                return 1, 0
            base = self.namespace_id << SEQ_BITS
            first, last = found
            return (last + 1 if first is None else first) - base, last - base

        return self._reader.read(read)

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        first = self.namespace_id << SEQ_BITS
        end = first + (1 << SEQ_BITS)
        stop = end if through is None else min(first + max(through, 0) + 1, end)

        def some(unit: Unit, behind: int, limit: int) -> tuple[int, int | None]:
            """Look at a piece of the entries and remove the old ones. The last number stays known without them."""
            execute = self._connection_of(unit).execute
            newest = "SELECT max(id) FROM lq_journal WHERE id > ?1 AND id < ?2"
            execute(
                f"UPDATE lq_journals SET last = max(last, coalesce(({newest}), 0)) WHERE namespace = ?3",
                (first, end, self.namespace_id),
            )
            looked = execute(
                "SELECT id FROM lq_journal WHERE id > ? AND id < ? ORDER BY id LIMIT ?", (behind, stop, limit)
            ).fetchall()
            last = looked[-1][0] if looked else behind
            old = "DELETE FROM lq_journal WHERE id > ? AND id <= ? AND at <= ?"
            count = execute(old, (behind, last, unit.now - older_than)).rowcount
            return count, last if len(looked) == limit else None

        return self._in_pieces(None, some, first)
