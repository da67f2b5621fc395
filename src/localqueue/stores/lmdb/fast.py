"""The short ways: plain puts, acks and claims, about which the engine has nothing to decide.

Each says None where it has: then nothing was changed, and the engine does it.
"""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import LeaseLost
from localqueue.events.event import ACKED, ENQUEUED
from localqueue.stores import rules
from localqueue.stores.engine.port import Note
from localqueue.stores.engine.row import CODE, READY, Row
from localqueue.stores.lmdb import keys
from localqueue.stores.lmdb.rows import LMDBRows
from localqueue.stores.lmdb.schema import pack_content, pack_plain
from localqueue.stores.port import (
    EXPIRED,
    Changes,
    Committed,
    Enqueued,
    LeaseRequest,
    Limit,
    NewMessage,
    Payload,
    Settle,
    StoredMessage,
)


def put_one(rows: LMDBRows, name: str, payload: Payload, codec: str | None) -> tuple[str, float]:
    """Store a message without options under a new id."""
    now, put, ids = rows.now, rows.txn.put, rows.ids
    queue = rows.queue(name)
    packed, key = pack_plain(queue, now), ids.reserve()
    while not put(keys.message(key), packed, overwrite=False):  # another process minted the same key
        key = ids.reserve()
    put(keys.one(keys.CONTENTS, key), pack_content(payload, codec, None))
    put(keys.ready(queue, 0, now, key), b"")
    rows.queue_row(queue).counts[READY] += 1
    rows.changed.add(queue)
    message_id = ids.id_of(key)
    if rows.journalled:
        message = NewMessage(message_id, name, payload, codec)
        rows.note([Note(ENQUEUED, Row(key, queue, READY, 0, now, now), 0, message=message)])
    return message_id, now


def put(rows: LMDBRows, changes: Changes) -> Committed | None:
    """Store one message, where nothing but its keys and times decides what becomes of it. None when there is more to
    the commit, the queue is full, the dedupe key is in use, or the message has no life left."""
    if len(changes.enqueue) != 1 or changes.settle or changes.edges or changes.records or changes.lease:
        return None
    (message,) = changes.enqueue
    key, now, get = rows.ids.key_of(message.id), rows.now, rows.txn.get
    if key is None or changes.topics or message.after or message.run_id is not None or message.past is not None:
        return None
    queue, dedupe_key, ordering_key = rows.queue(message.queue), message.dedupe_key, message.ordering_key
    if changes.limits and not _has_room(rows, queue, changes.limits.get(message.queue)):
        return None
    if dedupe_key is not None and get(keys.held(keys.DEDUPE, queue, dedupe_key)) is not None:
        return None
    created_at, available_at, expires_at, _ = rules.arrival(message, now)
    busy = ordering_key is not None and get(keys.held(keys.HEADS, queue, ordering_key)) is not None
    landed = rules.landing(now=now, available_at=available_at, expires_at=expires_at, key_busy=busy)
    if landed == EXPIRED:
        return None
    row = Row(key, queue, CODE[landed], message.priority, created_at, available_at, 0, expires_at)
    row.dedupe_key, row.ordering_key = dedupe_key, ordering_key
    rows.insert(row, message)
    if rows.journalled:
        rows.note([Note(ENQUEUED, row, 0, message=message)])
    rows.changed.add(queue)
    return Committed([Enqueued("stored", landed, now)])


def _has_room(rows: LMDBRows, queue: int, limit: Limit | None) -> bool:
    """False also where a message that finds no room goes to another queue: there its dedupe key may be in use."""
    if limit is None:
        return True
    if limit.overflow_queue is not None or limit.overflow == "overflow-queue":
        return False
    return limit.maxsize <= 0 or rows.load(queue, rows.now, limit.maxsize) < limit.maxsize


def is_step(changes: Changes) -> bool:
    """Whether a commit is that of a worker: acks of what it held, and perhaps the next claim."""
    if changes.enqueue or changes.edges or changes.records or changes.topics or not changes.settle:
        return False
    return all(one.action == "ack" and one.token is not None for one in changes.settle)


def ack(rows: LMDBRows, settles: Sequence[Settle], *, strict: bool) -> list[bool] | None:
    """Which of these leases were current. None when an ack sets something free."""
    found: dict[int, Row] = {}
    done = []
    for one in settles:
        key = rows.ids.key_of(one.id)
        row = None if key is None or key in found else rows.row(key)
        current = row is not None and row.token == one.token and row.queue == rows.find_queue(one.queue)
        done.append(current)
        if row is not None and current:
            if row.ordering_key is not None or row.run is not None or row.dependents:
                return None
            found[row.key] = row
        elif strict:
            raise LeaseLost(one.queue, one.id, one.token)
    for row in found.values():
        rows.delete(row, row)
        rows.changed.add(row.queue)
    if rows.journalled:
        rows.note([Note(ACKED, row, row.attempts, row.leased_by) for row in found.values()])
    return done


def lease(rows: LMDBRows, request: LeaseRequest) -> list[StoredMessage] | None:
    """What is next in line. None when timers have passed, or the claim is also the ack."""
    queue = rows.find_queue(request.queue)
    if queue is None:
        return []
    if request.consume or rows.queue_row(queue).due <= rows.now:
        return None
    if rows.paused(queue, request.leased_by):
        return []
    messages = rows.claim(queue, request, rows.now)
    if messages:
        rows.changed.add(queue)
    return messages
