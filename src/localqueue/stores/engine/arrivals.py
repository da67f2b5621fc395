"""Messages that come: dedupe keys, capacity, runs, dependencies and ordering keys decide where each of them lands."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import QueueFull
from localqueue.stores import refusals, rules
from localqueue.stores.engine.dependencies import wait_for
from localqueue.stores.engine.row import CODE, DEAD, EXPIRED, Row
from localqueue.stores.engine.timers import is_outlived, settle_all, settle_outlived
from localqueue.stores.engine.unit import Unit
from localqueue.stores.kept_error import error_text
from localqueue.stores.port import STATES, Changes, Enqueued, Limit, NewMessage
from localqueue.stores.wiring import Wiring


def check_topics(unit: Unit, changes: Changes) -> None:
    """Refuse to publish to subscribers that are not the ones any more."""
    for topic, version in changes.topics.items():
        if unit.rows.subscription_version(unit.rows.queue(topic)) != version:
            raise refusals.subscriptions_changed(topic)


def enqueue(unit: Unit, changes: Changes, wiring: Wiring) -> list[Enqueued]:
    messages = changes.enqueue
    # Of those that will surely be stored: one that is refused or dropped makes no run.
    sure = (one for one in messages if one.dedupe_key is None and one.queue not in changes.limits)
    unit.enter_runs(one.run_id for one in sure if one.run_id is not None)
    queues = {name: unit.rows.queue(name) for name in dict.fromkeys(message.queue for message in messages)}
    done = {}
    for message in wiring.in_order(messages):
        done[message.id] = _enqueue_one(unit, message, queues[message.queue], changes.limits.get(message.queue), wiring)
    enqueued = [done[message.id] for message in messages]
    return _with_existing(unit, messages, enqueued, wiring) if wiring.aliases else enqueued


def _with_existing(
    unit: Unit, messages: Sequence[NewMessage], enqueued: list[Enqueued], wiring: Wiring
) -> list[Enqueued]:
    """Give each duplicate the message that was there."""
    _see_existing(unit, wiring)
    return [
        done._replace(existing=wiring.existing.get(message.id)) if message.id in wiring.aliases else done
        for message, done in zip(messages, enqueued, strict=True)
    ]


def _see_existing(unit: Unit, wiring: Wiring) -> None:
    """Have the messages that duplicates stand for, as they are before this commit changes one that was there."""
    keys = {one: unit.rows.ids.key_of(of) for one, of in wiring.aliases.items() if one not in wiring.existing}
    if keys:
        unit.flush()
        stored = unit.rows.stored({key for key in keys.values() if key is not None})
        wiring.existing.update({one: stored[key] for one, key in keys.items() if key in stored})


def _enqueue_one(unit: Unit, message: NewMessage, queue: int, limit: Limit | None, wiring: Wiring) -> Enqueued:
    if message.past is not None and message.past.state in rules.ENDED:
        return Enqueued("stored", STATES[_insert(unit, message, queue, wiring)], unit.now)
    if message.dedupe_key is not None:
        for place in (queue, *_overflow(unit, limit)):
            existing = _find_duplicate(unit, place, message.dedupe_key, wiring)
            if existing is not None:
                wiring.aliases[message.id] = unit.rows.ids.id_of(existing.key)
                return Enqueued("duplicate", STATES[existing.state], unit.now)
    diverted = False
    if limit is not None and limit.maxsize > 0 and unit.room.load(queue, limit.maxsize) >= limit.maxsize:
        if limit.overflow == "reject":
            raise QueueFull(message.queue, limit.maxsize)
        if limit.overflow == "drop-newest":
            _count_dropped(unit, queue)
            wiring.dropped.add(message.id)
            unit.remember_removed(unit.rows.ids.key_of(message.id) or 0, "dropped")
            return Enqueued("dropped", "dropped", unit.now)
        if limit.overflow == "drop-oldest":
            _drop_oldest(unit, queue, wiring)
        else:
            (queue,) = _overflow(unit, limit)
            diverted = True
    state = _insert(unit, message, queue, wiring)
    return Enqueued("diverted" if diverted else "stored", STATES[state], unit.now)


def _overflow(unit: Unit, limit: Limit | None) -> tuple[int, ...]:
    """The queue that takes what does not fit, if there is one."""
    if limit is None or limit.overflow_queue is None:
        if limit is not None and limit.overflow == "overflow-queue":
            raise ValueError(f"limit {limit!r} names no overflow_queue")
        return ()
    return (unit.rows.queue(limit.overflow_queue),)


def _find_duplicate(unit: Unit, queue: int, dedupe_key: str, wiring: Wiring) -> Row | None:
    """The live message of the key. One whose life is over while nobody works on it leaves delivery, and its key."""
    row = unit.holder(queue, dedupe_key)
    if row is None or not is_outlived(unit, row):
        return row
    _see_existing(unit, wiring)
    settle_outlived(unit, row)
    return None


def _drop_oldest(unit: Unit, queue: int, wiring: Wiring) -> None:
    """Remove the message that became available first. What has outlived its time expires instead."""
    _see_existing(unit, wiring)
    settle_all(unit, queue)
    row = unit.room.oldest(queue)
    if row is not None:
        unit.delete(row, "dropped")
        _count_dropped(unit, queue)


def _count_dropped(unit: Unit, queue: int) -> None:
    dropped = unit.writes.dropped
    dropped[queue] = dropped.get(queue, 0) + 1


def _insert(unit: Unit, message: NewMessage, queue: int, wiring: Wiring) -> int:
    key = unit.rows.ids.key_of(message.id)
    if key is None:
        raise refusals.not_minted(message.id)
    now, past = unit.now, message.past
    created_at, available_at, expires_at, ended_at = rules.arrival(message, now)
    run = None if message.run_id is None else unit.run(message.run_id, even_cancelled=ended_at is not None)
    waiting_on = wait_for(unit, key, message.after, wiring) if message.after else 0
    if past is not None and ended_at is not None:
        landed = past.state
    else:
        ordering_key = message.ordering_key
        landed = rules.landing(
            now=now,
            available_at=available_at,
            expires_at=expires_at,
            waiting_on=waiting_on,
            key_busy=ordering_key is not None and unit.head(queue, ordering_key) is not None,
        )
    state = CODE[landed]
    row = Row(
        key, queue, state, message.priority, created_at, available_at, 0, expires_at, ended_at,
        waiting_on=waiting_on,
        run=None if run is None else run.id,
        ordering_key=message.ordering_key,
        dedupe_key=message.dedupe_key,
    )  # fmt: skip
    if past is not None:
        row.attempts, row.forgiven = past.attempts, past.forgiven
        row.last_error, row.failed_at = error_text(past.last_error), past.failed_at
        row.history = len(rules.attempts_of(past.history))
    if state == EXPIRED and ended_at is None:
        row.ended_at = now
    unit.insert(row, message)
    if state >= DEAD:
        unit.note_arrival(row, ended_elsewhere=ended_at is not None)
    if row.run is not None:
        unit.writes.run(row.run).total += 1
    return state
