"""Enqueueing: capacity, dedupe, dependencies, runs and ordering keys, all inside the inserting transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from localqueue.errors import IdTaken, NotWaiting, QueueFull, SubscriptionsChanged, UnknownMessage
from localqueue.stores import rules
from localqueue.stores.port import STATES, Changes, Edge, Enqueued, Limit, NewMessage
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.due import settle_due
from localqueue.stores.sqlite.rows import stored_message
from localqueue.stores.sqlite.tx import BLOCKED, CODE, DEAD, EXPIRED, READY, WAITING, Tx


def is_plain(message: NewMessage) -> bool:
    """Whether the message lands ready, with nothing to look up."""
    return (
        message.delay == 0.0
        and message.dedupe_key is None
        and message.ordering_key is None
        and message.ttl is None
        and message.run_id is None
        and not message.after
    )


def enqueue(tx: Tx, changes: Changes) -> list[Enqueued]:
    for topic, version in changes.topics.items():
        found = tx.connection.execute("SELECT subscriptions FROM queues WHERE id = ?", (tx.queue_id(topic),))
        if found.fetchone()[0] != version:
            raise SubscriptionsChanged(f"the subscribers of {topic!r} changed while a message was published")
    messages = changes.enqueue
    if len(messages) > 1 and not changes.limits and all(map(is_plain, messages)):
        return _insert_plain(tx, messages)
    return [_enqueue_one(tx, message, changes) for message in messages]


def _insert_plain(tx: Tx, messages: Sequence[NewMessage]) -> list[Enqueued]:
    now = tx.now
    queues: dict[str, int] = {}
    for message in messages:
        queues[message.queue] = queues.get(message.queue, 0) + 1
    ids = {name: tx.queue_id(name) for name in queues}
    rows = [(int(m.id[:16], 16), ids[m.queue], m.priority, now, now, m.payload, m.codec, m.headers) for m in messages]
    try:
        tx.connection.executemany(sql.INSERT_PLAIN, rows)
    except sqlite3.IntegrityError as error:
        raise IdTaken("a message id of this batch is in use") from error
    for name, count in queues.items():
        tx.count(ids[name], READY, count)
    return [Enqueued("stored", STATES[READY], now)] * len(messages)


def _enqueue_one(tx: Tx, message: NewMessage, changes: Changes) -> Enqueued:
    duplicate = _find_duplicate(tx, message)
    if duplicate is not None:
        return duplicate
    diverted = False
    limit = changes.limits.get(message.queue)
    if limit is not None and limit.maxsize > 0 and _load(tx, message.queue) >= limit.maxsize:
        if limit.overflow == "reject":
            raise QueueFull(message.queue, limit.maxsize)
        if limit.overflow == "drop-newest":
            _count_dropped(tx, message.queue)
            return Enqueued("dropped", "dropped", tx.now)
        if limit.overflow == "drop-oldest":
            _drop_oldest(tx, message.queue)
        else:
            message = message._replace(queue=_overflow_queue(limit))
            diverted = True
            duplicate = _find_duplicate(tx, message)
            if duplicate is not None:
                return duplicate
    state = _insert(tx, message)
    return Enqueued("diverted" if diverted else "stored", STATES[state], tx.now)


def _insert(tx: Tx, message: NewMessage) -> int:
    now = tx.now
    key = int(message.id[:16], 16)
    queue = tx.queue_id(message.queue)
    run = None if message.run_id is None else tx.run(message.run_id)
    waiting_on = _wait_for(tx, key, message.after)
    available_at = now + message.delay
    expires_at = None if message.ttl is None else now + message.ttl
    landed = rules.landing(
        now=now,
        available_at=available_at,
        expires_at=expires_at,
        waiting_on=waiting_on,
        key_busy=tx.key_busy(queue, message.ordering_key),
    )
    due = rules.due_at(landed, available_at=available_at, expires_at=expires_at)
    state = CODE[landed]
    try:
        tx.connection.execute(
            sql.INSERT_MESSAGE,
            {
                "key": key,
                "queue": queue,
                "state": state,
                "priority": message.priority,
                "available_at": available_at,
                "created_at": now,
                "payload": message.payload,
                "codec": message.codec,
                "headers": message.headers,
                "due_at": due,
                "ended_at": now if state == EXPIRED else None,
                "waiting_on": waiting_on,
                "run": run,
                "ordering_key": message.ordering_key,
                "dedupe_key": message.dedupe_key,
                "expires_at": expires_at,
            },
        )
    except sqlite3.IntegrityError as error:
        raise IdTaken(f"message id {message.id} is in use") from error
    tx.count(queue, state, 1)
    tx.due(queue, due)
    if run is not None:
        tx.connection.execute("UPDATE runs SET total = total + 1 WHERE id = ?", (run,))
    return state


def _find_duplicate(tx: Tx, message: NewMessage) -> Enqueued | None:
    if message.dedupe_key is None:
        return None
    queue = tx.queue_id(message.queue)
    row = tx.connection.execute(
        f"{sql.FULL_ROW} WHERE m.queue = ? AND m.dedupe_key = ? AND m.ended_at IS NULL", (queue, message.dedupe_key)
    ).fetchone()
    if row is None:
        return None
    existing = stored_message(tx.store.ids, tx.connection, row)
    return Enqueued("duplicate", existing.state, tx.now, existing)


def _load(tx: Tx, name: str) -> int:
    """Ready and blocked messages, counting those this transaction adds and those that have just become due."""
    queue = tx.queue_id(name)
    while True:
        ready, blocked, due = tx.connection.execute(
            "SELECT ready, blocked, due FROM queues WHERE id = ?", (queue,)
        ).fetchone()
        if due > tx.now:
            return int(ready + blocked + tx.counted(queue, READY) + tx.counted(queue, BLOCKED))
        settle_due(tx, queue, max_attempts=None, limit=10_000)


def _count_dropped(tx: Tx, name: str) -> None:
    tx.connection.execute("UPDATE queues SET dropped = dropped + 1 WHERE id = ?", (tx.queue_id(name),))


def _drop_oldest(tx: Tx, name: str) -> None:
    queue = tx.queue_id(name)
    row = tx.connection.execute(sql.OLDEST_READY, (queue,)).fetchone()
    if row is None:  # every message that counts is blocked behind an inflight one of its key
        row = tx.connection.execute(
            "SELECT key FROM messages WHERE queue = ? AND ordering_key IS NOT NULL AND state = 4 ORDER BY key LIMIT 1",
            (queue,),
        ).fetchone()
    key = row[0]
    state, ordering_key = tx.connection.execute(
        "DELETE FROM messages WHERE key = ? RETURNING state, ordering_key", (key,)
    ).fetchall()[0]
    tx.connection.execute("INSERT INTO removed VALUES (?)", (key,))
    tx.connection.execute("DELETE FROM attempts WHERE message = ?", (key,))
    tx.count(queue, state, -1)
    if ordering_key is not None and state == READY:
        tx.free_key(queue, ordering_key)
    _count_dropped(tx, name)


def _overflow_queue(limit: Limit) -> str:
    if limit.overflow_queue is None:
        raise ValueError(f"limit {limit!r} names no overflow_queue")
    return limit.overflow_queue


def _wait_for(tx: Tx, dependent: int, after: Sequence[str]) -> int:
    """Record what a message comes after; how many of them are not acked yet."""
    return sum(_add_edge(tx, upstream, dependent) for upstream in dict.fromkeys(after))


def _add_edge(tx: Tx, upstream: str, dependent: int) -> int:
    key = tx.store.ids.key_of(upstream)
    if key is None:
        raise UnknownMessage(
            f"no message {upstream!r} was ever put into this store; after= takes ids that put() returned"
        )
    found = tx.connection.execute("UPDATE messages SET dependents = 1 WHERE key = ? RETURNING queue", (key,)).fetchall()
    if not found:
        if tx.connection.execute("SELECT 1 FROM removed WHERE key = ?", (key,)).fetchone():
            raise UnknownMessage(f"message {upstream!r} was removed without being acked; nothing can come after it")
        return 0
    added = tx.connection.execute(
        "INSERT INTO dependencies (upstream, dependent) VALUES (?, ?) ON CONFLICT DO NOTHING", (key, dependent)
    )
    return added.rowcount


def add_edges(tx: Tx, edges: Sequence[Edge]) -> None:
    for edge in edges:
        dependent = tx.store.ids.key_of(edge.dependent)
        row = tx.connection.execute(
            "SELECT m.state, q.namespace FROM messages AS m JOIN queues AS q ON q.id = m.queue WHERE m.key = ?",
            (dependent,),
        ).fetchone()
        if dependent is None or row is None or row[0] != WAITING or row[1] != tx.store.namespace_id:
            state = "gone" if row is None else STATES[row[0]]
            raise NotWaiting(f"message {edge.dependent!r} can not get another dependency: it is {state}, not waiting")
        if _add_edge(tx, edge.upstream, dependent):
            tx.connection.execute("UPDATE messages SET waiting_on = waiting_on + 1 WHERE key = ?", (dependent,))


def requeue(tx: Tx, name: str, key: int, delay: float) -> None:
    """Return a message that left delivery, with a fresh attempt budget."""
    queue = tx.queue_id(name)
    state, attempts, expires_at, ordering_key, waiting_on = tx.connection.execute(
        "SELECT state, attempts, expires_at, ordering_key, waiting_on FROM messages WHERE key = ?", (key,)
    ).fetchone()
    assert state >= DEAD
    available_at = tx.now + delay
    if state == EXPIRED:
        expires_at = None
        tx.connection.execute("UPDATE messages SET expires_at = NULL WHERE key = ?", (key,))
    landed = rules.landing(
        now=tx.now,
        available_at=available_at,
        expires_at=expires_at,
        waiting_on=waiting_on,
        key_busy=tx.key_busy(queue, ordering_key),
    )
    tx.move(queue, key, state, CODE[landed], available_at=available_at, expires_at=expires_at)
    tx.connection.execute("UPDATE messages SET forgiven = attempts WHERE key = ?", (key,))
    tx.remember(key, attempts, "requeued")
