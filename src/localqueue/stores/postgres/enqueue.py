"""Enqueueing: capacity, dedupe, dependencies, runs and ordering keys, all inside the inserting transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localqueue.errors import IdTaken, QueueFull, SubscriptionsChanged
from localqueue.events.event import DROPPED
from localqueue.ids import Mint
from localqueue.stores import rules
from localqueue.stores.port import STATES, Changes, Enqueued, Limit, NewMessage, StoredMessage
from localqueue.stores.postgres import driver
from localqueue.stores.postgres.dependencies import wait_for
from localqueue.stores.postgres.due import settle_due, settle_if_outlived
from localqueue.stores.postgres.rows import raw, raw_or_none, raw_payload, stored_message, to_json
from localqueue.stores.postgres.tx import BLOCKED, CODE, EXPIRED, READY, Tx
from localqueue.stores.wiring import Wiring

_DUE_A_DROP = 10_000


def is_plain(message: NewMessage) -> bool:
    """Whether there is nothing to look up for it."""
    return (
        message.dedupe_key is None
        and message.ordering_key is None
        and message.run_id is None
        and message.past is None
        and not message.after
    )


def landing(message: NewMessage) -> int:
    """Where a plain message lands, whatever the time is."""
    return CODE[rules.landing(now=0.0, available_at=message.delay, expires_at=message.ttl)]


def own_key(ids: Mint, message_id: str) -> int:
    key = ids.key_of(message_id)
    if key is None:
        raise ValueError(f"{message_id!r} is not an id of this namespace; ids of new messages come from mint()")
    return key


def plain_values(ids: Mint, queue_ids: dict[str, int], messages: Sequence[NewMessage]) -> tuple[list[Any], ...]:
    """The columns of `put_plain.sql`, from the second parameter on."""
    payloads = [raw_payload(m.payload) for m in messages]
    return (
        [own_key(ids, m.id) for m in messages],
        [queue_ids[m.queue] for m in messages],
        [landing(m) for m in messages],
        [m.priority for m in messages],
        [float(m.delay) for m in messages],
        [payload for payload, _ in payloads],
        [is_text for _, is_text in payloads],
        [m.codec for m in messages],
        [raw_or_none(m.headers) for m in messages],
        [None if m.ttl is None else float(m.ttl) for m in messages],
    )


def enqueue(tx: Tx, changes: Changes, wiring: Wiring) -> list[Enqueued]:
    for topic, version in changes.topics.items():
        find = "SELECT subscriptions FROM localqueue.lq_queues WHERE id = $1 FOR SHARE"
        if tx.run_sql(find, (tx.queue_id(topic),)).fetchone()[0] != version:
            raise SubscriptionsChanged(f"the subscribers of {topic!r} changed while a message was published")
    messages = changes.enqueue
    if len(messages) > 1 and not changes.limits and not tx.observed and all(map(is_plain, messages)):
        return _insert_plain(tx, messages)
    done = {message.id: _enqueue_one(tx, message, changes, wiring) for message in wiring.in_order(messages)}
    return [done[message.id] for message in messages]


def _insert_plain(tx: Tx, messages: Sequence[NewMessage]) -> list[Enqueued]:
    ids = {name: tx.queue_id(name) for name in dict.fromkeys(message.queue for message in messages)}
    values = plain_values(tx.store.ids, ids, messages)
    with _ids_are_free(tx):
        tx.execute(tx.sql.PUT_PLAIN, (tx.now, *values, None, None))
    return [Enqueued("stored", STATES[state], tx.now) for state in values[2]]


class _ids_are_free:
    """Turns a collision of keys into `IdTaken`."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and driver.constraint_of(error) in ("lq_messages_pkey", "lq_attempts_pkey"):
            raise IdTaken("a message id of this commit is in use") from error


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
    if limit is not None and limit.maxsize > 0 and _is_full(tx, message.queue, limit.maxsize):
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
    key = own_key(tx.store.ids, message.id)
    queue = tx.queue_id(message.queue)
    ordering_key = raw_or_none(message.ordering_key)
    payload, is_text = raw_payload(message.payload)
    created_at, available_at, expires_at, ended_at = rules.arrival(message, tx.now)
    run = None if message.run_id is None else tx.run(message.run_id, even_cancelled=ended_at is not None)
    waiting_on = wait_for(tx, key, message.after, wiring)
    if past is not None and ended_at is not None:
        landed = past.state
    else:
        landed = rules.landing(
            now=tx.now,
            available_at=available_at,
            expires_at=expires_at,
            waiting_on=waiting_on,
            key_busy=tx.key_busy(queue, ordering_key),
        )
    state = CODE[landed]
    born_expired = state == EXPIRED and ended_at is None
    due = rules.due_at(landed, available_at=available_at, expires_at=expires_at)
    with _ids_are_free(tx):
        tx.execute(
            tx.sql.INSERT_MESSAGE,
            (
                *(key, queue, state, message.priority, created_at, available_at, payload, is_text, message.codec),
                *(raw_or_none(message.headers), due, tx.now if born_expired else ended_at, waiting_on, run),
                *(ordering_key, raw_or_none(message.dedupe_key), expires_at),
                *((0, 0, 0, None, None) if past is None else _carried_over(tx, key, past)),
            ),
        )
    if born_expired and tx.observed and (current := tx.current(key)) is not None:
        tx.note("expired", current)
    return state


def _carried_over(tx: Tx, key: int, past: StoredMessage) -> tuple[Any, ...]:
    """Write down the attempts a message had elsewhere, and what its row keeps of them.

    The message comes after them, so that the journal does not take them for new.
    """
    attempts = rules.attempts_of(past.history)
    for n, one in enumerate(attempts, 1):
        tx.run_sql(
            "INSERT INTO localqueue.lq_attempts (message, n, attempt, event, at, leased_at, leased_by, error) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            (key, n, one.attempt, one.event, one.at, one.leased_at, raw_or_none(one.leased_by), to_json(one.error)),
        )
    return past.attempts, past.forgiven, len(attempts), to_json(past.last_error), past.failed_at


def _find_duplicate(tx: Tx, message: NewMessage, wiring: Wiring) -> Enqueued | None:
    if message.dedupe_key is None:
        return None
    queue = tx.queue_id(message.queue)
    find = (
        f"{tx.sql.FULL_ROW} WHERE m.queue = $1 AND sha256(m.dedupe_key) = sha256($2::bytea) "
        "AND m.dedupe_key IS NOT NULL AND m.ended_at IS NULL"
    )
    row = tx.execute(find, (queue, raw(message.dedupe_key))).fetchone()
    if row is not None and row[16] is not None and settle_if_outlived(tx, row[0]):  # that frees its key
        row = None
    if row is None:
        return None
    existing = stored_message(tx.store.ids, row)
    wiring.aliases[message.id] = existing.id
    return Enqueued("duplicate", existing.state, tx.now, existing)


def _is_full(tx: Tx, name: str, maxsize: int) -> bool:
    """Whether that many messages are ready or blocked, counting those that have just become due as what they are."""
    queue = tx.queue_id(name)
    (load,) = tx.execute(tx.sql.LOAD_UP_TO, (queue, tx.now, maxsize)).fetchone()
    return bool(load >= maxsize)


def _count_dropped(tx: Tx, name: str) -> None:
    tx.run_sql("UPDATE localqueue.lq_queues SET dropped = dropped + 1 WHERE id = $1", (tx.queue_id(name),))


def _drop_oldest(tx: Tx, name: str) -> None:
    """Remove the message that became available first. What has outlived its time expires instead."""
    queue = tx.queue_id(name)
    while not settle_due(tx, queue, max_attempts=None, limit=_DUE_A_DROP):
        pass
    row = tx.execute(tx.sql.OLDEST_READY, (queue,)).fetchone()
    if row is None:  # what counts is blocked behind an inflight message of its key
        row = tx.run_sql(
            "SELECT key FROM localqueue.lq_messages WHERE queue = $1 AND ordering_key IS NOT NULL "
            "AND ended_at IS NULL AND state = 4 ORDER BY key LIMIT 1",
            (queue,),
        ).fetchone()
    oldest = None if row is None else tx.current(row[0])
    if oldest is None or oldest.state not in (READY, BLOCKED):  # somebody has leased it: there is room
        return
    tx.mark_removed([oldest.key], DROPPED)
    tx.delete(oldest)
    _count_dropped(tx, name)


def _overflow_queue(limit: Limit) -> str:
    if limit.overflow_queue is None:
        raise ValueError(f"limit {limit!r} names no overflow_queue")
    return limit.overflow_queue
