"""The rows of one write transaction, as the engine asks for them, and the writing of what it decided."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING

from localqueue.errors import IdTaken
from localqueue.events.event import LEASED
from localqueue.stores import refusals, rules
from localqueue.stores.engine.port import Batch, Found, Note, Run, Wanted, Writes
from localqueue.stores.engine.row import DEAD, DELAYED, ENDINGS, INFLIGHT, READY, WAITING, Before, Row
from localqueue.stores.lmdb import journal, keys, schema
from localqueue.stores.lmdb.keys import Txn
from localqueue.stores.lmdb.reads import Reads
from localqueue.stores.lmdb.schema import RUN, SUBSCRIPTION, WORKER, QueueRow, RunRow, WorkerRow, pack_row
from localqueue.stores.port import (
    HISTORY_LIMIT,
    STATES,
    LeaseRequest,
    NewMessage,
    RecordWrite,
    StoredMessage,
    Transition,
)
from localqueue.stores.wake import RecordName

if TYPE_CHECKING:
    from localqueue.stores.lmdb.store import LMDBQueueStore

_LARGEST = 1 << 63
_SPREAD = 2654435761  # a prime, to look at another place each time
_RUNS_A_LOOK = 4


class LMDBRows(Reads):
    """The rows of queues are kept here while the transaction lasts; `flush` writes them."""

    __slots__ = ("_journal", "changed", "changed_records", "journalled", "observed", "transitions")
    guards_dedupe_keys = False
    writes_graphs = False

    def __init__(self, store: LMDBQueueStore, txn: Txn, now: float, *, observed: bool) -> None:
        super().__init__(store, txn, now)
        self.observed = observed
        self.changed: set[int] = set()  # queues that somebody may wait for
        self.changed_records: set[RecordName] = set()
        self.transitions: list[Transition] = []
        self._journal = journal.Switch.read(self)
        self.journalled = self._journal.enabled

    def flush(self) -> list[str]:
        """Write the rows of queues; the names of those that changed."""
        for row in self._queues.values():
            packed = row.pack()
            if packed != row.packed:
                self.txn.put(keys.within(keys.QUEUES, row.id), packed)
        return [self.queue_name(queue) for queue in self.changed]

    def queue(self, name: str) -> int:
        queue = self.find_queue(name)
        if queue is None:
            queue = keys.next_number(self.txn, keys.QUEUES, 4)
            self.txn.put(keys.named(keys.QUEUE_IDS, self.namespace, name), keys.number(queue))
            self.txn.put(keys.within(keys.QUEUES, queue), QueueRow(queue, name).pack())
            self.new_queues[name] = queue
        return queue

    def newest(self, queues: Iterable[int]) -> int:
        return max((self.queue_row(queue).newest for queue in queues), default=0)

    def subscription_version(self, topic: int) -> int:
        return self.queue_row(topic).subscriptions

    # rows

    def fetch(self, wanted: Wanted) -> Found:
        txn = self.txn
        numbers = list(wanted.keys)
        for table, held in ((keys.DEDUPE, wanted.holders), (keys.HEADS, wanted.heads)):
            for queue, key in held:
                value = txn.get(keys.held(table, queue, key))
                if value is not None:
                    numbers.append(keys.last_number(value))
        following = (self.behind(queue, key, after) for (queue, key), after in wanted.behind.items())
        numbers += [number for number in following if number is not None]
        edges = self._dependents(wanted.dependents)
        numbers += [dependent for _, dependent in edges]
        return Found(list(self.rows(numbers)), edges)

    def behind(self, queue: int, ordering_key: str, after: int = 0) -> int | None:
        """The first blocked message of a key."""
        prefix = keys.held(keys.BLOCKED, queue, ordering_key)
        first = next(keys.walk_keys(self.txn, prefix, prefix + keys.number(after + 1)), None)
        return None if first is None else keys.last_number(first)

    def due(self, queue: int, now: float, limit: int) -> list[Row]:
        if self.queue_row(queue).due > now:
            return []
        passed = merge(*(self.overdue(queue, state) for state in range(DEAD)))
        return list(self.rows(key for _, key, _ in islice(passed, limit)))

    def timers_settled(self, queue: int) -> None:
        row = self.queue_row(queue)
        if row.due <= self.now:
            row.due = self.next_due(queue)

    def oldest(self, queue: int, limit: int) -> list[Row]:
        return list(self.rows(key for _, key in islice(self.by_availability(queue), limit)))

    def oldest_blocked(self, queue: int) -> Row | None:
        blocked = keys.walk_keys(self.txn, keys.within(keys.BLOCKED, queue))
        return self.row(min(map(keys.last_number, blocked), default=None))

    def upstreams(self, dependents: Iterable[int]) -> list[tuple[int, int]]:
        return [(upstream, one) for one in dependents for upstream in self.linked(keys.UPSTREAMS, one)]

    def _dependents(self, upstreams: Iterable[int]) -> list[tuple[int, int]]:
        return [(one, dependent) for one in upstreams for dependent in self.linked(keys.DEPENDENTS, one)]

    def removed(self, numbers: Iterable[int]) -> set[int]:
        return {key for key in numbers if self.txn.get(keys.one(keys.REMOVED, key)) is not None}

    def stored(self, numbers: Iterable[int]) -> dict[int, StoredMessage]:
        return {row.key: self.message(row) for row in self.rows(numbers)}

    def ended(self, queue: int, state: int, until: float, behind: tuple[float, int], limit: int) -> list[Row]:
        return list(self.rows(islice(self.ended_by(queue, state, until, behind), limit)))

    def last_ended(self, queue: int, state: int) -> float:
        before, after = keys.of_state(keys.ENDED, queue, state), keys.of_state(keys.ENDED, queue, state + 1)
        last = next(keys.walk_keys_back(self.txn, before, after), None)
        return 0.0 if last is None else keys.timed_parts(last)[0]

    def of_queue(self, queue: int, behind: int, limit: int) -> list[Row]:
        """By the indexes that have them, since none has all: a walk over the messages would pass those of other queues.
        What is blocked or waits comes before what would set it free."""
        within = [keys.within(keys.BLOCKED, queue), keys.within(keys.READY, queue)]
        within += [keys.of_state(keys.DUE, queue, state) for state in (INFLIGHT, DELAYED)]
        within += [keys.of_state(keys.ENDED, queue, state) for state in ENDINGS]
        found = (keys.last_number(key) for prefix in within for key in keys.walk_keys(self.txn, prefix))
        waiting = self._waiting(queue) if self.queue_row(queue).counts[WAITING] else iter(())
        return list(islice(chain(waiting, self.rows(found)), limit))

    def _waiting(self, queue: int) -> Iterator[Row]:
        edges = keys.walk_keys(self.txn, keys.UPSTREAMS)
        dependents = (number for number, _ in groupby(edges, keys.first_number))
        return (row for row in self.rows(dependents) if row.queue == queue and row.state == WAITING)

    # runs

    def runs(self, names: Iterable[str]) -> Mapping[str, Run]:
        found = {}
        for name in names:
            run = self.find_run(name)
            if run is None:
                run = RunRow(keys.next_number(self.txn, keys.RUNS, 8), name, touched_at=self.now)
                self.txn.put(keys.named(keys.RUN_IDS, self.namespace, name), keys.number(run.id))
                self._save_run(run)
                self._forget_runs(run.id)
            found[name] = Run(run.id, run.cancelled_at is not None)
        return found

    def cancel(self, name: str, now: float, before: int, limit: int) -> list[Row]:
        run = self.find_run(name)
        if run is None:
            return []
        if run.cancelled_at is None:
            self._save_run(run._replace(cancelled_at=now))
        members, end = keys.one(keys.RUN_MEMBERS, run.id), keys.pair(keys.RUN_MEMBERS, run.id, before)
        rows = self.rows(map(keys.last_number, keys.walk_keys_back(self.txn, members, end)))
        return list(islice((row for row in rows if row.state < DEAD), limit))

    def _forget_runs(self, newest: int) -> None:
        """Look at some runs, each time at others, and forget those that nobody has touched for long and that have no
        message any more."""
        start = newest * _SPREAD % newest + 1
        for key in list(islice(keys.walk_keys(self.txn, keys.RUNS, keys.one(keys.RUNS, start)), _RUNS_A_LOOK)):
            run = self.run_row(keys.last_number(key))
            mine = keys.named(keys.RUN_IDS, self.namespace, run.name)
            if run.touched_at >= self.now - rules.KNOWN or self.txn.get(mine) != keys.number(run.id):
                continue
            if next(iter(self.run_keys(run.id)), None) is None:
                self.txn.delete(key)
                self.txn.delete(mine)

    def _save_run(self, run: RunRow) -> None:
        self.txn.put(keys.one(keys.RUNS, run.id), RUN.pack(*run[1:]))

    # writing

    def write(self, writes: Writes, now: float) -> None:
        """What leaves the indexes leaves them first: a key that one message gives up may be another's by now."""
        put, delete = self.txn.put, self.txn.delete
        for row, n, attempt in writes.attempts:
            self.remember(row.key, n, attempt)
        for row in writes.deletes.values():
            self.delete(row, row.before or row)
        entered = [entry for row in writes.updates.values() for entry in self._update(row)]
        for row, message in writes.inserts:
            self.insert(row, message)
        for key, value in entered:
            put(key, value)
        for upstream, dependent in writes.edges:
            put(keys.pair(keys.DEPENDENTS, upstream, dependent), b"")
            put(keys.pair(keys.UPSTREAMS, dependent, upstream), b"")
        for number in writes.removed:
            put(keys.one(keys.REMOVED, number), b"")
        self.forget_removed(2 * len(writes.removed), writes.remembered_from)
        for upstream, dependent in self._dependents(writes.freed) + self.upstreams(writes.forgotten):
            delete(keys.pair(keys.DEPENDENTS, upstream, dependent))
            delete(keys.pair(keys.UPSTREAMS, dependent, upstream))
        for number, change in writes.runs.items():
            run = self.run_row(number)
            total, done = run.total + change.total, run.done + change.done
            self._save_run(run._replace(total=total, done=done, touched_at=now))
        for queue, count in writes.dropped.items():
            self.queue_row(queue).dropped += count
        if self.journalled:
            self.note(writes.notes)

    def forget_removed(self, count: int, remembered_from: int) -> None:
        for key in list(islice(keys.walk_keys(self.txn, keys.REMOVED), count)):
            if keys.last_number(key) < remembered_from:
                self.txn.delete(key)

    def write_batch(self, batch: Batch) -> None:
        for row, message in batch.inserts():
            self.insert(row, message)

    def note(self, notes: Sequence[Note]) -> None:
        """Append to the journal."""
        if notes:
            journal.append(self, self._journal, notes)

    def insert(self, row: Row, message: NewMessage) -> None:
        put = self.txn.put
        if not -_LARGEST <= row.priority < _LARGEST:
            raise OverflowError(f"priority must fit 64 bits, not {row.priority}")
        due_at, queue = row.due_at, self.queue_row(row.queue)
        if row.state == READY and message.past is None:
            position = queue.place(row.key, row.available_at)
            row.position = None if position == row.available_at else position
        elif row.key > queue.newest:
            queue.newest = row.key
        if not put(keys.message(row.key), pack_row(row, due_at), overwrite=False):
            raise IdTaken(f"message id {self.ids.id_of(row.key)} is in use")
        put(keys.one(keys.CONTENTS, row.key), schema.pack_content(message.payload, message.codec, message.headers))
        for key, value in schema.index_entries(row, row, due_at).items():
            put(key, value)
        if message.past is not None:
            for n, attempt in enumerate(rules.attempts_of(message.past.history), 1):
                self.remember(row.key, n, attempt)
        queue.counts[row.state] += 1
        if due_at is not None:
            queue.due_by(due_at)

    def remember(self, key: int, n: int, attempt: rules.Attempt) -> None:
        self.txn.put(keys.attempt(keys.ATTEMPTS, key, n), json.dumps(attempt, separators=(",", ":")).encode())
        if n > HISTORY_LIMIT:
            self.txn.delete(keys.attempt(keys.ATTEMPTS, key, n - HISTORY_LIMIT))

    def update(self, row: Row) -> None:
        for key, value in self._update(row):
            self.txn.put(key, value)

    def _update(self, row: Row) -> list[tuple[bytes, bytes]]:
        """Write a changed row and its queue's counts, and take it out of its place; the index entries it is to get."""
        before = row.before
        assert before is not None
        due_at = row.due_at
        self.txn.put(keys.message(row.key), pack_row(row, due_at))
        queue = self.queue_row(row.queue)
        queue.counts[before.state] -= 1
        queue.counts[row.state] += 1
        if due_at is not None:
            queue.due_by(due_at)
        had, has = schema.index_entries(row, before, before.due_at), schema.index_entries(row, row, due_at)
        for key in had:
            if key not in has:
                self.txn.delete(key)
        return [(key, value) for key, value in has.items() if had.get(key) != value]

    def delete(self, row: Row, before: Row | Before) -> None:
        """Delete a message with its content, history and index entries, as the store still has them."""
        delete = self.txn.delete
        delete(keys.message(row.key))
        delete(keys.one(keys.CONTENTS, row.key))
        for key in schema.index_entries(row, before, before.due_at):
            delete(key)
        if row.history:
            for key in list(keys.walk_keys(self.txn, keys.one(keys.ATTEMPTS, row.key))):
                delete(key)
        self.queue_row(row.queue).counts[before.state] -= 1

    def write_records(self, writes: Sequence[RecordWrite], now: float) -> list[int]:
        """A version is never used again, so a stale `expect` can not match by chance."""
        versions = []
        for write in writes:
            key = keys.record(self.namespace, write.kind, write.key)
            if write.expect is not None:
                packed = self.txn.get(key)
                version = 0 if packed is None else schema.unpack_record(packed)[2]
                if write.expect != version:
                    raise refusals.record_conflict(write, version)
            if write.value is None:
                self.txn.delete(key)
                versions.append(0)
            else:
                versions.append(self.ids.reserve())
                self.txn.put(key, schema.pack_record(write.key, write.value, versions[-1], now))
        return versions

    # claiming

    def claimable(self, queue: int, now: float) -> bool:
        ready = next(keys.walk_keys(self.txn, keys.within(keys.READY, queue)), None)
        return ready is not None and next(self.overdue(queue, READY), None) is None

    def claim(self, queue: int, request: LeaseRequest, now: float) -> list[StoredMessage]:
        first = islice(keys.walk_keys(self.txn, keys.within(keys.READY, queue)), request.limit)
        rows = [self._lease(entry, queue, request, now) for entry in list(first)]
        if not rows:
            return []
        if request.leased_by is not None and request.counted:
            worker = self.worker_row(queue, request.leased_by)
            if not worker.leases:
                self._forget_names(queue)
            self.save_worker(queue, worker._replace(leases=worker.leases + len(rows)))
        if self.journalled:
            self.note([Note(LEASED, row, row.attempts, row.leased_by) for row in rows])
        messages = list(map(self.message, rows))
        if request.ledger is None:
            return messages
        return [self._with_record(request.ledger, message) for message in messages]

    def _with_record(self, ledger: str, message: StoredMessage) -> StoredMessage:
        """The message with what the ledger says about its dedupe key."""
        if message.dedupe_key is None:
            return message
        return message._replace(record=self.record(ledger, f"{message.queue}:{message.dedupe_key}"))

    # operations

    def subscribe(self, topic: int, subscriber: str, wanted: bool) -> bool:
        key = keys.named(keys.SUBSCRIPTIONS, topic, subscriber)
        if wanted == (self.txn.get(key) is not None):
            return False
        if wanted:
            last = max(self.subscribers(topic).values(), default=0)
            self.txn.put(key, SUBSCRIPTION.pack(subscriber, last + 1))
        else:
            self.txn.delete(key)
        self.queue_row(topic).subscriptions += 1
        return True

    def pause(self, queue: int, worker: str | None, at: float | None) -> None:
        if worker is None:
            self.queue_row(queue).paused = at is not None
        else:
            self.save_worker(queue, self.worker_row(queue, worker)._replace(paused=at is not None))

    def heartbeat(self, queue: int, worker: str, leases: int) -> None:
        row = self.worker_row(queue, worker)
        if row.last_seen is None:
            for other in list(self.worker_rows(queue)):
                if not other.paused and other.last_seen is not None and other.last_seen < self.now - rules.KNOWN:
                    self.txn.delete(keys.named(keys.WORKERS, queue, other.name))
        self.save_worker(queue, row._replace(leases=row.leases + leases, last_seen=self.now))

    def _forget_names(self, queue: int) -> None:
        """Of workers that never sent a heartbeat, if there are many."""
        names = [other.name for other in self.worker_rows(queue) if other.last_seen is None and not other.paused]
        for name in names if len(names) >= rules.NAMES else ():
            self.txn.delete(keys.named(keys.WORKERS, queue, name))

    def clear(self, queue: int) -> None:
        for worker in self.worker_rows(queue):
            if worker.paused:
                self.save_worker(queue, WorkerRow(worker.name, paused=True))
            else:
                self.txn.delete(keys.named(keys.WORKERS, queue, worker.name))
        kept = self.queue_row(queue)
        kept.counts, kept.dropped, kept.due = [0] * len(STATES), 0, rules.NEVER

    def save_worker(self, queue: int, worker: WorkerRow) -> None:
        self.txn.put(keys.named(keys.WORKERS, queue, worker.name), WORKER.pack(*worker))

    def _lease(self, entry: bytes, queue: int, request: LeaseRequest, now: float) -> Row:
        """Lease a message by its entry in the line. It keeps its keys, so only its place and its timer move."""
        txn = self.txn
        row = self.row(keys.last_number(entry))
        if row is None or row.state != READY:
            raise self._damaged(f"queue {request.queue!r} lists a ready message that it does not have")
        until = now + request.timeout
        txn.delete(entry)
        if row.expires_at is not None:
            txn.delete(keys.timed(keys.DUE, queue, READY, row.expires_at, row.key))
        txn.put(keys.timed(keys.DUE, queue, INFLIGHT, until, row.key), schema.pack_time(row.expires_at))
        row.state = INFLIGHT
        row.attempts += 1
        row.leased_until, row.leased_at, row.leased_by, row.most = until, now, request.leased_by, request.max_attempts
        txn.put(keys.message(row.key), pack_row(row, until))
        counts = self.queue_row(queue)
        counts.counts[READY] -= 1
        counts.counts[INFLIGHT] += 1
        counts.due_by(until)
        return row
