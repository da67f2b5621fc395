"""Backup: everything of a namespace, read in one snapshot of the database, as a SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from localqueue.events.journal import JOURNAL_TYPES, JournalEvent
from localqueue.stores.archive import (
    Archive,
    ArchivedJournal,
    ArchivedMessage,
    ArchivedQueue,
    ArchivedRun,
)
from localqueue.stores.port import Record, Subscriptions
from localqueue.stores.postgres.journal import events_of, journal_event
from localqueue.stores.postgres.reads import record_of, stored_message
from localqueue.stores.stats import KnownWorker

if TYPE_CHECKING:
    from localqueue.stores.postgres.store import PostgresQueueStore

_A_PAGE = 1000

Execute = Callable[..., Any]


def backup(store: PostgresQueueStore, path: str) -> None:
    from localqueue.stores.sqlite.archive import write_archive

    store._snapshot(lambda execute: write_archive(path, _Reading(store, execute).archive()))


class _Reading:
    """Reads page by page, so that a namespace of any size fits."""

    def __init__(self, store: PostgresQueueStore, execute: Execute) -> None:
        self._store = store
        self._execute = execute
        self._namespace = store.namespace_id
        self._ids = store.ids

    def archive(self) -> Archive:
        name = self._store.namespace.encode()
        _, secret = self._execute(self._store.sql.FIND_NAMESPACE, (name,)).fetchone()
        return Archive(
            namespace=self._store.namespace,
            secret=secret,
            queues=self._queues(),
            runs=self._runs(),
            messages=self._messages(),
            edges=self._edges(),
            removed=self._removed(),
            records=self._records(),
            journal=self._journal(),
            events=self._events(),
        )

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._execute(query, (self._namespace, *values)).fetchall()
        return rows

    def _paged(self, query: str, position: tuple[Any, ...], width: int) -> Iterator[Any]:
        """The rows of a query that goes on behind a position ($2, and so on), which the first cells of a row are."""
        while True:
            rows = self._all(query, *position, _A_PAGE)
            yield from rows
            if len(rows) < _A_PAGE:
                return
            position = rows[-1][:width]

    def _queues(self) -> Iterator[ArchivedQueue]:
        sql = self._store.sql
        subscribers: dict[int, list[str]] = {}
        for topic, name in self._all(sql.ARCHIVED_SUBSCRIBERS):
            subscribers.setdefault(topic, []).append(name.decode())
        workers: dict[int, list[KnownWorker]] = {}
        for queue, worker, *rest in self._all(sql.ARCHIVED_WORKERS):
            workers.setdefault(queue, []).append(KnownWorker(worker.decode(), *rest))
        for row, name, paused_at, dropped, version in self._all(sql.ARCHIVED_QUEUES):
            subscriptions = Subscriptions(version, tuple(subscribers.get(row, ())))
            yield ArchivedQueue(name.decode(), paused_at, dropped, subscriptions, tuple(workers.get(row, ())))

    def _runs(self) -> Iterator[ArchivedRun]:
        for _, name, total, done, cancelled_at in self._paged(self._store.sql.ARCHIVED_RUNS, (0,), 1):
            yield ArchivedRun(name.decode(), total, done, cancelled_at)

    def _messages(self) -> Iterator[ArchivedMessage]:
        sql = self._store.sql
        full = sql.FULL_ROW.replace("lq_history(m.key) END", "lq_history(m.key) END, m.most, m.ended_at", 1)
        for row in self._paged(f"{full} WHERE q.namespace = $1 AND m.key > $2 ORDER BY m.key LIMIT $3", (0,), 1):
            yield ArchivedMessage(stored_message(self._ids, row), row[23], row[24])

    def _edges(self) -> Iterator[tuple[str, str]]:
        for upstream, dependent in self._paged(self._store.sql.ARCHIVED_EDGES, (0, 0), 2):
            yield self._ids.id_of(upstream), self._ids.id_of(dependent)

    def _removed(self) -> Iterator[tuple[str, str]]:
        for key, why in self._paged(self._store.sql.ARCHIVED_REMOVED, (0,), 1):
            yield self._ids.id_of(key), JOURNAL_TYPES[why - 1]

    def _records(self) -> Iterator[Record]:
        return map(record_of, self._paged(self._store.sql.ARCHIVED_RECORDS, (None, None), 2))

    def _journal(self) -> ArchivedJournal | None:
        rows = self._all(self._store.sql.ARCHIVED_JOURNAL)
        return ArchivedJournal(*rows[0]) if rows else None

    def _events(self) -> Iterator[JournalEvent]:
        for row in self._paged(events_of(self._store.sql, "e.namespace"), (0,), 1):
            yield journal_event(self._ids, row)
