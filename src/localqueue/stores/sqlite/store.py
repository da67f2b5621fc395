"""`SQLiteQueueStore`: the store port on one SQLite file.

One connection writes, behind the lock of `Writer`; another reads, so that looking never waits for a commit. The hot
paths (put one, lease one, ack one) are written out here; the other short ways are in `fast.py`, and whatever is left is
decided by the engine.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from localqueue.errors import QueueStoreFullError, QueueStoreMissingError
from localqueue.ids import Mint
from localqueue.stores import fork, rules
from localqueue.stores.engine.commit import apply, put_pages
from localqueue.stores.engine.leases import lease
from localqueue.stores.engine.order import newer_keys
from localqueue.stores.engine.unit import Unit
from localqueue.stores.path import require_path
from localqueue.stores.port import (
    Changes,
    Committed,
    Compacted,
    Lease,
    LeaseRequest,
    Limit,
    Page,
    Payload,
    Put,
    RecordWrite,
    Settle,
    StoredMessage,
)
from localqueue.stores.room import size_of, size_of_batch
from localqueue.stores.sqlite import fast, schema
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.connection import (
    Reader,
    connect,
    make_place,
    patiently,
    register_clock,
)
from localqueue.stores.sqlite.errors import translated
from localqueue.stores.sqlite.journal import KeepsJournal
from localqueue.stores.sqlite.notify import Notifies
from localqueue.stores.sqlite.reads import claimed_message
from localqueue.stores.sqlite.rows import Execute, SQLiteRows
from localqueue.stores.sqlite.space import Space
from localqueue.stores.sqlite.writer import LONGEST_PAUSE, Unwritable, Writer
from localqueue.stores.wake import Wake, heed

T = TypeVar("T")


class SQLiteQueueStore(KeepsJournal, Notifies):
    """SQLite-backed queue store; the default.

    `durability="process"` survives the death of the process (`synchronous=NORMAL`), `"power"` also the loss of power
    (`FULL`). `timeout` is how long to wait for another process's write lock. With `shared` the file may be that of an
    application: its tables stay as they are, ours are named `lq_...`, and the file is switched to WAL mode. With
    `read_only` the store is opened to look, in a directory that may be read-only: nothing is made or changed. Safe to
    share between threads, to open from many processes, and to carry over a fork.
    """

    _pause_between_pieces = 1.2 * LONGEST_PAUSE

    def __init__(
        self,
        path: str | os.PathLike[str],
        timeout: float = 15.0,
        *,
        namespace: str = "default",
        durability: str = "process",
        shared: bool = False,
        clock: Callable[[], float] = time.time,
        read_only: bool = False,
    ) -> None:
        super().__init__(namespace=namespace, durability=durability, read_only=read_only)
        self.path = require_path(path)
        self._timeout = timeout
        self._shared = shared
        self._clock = clock
        self._closed = False
        if self.read_only:
            self._open_to_look()
        else:
            if self.path != ":memory:":
                make_place(self.path)
            self._open()
        fork.track(self)

    def _open(self) -> None:
        shared = self._shared
        connection = self._connect(recognise=lambda c: schema.recognise(c, self.path, shared=shared))
        try:
            with translated(self.path):
                patiently(lambda: schema.prepare(connection, self.path, shared=shared), self.path, self._timeout)
                found = patiently(
                    lambda: schema.namespace(connection, self.path, self._namespace), self.path, self._timeout
                )
            if self.path == ":memory:":
                self._begin_in_memory(connection)
            else:
                self._writer = Writer(connection, path=self.path, clock=self._clock, timeout=self._timeout)
                self._watch: Reader | None = Reader(self._connect, self.path)  # opened when somebody first waits
                self._reader = Reader(self._connect, self.path)
                self._reader.open()
        except BaseException:
            connection.close()
            raise
        self._begin(*found)

    def _begin_in_memory(self, connection: sqlite3.Connection) -> None:
        """Reads and writes share the one connection that has the database."""
        self._watch = None
        self._writer = Writer(connection, path=self.path, clock=self._clock, timeout=self._timeout)
        self._reader = Reader(lambda: connection, self.path, self._writer.lock)

    def _open_to_look(self) -> None:
        from localqueue.stores.sqlite.onlooker import Onlooker

        self._watch = None
        self._reader = Onlooker(self.path, self._timeout, url=self.url)
        self._writer = cast("Writer", Unwritable(self._require_writable))
        try:
            found = self._reader.run(self._find_namespace)
        except BaseException:
            self._reader.close()
            raise
        self._begin(*found)

    def _find_namespace(self, connection: sqlite3.Connection) -> tuple[int, int]:
        version = schema.recognise(connection, self.path, shared=self._shared)
        if version == 0:
            raise QueueStoreMissingError(f"there is no store at {self.url!r}", path=self.path)
        schema.require_current(version, self.path)
        found = schema.find_namespace(connection, self.path, self._namespace)
        if found is None:
            raise QueueStoreMissingError(
                f"there is no namespace {self._namespace!r} in the store at {self.url!r}", path=self.path
            )
        return found

    def _begin(self, namespace: int, secret: int) -> None:
        self.namespace_id = namespace
        self.ids = Mint(secret)
        self._names: dict[int, str] = {}
        self.step_queues: set[int] = set()  # those whose last ack was of a message of a run
        self._drained: set[int] = set()  # queues whose last claim found nothing: a look comes before the next one
        self._wake = Wake(None if self._watch is None else self._version)
        heed(self._clock, self._wake.stir)

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
    def url(self) -> str:
        return "memory://" if self.path == ":memory:" else f"sqlite:///{self.path}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, namespace={self._namespace!r})"

    # the three write verbs

    def commit(self, changes: Changes) -> Committed:
        if fast.is_step(changes):
            queue = self.queue_ids.get(changes.settle[0].queue)
            if queue is not None:
                return self._step(queue, changes)
        if changes.enqueue:
            return self._put(size_of(changes.enqueue), lambda unit: apply(unit, changes))
        return self._write(lambda unit: apply(unit, changes))

    def _step(self, queue: int, changes: Changes) -> Committed:
        seen = self._watched.seen

        freed: set[int] = set()

        def work(execute: Execute, now: float) -> tuple[Committed, Unit | None, Any]:
            freed.clear()
            committed, unit = fast.step(self, queue, changes, execute, now, seen is not None, freed)
            return committed, unit, None if unit is None else unit.finish()

        committed, unit, transitions = self._writer.run(work)
        self._wake.touched((changes.settle[0].queue, *map(self._queue_name, freed - {queue})))
        self._drained -= freed
        self._wake.wrote(changes.records)
        if unit is not None:
            self._done(unit, transitions, seen)
        return committed

    def new_rows(self) -> SQLiteRows:
        return SQLiteRows(self, self._writer.connection)

    def new_unit(self, now: float, *, observed: bool) -> Unit:
        """Called by whichever thread commits; whether the work is observed is known to the one that asked for it."""
        return Unit(self.new_rows(), now, observed=observed)

    def commit_within(self, connection: sqlite3.Connection, changes: Changes) -> Committed:
        """Apply changes in the open transaction of the user's connection to the same file."""
        from localqueue.stores.sqlite import guest

        self._require_writable()
        return guest.commit_within(self, connection, changes)

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        row = self.queue_ids.get(queue)
        if row is None or not self._writer.is_ample(len(payload)):
            return self._put_alone(queue, payload, codec)

        def work(execute: Execute, now: float) -> tuple[int, float]:
            key = self.ids.reserve()
            execute(sql.PUT_ONE, (key, row, now, payload, codec))
            return key, now

        try:
            key, at = self._writer.one(work)
        except sqlite3.IntegrityError:  # another process was quicker, or the clock went back
            return self._put_alone(queue, payload, codec)
        self._drained.discard(row)
        self._wake.touched((queue,))
        return self.ids.id_of(key), at

    def _put_alone(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        (message_id,), at = self.put_batch(queue, [payload], codec)
        return message_id, at

    def _put_batch(
        self,
        queue: str,
        keys: range,
        payloads: Sequence[Payload],
        codec: str | None,
        records: Sequence[RecordWrite],
    ) -> tuple[range, float]:
        def work(unit: Unit) -> tuple[range, float]:
            rows = _rows_of(unit)
            unit.write_records(records)
            number = rows.queue(queue)
            unit.changed_queues.add(number)
            under = newer_keys(unit, keys, (number,), keep=False) or keys
            rows.write_plain(number, under, payloads, codec, unit.now)
            return under, unit.now

        return self._put(size_of_batch(payloads), work)

    def _put_pages(
        self,
        pages: Iterable[Page],
        records: Sequence[RecordWrite],
        limits: Mapping[str, Limit],
        topics: Mapping[str, int],
        receipt: tuple[str, str] | None,
    ) -> Put:
        """How much it is turns out on the way: each page asks for the room of all up to it, inside the transaction."""
        if self.path == ":memory:":
            pages = list(pages)  # which may come out of the one connection that there is
        for _ in range(2):
            size = 0

            def admit(unit: Unit, page: Page) -> None:
                nonlocal size
                size += size_of_batch(page.payload)
                self._writer.require_room(size)

            try:
                return self._write(lambda unit: put_pages(unit, pages, records, limits, topics, receipt, admit))
            except QueueStoreFullError as error:
                full = error
                self._writer.make_room(size)
        raise full

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        key = self.ids.key_of(message_id)
        row = self.queue_ids.get(queue) or self._find_queue(queue)
        if key is None or row is None:
            return False
        if self._writer.one(lambda execute, _: execute(sql.ACK_ONE, (key, row, token)).rowcount):
            self._wake.touched((queue,))
            return True
        return self._settle_one(Settle(queue, message_id, "ack", token))

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        if self.read_only:
            self._require_writable()
        queue, _, timeout, leased_by, *_ = request
        row = self.queue_ids.get(queue) or self._find_queue(queue)
        if row is None or (row in self._drained and not self._look_again(row, leased_by)):
            return []
        self._drained.discard(row)
        if fast.is_plain(request) and request.ledger is None:
            now, claimed = self._writer.one(lambda execute, now: (now, fast.claim_one(execute, row, request, now)))
            if claimed is not None:
                self._wake.touched((queue,))
                key, token, found = claimed
                until = now + timeout
                message = claimed_message(self.ids, queue, key, token, found, now, until, leased_by) if found else None
                message = message or self.get(queue, self.ids.id_of(key))
                return [message] if message is not None else self.lease(request)  # an operator removed it at once
            if not self._look_again(row, leased_by):
                self._drained.add(row)
                return []
        while True:
            messages = self._write(lambda unit: lease(unit, request))
            if messages is not None:
                return messages

    def _look_again(self, queue: int, worker: str | None) -> bool:
        """Whether an unsuccessful claim was only held up: by a timer, or by a message that can expire."""

        def look(connection: sqlite3.Connection) -> bool:
            ready, _, until, paused_at = connection.execute(sql.LOOK, (queue, worker)).fetchone()
            return paused_at is None and (ready > 0 or until <= self._clock())

        return self._reader.read(look)

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        def work(unit: Unit) -> list[float | None]:
            return [_rows_of(unit).renew(one, unit.now + timeout) for one in leases]

        return self._write(work)

    def _put(self, size: int, work: Callable[[Unit], T]) -> T:
        """Write so many bytes of messages, which the disk must have room for."""
        if self._writer.is_ample(size):
            return self._write(work)

        def admitted(unit: Unit) -> T:
            self._writer.require_room(size)
            return work(unit)

        with self._writer.entrance:
            try:
                return self._write(admitted)
            except QueueStoreFullError:
                self._writer.make_room(size)
            return self._write(admitted)

    def _write(self, work: Callable[[Unit], T], queues: Sequence[str] = ()) -> T:
        made: list[Unit] = []
        seen = self._watched.seen

        def run(execute: Execute, now: float) -> tuple[T, Any]:
            unit = self.new_unit(now, observed=seen is not None)
            made.append(unit)
            result = work(unit)
            return result, unit.finish()

        result, transitions = self._writer.run(run)
        self._done(made[-1], transitions, seen)
        return result

    def _done(self, unit: Unit, transitions: Any, seen: Any) -> None:
        new = _rows_of(unit).new_queues
        self.queue_ids.update(new)
        self._wake.touched([*map(self._queue_name, unit.changed_queues), *unit.changed_records])
        if seen is not None:
            seen += transitions

    def _queue_name(self, queue: int) -> str:
        name = self._names.get(queue)
        if name is None:
            found = self._reader.one("SELECT name FROM lq_queues WHERE id = ?", (queue,))
            name = self._names[queue] = "" if found is None else found[0]
        return name

    def file(self) -> str:
        """The file that is open, whatever the working directory has become since."""
        return str(self._reader.rows("PRAGMA database_list")[0][2])

    # operations

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        def work(unit: Unit) -> None:
            rows, number = _rows_of(unit), unit.rows.queue(queue)
            rows.execute(sql.HEARTBEAT, (number, worker_id, unit.now, leases))
            rows.execute(sql.FORGET_WORKERS, (number, unit.now - rules.KNOWN))

        self._write(work)

    def backup(self, path: str | os.PathLike[str]) -> None:
        from localqueue.stores.sqlite.backup import publish

        self._reader.require_open()
        if self._watch is None:
            publish(os.fspath(path), lambda copy: self._reader.run(lambda source: source.backup(copy)))
        else:
            source = self._connect()
            try:
                publish(os.fspath(path), source.backup)
            finally:
                source.close()

    def _compact(self) -> Compacted:
        self._reader.require_open()
        if self._watch is None:
            return Compacted()  # memory that is free is used for something else
        connection = self._connect()
        try:
            with translated(self.path):
                return Space(connection, self.path).compact()
        finally:
            connection.close()

    # life

    def close(self) -> None:
        """Close the file. Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        if self._closed:
            return
        self._closed = True
        fork.forget(self)
        if not self.read_only:
            self._writer.close()
        self._reader.close()
        if self._watch is not None:
            self._watch.close()
        self._wake.stir()

    # fork: SQLite's record of the file locks it holds is inherited, the locks are not. So no transaction may be open
    # when the process forks, and the child closes what it inherited before it opens anything.

    def _locks(self) -> list[threading.Lock]:
        if self.path == ":memory:":
            return [self._writer.lock]
        return [self._reader.lock] if self._watch is None else [self._writer.lock, self._reader.lock, self._watch.lock]

    def hold_for_fork(self) -> None:
        for lock in self._locks():
            lock.acquire()

    def go_on_after_fork(self) -> None:
        for lock in self._locks():
            lock.release()

    def close_in_child(self) -> None:
        if self.path == ":memory:":
            return
        self._reader.let_go()
        if self._watch is not None:
            self._watch.let_go()
            self._writer.connection.close()

    def reopen_in_child(self) -> None:
        if self._watch is not None:
            self._open()
        elif self.read_only:
            self._reader.lock = threading.Lock()
        else:
            self._begin_in_memory(self._writer.connection)
            self._wake = Wake(None)
            heed(self._clock, self._wake.stir)


def _rows_of(unit: Unit) -> SQLiteRows:
    assert isinstance(unit.rows, SQLiteRows)
    return unit.rows


class MemoryQueueStore(SQLiteQueueStore):
    """Thread-safe in-memory queue store for tests: the same code on a database that lives and dies with the process."""

    def __init__(self, *, namespace: str = "default", clock: Callable[[], float] = time.time) -> None:
        super().__init__(":memory:", namespace=namespace, clock=clock)

    def __repr__(self) -> str:
        return f"MemoryQueueStore(namespace={self.namespace!r})"
