"""`MongoDBQueueStore`: the store port on a MongoDB replica set."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from pymongo.errors import DuplicateKeyError, PyMongoError, WriteError

from localqueue.errors import IdTaken, QueueStoreError
from localqueue.ids import IdRange, Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import fork
from localqueue.stores.mongodb import (
    backup,
    hot,
    listen,
    maintain,
    operate,
    reads,
    records,
    said,
    schema,
    server,
)
from localqueue.stores.mongodb import lease as leasing
from localqueue.stores.mongodb.dependencies import add_edges
from localqueue.stores.mongodb.enqueue import enqueue
from localqueue.stores.mongodb.journal import KeepsJournal
from localqueue.stores.mongodb.rows import BLOCKED, READY, plain, stored_message
from localqueue.stores.mongodb.settle import settle
from localqueue.stores.mongodb.transaction import transact
from localqueue.stores.mongodb.tx import Tx
from localqueue.stores.observing import Observed
from localqueue.stores.port import (
    Changes,
    CheckReport,
    Committed,
    Enqueued,
    Lease,
    LeaseRequest,
    Payload,
    Record,
    Settle,
    StoredMessage,
    Subscriptions,
    Waiter,
)
from localqueue.stores.wiring import Wiring

T = TypeVar("T")


def _let_go(ears: listen.Ears, connected: server.Server) -> None:
    ears.close()
    server.release(connected)


class MongoDBQueueStore(KeepsJournal, Observed):
    """MongoDB-backed queue store; needs the extra `localqueue[mongodb]` and a replica set, if only of one server.

    The database is the path of the url, or else `localqueue`. Every write waits for a majority of the replica set and
    its journals, so `durability="power"` asks for nothing more than `"process"`. Times are the server's; `clock`
    replaces them for tests. `timeout` bounds each call, waiting for a primary and retries included. Safe to share
    between threads, to open from many processes, and to carry over a fork.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        durability: str = "process",
        clock: Callable[[], float] | None = None,
        timeout: float = 15.0,
    ) -> None:
        if durability not in ("process", "power"):
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        if not namespace:
            raise ValueError("namespace cannot be empty")
        if timeout <= 0:
            raise ValueError(f"timeout must be positive, not {timeout!r}")
        super().__init__()
        self.durability = durability
        self._namespace = namespace
        self._clock = clock
        self.server = server.acquire(url, timeout)
        try:
            with self.server.call():
                self.namespace_id, secret = schema.namespace(self.server.database, namespace)
        except BaseException:
            server.release(self.server)
            raise
        self.ids = Mint(secret)
        self.queue_ids: dict[str, int] = {}
        self._queue_names: dict[int, str] = {}
        self.journalled = False  # as far as is known: the server knows better, see journal.py
        self.ears = listen.Ears(self.server, self.namespace_id)
        self._finalizer = weakref.finalize(self, _let_go, self.ears, self.server)
        self._finalizer.atexit = False  # the end of the process closes everything, without waiting for its threads
        fork.track(self)

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def url(self) -> str:
        return self.server.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, namespace={self._namespace!r})"

    def now(self) -> float:
        return self.server.clock() if self._clock is None else self._clock()

    def mint(self, count: int = 1) -> list[str]:
        return self.ids.take(count)

    # the three write verbs

    def commit(self, changes: Changes) -> Committed:
        self._require_open()
        committed = self._commit(changes)
        if changes.lease is not None:
            try:
                committed.leased = self.lease(changes.lease)
            except QueueStoreError:
                # What went before is committed, and an error would deny it. A claim that finds nothing is no lie.
                if not (changes.enqueue or changes.settle or changes.records or changes.edges):
                    raise
        return committed

    def _commit(self, changes: Changes) -> Committed:
        """Everything but the lease."""
        if not self.journalled:
            if hot.is_simple(changes):
                enqueued = hot.enqueue_one(self, changes.enqueue[0])
                if enqueued is not None:
                    return Committed([enqueued])
            elif hot.is_acks(changes) and hot.ack_all(self, changes.settle):
                return Committed(settled=[True] * len(changes.settle))
        if not (changes.enqueue or changes.edges or changes.settle or changes.records or changes.topics):
            return Committed()

        def work(tx: Tx) -> Committed:
            wiring = Wiring()
            enqueued: list[Enqueued] = []
            if changes.enqueue or changes.topics:
                enqueued = enqueue(tx, changes, wiring)
            add_edges(tx, changes.edges, wiring)
            settled = settle(tx, changes.settle, strict=changes.strict)
            records.write_records(tx, changes.records)
            return Committed(enqueued, settled)

        wanted = [one.id for one in changes.settle] + [one for new in changes.enqueue for one in new.after]
        records_only = not (changes.enqueue or changes.edges or changes.settle or changes.topics)
        return self._write(work, None if records_only else map(self.ids.key_of, wanted))

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        self._require_open()
        number = self.queue_number(queue)
        while not self.journalled:
            now, key = self.now(), self.ids.reserve()
            try:
                hot.insert(self, plain(self.namespace_id, key, number, payload, codec, now))
            except DuplicateKeyError:  # another process minted the same key
                continue
            except WriteError:
                self.journalled = True
                break
            self.ears.touched((queue,))
            return self.ids.id_of(key), now
        ids, now = self.put_batch(queue, [payload], codec)
        return ids[0], now

    def put_batch(self, queue: str, payloads: Sequence[Payload], codec: str | None) -> tuple[Sequence[str], float]:
        def work(tx: Tx) -> tuple[range, float]:
            first = self.ids.reserve(len(payloads))
            keys = range(first, first + len(payloads))
            number = tx.queue_id(queue)
            tx.insert_plain(number, keys, payloads, codec)
            return keys, tx.now

        self._require_open()
        self.queue_number(queue)
        while True:
            try:
                keys, now = self._write(work)
                return IdRange(self.ids, keys), now
            except IdTaken:
                continue

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        self._require_open()
        key, number = self.ids.key_of(message_id), self._find_queue(queue)
        if key is None or number is None:
            return False
        if hot.ack_one(self, number, key, token):
            return True
        return self._write(lambda tx: settle(tx, [Settle(queue, message_id, "ack", token)], strict=False), [key])[0]

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        self._require_open()
        queue = self._find_queue(request.queue)
        if queue is None:
            return []
        leased = leasing.lease(self, queue, request)
        if leased:
            self.ears.left((request.queue,))
        return leased

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        self._require_open()
        return leasing.renew(self, leases, timeout)

    def _write(self, work: Callable[[Tx], T], wanted: Iterable[int | None] | None = ()) -> T:
        """Run work in a transaction of its own, then wake whoever waits for what it changed.

        `wanted` are keys of messages it will need; None says that it touches no message.
        """
        self._require_open()
        seen = self._watched.seen
        keys = None if wanted is None else list(wanted)
        made: list[Tx] = []

        def apply(session: Any) -> T:
            tx = Tx(self, session, self.now(), seen is not None)
            made.append(tx)
            if keys is not None:
                tx.begin(keys)
            result = work(tx)
            tx.finish()
            return result

        result = transact(self.server, apply)
        tx = made[-1]
        if keys is not None:
            self.journalled = tx.journal.enabled
        for queue, at in tx.timers:
            self.server.looks.timer(queue, at)
        if seen is not None:
            seen += tx.transitions
        self.ears.touched(tuple(tx.touched))
        self.say(tx.said)
        return result

    def _in_pieces(self, work: Callable[[Tx, int], operate.Piece]) -> int:
        """Run work that may take several transactions; how many messages it changed."""
        count, behind = 0, 0
        while True:
            piece = self._write(lambda tx, behind=behind: work(tx, behind))  # type: ignore[misc]
            count += piece.changed
            if piece.behind is None:
                return count
            behind = piece.behind

    def say(self, what: Iterable[tuple[str, int]]) -> None:
        """Tell listeners of other processes what no message tells them. What is lost costs them time only."""
        soon = self.server.database.lq_wakes.with_options(write_concern=self.server.soon)
        for kind, queue in what:
            told = said.say(kind, self.namespace_id, queue, self.ids.reserve())
            with suppress(PyMongoError), self.server.deadline():
                soon.update_one(said.SAID, {"$set": {"k": told}})

    # queues

    def queue_number(self, name: str) -> int:
        """The number of a queue, made on first use."""
        known = self.queue_ids.get(name)
        if known is None:
            with self.server.call():
                known = self.queue_ids[name] = schema.queue(self.server.database, self.namespace_id, name)
        return known

    def _find_queue(self, name: str) -> int | None:
        known = self.queue_ids.get(name)
        if known is None:
            self._require_open()
            with self.server.call():
                found = self.server.queues.find_one({"n": self.namespace_id, "name": name}, {"_id": 1})
            if found is None:
                return None
            known = self.queue_ids[name] = found["_id"]
        return known

    def name_of_queue(self, number: int) -> str:
        known = self._queue_names.get(number)
        if known is None:
            with self.server.call():
                found = self.server.queues.find_one({"_id": number}, {"name": 1})
            known = self._queue_names[number] = found["name"]
        return known

    # reads

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise server.closed(self.url)

    def _read(self, name: str, work: Callable[[int], T], missing: T) -> T:
        """Read about a queue; one that nobody has used yet is simply empty."""
        self._require_open()
        queue = self._find_queue(name)
        if queue is None:
            return missing
        with self.server.call():
            return work(queue)

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        return self._read(queue, lambda q: reads.get(self.server, self.ids, q, queue, message_id), None)

    def qsize(self, queue: str) -> int:
        now = self.now()
        return self._read(queue, lambda q: reads.counts(self.server, q, now)[READY], 0)

    def load(self, queue: str) -> int:
        now = self.now()

        def work(number: int) -> int:
            counts = reads.counts(self.server, number, now)
            return counts[READY] + counts[BLOCKED]

        return self._read(queue, work, 0)

    def stats(self, queue: str) -> QueueStats:
        now = self.now()
        return self._read(queue, lambda q: reads.stats(self.server, q, now), QueueStats())

    def scan(
        self, queue: str, *, state: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[StoredMessage]:
        self._require_open()
        number = self._find_queue(queue)
        if number is None:
            return []
        with self.server.long_read():
            return reads.scan(self.server, self.ids, number, queue, state, after, limit)

    def queues(self) -> list[str]:
        self._require_open()
        with self.server.call():
            return sorted(row["name"] for row in self.server.queues.find({"n": self.namespace_id}, {"name": 1}))

    def run(self, run_id: str) -> RunStats | None:
        self._require_open()
        with self.server.call():
            return reads.run(self.server, self.namespace_id, run_id)

    def run_messages(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> list[StoredMessage]:
        self._require_open()
        with self.server.long_read():
            found = reads.run_messages(self.server, self.ids, self.namespace_id, run_id, after, limit)
        return [stored_message(self.ids, one, self.name_of_queue(one["q"])) for one in found]

    def upstream(self, queue: str, message_id: str) -> list[str]:
        return self._read(queue, lambda q: reads.upstream(self.server, self.ids, q, message_id), [])

    def record(self, kind: str, key: str) -> Record | None:
        self._require_open()
        with self.server.call():
            return records.record(self.server, self.namespace_id, kind, key)

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        self._require_open()
        with self.server.call():
            return records.records(self.server, self.namespace_id, kind, after, limit)

    def subscriptions(self, topic: str) -> Subscriptions:
        def work(queue: int) -> Subscriptions:
            row = self.server.queues.find_one({"_id": queue}) or {}
            return Subscriptions(row.get("version", 0), tuple(row.get("subscribers", ())))

        return self._read(topic, work, Subscriptions(0, ()))

    # operations

    def subscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, True))

    def unsubscribe(self, topic: str, subscriber: str) -> bool:
        return self._write(lambda tx: operate.set_subscription(tx, topic, subscriber, False))

    def requeue(self, queue: str, ids: Sequence[str] | None = None, *, delay: float = 0.0) -> int:
        if ids is not None:
            return self._write(lambda tx: operate.requeue(tx, queue, ids, delay))
        until = self.now()
        return self._in_pieces(lambda tx, behind: operate.requeue_dead(tx, queue, delay, behind, until))

    def prune(self, queue: str, *, state: str, older_than: float, dry_run: bool = False) -> int:
        until = self.now() - older_than
        if dry_run:
            count = self.server.messages.count_documents
            return self._read(queue, lambda q: int(count(operate.prunable(q, state, until))), 0)
        return self._in_pieces(lambda tx, _: operate.prune(tx, queue, state, until))

    def purge(self, queue: str) -> int:
        last = self.ids.reserve()
        return self._in_pieces(lambda tx, _: operate.purge(tx, queue, last))

    def cancel_run(self, run_id: str) -> int:
        return self._in_pieces(lambda tx, _: operate.cancel_run(tx, run_id))

    def pause(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, True))

    def resume(self, queue: str, *, worker: str | None = None) -> None:
        self._write(lambda tx: operate.set_paused(tx, queue, worker, False))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        def work(number: int) -> bool:
            row = self.server.queues.find_one({"_id": number}) or {}
            if worker is None:
                return row.get("paused_at") is not None
            return any(one["w"] == worker for one in row.get("off", ()))

        return self._read(queue, work, False)

    def is_paused(self, queue: int, worker: str | None) -> bool:
        """Whether a claim of this worker would find the queue closed."""
        with self.server.call():
            row = self.server.queues.find_one({"_id": queue}) or {}
        return row.get("paused_at") is not None or any(one["w"] == worker for one in row.get("off", ()))

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        self._require_open()
        operate.heartbeat(self, self.queue_number(queue), worker_id, leases)

    def backup(self, path: str) -> None:
        self._require_open()
        backup.backup(self, path)

    def check(self) -> CheckReport:
        self._require_open()
        with self.server.long_read():
            return maintain.check(self)

    # wake

    def listen(self, queues: Sequence[str], *, worker: str | None = None) -> Waiter:
        return listen.for_messages(self, queues, worker)

    def listen_capacity(self, limits: Mapping[str, int]) -> Waiter:
        return listen.for_capacity(self, limits)

    def listen_run(self, run_id: str) -> Waiter:
        return listen.for_run(self, run_id)

    # life

    def close(self) -> None:
        """Closing twice is harmless; any other call after it raises `QueueStoreClosedError`."""
        fork.forget(self)
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # fork: the child neither uses nor closes what it inherited

    def hold_for_fork(self) -> None:
        server.hold()

    def go_on_after_fork(self) -> None:
        server.go_on()

    def close_in_child(self) -> None:
        server.renew_in_child(self.server)

    def reopen_in_child(self) -> None:
        server.go_on()
        self.ears.begin()
