"""The read connection of a store, and the reading half of the port."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from localqueue.errors import QueueStoreClosedError
from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.port import CheckReport, Record, StoredMessage, Subscriptions
from localqueue.stores.sqlite import maintain, reads
from localqueue.stores.sqlite.connection import translate

T = TypeVar("T")


class Reader:
    """Runs reads one at a time. A read of several statements sees one moment."""

    def __init__(self, connection: sqlite3.Connection, lock: threading.Lock, path: str) -> None:
        self.connection = connection
        self.lock = lock
        self._path = path
        self._closed = False

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self.lock:
            self.require_open()
            try:
                self.connection.execute("BEGIN")
                found = work(self.connection)
                self.connection.execute("COMMIT")
                return found
            except sqlite3.Error as error:
                raise translate(error, self._path) from error
            finally:
                if self.connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self.connection.execute("ROLLBACK")

    def one(self, statement: str, parameters: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The row of a single statement, which sees one moment without our saying so."""
        with self.lock:
            self.require_open()
            try:
                row: tuple[Any, ...] | None = self.connection.execute(statement, parameters).fetchone()
                return row
            except sqlite3.Error as error:
                raise translate(error, self._path) from error

    def require_open(self) -> None:
        if self._closed:
            raise QueueStoreClosedError(f"the store at {self._path!r} is closed", path=self._path)

    def close(self) -> None:
        with self.lock:
            self._closed = True


class ReadsQueues:
    """The reads of the port, for a store with a `Reader`. A queue that nobody has used yet is simply empty."""

    path: str
    ids: Mint
    namespace_id: int
    queue_ids: dict[str, int]
    _reader: Reader
    _clock: Callable[[], float]

    def _find_queue(self, name: str) -> int | None:
        known = self.queue_ids.get(name)
        if known is None:
            row = self._reader.run(
                lambda connection: connection.execute(
                    "SELECT id FROM lq_queues WHERE namespace = ? AND name = ?", (self.namespace_id, name)
                ).fetchone()
            )
            if row is None:
                return None
            known = self.queue_ids[name] = row[0]
        return known

    def _read(self, name: str, work: Callable[[sqlite3.Connection, int], T], missing: T) -> T:
        queue = self._find_queue(name)
        return missing if queue is None else self._reader.run(lambda connection: work(connection, queue))

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        return self._read(queue, lambda c, q: reads.get(c, self.ids, q, message_id), None)

    def qsize(self, queue: str) -> int:
        return self._read(queue, lambda c, q: reads.counts(c, q, self._clock())[0], 0)

    def load(self, queue: str) -> int:
        def work(connection: sqlite3.Connection, row: int) -> int:
            counts = reads.counts(connection, row, self._clock())
            return counts[0] + counts[4]

        return self._read(queue, work, 0)

    def stats(self, queue: str) -> QueueStats:
        return self._read(queue, lambda c, q: reads.stats(c, q, self._clock()), QueueStats())

    def scan(
        self,
        queue: str,
        *,
        state: str | None = None,
        after: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        last = rules.last_wanted(self.ids, state, until)
        return self._read(queue, lambda c, q: reads.scan(c, self.ids, q, state, after, last, limit), [])

    def splits(self, queue: str, parts: int) -> list[str]:
        rules.check_parts(parts)
        return self._read(queue, lambda c, q: reads.splits(c, self.ids, q, parts, self._clock()), [])

    def queues(self) -> list[str]:
        rows = self._reader.run(
            lambda connection: connection.execute(
                "SELECT name FROM lq_queues WHERE namespace = ? ORDER BY name", (self.namespace_id,)
            ).fetchall()
        )
        return [row[0] for row in rows]

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        return self._reader.run(lambda c: reads.runs(c, self.namespace_id, after, limit))

    def run(self, run_id: str) -> RunStats | None:
        return self._reader.run(lambda c: reads.run(c, self.namespace_id, run_id))

    def run_messages(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> list[StoredMessage]:
        return self._reader.run(lambda c: reads.run_messages(c, self.ids, self.namespace_id, run_id, after, limit))

    def upstream(self, queue: str, message_id: str) -> list[str]:
        return self._read(queue, lambda c, q: reads.upstream(c, self.ids, q, message_id), [])

    def record(self, kind: str, key: str) -> Record | None:
        row = self._reader.one(reads.RECORD, (self.namespace_id, kind, key))
        return None if row is None else Record(*row)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        return self._reader.run(lambda c: reads.records(c, self.namespace_id, kind, after, limit))

    def subscriptions(self, topic: str) -> Subscriptions:
        return self._read(topic, reads.subscriptions, Subscriptions(0, ()))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        return self._read(queue, lambda c, q: reads.is_paused(c, q, worker), False)

    def check(self) -> CheckReport:
        return self._reader.run(maintain.check)
