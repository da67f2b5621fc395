"""`LMDBQueueStore`: the store port on one LMDB environment."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from localqueue.errors import IdTaken, QueueStoreClosedError
from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.lmdb import keys, listen, maintain, operate, reads, registry, schema
from localqueue.stores.lmdb import lease as leasing
from localqueue.stores.lmdb.dependencies import Wiring, add_edges
from localqueue.stores.lmdb.driver import Txn
from localqueue.stores.lmdb.enqueue import enqueue, put_one
from localqueue.stores.lmdb.journal import KeepsJournal
from localqueue.stores.lmdb.rows import BLOCKED, READY
from localqueue.stores.lmdb.settle import settle, settle_one
from localqueue.stores.lmdb.tx import Tx
from localqueue.stores.lmdb.writer import Writer
from localqueue.stores.observing import Observed
from localqueue.stores.port import (
    Changes,
    CheckReport,
    Committed,
    Lease,
    LeaseRequest,
    NewMessage,
    Payload,
    Record,
    RecordWrite,
    Settle,
    StoredMessage,
    Subscriptions,
    Waiter,
)

T = TypeVar("T")


class LMDBQueueStore(KeepsJournal, Observed):
    """LMDB-backed queue store in the directory `path`; needs the extra `localqueue[lmdb]`.

    `durability="process"` survives the death of the process; `"power"` syncs every commit and survives the loss of
    power, after which a store in `"process"` may be damaged. Stores of one process on the same directory share the
    stronger of their durabilities; processes should agree on it. `map_size` is where the map starts: it grows by
    itself. `timeout` is how long to wait for another process's write lock. Safe to share between threads, to open
    from many processes, and to carry over a fork.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        map_size: int = 10**8,
        namespace: str = "default",
        durability: str = "process",
        clock: Callable[[], float] = time.time,
        timeout: float = 15.0,
    ) -> None:
        if durability not in ("process", "power"):
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if not namespace:
            raise ValueError("namespace cannot be empty")
        if map_size <= 0:
            raise ValueError(f"map_size must be positive, not {map_size!r}")
        super().__init__()
        self.path = os.fspath(path)
        self.durability = durability
        self._timeout = timeout
        self._namespace = namespace
        self._clock = clock
        self._environment = registry.acquire(self.path, map_size=map_size, sync=durability == "power")
        self._finalizer = weakref.finalize(self, registry.release, self._environment)
        self._finalizer.atexit = False  # the end of the process closes everything, without waiting for its threads
        try:
            self.namespace_id, self._secret = self._environment.read(self._find_namespace) or self._writer.run(
                self._make_namespace, clock=clock, timeout=timeout
            )
        except BaseException:
            self._finalizer()
            raise
        self.ids = Mint(self._secret)
        self.queue_ids: dict[str, int] = {}
        registry.remember(self)

    def _find_namespace(self, txn: Txn) -> tuple[int, int] | None:
        current = schema.version(txn, self.path) == schema.current_version()
        return schema.find_namespace(txn, self._namespace) if current else None

    def _make_namespace(self, txn: Txn, now: float) -> tuple[int, int]:
        schema.prepare(txn, self.path)
        return schema.namespace(txn, self._namespace)

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def url(self) -> str:
        return f"lmdb:///{self.path}"

    @property
    def _writer(self) -> Writer:
        return self._environment.writer

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, namespace={self._namespace!r})"

    def now(self) -> float:
        return self._clock()

    def mint(self, count: int = 1) -> list[str]:
        return self.ids.take(count)

    # the three write verbs

    def commit(self, changes: Changes) -> Committed:
        def work(tx: Tx) -> Committed:
            wiring = Wiring()
            enqueued = enqueue(tx, changes, wiring)
            add_edges(tx, changes.edges, wiring)
            settled = settle(tx, changes.settle, strict=changes.strict)
            operate.write_records(tx, changes.records)
            leased = leasing.lease(tx, changes.lease) if changes.lease is not None else []
            return Committed(enqueued, settled, leased)

        return self._write(work)

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        return self._write(lambda tx: put_one(tx, queue, payload, codec))

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        def work(tx: Tx) -> float:
            operate.write_records(tx, records)  # first, so that a batch that is refused costs little
            enqueue(tx, Changes(enqueue=messages), Wiring())
            return tx.now

        while True:
            ids = self.mint(len(payloads))
            messages = [
                NewMessage(new_id, queue, payload, codec) for new_id, payload in zip(ids, payloads, strict=True)
            ]
            try:
                return ids, self._write(work)
            except IdTaken:
                continue

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        if self._find_queue(queue) is None:
            return False
        return self._write(lambda tx: settle_one(tx, Settle(queue, message_id, "ack", token)))

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        if self._find_queue(request.queue) is None:
            return []
        return self._write(lambda tx: leasing.lease(tx, request))

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        return self._write(lambda tx: leasing.renew(tx, leases, timeout))

    def _write(self, work: Callable[[Tx], T]) -> T:
        """Run work in a write transaction of its own, then wake whoever waits for what it changed."""
        self._require_open()
        made: list[Tx] = []
        seen = self._watched.seen

        def apply(txn: Txn, now: float) -> T:
            tx = Tx(self, txn, now, seen is not None)
            made.append(tx)
            result = work(tx)
            tx.flush()
            return result

        result = self._writer.run(apply, clock=self._clock, timeout=self._timeout)
        self.queue_ids.update(made[-1].new_queues)
        self._environment.wake.touched([(self.namespace_id, name) for name in made[-1].touched])
        if seen is not None:
            seen += made[-1].transitions
        return result

    # reads

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise QueueStoreClosedError(f"the store at {self.path!r} is closed", path=self.path)

    def _read(self, work: Callable[[Txn], T]) -> T:
        self._require_open()
        return self._environment.read(work)

    def _find_queue(self, name: str) -> int | None:
        known = self.queue_ids.get(name)
        if known is None:
            value = self._read(lambda txn: txn.get(keys.queue_id(self.namespace_id, name)))
            if value is None:
                return None
            known = self.queue_ids[name] = keys.last_number(value)
        return known

    def _read_queue(self, name: str, work: Callable[[Txn, int], T], missing: T) -> T:
        """Read about a queue in one snapshot; a queue that nobody has used yet is simply empty."""
        queue = self._find_queue(name)
        return missing if queue is None else self._read(lambda txn: work(txn, queue))

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        return self._read_queue(queue, lambda txn, q: reads.get(txn, self.ids, q, queue, message_id), None)

    def _counts(self, queue: str) -> list[int] | None:
        return self._read_queue(queue, lambda txn, q: reads.counts(txn, reads.queue_row(txn, q), self._clock()), None)

    def qsize(self, queue: str) -> int:
        counts = self._counts(queue)
        return 0 if counts is None else counts[READY]

    def load(self, queue: str) -> int:
        counts = self._counts(queue)
        return 0 if counts is None else counts[READY] + counts[BLOCKED]

    def stats(self, queue: str) -> QueueStats:
        return self._read_queue(queue, lambda txn, q: reads.stats(txn, q, self._clock()), QueueStats())

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
        return self._read_queue(
            queue, lambda txn, q: reads.scan(txn, self.ids, q, queue, state, after, last, limit), []
        )

    def splits(self, queue: str, parts: int) -> list[str]:
        rules.check_parts(parts)
        return self._read_queue(queue, lambda txn, q: reads.splits(txn, self.ids, q, parts), [])

    def queues(self) -> list[str]:
        def work(txn: Txn) -> list[str]:
            found = keys.walk(txn, keys.queue_ids(self.namespace_id))
            return [reads.queue_row(txn, keys.last_number(value)).name for _, value in found]

        return sorted(self._read(work))

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        return self._read(lambda txn: reads.runs(txn, self.namespace_id, after, limit))

    def run(self, run_id: str) -> RunStats | None:
        return self._read(lambda txn: reads.run(txn, self.namespace_id, run_id))

    def run_messages(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> list[StoredMessage]:
        return self._read(lambda txn: reads.run_messages(txn, self.ids, self.namespace_id, run_id, after, limit))

    def upstream(self, queue: str, message_id: str) -> list[str]:
        return self._read_queue(queue, lambda txn, q: reads.upstream(txn, self.ids, q, message_id), [])

    def record(self, kind: str, key: str) -> Record | None:
        return self._read(lambda txn: reads.record(txn, self.namespace_id, kind, key))

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        return self._read(lambda txn: reads.records(txn, self.namespace_id, kind, after, limit))

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
        if dry_run:
            until = self._clock() - older_than
            return self._read_queue(queue, lambda txn, q: len(reads.ended_by(txn, q, state, until)), 0)
        return self._write(lambda tx: operate.prune(tx, queue, state, older_than))

    def purge(self, queue: str) -> int:
        return self._write(lambda tx: operate.purge(tx, queue))

    def cancel_run(self, run_id: str) -> int:
        return self._write(lambda tx: operate.cancel_run(tx, run_id))

    def pause(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, True))

    def resume(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, False))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        if worker is None:
            return self._read_queue(queue, lambda txn, q: reads.queue_row(txn, q).paused, False)
        return self._read_queue(queue, lambda txn, q: reads.is_paused(txn, q, worker), False)

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        self._write(lambda tx: operate.heartbeat(tx, queue, worker_id, leases))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a verified copy; it appears under `path`, a new directory, whole or not at all."""
        self._require_open()
        maintain.backup(self._environment, os.fspath(path))

    def check(self) -> CheckReport:
        return self._read(maintain.check)

    # wake

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        return listen.for_messages(self, queues, worker)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        return listen.for_capacity(self, limits)

    def listen_run(self, run_id: str) -> Waiter:
        return listen.for_run(self, run_id)

    # life

    def close(self) -> None:
        """Close the store. Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        if self._finalizer.alive:
            self._finalizer()
            self._environment.wake.stir()  # whoever waits on this store finds it closed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _after_fork_in_child(self) -> None:
        """The mint's lock may be held by a thread that does not exist here."""
        self.ids = Mint(self._secret)
