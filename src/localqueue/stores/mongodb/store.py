"""`MongoDBQueueStore`: the store port on a MongoDB replica set.

The hot paths are single statements (`fast.py`). Whatever is left is decided by the engine, in a transaction that is run
again when another one was in its way. A claim is never part of a larger transaction: whatever else a commit asks for is
committed first, and claims of many workers at the head of a queue never undo it.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import pymongo

from localqueue.errors import IdTaken, QueueStoreError
from localqueue.ids import Mint
from localqueue.stores import fork, rules
from localqueue.stores.engine import leases
from localqueue.stores.engine.commit import apply
from localqueue.stores.engine.timers import A_CLAIM, settle_due
from localqueue.stores.engine.unit import Unit
from localqueue.stores.mongodb import backup, check, connection, errors, fast, gate, schema
from localqueue.stores.mongodb.document import RUN, Document, plain, stored_message
from localqueue.stores.mongodb.journal import KeepsJournal
from localqueue.stores.mongodb.notify import Ears, Notifies
from localqueue.stores.mongodb.rows import MongoRows, rows_of
from localqueue.stores.mongodb.transaction import transact
from localqueue.stores.port import (
    Changes,
    CheckReport,
    Committed,
    Compacted,
    Lease,
    LeaseRequest,
    Payload,
    RecordWrite,
    Settle,
    StoredMessage,
    Transition,
)
from localqueue.stores.shell import SERVER_CALLS_AT_ONCE

T = TypeVar("T")

_COUNT_WITHIN = 0.5  # seconds


def _let_go(ears: Ears, server: connection.Server) -> None:
    ears.close()
    connection.release(server)


class MongoDBQueueStore(KeepsJournal, Notifies):
    """MongoDB-backed queue store; needs the extra `localqueue[mongodb]` and a replica set, if only of one server.

    The database is the path of the url, or else `localqueue`. Every write waits for a majority of the replica set and
    its journals, so `durability="power"` asks for nothing more than `"process"`. Times are the server's; `clock`
    replaces them for tests. `timeout` bounds each call, waiting for a primary and retries included. With `read_only`
    the store is opened to look: nothing is made or changed. Safe to share between threads, to open from many processes,
    and to carry over a fork.

    A commit is a transaction, and one that is too large for the server's cache is refused whole. Count 800 bytes and
    the payload for each message: up to 7% of the cache is safe, beyond 15% it fails. Operations on many messages at
    once (purge, prune, cancel a run, requeue all that are dead) take several transactions: somebody who looks meanwhile
    sees part of it done.
    """

    calls_at_once = SERVER_CALLS_AT_ONCE

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        durability: str = "process",
        clock: Callable[[], float] | None = None,
        timeout: float = 15.0,
        read_only: bool = False,
    ) -> None:
        super().__init__(namespace=namespace, durability=durability, read_only=read_only)
        if timeout <= 0:
            raise ValueError(f"timeout must be positive, not {timeout!r}")
        self._clock = clock
        self.server = connection.acquire(url, timeout)
        try:
            find = self.server.find_namespace if read_only else self.server.namespace
            self.namespace_id, secret = find(namespace)
        except BaseException:
            connection.release(self.server)
            raise
        server = self.server
        self.ids = Mint(secret, lambda: server.clock.ns())
        self._queue_names: dict[int, str] = {}
        self.followed: set[int] = set()  # messages whose acks take a transaction, as far as is known
        self.journalled = False  # as far as is known: the server knows better, see journal.py
        self.ears = Ears(self.server, self.namespace_id, read_only=read_only)
        self._finalizer = weakref.finalize(self, _let_go, self.ears, self.server)
        self._finalizer.atexit = False  # the end of the process closes everything, without waiting for its threads
        fork.track(self)

    def now(self) -> float:
        return self.server.clock() if self._clock is None else self._clock()

    def _require_usable(self) -> None:
        self._require_writable()
        self._require_open()

    def queue_number(self, name: str) -> int:
        """The number of a queue, made on first use: beside a transaction, which may not be able to see it."""
        while (known := self._find_queue(name)) is None:
            with self.server.call():
                schema.number(self.server.queues, {"n": self.namespace_id, "name": name})
        return known

    # the three write verbs

    def commit(self, changes: Changes) -> Committed:
        self._require_usable()
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
            if fast.is_simple(changes):
                enqueued = fast.enqueue_one(self, changes.enqueue[0])
                if enqueued is not None:
                    return Committed([enqueued])
            elif fast.is_acks(changes):
                versions = fast.ack_all(self, changes.settle, changes.records)
                if versions is not None:
                    return Committed(settled=[True] * len(changes.settle), versions=versions)
        if not (changes.enqueue or changes.edges or changes.settle or changes.records or changes.topics):
            return Committed()
        without = changes if changes.lease is None else replace(changes, lease=None)
        return self._write(lambda unit: apply(unit, without))

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        self._require_usable()
        number = self.queue_number(queue)
        while not self.journalled:
            now, key = self.now(), self.ids.reserve()
            with suppress(IdTaken):
                if fast.insert(self, plain(self.namespace_id, key, number, payload, codec, now)):
                    self.ears.touched((queue,))
                    return self.ids.id_of(key), now
        ids, now = self.put_batch(queue, [payload], codec)
        return ids[0], now

    def _put_batch(
        self,
        queue: str,
        keys: range,
        payloads: Sequence[Payload],
        codec: str | None,
        records: Sequence[RecordWrite],
    ) -> tuple[range, float]:
        number = self.queue_number(queue)

        def put(unit: Unit) -> tuple[range, float]:
            rows = rows_of(unit)
            unit.write_records(records)
            rows.insert_plain(number, keys, payloads, codec, unit.now)
            unit.changed_queues.add(number)
            return keys, unit.now

        return self._write(put)

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        self._require_usable()
        acked = fast.ack_one(self, queue, message_id, token)
        return acked or self._settle_one(Settle(queue, message_id, "ack", token))

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        """Claim down the ready index, after settling the timers that have passed."""
        self._require_usable()
        queue = self._find_queue(request.queue)
        if queue is None:
            return []
        began = time.monotonic()
        return self._whole(self._lease(queue, request), request, began)

    def _lease(self, queue: int, request: LeaseRequest) -> list[StoredMessage]:
        looks, messages = self.server.looks, list[StoredMessage]()
        while request.limit > 0:
            now = self.now()
            looked = looks.wanted(queue, now)
            more = looked and self._settle_timers(queue, request, now)
            now = self.now()  # that may have taken longer than the lease is to last
            try:
                messages = self._claim(queue, request, now)
            except errors.Barred:
                return []
            if messages or (looked and not more):
                break
            looks.forget(queue)  # nothing is ready: look at the timers, whatever is known of them
        if not messages:
            return []
        self.server.looks.timer(queue, now + request.timeout)
        if request.leased_by is not None and request.counted:
            with suppress(QueueStoreError), pymongo.timeout(_COUNT_WITHIN):  # the claim stands, counted or not
                if self._change_worker(queue, request.leased_by, {"$inc": {"leases": len(messages)}}):
                    self._forget_names(queue, request.leased_by)
        if any(message.run_id is not None for message in messages):
            self.say([(RUN, 0)])
        self.ears.left((request.queue,))
        return self._with_records(request, messages) if request.ledger is not None else messages

    def _settle_timers(self, queue: int, request: LeaseRequest, now: float) -> bool:
        """Settle a bounded number of the timers that have passed; whether there may be more."""
        began = time.monotonic()
        with self.server.call():
            found = gate.look(self.server, queue, request.leased_by)
        if found.paused:
            return False
        if found.due > now:
            self.server.looks.looked(queue, now, found.due, time.monotonic() - began)
            return False
        bound = max(A_CLAIM, request.limit)
        return not self._write(lambda unit: settle_due(unit, queue, max_attempts=request.max_attempts, limit=bound))

    def _claim(self, queue: int, request: LeaseRequest, now: float) -> list[StoredMessage]:
        """A transaction is needed only where a journal is kept, or what is claimed is acked as well: to delete it in
        one statement would be to pass by the barrier of a pause and the guard of the journal."""
        if not (self.journalled or request.consume):
            try:
                found = fast.claim(self, queue, request, now)
                return [stored_message(self.ids, document, request.queue) for document in found]
            except errors.Refused:
                self.journalled = True
        return self._write(lambda unit: leases.claim(unit, queue, request))

    def _with_records(self, request: LeaseRequest, messages: list[StoredMessage]) -> list[StoredMessage]:
        """The messages with what the ledger says about their dedupe keys."""
        keys = {one.id: f"{request.queue}:{one.dedupe_key}" for one in messages if one.dedupe_key is not None}
        found = self.records_of(request.ledger, list(keys.values())) if keys and request.ledger is not None else {}
        return [one._replace(record=found.get(keys.get(one.id, ""))) for one in messages]

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> list[float | None]:
        """Once more where the server took its time over it: what was renewed would be the less."""
        self._require_usable()
        began = time.monotonic()
        renewed = self._renew(leases, timeout)
        return renewed if self._is_prompt(began, timeout) else self._renew(leases, timeout)

    def _renew(self, leases: Sequence[Lease], timeout: float) -> list[float | None]:
        if not self.journalled:
            try:
                return fast.renew(self, leases, timeout)
            except errors.Refused:
                self.journalled = True
        return super().renew(leases, timeout=timeout)

    def _write(self, work: Callable[[Unit], T], queues: Sequence[str] = ()) -> T:
        self._require_usable()
        seen = self._watched.seen
        guarded = True

        def run(session: Any) -> tuple[T, Unit, MongoRows, list[Transition]]:
            nonlocal guarded
            rows = MongoRows(self, session, guarded=guarded)
            guarded = False  # it may be a dedupe key for which it begins anew
            unit = Unit(rows, self.now(), observed=seen is not None)
            result = work(unit)
            transitions = unit.finish()
            rows.finish(unit.now)
            return result, unit, rows, transitions

        result, unit, rows, transitions = transact(self.server, run)
        self.journalled = rows.journalled
        for queue, at in rows.timers.items():
            self.server.looks.timer(queue, at)
        if seen is not None:
            seen += transitions
        if unit.changed_queues:
            self.ears.touched([self.name_of_queue(queue) for queue in unit.changed_queues])
        if unit.changed_records:
            self.ears.written(unit.changed_records)
        if rows.told or unit.changed_runs:
            self.say([*rows.told, *([(RUN, 0)] if unit.changed_runs else ())])
        return result

    def heartbeat(self, queue: str, worker_id: str, *, leases: int = 0) -> None:
        self._require_usable()
        number, now = self.queue_number(queue), self.now()
        if self._change_worker(number, worker_id, {"$set": {"last_seen": now}, "$inc": {"leases": leases}}):
            with self.server.call():
                self.server.workers.delete_many({"q": number, "last_seen": {"$lt": now - rules.KNOWN}})

    def _forget_names(self, queue: int, but: str) -> None:
        """Of workers that never sent a heartbeat, if there are many."""
        silent = {"q": queue, "last_seen": None}
        with self.server.call():
            if self.server.workers.count_documents(silent, limit=rules.NAMES + 1) > rules.NAMES:
                self.server.workers.delete_many({**silent, "w": {"$ne": but}})

    def _change_worker(self, queue: int, worker: str, update: Document) -> bool:
        """Whether the worker is new."""
        with self.server.call():
            changed = self.server.workers.update_one({"q": queue, "w": worker}, update, upsert=True)
            return changed.upserted_id is not None

    def backup(self, path: str) -> None:
        self._require_open()
        backup.backup(self, path)

    def _compact(self) -> Compacted:
        """The collections are those of all namespaces. What they took before is only known to the server, which writes
        what it has not written yet first."""
        self._require_open()
        freed = after = 0
        with self.server.long_read():
            for name in schema.COLLECTIONS:
                freed += int(self.server.database.command("compact", name, force=True).get("bytesFreed", 0))
                sizes = self.server.database.command("collStats", name)
                after += int(sizes["storageSize"] + sizes["totalIndexSize"])
        return Compacted(after + max(freed, 0), after)

    def check(self) -> CheckReport:
        self._require_open()
        with self.server.long_read():
            return check.check(self)

    # life

    def close(self) -> None:
        fork.forget(self)
        self._finalizer()

    # fork: the child neither uses nor closes what it inherited

    def hold_for_fork(self) -> None:
        connection.lock.acquire()

    def go_on_after_fork(self) -> None:
        connection.lock.release()

    def close_in_child(self) -> None:
        connection.renew_in_child(self.server)

    def reopen_in_child(self) -> None:
        connection.lock.release()
        self.ears.begin()
