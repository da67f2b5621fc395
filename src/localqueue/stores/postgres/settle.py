"""Settling: ack, release, dead-letter and cancel, and what follows from each in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import LeaseLost
from localqueue.stores import rules
from localqueue.stores.port import Settle
from localqueue.stores.postgres.rows import to_json
from localqueue.stores.postgres.tx import BLOCKED, CANCELLED, DEAD, INFLIGHT, WAITING, Current, Tx


def settle(tx: Tx, settles: Sequence[Settle], *, strict: bool) -> list[bool]:
    done = [_settle_one(tx, one) for one in settles]
    if strict and not all(done):
        stale = settles[done.index(False)]
        raise LeaseLost(stale.queue, stale.id, stale.token)
    return done


def _settle_one(tx: Tx, one: Settle) -> bool:
    key = tx.store.ids.key_of(one.id)
    queue = tx.queue_id(one.queue)
    message = None if key is None else tx.current(key)
    if message is None or message.queue != queue:
        return False
    if one.token is not None and one.token != message.token:
        return False
    if one.action == "ack":
        tx.delete(message)
        follow_ack(tx, message)
        return True
    return leave_delivery(tx, message, one)


def follow_ack(tx: Tx, message: Current) -> None:
    """What an ack sets free beside its key: its run's count and the messages that waited for it."""
    if message.run is not None:
        tx.run_sql("UPDATE localqueue.lq_runs SET done = done + 1 WHERE id = $1", (message.run,))
    if message.dependents:
        _free_dependents(tx, message.key)


def _free_dependents(tx: Tx, upstream: int) -> None:
    freed = tx.execute(tx.sql.FREE_DEPENDENTS, (upstream, tx.now)).fetchall()
    for key, queue, run, state, left in sorted(freed):
        if left == 0 and state != WAITING:
            tx.touch(queue)
            tx.touch_run(run)
        elif left == 0 and (message := tx.current(key)) is not None:
            tx.land(message, max(message.available_at, tx.now), message.expires_at)


def leave_delivery(tx: Tx, message: Current, one: Settle) -> bool:
    """Release, dead-letter or cancel."""
    if message.state >= DEAD:
        return False
    error = to_json(one.error)
    if one.action == "release":
        if message.state in (WAITING, BLOCKED):
            return False
        used = message.attempts - message.forgiven
        if message.state != INFLIGHT or one.forgive or one.max_attempts is None or used < one.max_attempts:
            tx.remember(message, "released", error or message.last_error)
            if error is not None:
                _keep_error(tx, message, error)
            if one.forgive and message.state == INFLIGHT:
                forgive = "UPDATE localqueue.lq_messages SET forgiven = forgiven + 1 WHERE key = $1"
                tx.run_sql(forgive, (message.key,))
                tx.land(message, message.available_at, message.expires_at)
            else:
                tx.land(message, tx.now + one.delay, message.expires_at)
            return True
        after, event = DEAD, "dead_lettered"
        error = error or to_json(rules.attempts_exhausted(used, "it was released"))
    elif one.action == "dead-letter":
        after, event = DEAD, "dead_lettered"
    else:
        after, event = CANCELLED, "cancelled"
    tx.remember(message, event, error or message.last_error)
    tx.move(message, after, error=error)
    return True


def _keep_error(tx: Tx, message: Current, error: str) -> None:
    keep = "UPDATE localqueue.lq_messages SET last_error = $2, failed_at = $3 WHERE key = $1"
    tx.run_sql(keep, (message.key, error, tx.now))
