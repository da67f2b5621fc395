"""Enqueueing: capacity, dedupe, dependencies, runs and ordering keys, all inside the inserting transaction."""

from __future__ import annotations

import sys

from localqueue.errors import QueueFull, SubscriptionsChanged
from localqueue.stores import rules
from localqueue.stores.lmdb import keys, reads
from localqueue.stores.lmdb.dependencies import Wiring, wait_for
from localqueue.stores.lmdb.due import fall, is_due, settle_due
from localqueue.stores.lmdb.rows import (
    BLOCKED,
    CODE,
    EXPIRED,
    INFLIGHT,
    READY,
    MessageRow,
    pack_content,
)
from localqueue.stores.lmdb.tx import Tx
from localqueue.stores.port import STATES, Changes, Enqueued, Limit, NewMessage, Payload


def enqueue(tx: Tx, changes: Changes, wiring: Wiring) -> list[Enqueued]:
    for topic, version in changes.topics.items():
        if tx.queue(tx.queue_id(topic)).subscriptions != version:
            raise SubscriptionsChanged(f"the subscribers of {topic!r} changed while a message was published")
    messages = changes.enqueue
    if not any(message.after for message in messages):
        return [_enqueue_one(tx, message, changes, wiring) for message in messages]
    done = {message.id: _enqueue_one(tx, message, changes, wiring) for message in wiring.in_order(messages)}
    return [done[message.id] for message in messages]


def _enqueue_one(tx: Tx, message: NewMessage, changes: Changes, wiring: Wiring) -> Enqueued:
    if message.past is not None and message.past.state in rules.ENDED:
        return Enqueued("stored", STATES[_insert(tx, message, wiring)], tx.now)
    duplicate = _find_duplicate(tx, message, wiring)
    if duplicate is not None:
        return duplicate
    diverted = False
    limit = changes.limits.get(message.queue)
    if limit is not None and limit.overflow_queue is not None:
        duplicate = _find_duplicate(tx, message._replace(queue=limit.overflow_queue), wiring)
        if duplicate is not None:
            return duplicate
    if limit is not None and limit.maxsize > 0 and _load(tx, message.queue) >= limit.maxsize:
        if limit.overflow == "reject":
            raise QueueFull(message.queue, limit.maxsize)
        if limit.overflow == "drop-newest":
            tx.queue(tx.queue_id(message.queue)).dropped += 1
            wiring.dropped.add(message.id)
            return Enqueued("dropped", "dropped", tx.now)
        if limit.overflow == "drop-oldest":
            _drop_oldest(tx, message.queue)
        else:
            message = message._replace(queue=_overflow_queue(limit))
            diverted = True
    state = _insert(tx, message, wiring)
    return Enqueued("diverted" if diverted else "stored", STATES[state], tx.now)


def put_one(tx: Tx, name: str, payload: Payload, codec: str | None) -> tuple[str, float]:
    """Store a message without options under a new id."""
    queue = tx.queue_id(name)
    key = tx.store.ids.reserve()
    while tx.txn.get(keys.message(key)) is not None:  # another process minted the same key
        key = tx.store.ids.reserve()
    tx.insert(MessageRow(key, queue, READY, 0, tx.now, tx.now), pack_content(payload, codec, None))
    return tx.store.ids.id_of(key), tx.now


def _insert(tx: Tx, message: NewMessage, wiring: Wiring) -> int:
    now = tx.now
    if not -(1 << 63) <= message.priority < 1 << 63:
        raise OverflowError(f"priority must fit 64 bits, not {message.priority}")
    key = tx.store.ids.key_of(message.id)
    if key is None:
        raise ValueError(f"{message.id!r} is not an id of this namespace; ids of new messages come from mint()")
    created_at, available_at, expires_at, ended_at = rules.arrival(message, now)
    row = MessageRow(
        key=key,
        queue=tx.queue_id(message.queue),
        state=READY,
        priority=message.priority,
        available_at=available_at,
        created_at=created_at,
        expires_at=expires_at,
        ordering_key=message.ordering_key,
        dedupe_key=message.dedupe_key,
        ended_at=ended_at,
    )
    run = None if message.run_id is None else tx.run(message.run_id, even_cancelled=ended_at is not None)
    row.run = 0 if run is None else run.id
    row.waiting_on = wait_for(tx, row.key, message.after, wiring)
    landed = rules.landing(
        now=now,
        available_at=row.available_at,
        expires_at=row.expires_at,
        waiting_on=row.waiting_on,
        key_busy=tx.key_busy(row.queue, row.ordering_key),
    )
    if message.past is not None:
        tx.restore(row, message.past)
        landed = landed if ended_at is None else message.past.state
    row.state = CODE[landed]
    row.due_at = rules.due_at(landed, available_at=row.available_at, expires_at=row.expires_at)
    if row.state == EXPIRED and ended_at is None:
        row.ended_at = now
    content = pack_content(message.payload, message.codec, message.headers)
    tx.insert(row, content, run_id=message.run_id, ended_elsewhere=ended_at is not None)
    if run is not None:
        run.total += 1
        tx.save_run(run)
    return row.state


def _find_duplicate(tx: Tx, message: NewMessage, wiring: Wiring) -> Enqueued | None:
    if message.dedupe_key is None:
        return None
    holder = tx.txn.get(keys.dedupe(tx.queue_id(message.queue), message.dedupe_key))
    row = None if holder is None else tx.load(keys.last_number(holder))
    if row is None:
        return None
    if is_due(tx, row) and row.expires_at is not None and row.expires_at <= tx.now:
        fall(tx, row, max_attempts=None)  # its life is over, nobody has looked since
        return None
    existing = reads.stored_message(tx.txn, tx.store.ids, row, message.queue)
    wiring.aliases[message.id] = existing.id
    return Enqueued("duplicate", existing.state, tx.now, existing)


def _load(tx: Tx, name: str) -> int:
    """Ready and blocked messages, counting those this transaction adds and those that have just become due."""
    queue = tx.queue(tx.queue_id(name))
    lost = 0
    if queue.due <= tx.now:
        settle_due(tx, queue, max_attempts=None, limit=sys.maxsize, leases=False)
        expired = (expires_at for _, _, _, expires_at in reads.overdue(tx.txn, queue.id, INFLIGHT, tx.now))
        lost = sum(1 for expires_at in expired if expires_at is None or expires_at > tx.now)
    return queue.counts[READY] + queue.counts[BLOCKED] + lost


def _drop_oldest(tx: Tx, name: str) -> None:
    queue = tx.queue(tx.queue_id(name))
    oldest = reads.oldest_ready(tx.txn, queue.id, tx.now)
    if oldest is None and queue.counts[BLOCKED] == 0:  # what counts are leases that ran out
        settle_due(tx, queue, max_attempts=None, limit=sys.maxsize)
        oldest = reads.oldest_ready(tx.txn, queue.id, tx.now)
    if oldest is not None:
        key = oldest[1]
    else:  # every message that counts is blocked behind an inflight one of its key
        key = min(map(keys.last_number, keys.walk_keys(tx.txn, keys.blocked_of(queue.id))))
    row = tx.load(key)
    assert row is not None
    tx.remove(row, "dropped")
    tx.txn.put(keys.removed(key), b"")
    if row.ordering_key is not None and row.state == READY:
        tx.free_key(queue.id, row.ordering_key)
    queue.dropped += 1


def _overflow_queue(limit: Limit) -> str:
    if limit.overflow_queue is None:
        raise ValueError(f"limit {limit!r} names no overflow_queue")
    return limit.overflow_queue
