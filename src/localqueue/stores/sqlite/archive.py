"""A SQLite file of everything that a namespace of another store held: the backup of a store that is no file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from localqueue.events.journal import JOURNAL_CODES
from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.archive import Archive, ArchivedMessage, ArchivedQueue
from localqueue.stores.engine.row import CODE, DEAD, INFLIGHT, READY, to_json
from localqueue.stores.sqlite import schema
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.backup import publish
from localqueue.stores.sqlite.journal import SEQ_BITS
from localqueue.stores.sqlite.rows import attempt_values

T = TypeVar("T")

_A_PIECE = 500
_HAS_A_COUNT = ("delayed", "waiting", "blocked", "dead", "expired", "cancelled")


def write_archive(path: str, archive: Archive) -> None:
    """Write the archive to a new file, which appears whole and checked or not at all.

    The namespace keeps its name and its secret there, so that every id stays what it is.
    """

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = OFF")  # a file that was not finished is thrown away
        connection.execute("PRAGMA synchronous = OFF")  # and one that was is synced before it gets its name
        schema.prepare(connection, path)
        connection.execute("BEGIN")
        _Filling(connection, archive).fill()
        connection.execute("COMMIT")

    publish(path, fill)


class _Filling:
    def __init__(self, connection: sqlite3.Connection, archive: Archive) -> None:
        self._connection = connection
        self._archive = archive
        self._ids = Mint(archive.secret)
        self._namespace = int(
            connection.execute(
                "INSERT INTO lq_namespaces (name, secret) VALUES (?, ?) RETURNING id",
                (archive.namespace, archive.secret),
            ).fetchall()[0][0]
        )
        self._queues: dict[str, int] = {}
        self._runs: dict[str, int] = {}

    def fill(self) -> None:
        archive = self._archive
        for queue in archive.queues:
            self._add_queue(queue)
        for run in archive.runs:
            self._runs[run.name] = self._insert(
                "lq_runs", namespace=self._namespace, touched_at=time.time(), **run._asdict()
            )
        for piece in _pieces(archive.messages):
            self._add_messages(piece)
        self._count()
        keys = ((self._key(upstream), self._key(dependent)) for upstream, dependent in archive.edges)
        self._many("INSERT INTO lq_dependencies (upstream, dependent) VALUES (?, ?)", keys)
        self._connection.execute(
            "UPDATE lq_messages SET dependents = 1 WHERE key IN (SELECT upstream FROM lq_dependencies)"
        )
        self._many(
            "INSERT INTO lq_removed (key, why) VALUES (?, ?)",
            ((self._key(message_id), JOURNAL_CODES[why]) for message_id, why in archive.removed),
        )
        self._many(
            "INSERT INTO lq_records (namespace, kind, key, value, version, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
            ((self._namespace, *record) for record in archive.records),
        )
        self._add_journal()

    def _key(self, message_id: str) -> int:
        key = self._ids.key_of(message_id)
        if key is None:
            raise ValueError(f"{message_id!r} is not an id of the namespace {self._archive.namespace!r}")
        return key

    def _insert(self, table: str, **values: Any) -> int:
        """Add one row to a table of ours; its number."""
        columns, places = ", ".join(values), ", ".join(f":{name}" for name in values)
        return int(
            self._connection.execute(
                f"INSERT INTO {table} ({columns}) VALUES ({places}) RETURNING rowid", values
            ).fetchall()[0][0]
        )

    def _many(self, statement: str, rows: Iterable[Any]) -> None:
        self._connection.executemany(statement, rows)

    def _add_queue(self, queue: ArchivedQueue) -> None:
        version, subscribers = queue.subscriptions
        row = self._insert(
            "lq_queues", namespace=self._namespace, name=queue.name, dropped=queue.dropped, subscriptions=version
        )
        self._queues[queue.name] = row
        paused_workers = sum(worker.paused_at is not None for worker in queue.workers)
        self._connection.execute(
            "INSERT INTO lq_line (queue, part, rank, position, key, count, until, since, most) "
            "VALUES (?1, 0, 0, 0, 0, 0, 9e999, ?2, ?3), (?1, 3, 0, 0, 0, 0, NULL, 0, 0)",
            (row, queue.paused_at, paused_workers or None),
        )
        self._many(
            "INSERT INTO lq_subscriptions (topic, subscriber, n) VALUES (?, ?, ?)",
            ((row, subscriber, n) for n, subscriber in enumerate(subscribers, 1)),
        )
        self._many(
            "INSERT INTO lq_workers (queue, worker, leases, last_seen, paused_at) VALUES (?, ?, ?, ?, ?)",
            ((row, *worker) for worker in queue.workers),
        )

    def _add_messages(self, messages: Sequence[ArchivedMessage]) -> None:
        rows, line = [], []
        for archived in messages:
            message = archived.message
            key, queue, state = self._key(message.id), self._queues[message.queue], CODE[message.state]
            attempts = attempt_values(key, message)
            self._many(sql.INSERT_ATTEMPT, attempts)
            before, due = message.attempts, None
            if state == INFLIGHT:
                state, before = READY, message.attempts - 1
                since = rules.leased_since(message.history)
                lease = (message.attempts, message.leased_until, since, message.leased_by, archived.most)
                line.append((queue, 1, 0, 0.0, key, *lease))
            else:
                due = rules.due_at(message.state, available_at=message.available_at, expires_at=message.expires_at)
                if state == READY:
                    place = (queue, 2, -message.priority, message.available_at, key)
                    line.append((*place, message.attempts, message.expires_at, None, None, None))
            rows.append(
                (
                    key, queue, state, message.priority, before, message.created_at, message.available_at,
                    message.payload, message.codec, message.headers, due, message.forgiven, len(attempts), 0,
                    message.waiting_on, None if message.run_id is None else self._runs[message.run_id],
                    message.ordering_key, message.dedupe_key, message.expires_at, to_json(message.last_error),
                    message.failed_at, _ended_at(archived) if state >= DEAD else None,
                )
            )  # fmt: skip
        self._many(sql.INSERT_MESSAGE, rows)
        self._many(sql.INSERT_LINE, line)

    def _count(self) -> None:
        """Make the kept counts and timers of the queues those of the messages that are there now."""
        execute = self._connection.execute
        for queue in self._queues.values():
            states = execute("SELECT state, count(*) FROM lq_messages WHERE queue = ? GROUP BY state", (queue,))
            counts = dict(states.fetchall())
            kept = [counts.get(CODE[name], 0) for name in _HAS_A_COUNT]
            execute(sql.COUNT_STATES, (*kept, queue))
            (ready,) = execute("SELECT count(*) FROM lq_line WHERE queue = ? AND part = 2", (queue,)).fetchone()
            (newest,) = execute("SELECT max(key) FROM lq_messages WHERE queue = ?", (queue,)).fetchone()
            execute(sql.COUNT_ARRIVALS, (queue, ready, newest or 0, 0.0))
            execute(sql.COUNT_DEPARTURES, (0, execute(sql.NEXT_DUE, (queue,)).fetchone()[0], queue))

    def _add_journal(self) -> None:
        journal = self._archive.journal
        if journal is None:
            return
        base = self._namespace << SEQ_BITS
        self._insert(
            "lq_journals",
            namespace=self._namespace,
            enabled=journal.enabled,
            last=base + journal.last,
            keep_seconds=journal.keep_seconds,
            keep_events=journal.keep_events,
        )
        self._many(
            "INSERT INTO lq_journal (id, at, type, queue, key, attempt, worker, error, payload, codec, options) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    base + event.seq, event.at, JOURNAL_CODES[event.type], self._queues[event.queue],
                    self._key(event.message_id), event.attempt, event.worker, to_json(event.error), event.payload,
                    event.codec, to_json(event.options),
                )
                for event in self._archive.events
            ),
        )  # fmt: skip
        if journal.enabled:
            schema.run_script(self._connection, sql.JOURNAL_ON)


def _ended_at(archived: ArchivedMessage) -> float:
    return rules.ended_at(archived.message) if archived.ended_at is None else archived.ended_at


def _pieces(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while piece := list(islice(rest, _A_PIECE)):
        yield piece
