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
    ArchivedWorker,
)
from localqueue.stores.port import Record, Subscriptions
from localqueue.stores.postgres.journal import journal_event
from localqueue.stores.postgres.rows import stored_message

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
        (secret,) = self._all("SELECT secret FROM localqueue.lq_namespaces WHERE id = $1")[0]
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
        rows: list[tuple[Any, ...]] = self._execute(self._store.sql.here(query), (self._namespace, *values)).fetchall()
        return rows

    def _paged(self, query: str, first: tuple[Any, ...], position: Callable[[Any], tuple[Any, ...]]) -> Iterator[Any]:
        """The rows of a query that continues behind a position ($2, and so on) and reads a page of it."""
        after = first
        while True:
            rows = self._all(f"{query} LIMIT {_A_PAGE}", *after)
            yield from rows
            if len(rows) < _A_PAGE:
                return
            after = position(rows[-1])

    def _queues(self) -> Iterator[ArchivedQueue]:
        subscribers: dict[int, list[str]] = {}
        for topic, name in self._all(
            "SELECT s.topic, s.subscriber FROM localqueue.lq_subscriptions AS s JOIN localqueue.lq_queues AS q "
            "ON q.id = s.topic WHERE q.namespace = $1 ORDER BY s.topic, s.n"
        ):
            subscribers.setdefault(topic, []).append(name.decode())
        workers: dict[int, list[ArchivedWorker]] = {}
        for queue, worker, *rest in self._all(
            "SELECT w.queue, w.worker, w.leases, w.last_seen, w.paused_at FROM localqueue.lq_workers AS w "
            "JOIN localqueue.lq_queues AS q ON q.id = w.queue WHERE q.namespace = $1 ORDER BY w.queue, w.worker"
        ):
            workers.setdefault(queue, []).append(ArchivedWorker(worker.decode(), *rest))
        for row, name, paused_at, dropped, version in self._all(
            "SELECT id, name, paused_at, dropped, subscriptions FROM localqueue.lq_queues WHERE namespace = $1 "
            "ORDER BY id"
        ):
            subscriptions = Subscriptions(version, tuple(subscribers.get(row, ())))
            yield ArchivedQueue(name.decode(), paused_at, dropped, subscriptions, tuple(workers.get(row, ())))

    def _runs(self) -> Iterator[ArchivedRun]:
        query = (
            "SELECT id, name, total, done, cancelled_at FROM localqueue.lq_runs WHERE namespace = $1 AND id > $2 "
            "ORDER BY id"
        )
        for _, name, total, done, cancelled_at in self._paged(query, (0,), lambda row: (row[0],)):
            yield ArchivedRun(name.decode(), total, done, cancelled_at)

    def _messages(self) -> Iterator[ArchivedMessage]:
        full = self._store.sql.FULL_ROW.replace("lq_history(m.key) END", "lq_history(m.key) END, m.most, m.ended_at", 1)
        query = f"{full} WHERE q.namespace = $1 AND m.key > $2 ORDER BY m.key"
        for row in self._paged(query, (0,), lambda row: (row[0],)):
            yield ArchivedMessage(stored_message(self._ids, row), row[23], row[24])

    def _edges(self) -> Iterator[tuple[str, str]]:
        query = (
            "SELECT d.upstream, d.dependent FROM localqueue.lq_dependencies AS d JOIN localqueue.lq_messages AS m "
            "ON m.key = d.dependent JOIN localqueue.lq_queues AS q ON q.id = m.queue "
            "WHERE q.namespace = $1 AND (d.upstream, d.dependent) > ($2::bigint, $3::bigint) "
            "ORDER BY d.upstream, d.dependent"
        )
        for upstream, dependent in self._paged(query, (0, 0), lambda row: (row[0], row[1])):
            yield self._ids.id_of(upstream), self._ids.id_of(dependent)

    def _removed(self) -> Iterator[tuple[str, str]]:
        query = "SELECT key, why FROM localqueue.lq_removed WHERE namespace = $1 AND key > $2 ORDER BY key"
        for key, why in self._paged(query, (0,), lambda row: (row[0],)):
            yield self._ids.id_of(key), JOURNAL_TYPES[why - 1]

    def _records(self) -> Iterator[Record]:
        query = (
            "SELECT kind, key, value, version, updated_at FROM localqueue.lq_records WHERE namespace = $1 "
            "AND (sha256(kind), substring(key FROM 1 FOR 200), sha256(key)) "
            "> (sha256($2::bytea), substring($3::bytea FROM 1 FOR 200), sha256($3::bytea)) "
            "ORDER BY sha256(kind), substring(key FROM 1 FOR 200), sha256(key)"
        )
        first = (
            "SELECT kind, key, value, version, updated_at FROM localqueue.lq_records WHERE namespace = $1 "
            "ORDER BY sha256(kind), substring(key FROM 1 FOR 200), sha256(key) LIMIT 1"
        )
        rows = self._all(first)
        if rows:
            yield _record(rows[0])
            for row in self._paged(query, rows[0][:2], lambda row: (row[0], row[1])):
                yield _record(row)

    def _journal(self) -> ArchivedJournal | None:
        rows = self._all(
            "SELECT enabled, last, keep_seconds, keep_events FROM localqueue.lq_journals WHERE namespace = $1"
        )
        return ArchivedJournal(*rows[0]) if rows else None

    def _events(self) -> Iterator[JournalEvent]:
        after = 0
        while True:
            rows = self._execute(self._store.sql.JOURNAL_EVENTS, (self._namespace, after, _A_PAGE)).fetchall()
            for row in rows:
                yield journal_event(self._ids, row)
            if len(rows) < _A_PAGE:
                return
            after = rows[-1][0]


def _record(row: tuple[Any, ...]) -> Record:
    kind, key, value, version, updated_at = row
    return Record(kind.decode(), key.decode(), value, version, updated_at)
