"""`LMDBQueueStore`: the store port on one LMDB environment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from localqueue.events.journal import JournalEvent
from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import refusals
from localqueue.stores.engine import commit, leases
from localqueue.stores.engine.row import READY
from localqueue.stores.engine.store import EngineStore
from localqueue.stores.engine.unit import Unit
from localqueue.stores.lmdb import backup, check, connection, fast, journal, notify, schema
from localqueue.stores.lmdb.keys import Txn
from localqueue.stores.lmdb.reads import Reads
from localqueue.stores.lmdb.rows import LMDBRows
from localqueue.stores.lmdb.writer import Writer
from localqueue.stores.path import require_path
from localqueue.stores.port import (
    Changes,
    CheckReport,
    Committed,
    Compacted,
    LeaseRequest,
    Page,
    Payload,
    Record,
    RecordWrite,
    Settle,
    StoredMessage,
    Subscriptions,
    Waiter,
)
from localqueue.stores.room import A_ROW, size_of, size_of_batch
from localqueue.stores.wake import heed, told_records

T = TypeVar("T")


class LMDBQueueStore(EngineStore):
    """LMDB-backed queue store in the directory `path`; needs the extra `localqueue[lmdb]`.

    `durability="process"` survives the death of the process; `"power"` syncs every commit and survives the loss of
    power, after which a store in `"process"` may be damaged. Stores of one process on the same directory share the
    stronger of their durabilities; processes should agree on it. `map_size` is where the map starts: it grows by
    itself. `timeout` is how long to wait for another process's write lock. Safe to share between threads, to open
    from many processes, and to carry over a fork. With `read_only` nothing is made or changed; in a directory that may
    not be written, writers wait while it reads.
    """

    _pause_between_pieces = 2 * connection.LONGEST_PAUSE

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        map_size: int = 10**8,
        namespace: str = "default",
        durability: str = "process",
        clock: Callable[[], float] = time.time,
        timeout: float = 15.0,
        read_only: bool = False,
    ) -> None:
        super().__init__(namespace=namespace, durability=durability, read_only=read_only)
        if map_size <= 0:
            raise ValueError(f"map_size must be positive, not {map_size!r}")
        self.path = require_path(path)
        self._timeout = timeout
        self._clock = clock
        if read_only and not connection.is_there(self.path):
            raise refusals.missing("store", self.url, self.path)
        self._environment, self._finalizer = connection.acquire(
            self, self.path, map_size=map_size, sync=durability == "power", writing=not read_only
        )
        try:
            self.namespace_id, self._secret = self._environment.read(self._find_namespace) or self._writer.run(
                self._make_namespace, clock=clock, timeout=timeout
            )
        except BaseException:
            self._finalizer()
            raise
        self.ids = Mint(self._secret)
        heed(clock, self._environment.wake.stir)
        connection.stores.add(self)

    def _find_namespace(self, txn: Txn) -> tuple[int, int] | None:
        version = schema.version(txn, self.path, looking=self.read_only)
        found = schema.find_namespace(txn, self._namespace) if version == schema.current_version() else None
        if self.read_only and found is None:
            what = f"namespace {self._namespace!r} in the store" if version else "store"
            raise refusals.missing(what, self.url, self.path)
        return found

    def _make_namespace(self, txn: Txn, now: float) -> tuple[int, int]:
        schema.prepare(txn, self.path)
        return schema.namespace(txn, self._namespace)

    @property
    def url(self) -> str:
        return f"lmdb:///{self.path}"

    @property
    def _writer(self) -> Writer:
        return self._environment.writer

    def now(self) -> float:
        return self._clock()

    @property
    def clock(self) -> Callable[[], float]:
        """The clock it was opened with."""
        return self._clock

    # the three write verbs

    def commit(self, changes: Changes) -> Committed:
        if fast.is_step(changes):
            return self._change(lambda rows: self._step(rows, changes))
        if changes.enqueue:
            self._require_usable()
            self._environment.room.admit(size_of(changes.enqueue))
        return self._change(lambda rows: self._put(rows, changes))

    def _put(self, rows: LMDBRows, changes: Changes) -> Committed:
        return fast.put(rows, changes) or self._engine(rows, lambda unit: commit.apply(unit, changes))

    def _step(self, rows: LMDBRows, changes: Changes) -> Committed:
        settled = fast.settle(rows, changes.settle, strict=changes.strict)
        if settled is None:
            return self._engine(rows, lambda unit: commit.apply(unit, changes))
        versions = rows.write_records(changes.records, rows.now)
        rows.changed_records |= told_records(changes.records)
        leased = None if changes.lease is None else self._lease(rows, changes.lease, settle_all=True)
        return Committed([], settled, leased or [], versions)

    def _lease(self, rows: LMDBRows, request: LeaseRequest, *, settle_all: bool = False) -> list[StoredMessage] | None:
        leased = fast.lease(rows, request)
        if leased is None:
            leased = self._engine(rows, lambda unit: leases.lease(unit, request, settle_all=settle_all))
        return leased

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        self._require_usable()
        self._environment.room.admit(len(payload) + A_ROW)
        return self._change(lambda rows: fast.put_one(rows, queue, payload, codec))

    def _put_batch(
        self,
        queue: str,
        keys: range,
        payloads: Sequence[Payload],
        codec: str | None,
        records: Sequence[RecordWrite],
    ) -> tuple[range, float]:
        self._require_usable()
        self._environment.room.admit(size_of_batch(payloads))
        return super()._put_batch(queue, keys, payloads, codec, records)

    def _admit_page(self, unit: Unit, page: Page) -> None:
        self._environment.room.admit(size_of_batch(page.payload))

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        acks = Changes(settle=(Settle(queue, message_id, "ack", token),), strict=False)
        return self._is_used(queue) and self._change(lambda rows: self._step(rows, acks)).settled[0]

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        while self._is_used(request.queue):
            leased = self._change(lambda rows: self._lease(rows, request))
            if leased is not None:
                return leased
        return []

    def _is_used(self, queue: str) -> bool:
        """False when there is nothing to do in a queue, since there is no such queue."""
        self._require_writable()
        return self._find_queue(queue) is not None

    def _write(self, work: Callable[[Unit], T], queues: Sequence[str] = ()) -> T:
        return self._change(lambda rows: self._engine(rows, work))

    def _engine(self, rows: LMDBRows, work: Callable[[Unit], T]) -> T:
        """Have the engine decide about the rows of a write transaction."""
        unit = Unit(rows, rows.now, observed=rows.observed)
        result = work(unit)
        rows.transitions = unit.finish()
        rows.changed |= unit.changed_queues
        rows.changed_records |= unit.changed_records
        return result

    def _change(self, work: Callable[[LMDBRows], T]) -> T:
        """Run work in a write transaction of its own, then wake whoever waits for what it changed."""
        self._require_usable()
        seen = self._watched.seen

        def apply(txn: Txn, now: float) -> tuple[T, LMDBRows, list[str]]:
            rows = LMDBRows(self, txn, now, observed=seen is not None)
            return work(rows), rows, rows.flush()

        result, rows, changed = self._writer.run(apply, clock=self._clock, timeout=self._timeout)
        self.queue_ids.update(rows.new_queues)
        self._environment.wake.touched([(self.namespace_id, name) for name in (*changed, *rows.changed_records)])
        if seen is not None:
            seen += rows.transitions
        return result

    # reads

    def _require_usable(self) -> None:
        self._require_open()
        self._require_writable()

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise refusals.closed(self.path)

    def _read(self, work: Callable[[Reads], T]) -> T:
        self._require_open()
        return self._environment.read(lambda txn: work(Reads(self, txn, self._clock())))

    def _look_up_queue(self, name: str) -> int | None:
        return self._read(lambda reads: reads.find_queue(name))

    def _read_queue(self, name: str, work: Callable[[Reads, int], T], missing: T) -> T:
        """Read about a queue in one snapshot; a queue that nobody has used yet is simply empty."""
        queue = self._find_queue(name)
        return missing if queue is None else self._read(lambda reads: work(reads, queue))

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        def look(reads: Reads, number: int) -> StoredMessage | None:
            row = reads.in_queue(number, message_id)
            return None if row is None else reads.message(row)

        return self._read_queue(queue, look, None)

    def qsize(self, queue: str) -> int:
        return self._read_queue(queue, lambda reads, number: reads.counts(number)[READY], 0)

    def load(self, queue: str) -> int:
        return self._read_queue(queue, Reads.load, 0)

    def stats(self, queue: str) -> QueueStats:
        return self._read_queue(queue, Reads.stats, QueueStats())

    def _scan(
        self, queue: str, state: str | None, after: str | None, last: int | None, limit: int | None
    ) -> list[StoredMessage]:
        return self._read_queue(queue, lambda reads, number: reads.scan(number, state, after, last, limit), [])

    def _splits(self, queue: str, parts: int) -> list[str]:
        return self._read_queue(queue, lambda reads, number: reads.splits(number, parts), [])

    def queues(self) -> list[str]:
        return self._read(Reads.queues)

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        return self._read(lambda reads: reads.runs_behind(after, limit))

    def run(self, run_id: str) -> RunStats | None:
        return self._read(lambda reads: reads.run(run_id))

    def _run_messages(self, run_id: str, after: str | None, limit: int | None) -> list[StoredMessage]:
        return self._read(lambda reads: reads.run_messages(run_id, after, limit))

    def upstream(self, queue: str, message_id: str) -> list[str]:
        return self._read_queue(queue, lambda reads, number: reads.upstream_of(number, message_id), [])

    def record(self, kind: str, key: str) -> Record | None:
        return self._read(lambda reads: reads.record(kind, key))

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        return self._read(lambda reads: list(islice(reads.records(kind, after), limit)))

    def subscriptions(self, topic: str) -> Subscriptions:
        return self._read_queue(topic, Reads.subscriptions, Subscriptions(0, ()))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        if worker is None:
            return self._read_queue(queue, lambda reads, number: reads.queue_row(number).paused, False)
        return self._read_queue(queue, lambda reads, number: bool(reads.worker_row(number, worker).paused), False)

    def _prunable(self, queue: int, state: int, until: float) -> int:
        return self._read(lambda reads: sum(1 for _ in reads.ended_by(queue, state, until)))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a verified copy; it appears under `path`, a new directory, whole or not at all."""
        self._require_open()
        backup.backup(self._environment, os.fspath(path))

    def _compact(self) -> Compacted:
        self._require_open()
        return self._environment.compact(self._timeout)

    def check(self) -> CheckReport:
        return self._read(lambda reads: check.check(reads.txn))

    # operations

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        self._change(lambda rows: rows.heartbeat(rows.queue(queue), worker_id, leases))

    # the journal

    def _set_journal(self, enabled: bool, keep_seconds: float | None, keep_events: int | None) -> None:
        def work(rows: LMDBRows) -> None:
            journal.Switch(enabled, journal.Switch.read(rows).last, keep_seconds, keep_events).write(rows)

        self._change(work)

    def journal_enabled(self) -> bool:
        return self._read(journal.Switch.read).enabled

    def _events(self, after: int, limit: int | None, queue: int | None) -> list[JournalEvent]:
        return self._read(lambda reads: journal.events(reads, after, limit, queue))

    def journal_span(self) -> tuple[int, int]:
        return self._read(journal.span)

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        def some(unit: Unit, behind: int, limit: int) -> tuple[int, int | None]:
            assert isinstance(unit.rows, LMDBRows)
            return journal.prune(unit.rows, unit.now - older_than, through, behind, limit)

        return self._in_pieces(None, some, 0)

    # wake

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        return notify.for_messages(self, queues, worker)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        return notify.for_capacity(self, limits)

    def listen_run(self, run_id: str) -> Waiter:
        return notify.for_run(self, run_id)

    def listen_records(self, kind: str, keys: Sequence[str]) -> Waiter:
        return notify.for_records(self, kind, keys)

    # life

    def close(self) -> None:
        if self._finalizer.alive:
            self._finalizer()
            self._environment.wake.stir()  # whoever waits on this store finds it closed

    def after_fork_in_child(self) -> None:
        """The mint's lock may be held by a thread that does not exist here."""
        self.ids = Mint(self._secret)
