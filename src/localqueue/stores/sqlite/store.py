"""`SQLiteQueueStore`: the store port on one SQLite file.

One connection writes, behind the lock of `Writer`; another reads, so that looking never waits for a commit. The hot
paths (put one, lease one, ack one) are written out here; everything else goes through a `Tx`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from localqueue.errors import QueueStoreClosedError
from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.port import (
    Changes,
    CheckReport,
    Committed,
    Lease,
    LeaseRequest,
    Payload,
    Record,
    StoredMessage,
    Subscriptions,
    Waiter,
)
from localqueue.stores.sqlite import lease as leasing
from localqueue.stores.sqlite import maintain, operate, reads, schema
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.connection import SYNCHRONOUS, connect, translate, translated
from localqueue.stores.sqlite.enqueue import add_edges, enqueue
from localqueue.stores.sqlite.settle import NOTHING_FOLLOWS, follow_ack, settle
from localqueue.stores.sqlite.tx import Tx
from localqueue.stores.sqlite.watch import Watch
from localqueue.stores.sqlite.writer import Execute, Writer
from localqueue.stores.wake import StoreWaiter, Wake

T = TypeVar("T")

_open_stores: weakref.WeakSet[SQLiteQueueStore] = weakref.WeakSet()
_abandoned: list[object] = []  # connections of the parent: closing them in a forked child could drop its locks


class SQLiteQueueStore:
    """SQLite-backed queue store; the default.

    `durability="process"` survives the death of the process (`synchronous=NORMAL`), `"power"` also the loss of power
    (`FULL`). `timeout` is how long to wait for another process's write lock. Safe to share between threads, to open
    from many processes, and to carry over a fork.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        timeout: float = 15.0,
        *,
        namespace: str = "default",
        durability: str = "process",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if not namespace:
            raise ValueError("namespace cannot be empty")
        self.path = os.fspath(path)
        self.durability = durability
        self._timeout = timeout
        self._namespace = namespace
        self._clock = clock
        self._closed = False
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        self._open()
        _open_stores.add(self)

    def _open(self) -> None:
        connection = self._connect()
        try:
            with translated(self.path):
                schema.prepare(connection, self.path, self._timeout)
                self.namespace_id, secret = schema.namespace(connection, self._namespace, self.path, self._timeout)
        except BaseException:
            connection.close()
            raise
        self.ids = Mint(secret)
        self.queue_ids: dict[str, int] = {}
        self._writer = Writer(connection, path=self.path, timeout=self._timeout, clock=self._clock)
        if self.path == ":memory:":
            self._reader, self._read_lock = connection, self._writer.lock
            self._watch = None
        else:
            self._reader, self._read_lock = self._connect(busy_timeout=self._timeout), threading.Lock()
            self._watch = Watch(lambda: self._connect(busy_timeout=self._timeout), self.path)
        self._wake = Wake(None if self._watch is None else self._watch.version)

    def _connect(self, busy_timeout: float = 0.0) -> sqlite3.Connection:
        with translated(self.path):
            return connect(self.path, durability=self.durability, timeout=self._timeout, busy_timeout=busy_timeout)

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def url(self) -> str:
        return "memory://" if self.path == ":memory:" else f"sqlite:///{self.path}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, namespace={self._namespace!r})"

    def now(self) -> float:
        return self._clock()

    def mint(self, count: int = 1) -> list[str]:
        return self.ids.take(count)

    # the three write verbs

    def commit(self, changes: Changes) -> Committed:
        def work(tx: Tx) -> Committed:
            enqueued = enqueue(tx, changes)
            add_edges(tx, changes.edges)
            settled = settle(tx, changes.settle, strict=changes.strict)
            operate.write_records(tx, changes.records)
            leased = leasing.lease(tx, changes.lease) if changes.lease is not None else []
            return Committed(enqueued, settled, leased)

        return self._write(work)

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        row = self.queue_ids.get(queue)
        if row is None:
            self._write(lambda tx: tx.queue_id(queue))
            row = self.queue_ids[queue]
        reserve = self.ids.reserve

        def work(execute: Execute, now: float) -> tuple[int, float]:
            while True:
                key = reserve()
                try:
                    execute(sql.INSERT_PLAIN, (key, row, 0, now, now, payload, codec, None))
                    break
                except sqlite3.IntegrityError:  # another process minted the same key
                    continue
            execute(sql.COUNT_PUT, (1, row))
            return key, now

        key, now = self._writer.run(work)
        self._wake.touched((queue,))
        return self.ids.id_of(key), now

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        key = self.ids.key_of(message_id)
        row = self.queue_ids.get(queue) or self._find_queue(queue)
        if key is None or row is None:
            return False
        touched = {queue}

        def work(execute: Execute, now: float) -> bool:
            rows = execute(sql.DELETE_LEASED, (key, row, token)).fetchall()
            if not rows:
                return False
            execute(sql.COUNT_ACK, (1, row))
            if rows[0] != NOTHING_FOLLOWS:
                tx = Tx(self, self._writer.connection, now)
                follow_ack(tx, row, key, *rows[0])
                tx.flush()
                touched.update(tx.touched)
            return True

        done = self._writer.run(work)
        self._wake.touched(touched)
        return done

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        queue, limit, timeout, leased_by, _, consume = request
        row = self.queue_ids.get(queue) or self._find_queue(queue)
        if row is None:
            return []
        if limit != 1 or consume or leased_by is not None:
            return self._write(lambda tx: leasing.lease(tx, request))

        def work(execute: Execute, now: float) -> list[StoredMessage]:
            until = now + timeout
            if execute(sql.COUNT_LEASE, (until, row, now)).rowcount == 1:
                claimed = execute(sql.CLAIM_ONE, (until, now, None, row)).fetchall()
                return [leasing.claimed(self.ids, self._writer.connection, request, claimed[0], until)]
            tx = Tx(self, self._writer.connection, now)
            messages = leasing.lease(tx, request)
            tx.flush()
            return messages

        messages = self._writer.run(work)
        if messages:
            self._wake.touched((queue,))
        return messages

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        return self._write(lambda tx: leasing.renew(tx, leases, timeout))

    def _write(self, work: Callable[[Tx], T]) -> T:
        """Run work in a write transaction of its own, then wake whoever waits for what it changed."""
        made: list[Tx] = []

        def apply(execute: Execute, now: float) -> T:
            tx = Tx(self, self._writer.connection, now)
            made.append(tx)
            result = work(tx)
            tx.flush()
            return result

        result = self._writer.run(apply)
        self.queue_ids.update(made[-1].new_queues)
        self._wake.touched(made[-1].touched)
        return result

    # reads

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._read_lock:
            if self._closed:
                raise QueueStoreClosedError(f"the store at {self.path!r} is closed", path=self.path)
            try:
                return work(self._reader)
            except sqlite3.Error as error:
                raise translate(error, self.path) from error

    def _find_queue(self, name: str) -> int | None:
        known = self.queue_ids.get(name)
        if known is None:
            row = self._read(
                lambda connection: connection.execute(
                    "SELECT id FROM queues WHERE namespace = ? AND name = ?", (self.namespace_id, name)
                ).fetchone()
            )
            if row is None:
                return None
            known = self.queue_ids[name] = row[0]
        return known

    def queue_name(self, connection: sqlite3.Connection, queue: int) -> str:
        return str(connection.execute("SELECT name FROM queues WHERE id = ?", (queue,)).fetchone()[0])

    def _read_queue(self, name: str, work: Callable[[sqlite3.Connection, int], T], missing: T) -> T:
        """Read about a queue in one snapshot; a queue that nobody has used yet is simply empty."""
        queue = self._find_queue(name)
        if queue is None:
            return missing

        def snapshot(connection: sqlite3.Connection) -> T:
            if connection.in_transaction:
                return work(connection, queue)
            connection.execute("BEGIN")
            try:
                return work(connection, queue)
            finally:
                connection.execute("COMMIT")

        return self._read(snapshot)

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        return self._read_queue(queue, lambda c, q: reads.get(c, self.ids, q, message_id), None)

    def qsize(self, queue: str) -> int:
        return self._read_queue(queue, lambda c, q: reads.counts(c, q, self._clock())[0], 0)

    def load(self, queue: str) -> int:
        def work(connection: sqlite3.Connection, row: int) -> int:
            counts = reads.counts(connection, row, self._clock())
            return counts[0] + counts[4]

        return self._read_queue(queue, work, 0)

    def stats(self, queue: str) -> QueueStats:
        return self._read_queue(queue, lambda c, q: reads.stats(c, q, self._clock()), QueueStats())

    def scan(
        self, queue: str, *, state: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[StoredMessage]:
        return self._read_queue(queue, lambda c, q: reads.scan(c, self.ids, q, state, after, limit), [])

    def queues(self) -> list[str]:
        rows = self._read(
            lambda c: c.execute(
                "SELECT name FROM queues WHERE namespace = ? ORDER BY name", (self.namespace_id,)
            ).fetchall()
        )
        return [row[0] for row in rows]

    def run(self, run_id: str) -> RunStats | None:
        return self._read(lambda c: reads.run(c, self.namespace_id, run_id))

    def run_messages(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> list[StoredMessage]:
        return self._read(lambda c: reads.run_messages(c, self.ids, self.namespace_id, run_id, after, limit))

    def upstream(self, queue: str, message_id: str) -> list[str]:
        return self._read_queue(queue, lambda c, q: reads.upstream(c, self.ids, q, message_id), [])

    def record(self, kind: str, key: str) -> Record | None:
        found = self._read(lambda c: reads.records(c, self.namespace_id, kind, [key], "", None))
        return found[0] if found else None

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        return self._read(lambda c: reads.records(c, self.namespace_id, kind, None, after, limit))

    def subscriptions(self, topic: str) -> Subscriptions:
        return self._read_queue(topic, reads.subscriptions, Subscriptions(0, ()))

    # operations

    def subscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, True))

    def unsubscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, False))

    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        return self._write(lambda tx: operate.requeue(tx, queue, ids, delay))

    def prune(self, queue: str, *, state: str, older_than: float, dry_run: bool = False) -> int:
        return self._write(lambda tx: operate.prune(tx, queue, state, older_than, dry_run))

    def purge(self, queue: str) -> int:
        return self._write(lambda tx: operate.purge(tx, queue))

    def cancel_run(self, run_id: str) -> int:
        return self._write(lambda tx: operate.cancel_run(tx, run_id))

    def pause(self, queue: str) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, True))

    def resume(self, queue: str) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, False))

    def paused(self, queue: str) -> bool:
        return self._read_queue(
            queue, lambda c, q: bool(c.execute("SELECT paused FROM queues WHERE id = ?", (q,)).fetchone()[0]), False
        )

    def heartbeat(self, queue: str, worker_id: str) -> None:
        self._write(lambda tx: operate.heartbeat(tx, queue, worker_id))

    def backup(self, path: str | os.PathLike[str]) -> None:
        self._read(lambda c: maintain.backup(c, os.fspath(path)))

    def check(self) -> CheckReport:
        return self._read(maintain.check)

    # wake

    def listen(self, queues: Sequence[str]) -> Waiter:
        def check() -> tuple[bool, float]:
            now, next_due = self._clock(), rules.NEVER
            for ready, _, due, paused in self._look(queues):
                if not paused and (ready or due <= now):
                    return True, now
                next_due = rules.NEVER if paused else min(next_due, due)
            return False, next_due

        return StoreWaiter(self._wake, tuple(queues), check, self._clock)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        def check() -> tuple[bool, float]:
            for name, maxsize in limits.items():
                for ready, blocked, _, _ in self._look([name]):
                    if ready + blocked >= maxsize:
                        return False, rules.NEVER
            return True, rules.NEVER

        return StoreWaiter(self._wake, tuple(limits), check, self._clock)

    def listen_run(self, run_id: str) -> Waiter:
        seen = [self.run(run_id)]

        def check() -> tuple[bool, float]:
            now = self.run(run_id)
            changed, seen[0] = now != seen[0], now
            return changed, rules.NEVER

        return StoreWaiter(self._wake, tuple(self.queues()), check, self._clock)

    def _look(self, queues: Sequence[str]) -> list[tuple[Any, ...]]:
        statement = "SELECT ready, blocked, due, paused FROM queues WHERE namespace = ? AND name = ?"

        def ask(name: str) -> list[tuple[Any, ...]]:
            parameters = (self.namespace_id, name)
            if self._watch is None:
                return self._read(lambda connection: connection.execute(statement, parameters).fetchall())
            return self._watch.query(statement, parameters)

        return [row for name in queues for row in ask(name)]

    # life

    def close(self) -> None:
        """Close the file. Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        if self._closed:
            return
        self._closed = True
        _open_stores.discard(self)
        if self._watch is not None:
            self._watch.close()
        self._wake.stir()
        if self._reader is not self._writer.connection:
            with self._read_lock:
                self._reader.close()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reopen_in_child(self) -> None:
        if self.path == ":memory:":
            _abandoned.append(self._writer)
            self._writer = Writer(self._writer.connection, path=self.path, timeout=self._timeout, clock=self._clock)
            self._read_lock, self._wake = self._writer.lock, Wake(None)
        else:
            _abandoned.extend((self._writer.connection, self._reader, self._watch))
            self._open()


class MemoryQueueStore(SQLiteQueueStore):
    """Thread-safe in-memory queue store for tests: the same code on a database that lives and dies with the process."""

    def __init__(self, *, namespace: str = "default", clock: Callable[[], float] = time.time) -> None:
        super().__init__(":memory:", namespace=namespace, clock=clock)

    def __repr__(self) -> str:
        return f"MemoryQueueStore(namespace={self.namespace!r})"


def _after_fork_in_child() -> None:
    for store in list(_open_stores):
        store._reopen_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
