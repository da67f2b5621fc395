"""Enqueueing: capacity, dedupe, dependencies, runs and ordering keys, all inside the inserting transaction."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Sequence

from localqueue.errors import IdTaken, QueueFull, SubscriptionsChanged
from localqueue.events.event import DROPPED
from localqueue.stores import rules
from localqueue.stores.port import STATES, Changes, Enqueued, Limit, NewMessage, Payload, StoredMessage
from localqueue.stores.sqlite import reads
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.dependencies import wait_for
from localqueue.stores.sqlite.due import settle_due, settle_if_outlived
from localqueue.stores.sqlite.rows import stored_message
from localqueue.stores.sqlite.tx import BLOCKED, CODE, EXPIRED, READY, Tx, to_json
from localqueue.stores.wiring import Wiring

_DUE_A_DROP = 10_000
_ROWS_A_STATEMENT = 500
_BATCH = "INSERT INTO lq_messages (key, queue, state, priority, created_at, payload, codec) VALUES "
_BATCH_LINE = "INSERT INTO lq_line (queue, part, rank, position, key, count) VALUES "


@functools.lru_cache(maxsize=64)
def _insert_rows(count: int) -> str:
    return _BATCH + ", ".join(f"(?1 + {n}, ?2, 0, 0, ?3, ?{n + 5}, ?4)" for n in range(count))


@functools.lru_cache(maxsize=64)
def _enter_line(count: int) -> str:
    return _BATCH_LINE + ", ".join(f"(?2, 2, 0, ?3, ?1 + {n}, 0)" for n in range(count))


def is_plain(message: NewMessage) -> bool:
    """Whether the message lands ready, with nothing to look up."""
    return (
        message.delay == 0.0
        and message.dedupe_key is None
        and message.ordering_key is None
        and message.ttl is None
        and message.run_id is None
        and not message.after
        and message.past is None
    )


def enqueue(tx: Tx, changes: Changes, wiring: Wiring) -> list[Enqueued]:
    for topic, version in changes.topics.items():
        found = tx.connection.execute("SELECT subscriptions FROM lq_queues WHERE id = ?", (tx.queue_id(topic),))
        if found.fetchone()[0] != version:
            raise SubscriptionsChanged(f"the subscribers of {topic!r} changed while a message was published")
    messages = changes.enqueue
    if len(messages) > 1 and not changes.limits and all(map(is_plain, messages)):
        return _insert_plain(tx, messages)
    done = {message.id: _enqueue_one(tx, message, changes, wiring) for message in wiring.in_order(messages)}
    return [done[message.id] for message in messages]


def _insert_plain(tx: Tx, messages: Sequence[NewMessage]) -> list[Enqueued]:
    now = tx.now
    counts: dict[str, int] = {}
    for message in messages:
        counts[message.queue] = counts.get(message.queue, 0) + 1
    ids = {name: tx.queue_id(name) for name in counts}
    keys = [own_key(tx, message.id) for message in messages]
    try:
        tx.connection.executemany(
            sql.INSERT_PLAIN,
            [
                (key, ids[m.queue], m.priority, now, m.payload, m.codec, m.headers)
                for key, m in zip(keys, messages, strict=True)
            ],
        )
    except sqlite3.IntegrityError as error:
        raise IdTaken("a message id of this batch is in use") from error
    tx.connection.executemany(
        sql.ENTER_LINE, [(ids[m.queue], -m.priority, now, key, 0, None) for key, m in zip(keys, messages, strict=True)]
    )
    for name, count in counts.items():
        tx.count(ids[name], READY, count)
    return [Enqueued("stored", STATES[READY], now)] * len(messages)


def own_key(tx: Tx, message_id: str) -> int:
    key = tx.store.ids.key_of(message_id)
    if key is None:
        raise ValueError(f"{message_id!r} is not an id of this namespace; ids of new messages come from mint()")
    return key


def insert_batch(tx: Tx, queue: str, payloads: Sequence[Payload], codec: str | None, keys: range) -> None:
    """Plain messages of one queue, many rows a statement."""
    if not keys:
        return
    row, now = tx.queue_id(queue), tx.now
    try:
        for start in range(0, len(payloads), _ROWS_A_STATEMENT):
            part = payloads[start : start + _ROWS_A_STATEMENT]
            tx.connection.execute(_insert_rows(len(part)), (keys[start], row, now, codec, *part))
    except sqlite3.IntegrityError as error:
        raise IdTaken("a message id of this batch is in use") from error
    for start in range(0, len(keys), _ROWS_A_STATEMENT):  # apart from the messages: taking turns would be slower
        entering = keys[start : start + _ROWS_A_STATEMENT]
        tx.connection.execute(_enter_line(len(entering)), (entering[0], row, now))
    tx.count(row, READY, len(payloads))


def _enqueue_one(tx: Tx, message: NewMessage, changes: Changes, wiring: Wiring) -> Enqueued:
    if message.past is not None and message.past.state in rules.ENDED:
        return Enqueued("stored", STATES[_insert(tx, message, wiring)], tx.now)
    duplicate = _find_duplicate(tx, message, wiring)
    if duplicate is not None:
        return duplicate
    limit = changes.limits.get(message.queue)
    if limit is not None and limit.overflow_queue is not None:
        duplicate = _find_duplicate(tx, message._replace(queue=limit.overflow_queue), wiring)
        if duplicate is not None:
            return duplicate
    outcome = "stored"
    if limit is not None and limit.maxsize > 0 and _load(tx, message.queue) >= limit.maxsize:
        if limit.overflow == "reject":
            raise QueueFull(message.queue, limit.maxsize)
        if limit.overflow == "drop-newest":
            _count_dropped(tx, message.queue)
            wiring.dropped.add(message.id)
            return Enqueued("dropped", "dropped", tx.now)
        if limit.overflow == "drop-oldest":
            _drop_oldest(tx, message.queue)
        else:
            message = message._replace(queue=_overflow_queue(limit))
            outcome = "diverted"
    state = _insert(tx, message, wiring)
    return Enqueued("diverted" if outcome == "diverted" else "stored", STATES[state], tx.now)


def _insert(tx: Tx, message: NewMessage, wiring: Wiring) -> int:
    past = message.past
    key = own_key(tx, message.id)
    queue = tx.queue_id(message.queue)
    created_at, available_at, expires_at, ended_at = rules.arrival(message, tx.now)
    run = None if message.run_id is None else tx.run(message.run_id, even_cancelled=ended_at is not None)
    waiting_on = wait_for(tx, key, message.after, wiring)
    landed = rules.landing(
        now=tx.now,
        available_at=available_at,
        expires_at=expires_at,
        waiting_on=waiting_on,
        key_busy=tx.key_busy(queue, message.ordering_key),
    )
    if past is not None and ended_at is not None:
        landed = past.state
    due = rules.due_at(landed, available_at=available_at, expires_at=expires_at)
    state = CODE[landed]
    attempts = 0 if past is None else past.attempts
    try:
        tx.connection.execute(
            sql.INSERT_MESSAGE,
            {
                "key": key,
                "queue": queue,
                "state": state,
                "priority": message.priority,
                "attempts": attempts,
                "created_at": created_at,
                "available_at": available_at,
                "payload": message.payload,
                "codec": message.codec,
                "headers": message.headers,
                "due_at": due,
                "forgiven": 0 if past is None else past.forgiven,
                "history": 0 if past is None else insert_attempts(tx.connection, key, past),
                "waiting_on": waiting_on,
                "run": run,
                "ordering_key": message.ordering_key,
                "dedupe_key": message.dedupe_key,
                "expires_at": expires_at,
                "last_error": None if past is None else to_json(past.last_error),
                "failed_at": None if past is None else past.failed_at,
                "ended_at": tx.now if state == EXPIRED and ended_at is None else ended_at,
            },
        )
    except sqlite3.IntegrityError as error:
        raise IdTaken(f"message id {message.id} is in use") from error
    if state == READY:
        tx.enter_line(queue, message.priority, available_at, key, attempts, expires_at)
    else:
        tx.count(queue, state, 1)
    tx.due(queue, due)
    if state == EXPIRED and ended_at is None and (born_expired := tx.current(key)) is not None:
        tx.note("expired", born_expired)
    if past is not None:
        options = rules.kept_options(
            priority=message.priority,
            dedupe_key=message.dedupe_key,
            ordering_key=message.ordering_key,
            run_id=message.run_id,
            headers=message.headers,
            delay=available_at - tx.now,
            ttl=None if expires_at is None else expires_at - tx.now,
        )
        tx.connection.execute(sql.DATE_ENTRIES, (tx.now, key, tx.store.namespace_id, to_json(options)))
    if run is not None:
        tx.connection.execute("UPDATE lq_runs SET total = total + 1 WHERE id = ?", (run,))
    return state


def insert_attempts(connection: sqlite3.Connection, key: int, past: StoredMessage) -> int:
    """Write down the attempts a message had elsewhere; how many there were.

    The message comes after them, so that the journal does not take them for new.
    """
    attempts = rules.attempts_of(past.history)
    connection.executemany(
        "INSERT INTO lq_attempts (message, n, attempt, event, at, leased_at, leased_by, error) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (key, n, one.attempt, one.event, one.at, one.leased_at, one.leased_by, to_json(one.error))
            for n, one in enumerate(attempts, 1)
        ],
    )
    return len(attempts)


def _find_duplicate(tx: Tx, message: NewMessage, wiring: Wiring) -> Enqueued | None:
    if message.dedupe_key is None:
        return None
    queue = tx.queue_id(message.queue)
    find = f"{sql.FULL_ROW} WHERE m.queue = ? AND m.dedupe_key = ? AND m.ended_at IS NULL"
    row = tx.connection.execute(find, (queue, message.dedupe_key)).fetchone()
    if row is not None and settle_if_outlived(tx, row[0]):  # that frees its key
        row = None
    if row is None:
        return None
    existing = stored_message(tx.store.ids, tx.connection, row)
    wiring.aliases[message.id] = existing.id
    return Enqueued("duplicate", existing.state, tx.now, existing)


def _load(tx: Tx, name: str) -> int:
    """Ready and blocked messages, counting those this transaction adds and those that have just become due."""
    tx.flush()
    counts = reads.counts(tx.connection, tx.queue_id(name), tx.now)
    return counts[READY] + counts[BLOCKED]


def _count_dropped(tx: Tx, name: str) -> None:
    tx.connection.execute("UPDATE lq_queues SET dropped = dropped + 1 WHERE id = ?", (tx.queue_id(name),))


def _drop_oldest(tx: Tx, name: str) -> None:
    """Remove the message that became available first. What has outlived its time expires instead."""
    queue = tx.queue_id(name)
    while not settle_due(tx, queue, max_attempts=None, limit=_DUE_A_DROP):
        tx.flush()
    row = tx.connection.execute(sql.OLDEST_READY, (queue,)).fetchone()
    if row is None:  # what counts is blocked behind an inflight message of its key
        row = tx.connection.execute(
            "SELECT key FROM lq_messages WHERE queue = ? AND ordering_key IS NOT NULL AND state = 4 "
            "ORDER BY key LIMIT 1",
            (queue,),
        ).fetchone()
    oldest = None if row is None else tx.current(row[0])
    if oldest is not None:
        tx.mark_removed([oldest.key], DROPPED)
        tx.delete(oldest)
        _count_dropped(tx, name)


def _overflow_queue(limit: Limit) -> str:
    if limit.overflow_queue is None:
        raise ValueError(f"limit {limit!r} names no overflow_queue")
    return limit.overflow_queue
