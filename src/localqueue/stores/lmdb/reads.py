"""What one transaction sees of a namespace. Counts, sizes and the next message cost the same at any backlog."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain, groupby, islice, pairwise
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueStoreCorruptError
from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.engine.row import BLOCKED, CODE, DEAD, DELAYED, INFLIGHT, READY, Row, from_json
from localqueue.stores.lmdb import keys, schema
from localqueue.stores.lmdb.keys import Txn
from localqueue.stores.lmdb.schema import RUN, SUBSCRIPTION, WORKER, QueueRow, RunRow, WorkerRow
from localqueue.stores.port import STATES, Record, StoredMessage, Subscriptions
from localqueue.stores.stats import Held, KnownWorker, count_due, queue_stats

if TYPE_CHECKING:
    from localqueue.stores.lmdb.store import LMDBQueueStore


class Reads:
    """Nothing here changes anything; `LMDBRows` is this in a transaction that writes."""

    __slots__ = ("_queues", "ids", "namespace", "new_queues", "now", "path", "queue_ids", "txn")

    def __init__(self, store: LMDBQueueStore, txn: Txn, now: float) -> None:
        self.txn = txn
        self.now = now
        self.ids: Mint = store.ids
        self.namespace = store.namespace_id
        self.path = store.path
        self.queue_ids = store.queue_ids
        self.new_queues: dict[str, int] = {}
        self._queues: dict[int, QueueRow] = {}

    def _damaged(self, what: str) -> QueueStoreCorruptError:
        return QueueStoreCorruptError(f"{what}; run check() on {self.path!r}, restore a backup", path=self.path)

    # queues

    def find_queue(self, name: str) -> int | None:
        queue = self.queue_ids.get(name) or self.new_queues.get(name)
        if queue is None:
            value = self.txn.get(keys.named(keys.QUEUE_IDS, self.namespace, name))
            if value is not None:
                queue = self.new_queues[name] = keys.last_number(value)
        return queue

    def queue_row(self, queue: int) -> QueueRow:
        row = self._queues.get(queue)
        if row is None:
            value = self.txn.get(keys.within(keys.QUEUES, queue))
            if value is None:
                raise self._damaged(f"queue number {queue} is missing")
            row = self._queues[queue] = QueueRow.unpack(queue, value)
        return row

    def queue_name(self, queue: int) -> str:
        return self.queue_row(queue).name

    def queues(self) -> list[str]:
        found = keys.walk(self.txn, keys.within(keys.QUEUE_IDS, self.namespace))
        return sorted(self.queue_name(keys.last_number(value)) for _, value in found)

    def subscriptions(self, queue: int) -> Subscriptions:
        places = self.subscribers(queue)
        return Subscriptions(self.queue_row(queue).subscriptions, tuple(sorted(places, key=places.__getitem__)))

    def subscribers(self, queue: int) -> dict[str, int]:
        """The names of those who subscribed, and which place each has among them."""
        found = keys.walk(self.txn, keys.within(keys.SUBSCRIPTIONS, queue))
        return dict(SUBSCRIPTION.unpack(value) for _, value in found)

    def worker_row(self, queue: int, worker: str) -> WorkerRow:
        """What the queue knows about a worker, if only its name."""
        value = self.txn.get(keys.named(keys.WORKERS, queue, worker))
        return WorkerRow(worker) if value is None else WorkerRow(*WORKER.unpack(value))

    def worker_rows(self, queue: int) -> list[WorkerRow]:
        return [WorkerRow(*WORKER.unpack(value)) for _, value in keys.walk(self.txn, keys.within(keys.WORKERS, queue))]

    def paused(self, queue: int, worker: str | None) -> bool:
        return self.queue_row(queue).paused or (worker is not None and bool(self.worker_row(queue, worker).paused))

    # messages

    def row(self, key: int | None) -> Row | None:
        value = None if key is None else self.txn.get(keys.message(key))
        return None if key is None or value is None else schema.unpack_row(key, value)

    def rows(self, numbers: Iterable[int]) -> Iterator[Row]:
        return (row for row in map(self.row, numbers) if row is not None)

    def message(self, row: Row) -> StoredMessage:
        """A row with its content and history, as the port shows it."""
        content = self.txn.get(keys.one(keys.CONTENTS, row.key))
        if content is None:
            raise self._damaged(f"message {self.ids.id_of(row.key)} has lost its payload")
        payload, codec, headers = schema.unpack_content(content)
        run_id = self.run_row(row.run).name if row.run else None
        attempts = keys.walk(self.txn, keys.one(keys.ATTEMPTS, row.key)) if row.history else ()
        finished = [rules.Attempt(*json.loads(value)) for _, value in attempts]
        history = rules.history(finished, attempts=row.attempts, leased_at=row.leased_at, leased_by=row.leased_by)
        return StoredMessage(
            self.ids.id_of(row.key), self.queue_name(row.queue), STATES[row.state], payload, codec, row.priority,
            row.attempts, row.created_at, row.available_at, row.leased_until, row.leased_by, from_json(row.last_error),
            row.failed_at, row.dedupe_key, row.ordering_key, row.expires_at, run_id, headers, row.waiting_on, history,
            row.forgiven,
        )  # fmt: skip

    def in_queue(self, queue: int, message_id: str) -> Row | None:
        row = self.row(self.ids.key_of(message_id))
        return None if row is None or row.queue != queue else row

    def upstream_of(self, queue: int, message_id: str) -> list[str]:
        row = self.in_queue(queue, message_id)
        return [] if row is None else list(map(self.ids.id_of, self.linked(keys.UPSTREAMS, row.key)))

    def linked(self, table: bytes, key: int) -> Iterator[int]:
        """What comes after a message, or what it comes after."""
        return map(keys.last_number, keys.walk_keys(self.txn, keys.one(table, key)))

    def scan(
        self, queue: int, state: str | None, after: str | None, last: int | None, limit: int | None
    ) -> list[StoredMessage]:
        behind = None if after is None else self.ids.key_of(after)
        if state is None or CODE[state] < DEAD:
            found = self.by_key(queue, None if state is None else CODE[state], behind or 0, last)
        elif after is None:
            found = self.rows(self.ended_by(queue, CODE[state], rules.NEVER))
        else:
            row = self.row(behind)
            if row is None or row.ended_at is None:  # nothing comes behind a message that is not among them
                return []
            found = self.rows(self.ended_by(queue, CODE[state], rules.NEVER, (row.ended_at, row.key)))
        return list(map(self.message, islice(found, limit)))

    def by_key(self, queue: int, state: int | None = None, after: int = 0, last: int | None = None) -> Iterator[Row]:
        end = b"N" if last is None else keys.message(last)
        for key, value in keys.walk(self.txn, keys.MESSAGES, keys.message(after + 1)):
            if key > end:
                return
            if schema.queue_of(value) == queue and (state is None or schema.state_of(value) == state):
                yield schema.unpack_row(keys.last_number(key), value)

    def splits(self, queue: int, parts: int) -> list[str]:
        """By a walk over the rows, which are apart from the payloads, as far as the queue has messages."""
        messages = keys.walk(self.txn, keys.MESSAGES)
        of_queue = (keys.last_number(key) for key, value in messages if schema.queue_of(value) == queue)
        ends = rules.ends_of_parts(sum(self.queue_row(queue).counts), parts)
        found = (next(islice(of_queue, end - before - 1, None), None) for before, end in pairwise([-1, *ends]))
        return [self.ids.id_of(key) for key in found if key is not None]

    def ended_by(
        self, queue: int, state: int, until: float, behind: tuple[float, int] = (-rules.NEVER, 0)
    ) -> Iterator[int]:
        """Keys of the messages that left delivery for a state no later than `until`, by the time they did."""
        at, last = behind
        start = keys.timed(keys.ENDED, queue, state, at, last + 1)
        for ended_key in keys.walk_keys(self.txn, keys.of_state(keys.ENDED, queue, state), start):
            ended_at, key = keys.timed_parts(ended_key)
            if ended_at > until:
                return
            yield key

    # timers and figures

    def overdue(self, queue: int, state: int) -> Iterator[tuple[float, int, float | None]]:
        """Messages of a state whose timer has passed: due_at, key and expires_at, by due_at."""
        for key, value in keys.walk(self.txn, keys.of_state(keys.DUE, queue, state)):
            due_at, message = keys.timed_parts(key)
            if due_at > self.now:
                return
            yield due_at, message, schema.unpack_time(value)

    def next_due(self, queue: int) -> float:
        firsts = (next(keys.walk_keys(self.txn, keys.of_state(keys.DUE, queue, state)), None) for state in range(DEAD))
        return min((keys.timed_parts(key)[0] for key in firsts if key is not None), default=rules.NEVER)

    def next_expiry(self, queue: int) -> float:
        """When the next message that counts against capacity reaches the end of its life."""
        found = []
        for state in (READY, BLOCKED):
            start = keys.timed(keys.DUE, queue, state, self.now, 0)
            times = map(keys.timed_parts, keys.walk_keys(self.txn, keys.of_state(keys.DUE, queue, state), start))
            found += list(islice((at for at, _ in times if at > self.now), 1))
        return min(found, default=rules.NEVER)

    def by_availability(self, queue: int) -> Iterator[tuple[float, int]]:
        """When each ready message became available and its key, in that order: a walk for each priority in use."""
        prefix = keys.within(keys.READY, queue)
        lines = []
        first = next(keys.walk_keys(self.txn, prefix), None)
        while first is not None:
            line, after = keys.line_of(first)
            lines.append(map(keys.ready_parts, keys.walk_keys(self.txn, line)))
            first = next(keys.walk_keys(self.txn, prefix, after), None)
        return merge(*lines)

    def counts(self, queue: int) -> list[int]:
        """The kept counts, corrected for messages that are due but that nobody has claimed since."""
        row = self.queue_row(queue)
        kept = list(row.counts)
        for state in range(DEAD) if row.due <= self.now else ():
            for _, message, expires_at in self.overdue(queue, state):
                outlived = expires_at is not None and expires_at <= self.now
                held = self.row(message) if state == INFLIGHT else None
                exhausted = held is not None and held.most is not None and held.most <= held.attempts - held.forgiven
                count_due(kept, state, 1, outlived=outlived, exhausted=exhausted)
        return kept

    def load(self, queue: int, now: float = 0.0, up_to: int = 0) -> int:
        counts = self.counts(queue)
        return counts[READY] + counts[BLOCKED]

    def stats(self, queue: int) -> QueueStats:
        row = self.queue_row(queue)
        return queue_stats(
            self.counts(queue),
            now=self.now,
            available=self._available(queue),
            held=self._held(queue),
            workers=[
                KnownWorker(one.name, one.leases, one.last_seen, 0.0 if one.paused else None)
                for one in self.worker_rows(queue)
            ],
            dropped=row.dropped,
            paused=row.paused,
        )

    def _held(self, queue: int) -> Iterator[Held]:
        """The current leases by worker."""
        since: dict[str | None, list[float]] = {}
        current = keys.timed(keys.DUE, queue, INFLIGHT, self.now, 0)
        leases = keys.walk_keys(self.txn, keys.of_state(keys.DUE, queue, INFLIGHT), current)
        for row in self.rows(map(keys.last_number, leases)):
            if row.leased_at is not None and not row.is_due(self.now):
                since.setdefault(row.leased_by, []).append(row.leased_at)
        return (Held(worker, len(times), min(times), sum(times)) for worker, times in since.items())

    def _available(self, queue: int) -> Iterator[float]:
        """When those became available that may have waited longest, those included that are due but not claimed."""
        delayed = (at for at, _, ends in self.overdue(queue, DELAYED) if ends is None or ends > self.now)
        leased = (at for at, _, _ in self.overdue(queue, INFLIGHT))
        ready = (at for at, _ in self.by_availability(queue))
        return chain(islice(ready, 1), islice(delayed, 1), islice(leased, 1))

    # runs

    def run_row(self, run: int) -> RunRow:
        value = self.txn.get(keys.one(keys.RUNS, run))
        if value is None:
            raise self._damaged(f"run number {run} is missing")
        return RunRow(run, *RUN.unpack(value))

    def find_run(self, name: str) -> RunRow | None:
        value = self.txn.get(keys.named(keys.RUN_IDS, self.namespace, name))
        return None if value is None else self.run_row(keys.last_number(value))

    def run_keys(self, run: int, after: int = 0) -> Iterator[int]:
        members = keys.walk_keys(self.txn, keys.one(keys.RUN_MEMBERS, run), keys.pair(keys.RUN_MEMBERS, run, after + 1))
        return map(keys.last_number, members)

    def runs_behind(self, after: str, limit: int | None) -> list[str]:
        """By ascending name. The table has their order only up to the length of a key."""
        found = keys.walk(self.txn, keys.within(keys.RUN_IDS, self.namespace))
        names = (self.run_row(keys.last_number(value)).name for _, value in found)
        return sorted(name for name in names if name > after)[:limit]

    def run(self, name: str) -> RunStats | None:
        run = self.find_run(name)
        if run is None:
            return None
        values = map(self.txn.get, map(keys.message, self.run_keys(run.id)))
        states = Counter(STATES[schema.state_of(value)] for value in values if value is not None)
        return RunStats(run_id=name, total=run.total, done=run.done, **states)

    def run_messages(self, name: str, after: str | None, limit: int | None) -> list[StoredMessage]:
        run = self.find_run(name)
        members = () if run is None else self.run_keys(run.id, (after and self.ids.key_of(after)) or 0)
        return list(map(self.message, islice(self.rows(members), limit)))

    # records

    def record(self, kind: str, key: str) -> Record | None:
        packed = self.txn.get(keys.record(self.namespace, kind, key))
        return None if packed is None else Record(kind, *schema.unpack_record(packed))

    def records(self, kind: str, after: str) -> Iterator[Record]:
        """By ascending key. Long keys that begin alike lie side by side in the order of their digests: each such group
        is sorted here."""
        prefix, behind = keys.held(keys.RECORDS, self.namespace, kind), keys.encoded(after)
        longest = len(prefix) + keys.LONGEST_TEXT

        def beginning(entry: tuple[bytes, Any]) -> bytes:
            return entry[0][:longest]

        for _, group in groupby(keys.walk(self.txn, prefix, (prefix + behind)[:longest]), beginning):
            found = [Record(kind, *schema.unpack_record(value)) for _, value in group]
            for one in sorted(found, key=lambda record: keys.encoded(record.key)):
                if keys.encoded(one.key) > behind:
                    yield one
