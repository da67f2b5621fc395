"""`SQLiteQueueStore`: the store port on one SQLite file.

One connection writes, behind the lock of `Writer`; another reads, so that looking never waits for a commit. The hot
paths (put one, lease one, ack one) are written out here; everything else goes through a `Tx`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from localqueue.errors import IdTaken
from localqueue.ids import IdRange, Mint
from localqueue.stores import fork
from localqueue.stores.observing import Observed
from localqueue.stores.port import (
    Changes,
    Committed,
    Lease,
    LeaseRequest,
    Payload,
    RecordWrite,
    Settle,
    StoredMessage,
)
from localqueue.stores.sqlite import joining, maintain, operate, reads, schema
from localqueue.stores.sqlite import lease as leasing
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.changes import apply
from localqueue.stores.sqlite.connection import (
    SYNCHRONOUS,
    connect,
    make_parent,
    patiently,
    register_clock,
    translated,
)
from localqueue.stores.sqlite.enqueue import insert_batch
from localqueue.stores.sqlite.exchange import exchange, is_exchange
from localqueue.stores.sqlite.journal import KeepsJournal
from localqueue.stores.sqlite.listening import ListensToQueues
from localqueue.stores.sqlite.reader import Reader
from localqueue.stores.sqlite.rows import claimed_message
from localqueue.stores.sqlite.tx import Tx
from localqueue.stores.sqlite.watch import Watch
from localqueue.stores.sqlite.writer import Execute, Writer
from localqueue.stores.wake import Wake

T = TypeVar("T")


class SQLiteQueueStore(KeepsJournal, ListensToQueues, Observed):
    """SQLite-backed queue store; the default.

    `durability="process"` survives the death of the process (`synchronous=NORMAL`), `"power"` also the loss of power
    (`FULL`). `timeout` is how long to wait for another process's write lock. With `shared` the file may be that of an
    application: its tables stay as they are, ours are named `lq_...`, and the file is switched to WAL mode. Safe to
    share between threads, to open from many processes, and to carry over a fork.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        timeout: float = 15.0,
        *,
        namespace: str = "default",
        durability: str = "process",
        shared: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if not namespace:
            raise ValueError("namespace cannot be empty")
        super().__init__()
        self.path = os.fspath(path)
        self.durability = durability
        self._timeout = timeout
        self._shared = shared
        self._namespace = namespace
        self._clock = clock
        self._closed = False
        if self.path != ":memory:":
            make_parent(self.path)
        self._open()
        fork.track(self)

    def _open(self) -> None:
        shared = self._shared
        connection = self._connect(recognise=lambda c: schema.recognise(c, self.path, shared=shared))
        try:
            with translated(self.path):
                patiently(lambda: schema.prepare(connection, self.path, shared=shared), self.path, self._timeout)
                self.namespace_id, secret = patiently(
                    lambda: schema.namespace(connection, self._namespace), self.path, self._timeout
                )
            reading = connection if self.path == ":memory:" else self._connect()
        except BaseException:
            connection.close()
            raise
        self.ids = Mint(secret)
        self.queue_ids: dict[str, int] = {}
        self._drained: set[int] = set()  # queues whose last claim found nothing: a look comes before the next one
        self._writer = Writer(connection, path=self.path, clock=self._clock)
        if self.path == ":memory:":
            self._reader = Reader(reading, self._writer.lock, self.path)
            self._watch: Watch | None = None
        else:
            self._reader = Reader(reading, threading.Lock(), self.path)
            self._watch = Watch(self._connect, self.path)
        self._wake = Wake(None if self._watch is None else self._version)

    def _connect(self, recognise: Callable[[sqlite3.Connection], object] | None = None) -> sqlite3.Connection:
        with translated(self.path):
            connection = connect(self.path, durability=self.durability, timeout=self._timeout, recognise=recognise)
        try:
            register_clock(connection, self._clock)
        except BaseException:
            connection.close()
            raise
        return connection

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
        if is_exchange(changes) and self._watched.seen is None:
            assert changes.lease is not None
            queue = self.queue_ids.get(changes.lease.queue)
            if queue is not None:
                return self._exchange(queue, changes)
        return self._write(lambda tx: apply(tx, changes))

    def _exchange(self, queue: int, changes: Changes) -> Committed:
        def work(execute: Execute, now: float) -> tuple[Committed, Tx | None]:
            committed, tx = exchange(self, queue, changes, execute, now)
            if tx is not None:
                tx.flush()
            return committed, tx

        committed, tx = self._writer.run(work)
        assert changes.lease is not None
        self._wake.touched((changes.lease.queue,) if tx is None else tx.touched | {changes.lease.queue})
        return committed

    def new_tx(self, now: float, *, observed: bool = False) -> Tx:
        """Called by whichever thread commits; whether the work is observed is known to the one that asked for it."""
        return Tx(self, self._writer.connection, now, observed)

    def commit_within(self, connection: sqlite3.Connection, changes: Changes) -> Committed:
        """Apply changes in the open transaction of the user's connection to the same file."""
        return joining.commit_within(self, connection, changes)

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        row = self.queue_ids.get(queue) or self._write(lambda tx: tx.queue_id(queue))
        now = self._clock()
        while True:
            key = self.ids.reserve()
            try:
                self._writer.one(sql.PUT_ONE, (key, row, now, payload, codec))
                break
            except sqlite3.IntegrityError:  # another process minted the same key
                continue
        self._drained.discard(row)
        self._wake.touched((queue,))
        return self.ids.id_of(key), now

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        def work(tx: Tx) -> tuple[range, float]:
            if records:  # first, so that a batch that is refused costs little
                operate.write_records(self, tx.connection.execute, tx.now, records)
            first = self.ids.reserve(len(payloads))
            keys = range(first, first + len(payloads))
            insert_batch(tx, queue, payloads, codec, keys)
            return keys, tx.now

        while True:
            try:
                keys, now = self._write(work)
                return IdRange(self.ids, keys), now
            except IdTaken:
                continue

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        key = self.ids.key_of(message_id)
        row = self.queue_ids.get(queue) or self._find_queue(queue)
        if key is None or row is None:
            return False
        if self._writer.one(sql.ACK_ONE, (key, row, token)):
            self._wake.touched((queue,))
            return True
        settle = Settle(queue, message_id, "ack", token)
        return self.commit(Changes(settle=(settle,), strict=False)).settled[0]

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        queue, _, timeout, leased_by, max_attempts, *_ = request
        row = self.queue_ids.get(queue) or self._find_queue(queue)
        if row is None or (row in self._drained and not self._look_again(row, leased_by)):
            return []
        self._drained.discard(row)
        if leasing.is_plain(request) and request.ledger is None:
            now = self._clock()
            until = now + timeout
            claim = (row, now, until, max_attempts, leased_by)
            claimed = self._writer.claim(sql.CLAIM_ONE, claim, sql.CLAIMED_MESSAGE)
            if claimed is not None:
                self._wake.touched((queue,))
                key, token, found = claimed
                message = claimed_message(self.ids, queue, key, token, found, now, until, leased_by) if found else None
                message = message or self.get(queue, self.ids.id_of(key))
                return [message] if message is not None else self.lease(request)  # an operator removed it at once
            if not self._look_again(row, leased_by):
                self._drained.add(row)
                return []
        while True:
            messages = self._write(lambda tx: leasing.lease(tx, request))
            if messages is not None:
                return messages

    def _look_again(self, queue: int, worker: str | None) -> bool:
        """Whether an unsuccessful claim was only held up: by a timer, or by a message that can expire."""
        found = self._reader.one(sql.LOOK, (queue, worker))
        assert found is not None
        ready, _, until, paused_at = found
        return paused_at is None and (ready > 0 or until <= self._clock())

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        return self._write(lambda tx: leasing.renew(tx, leases, timeout))

    def _write(self, work: Callable[[Tx], T]) -> T:
        """Run work in a write transaction of its own, then wake whoever waits for what it changed."""
        made: list[Tx] = []
        seen = self._watched.seen

        def apply(execute: Execute, now: float) -> T:
            tx = self.new_tx(now, observed=seen is not None)
            made.append(tx)
            result = work(tx)
            tx.flush()
            return result

        result = self._writer.run(apply)
        self.queue_ids.update(made[-1].new_queues)
        self._wake.touched(made[-1].touched)
        if seen is not None:
            seen += made[-1].transitions
        return result

    def file(self) -> str:
        """The file that is open, whatever the working directory has become since."""
        return str(self._reader.run(lambda c: c.execute("PRAGMA database_list").fetchone()[2]))

    def queue_name(self, connection: sqlite3.Connection, queue: int) -> str:
        return str(connection.execute("SELECT name FROM lq_queues WHERE id = ?", (queue,)).fetchone()[0])

    # operations

    def subscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, True))

    def unsubscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, False))

    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        return self._write(lambda tx: operate.requeue(tx, queue, ids, delay))

    def prune(self, queue: str, *, state: str, older_than: float, dry_run: bool = False) -> int:
        if dry_run:
            return self._read(queue, lambda c, q: reads.prunable(c, q, state, self._clock() - older_than), 0)
        return self._write(lambda tx: operate.prune(tx, queue, state, older_than))

    def purge(self, queue: str) -> int:
        return self._write(lambda tx: operate.purge(tx, queue))

    def cancel_run(self, run_id: str) -> int:
        return self._write(lambda tx: operate.cancel_run(tx, run_id))

    def pause(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, True))

    def resume(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, False))

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        self._write(lambda tx: operate.heartbeat(tx, queue, worker_id, leases))

    def backup(self, path: str | os.PathLike[str]) -> None:
        self._reader.require_open()
        if self._watch is None:
            self._reader.run(lambda connection: maintain.backup(connection, os.fspath(path)))
        else:
            source = self._connect()
            try:
                maintain.backup(source, os.fspath(path))
            finally:
                source.close()

    # life

    def close(self) -> None:
        """Close the file. Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        if self._closed:
            return
        self._closed = True
        fork.forget(self)
        self._reader.close()
        if self._watch is not None:
            self._watch.close()
            self._reader.connection.close()
        self._writer.close()
        self._wake.stir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # fork: SQLite's record of the file locks it holds is inherited, the locks are not. So no transaction may be open
    # when the process forks, and the child closes what it inherited before it opens anything.

    def hold_for_fork(self) -> None:
        self._writer.lock.acquire()
        if self._watch is not None:
            self._reader.lock.acquire()
            self._watch.lock.acquire()

    def go_on_after_fork(self) -> None:
        if self._watch is not None:
            self._watch.lock.release()
            self._reader.lock.release()
        self._writer.lock.release()

    def close_in_child(self) -> None:
        if self._watch is not None:
            for connection in (self._writer.connection, self._reader.connection, self._watch.connection):
                if connection is not None:
                    connection.close()

    def reopen_in_child(self) -> None:
        if self._watch is not None:
            self._open()
            return
        self._writer = Writer(self._writer.connection, path=self.path, clock=self._clock)
        self._reader = Reader(self._writer.connection, self._writer.lock, self.path)
        self._wake = Wake(None)


class MemoryQueueStore(SQLiteQueueStore):
    """Thread-safe in-memory queue store for tests: the same code on a database that lives and dies with the process."""

    def __init__(self, *, namespace: str = "default", clock: Callable[[], float] = time.time) -> None:
        super().__init__(":memory:", namespace=namespace, clock=clock)

    def __repr__(self) -> str:
        return f"MemoryQueueStore(namespace={self.namespace!r})"
