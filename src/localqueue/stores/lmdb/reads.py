"""Reads: none of them changes anything. Counts, sizes and the next message cost the same at any backlog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from heapq import merge
from itertools import chain, groupby, islice
from typing import Any

from localqueue.errors import QueueStoreCorruptError
from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.engine.row import BLOCKED, CODE, DEAD, DELAYED, INFLIGHT, READY, Row, from_json
from localqueue.stores.lmdb import keys, schema
from localqueue.stores.lmdb.keys import Txn
from localqueue.stores.lmdb.schema import QueueRow, RunRow, WorkerRow
from localqueue.stores.port import STATES, Record, StoredMessage, Subscriptions
from localqueue.stores.stats import Held, KnownWorker, count_due, queue_stats


def message_row(txn: Txn, key: int | None) -> Row | None:
    value = None if key is None else txn.get(keys.message(key))
    return None if key is None or value is None else schema.unpack_row(key, value)


def queue_row(txn: Txn, queue: int) -> QueueRow:
    value = txn.get(keys.within(keys.QUEUES, queue))
    if value is None:
        raise QueueStoreCorruptError(f"queue number {queue} is missing; the store is damaged, restore a backup")
    return QueueRow.unpack(queue, value)


def queues(txn: Txn, namespace: int) -> list[str]:
    found = keys.walk(txn, keys.within(keys.QUEUE_IDS, namespace))
    return sorted(queue_row(txn, keys.last_number(value)).name for _, value in found)


def run_row(txn: Txn, run: int) -> RunRow | None:
    value = txn.get(keys.one(keys.RUNS, run))
    return None if value is None else RunRow.unpack(run, value)


def stored_message(txn: Txn, ids: Mint, row: Row, queue: str) -> StoredMessage:
    """A row with its content and history, as the port shows it."""
    content = txn.get(keys.one(keys.CONTENTS, row.key))
    if content is None:
        raise QueueStoreCorruptError(f"message {ids.id_of(row.key)} has lost its payload; restore a backup")
    payload, codec, headers = schema.unpack_content(content)
    run = run_row(txn, row.run) if row.run else None
    finished = _finished_attempts(txn, row.key) if row.history else ()
    history = rules.history(finished, attempts=row.attempts, leased_at=row.leased_at, leased_by=row.leased_by)
    return StoredMessage(
        ids.id_of(row.key), queue, STATES[row.state], payload, codec, row.priority, row.attempts, row.created_at,
        row.available_at, row.leased_until, row.leased_by, from_json(row.last_error), row.failed_at, row.dedupe_key,
        row.ordering_key, row.expires_at, None if run is None else run.name, headers, row.waiting_on, history,
        row.forgiven,
    )  # fmt: skip


def _finished_attempts(txn: Txn, key: int) -> list[rules.Attempt]:
    return [rules.Attempt(*json.loads(value)) for _, value in keys.walk(txn, keys.one(keys.ATTEMPTS, key))]


def overdue(txn: Txn, queue: int, state: int, now: float) -> Iterator[tuple[float, int, float | None]]:
    """Messages of a state whose timer has passed: due_at, key and expires_at, by due_at."""
    for key, value in keys.walk(txn, keys.of_state(keys.DUE, queue, state)):
        due_at, message = keys.timed_parts(key)
        if due_at > now:
            return
        yield due_at, message, schema.unpack_time(value)


def next_due(txn: Txn, queue: int) -> float:
    firsts = (next(keys.walk_keys(txn, keys.of_state(keys.DUE, queue, state)), None) for state in range(DEAD))
    return min((keys.timed_parts(key)[0] for key in firsts if key is not None), default=rules.NEVER)


def next_expiry(txn: Txn, queue: int, now: float) -> float:
    """When the next message that counts against capacity reaches the end of its life."""
    found = []
    for state in (READY, BLOCKED):
        start = keys.timed(keys.DUE, queue, state, now, 0)
        for key in keys.walk_keys(txn, keys.of_state(keys.DUE, queue, state), start):
            at = keys.timed_parts(key)[0]
            if at > now:
                found.append(at)
                break
    return min(found, default=rules.NEVER)


def by_availability(txn: Txn, queue: int) -> Iterator[tuple[float, int]]:
    """When each ready message became available and its key, in that order: a walk for each priority in use."""
    prefix = keys.within(keys.READY, queue)
    lines = []
    first = next(keys.walk_keys(txn, prefix), None)
    while first is not None:
        line, after = keys.line_of(first)
        lines.append(keys.ready_parts(key) for key in keys.walk_keys(txn, line))
        first = next(keys.walk_keys(txn, prefix, after), None)
    return merge(*lines)


def counts(txn: Txn, queue: QueueRow, now: float) -> list[int]:
    """The kept counts, corrected for messages that are due but that nobody has claimed since."""
    kept = list(queue.counts)
    if queue.due <= now:
        for state in range(DEAD):
            for _, message, expires_at in overdue(txn, queue.id, state, now):
                outlived = expires_at is not None and expires_at <= now
                row = message_row(txn, message) if state == INFLIGHT else None
                exhausted = row is not None and row.most is not None and row.most <= row.attempts - row.forgiven
                count_due(kept, state, 1, outlived=outlived, exhausted=exhausted)
    return kept


def stats(txn: Txn, queue_id: int, now: float) -> QueueStats:
    queue = queue_row(txn, queue_id)
    workers = (WorkerRow.unpack(value) for _, value in keys.walk(txn, keys.within(keys.WORKERS, queue_id)))
    return queue_stats(
        counts(txn, queue, now),
        now=now,
        available=_available(txn, queue_id, now),
        held=_held(txn, queue_id, now),
        workers=[KnownWorker(*one[:3], 0.0 if one.paused else None) for one in workers],
        dropped=queue.dropped,
        paused=queue.paused,
    )


def worker_row(txn: Txn, queue: int, worker: str) -> WorkerRow:
    """What the queue knows about a worker, if only its name."""
    value = txn.get(keys.named(keys.WORKERS, queue, worker))
    return WorkerRow(worker) if value is None else WorkerRow.unpack(value)


def is_paused(txn: Txn, queue: int, worker: str | None) -> bool:
    return worker is not None and worker_row(txn, queue, worker).paused


def _held(txn: Txn, queue: int, now: float) -> Iterator[Held]:
    """The current leases by worker."""
    since: dict[str | None, list[float]] = {}
    for key in keys.walk_keys(txn, keys.of_state(keys.DUE, queue, INFLIGHT)):
        due_at, message = keys.timed_parts(key)
        row = message_row(txn, message) if due_at > now else None
        if row is not None and row.leased_at is not None:
            since.setdefault(row.leased_by, []).append(row.leased_at)
    return (Held(worker, len(times), min(times), sum(times)) for worker, times in since.items())


def _available(txn: Txn, queue: int, now: float) -> Iterator[float]:
    """When those became available that may have waited longest, those included that are due but not claimed since."""
    delayed = (at for at, _, ends in overdue(txn, queue, DELAYED, now) if ends is None or ends > now)
    leased = (at for at, _, _ in overdue(txn, queue, INFLIGHT, now))
    ready = (at for at, _ in by_availability(txn, queue))
    return chain(islice(ready, 1), islice(delayed, 1), islice(leased, 1))


def get(txn: Txn, ids: Mint, queue: int, name: str, message_id: str) -> StoredMessage | None:
    row = message_row(txn, ids.key_of(message_id))
    return None if row is None or row.queue != queue else stored_message(txn, ids, row, name)


def scan(
    txn: Txn,
    ids: Mint,
    queue: int,
    name: str,
    state: str | None,
    after: str | None,
    last: int | None,
    limit: int | None,
) -> list[StoredMessage]:
    if state is not None and CODE[state] >= DEAD:
        found = _ended(txn, queue, CODE[state], None if after is None else message_row(txn, ids.key_of(after)), after)
    else:
        behind = (after and ids.key_of(after)) or 0
        found = in_queue(txn, queue, None if state is None else CODE[state], behind, last)
    return [stored_message(txn, ids, row, name) for row in islice(found, limit)]


def in_queue(txn: Txn, queue: int, state: int | None = None, after: int = 0, last: int | None = None) -> Iterator[Row]:
    """Messages by key."""
    end = b"N" if last is None else keys.message(last)
    for key, value in keys.walk(txn, keys.MESSAGES, keys.message(after + 1)):
        if key > end:
            return
        if schema.queue_of(value) == queue and (state is None or schema.state_of(value) == state):
            yield schema.unpack_row(keys.last_number(key), value)


def splits(txn: Txn, ids: Mint, queue: int, parts: int) -> list[str]:
    """By a walk over the rows, which are apart from the payloads, as far as the queue has messages."""
    ends = rules.ends_of_parts(sum(queue_row(txn, queue).counts), parts)
    found: list[str] = []
    place = 0
    for key, value in keys.walk(txn, keys.MESSAGES):
        if len(found) == len(ends):
            break
        if schema.queue_of(value) == queue:
            if place == ends[len(found)]:
                found.append(ids.id_of(keys.last_number(key)))
            place += 1
    return found


def _ended(txn: Txn, queue: int, state: int, behind: Row | None, after: str | None) -> Iterator[Row]:
    """Messages that left delivery, by the time they did. Nothing comes behind a message that is not among them."""
    start = None
    if after is not None:
        if behind is None or behind.ended_at is None:
            return
        start = keys.timed(keys.ENDED, queue, state, behind.ended_at, behind.key + 1)
    for key in keys.walk_keys(txn, keys.of_state(keys.ENDED, queue, state), start):
        row = message_row(txn, keys.last_number(key))
        if row is not None:
            yield row


def ended_by(txn: Txn, queue: int, state: int, until: float, behind: tuple[float, int] = (0.0, 0)) -> Iterator[int]:
    """Keys of the messages that left delivery for a state no later than `until`, by the time they did, behind one."""
    at, last = behind
    start = keys.timed(keys.ENDED, queue, state, at, last + 1)
    for ended_key in keys.walk_keys(txn, keys.of_state(keys.ENDED, queue, state), start):
        ended_at, key = keys.timed_parts(ended_key)
        if ended_at > until:
            return
        yield key


def find_run(txn: Txn, namespace: int, run_id: str) -> RunRow | None:
    value = txn.get(keys.named(keys.RUN_IDS, namespace, run_id))
    return None if value is None else run_row(txn, keys.last_number(value))


def run_keys(txn: Txn, run: int, after: int = 0) -> Iterator[int]:
    members = keys.walk_keys(txn, keys.one(keys.RUN_MEMBERS, run), keys.pair(keys.RUN_MEMBERS, run, after + 1))
    return map(keys.last_number, members)


def runs(txn: Txn, namespace: int, after: str, limit: int | None) -> list[str]:
    """By ascending name. The table has their order only up to the length of a key."""
    found = (run_row(txn, keys.last_number(value)) for _, value in keys.walk(txn, keys.within(keys.RUN_IDS, namespace)))
    return sorted(row.name for row in found if row is not None and row.name > after)[:limit]


def run(txn: Txn, namespace: int, run_id: str) -> RunStats | None:
    row = find_run(txn, namespace, run_id)
    if row is None:
        return None
    states: dict[str, int] = {}
    for key in run_keys(txn, row.id):
        value = txn.get(keys.message(key))
        if value is not None:
            state = STATES[schema.state_of(value)]
            states[state] = states.get(state, 0) + 1
    return RunStats(run_id=run_id, total=row.total, done=row.done, **states)


def run_messages(
    txn: Txn, ids: Mint, namespace: int, run_id: str, after: str | None, limit: int | None
) -> list[StoredMessage]:
    run = find_run(txn, namespace, run_id)
    if run is None:
        return []
    messages = []
    for key in islice(run_keys(txn, run.id, (after and ids.key_of(after)) or 0), limit):
        row = message_row(txn, key)
        if row is not None:
            messages.append(stored_message(txn, ids, row, queue_row(txn, row.queue).name))
    return messages


def upstream(txn: Txn, ids: Mint, queue: int, message_id: str) -> list[str]:
    row = message_row(txn, ids.key_of(message_id))
    if row is None or row.queue != queue:
        return []
    return [ids.id_of(keys.last_number(key)) for key in keys.walk_keys(txn, keys.one(keys.UPSTREAMS, row.key))]


def record(txn: Txn, namespace: int, kind: str, key: str) -> Record | None:
    packed = txn.get(keys.record(namespace, kind, key))
    return None if packed is None else Record(kind, *schema.unpack_record(packed))


def with_record(txn: Txn, namespace: int, ledger: str, message: StoredMessage) -> StoredMessage:
    """The message with what the ledger says about its dedupe key."""
    if message.dedupe_key is None:
        return message
    key = f"{message.queue}:{message.dedupe_key}"
    return message._replace(record=record(txn, namespace, ledger, key))


def records(txn: Txn, namespace: int, kind: str, after: str, limit: int | None) -> list[Record]:
    return list(islice(_records(txn, keys.records(namespace, kind), kind, keys.encoded(after)), limit))


def _records(txn: Txn, prefix: bytes, kind: str, after: bytes) -> Iterator[Record]:
    """By ascending key. Long keys that begin alike lie side by side in the order of their digests: each such group
    is sorted here."""
    longest = len(prefix) + keys.LONGEST_TEXT

    def beginning(entry: tuple[bytes, Any]) -> bytes:
        return entry[0][:longest]

    for _, group in groupby(keys.walk(txn, prefix, (prefix + after)[:longest]), beginning):
        found = [Record(kind, *schema.unpack_record(value)) for _, value in group]
        for one in sorted(found, key=lambda record: keys.encoded(record.key)):
            if keys.encoded(one.key) > after:
                yield one


def subscriptions(txn: Txn, queue: int) -> Subscriptions:
    found = [schema.unpack_subscription(value) for _, value in keys.walk(txn, keys.within(keys.SUBSCRIPTIONS, queue))]
    found.sort(key=lambda subscription: subscription[1])
    return Subscriptions(queue_row(txn, queue).subscriptions, tuple(name for name, _ in found))
