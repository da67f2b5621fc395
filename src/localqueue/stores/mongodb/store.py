"""`MongoDBQueueStore`: the store port on a MongoDB replica set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from pymongo.errors import DuplicateKeyError, WriteError

from localqueue.errors import IdTaken, QueueStoreError
from localqueue.ids import IdRange
from localqueue.stores.mongodb import (
    backup,
    hot,
    listen,
    maintain,
)
from localqueue.stores.mongodb import lease as leasing
from localqueue.stores.mongodb import records as records_of
from localqueue.stores.mongodb.dependencies import add_edges
from localqueue.stores.mongodb.enqueue import enqueue
from localqueue.stores.mongodb.keeping import KeepsJournal
from localqueue.stores.mongodb.operating import Operates
from localqueue.stores.mongodb.reading import Reads
from localqueue.stores.mongodb.rows import plain
from localqueue.stores.mongodb.settle import settle
from localqueue.stores.mongodb.tx import Tx
from localqueue.stores.port import (
    Changes,
    CheckReport,
    Committed,
    Enqueued,
    Lease,
    LeaseRequest,
    Payload,
    RecordWrite,
    Settle,
    StoredMessage,
    Waiter,
)
from localqueue.stores.wiring import Wiring

T = TypeVar("T")


class MongoDBQueueStore(KeepsJournal, Reads, Operates):
    """MongoDB-backed queue store; needs the extra `localqueue[mongodb]` and a replica set, if only of one server.

    The database is the path of the url, or else `localqueue`. Every write waits for a majority of the replica set and
    its journals, so `durability="power"` asks for nothing more than `"process"`. Times are the server's; `clock`
    replaces them for tests. `timeout` bounds each call, waiting for a primary and retries included. Safe to share
    between threads, to open from many processes, and to carry over a fork.

    A commit is a transaction, and one that is too large for the server's cache is refused whole. Count 800 bytes and
    the payload for each message: up to 7% of the cache is safe, beyond 15% it fails.
    """

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
            records_of.write_records(tx, changes.records)
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

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        def work(tx: Tx) -> tuple[range, float]:
            first = self.ids.reserve(len(payloads))
            keys = range(first, first + len(payloads))
            number = tx.queue_id(queue)
            records_of.write_records(tx, records)  # first, so that a batch that is refused costs little
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
