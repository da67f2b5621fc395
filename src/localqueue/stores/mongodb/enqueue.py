"""Enqueueing: capacity, dedupe, dependencies, runs and ordering keys, all inside the inserting transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson.int64 import Int64

from localqueue.errors import QueueFull, SubscriptionsChanged
from localqueue.stores import rules
from localqueue.stores.mongodb import reads
from localqueue.stores.mongodb.dependencies import wait_for
from localqueue.stores.mongodb.due import fall, is_due, settle_due
from localqueue.stores.mongodb.rows import BLOCKED, CODE, DEAD, EXPIRED, INFLIGHT, READY, Row, stored_message
from localqueue.stores.mongodb.tx import Tx, to_json
from localqueue.stores.port import STATES, Changes, Enqueued, Limit, NewMessage
from localqueue.stores.wiring import Wiring

_DUE_A_PUT = 1000


def content_of(message: NewMessage) -> dict[str, Any]:
    content: dict[str, Any] = {"b": message.payload}
    if message.codec is not None:
        content["co"] = message.codec
    if message.headers is not None:
        content["hd"] = message.headers
    return content


def enqueue(tx: Tx, changes: Changes, wiring: Wiring) -> list[Enqueued]:
    for topic, version in changes.topics.items():
        number = tx.queue_id(topic)
        tx.lock_queue(number)  # subscribing writes it as well
        if tx.queue(number).get("version", 0) != version:
            raise SubscriptionsChanged(f"the subscribers of {topic!r} changed while a message was published")
    messages = changes.enqueue
    _look_ahead(tx, messages)
    queues_told: set[int] = set()
    done = {
        message.id: _enqueue_one(tx, message, changes.limits, wiring, queues_told)
        for message in wiring.in_order(messages)
    }
    return [done[message.id] for message in messages]


def _look_ahead(tx: Tx, messages: Sequence[NewMessage]) -> None:
    """Ask for all keys at once that will be asked for one by one."""
    for name in dict.fromkeys(message.queue for message in messages):
        mine = [message for message in messages if message.queue == name]
        tx.look_up_holders(tx.queue_id(name), [one.dedupe_key for one in mine if one.dedupe_key is not None])
        tx.look_up_heads(tx.queue_id(name), [one.ordering_key for one in mine if one.ordering_key is not None])


def _enqueue_one(tx: Tx, message: NewMessage, limits: Mapping[str, Limit], wiring: Wiring, told: set[int]) -> Enqueued:
    if message.past is not None and message.past.state in rules.ENDED:
        return Enqueued("stored", STATES[_insert(tx, message, wiring, told)], tx.now)
    duplicate = _find_duplicate(tx, message, wiring)
    if duplicate is not None:
        return duplicate
    limit = limits.get(message.queue)
    if limit is not None and limit.overflow_queue is not None:
        duplicate = _find_duplicate(tx, message._replace(queue=limit.overflow_queue), wiring)
        if duplicate is not None:
            return duplicate
    diverted = False
    if limit is not None and limit.maxsize > 0 and _load(tx, message.queue, limit.maxsize) >= limit.maxsize:
        if limit.overflow == "reject":
            raise QueueFull(message.queue, limit.maxsize)
        if limit.overflow == "drop-newest":
            tx.change_queue(tx.queue_id(message.queue), {"$inc": {"dropped": 1}})
            wiring.dropped.add(message.id)
            return Enqueued("dropped", "dropped", tx.now)
        if limit.overflow == "drop-oldest":
            _drop_oldest(tx, tx.queue_id(message.queue))
        else:
            message = message._replace(queue=_overflow_queue(limit))
            diverted = True
    state = _insert(tx, message, wiring, told)
    return Enqueued("diverted" if diverted else "stored", STATES[state], tx.now)


def own_key(tx: Tx, message_id: str) -> int:
    key = tx.store.ids.key_of(message_id)
    if key is None:
        raise ValueError(f"{message_id!r} is not an id of this namespace; ids of new messages come from mint()")
    return key


def _insert(tx: Tx, message: NewMessage, wiring: Wiring, told: set[int]) -> int:
    now, past = tx.now, message.past
    created_at, available_at, expires_at, ended_at = rules.arrival(message, now)
    row = Row(
        key=own_key(tx, message.id),
        queue=tx.queue_id(message.queue),
        state=READY,
        priority=message.priority,
        available_at=available_at,
        created_at=created_at,
        expires_at=expires_at,
        ordering_key=message.ordering_key,
        dedupe_key=message.dedupe_key,
        run=message.run_id,
        ended_at=ended_at,
    )
    if message.run_id is not None:
        tx.enter_run(message.run_id, even_cancelled=ended_at is not None)
    row.waiting_on = wait_for(tx, row.key, message.after, wiring)
    landed = rules.landing(
        now=now,
        available_at=available_at,
        expires_at=expires_at,
        waiting_on=row.waiting_on,
        key_busy=tx.key_busy(row.queue, row.ordering_key),
    )
    if past is not None:
        row.attempts, row.forgiven = past.attempts, past.forgiven
        row.last_error, row.failed_at = to_json(past.last_error), past.failed_at
        row.history = [[*one[:5], to_json(one.error)] for one in rules.attempts_of(past.history)]
        landed = landed if ended_at is None else past.state
    row.state = CODE[landed]
    row.due_at = rules.due_at(landed, available_at=available_at, expires_at=expires_at)
    if row.state == EXPIRED and ended_at is None:
        row.ended_at = now
    tx.insert(row, content_of(message), heard=row.queue not in told, ended_elsewhere=ended_at is not None)
    told.add(row.queue)
    return row.state


def _find_duplicate(tx: Tx, message: NewMessage, wiring: Wiring) -> Enqueued | None:
    if message.dedupe_key is None:
        return None
    row = tx.holder(tx.queue_id(message.queue), message.dedupe_key)
    if row is None:
        return None
    if is_due(tx, row) and row.expires_at is not None and row.expires_at <= tx.now and row.state != INFLIGHT:
        fall(tx, row, max_attempts=None)  # its life is over, nobody has looked since
        if row.state >= DEAD:
            return None
    existing = stored_message(tx.store.ids, tx.document(row.key), message.queue)
    wiring.aliases[message.id] = existing.id
    return Enqueued("duplicate", existing.state, tx.now, existing)


def _load(tx: Tx, name: str, limit: int) -> int:
    """Ready and blocked messages up to a limit, counting those this transaction adds and those that became due."""
    queue = tx.queue_id(name)
    tx.lock_queue(queue)
    while not settle_due(tx, queue, max_attempts=None, limit=_DUE_A_PUT, leases=False):
        pass
    tx.flush()
    messages, session = tx.server.messages, tx.session
    known = 0
    for state in (READY, BLOCKED):
        if known < limit:
            query = {"q": queue, "s": state, "_id": {"$gt": Int64(0)}}
            known += messages.count_documents(query, limit=limit - known, session=session)
    if known < limit:
        expired = tx.find({"q": queue, "s": INFLIGHT, "due": {"$lte": tx.now}}, ())
        known += sum(1 for row in expired if reads.becomes(row, tx.now) == READY)
    return known


def _drop_oldest(tx: Tx, queue: int) -> None:
    """Remove the message that became available first. What has outlived its time expires instead."""
    while not settle_due(tx, queue, max_attempts=None, limit=_DUE_A_PUT):
        pass
    tx.flush()
    oldest = reads.oldest_ready(tx.server, queue, tx.session)
    if oldest is None:  # what counts is blocked behind an inflight message of its key
        blocked = tx.find({"q": queue, "s": BLOCKED}, [("_id", 1)], 1)
        row = blocked[0] if blocked else None
    else:
        row = tx.load(oldest[1])
    if row is None:
        return
    tx.remove(row, "dropped")
    tx.mark_removed([row.key], "dropped")
    if row.holds_key:
        tx.free_key(queue, row.ordering_key)
    tx.change_queue(queue, {"$inc": {"dropped": 1}})


def _overflow_queue(limit: Limit) -> str:
    if limit.overflow_queue is None:
        raise ValueError(f"limit {limit!r} names no overflow_queue")
    return limit.overflow_queue
