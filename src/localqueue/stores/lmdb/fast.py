"""The short ways: plain puts, acks and claims, about which the engine has nothing to decide.

Each says None where it has: then nothing was changed, and the engine does it.
"""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import LeaseLost
from localqueue.events.event import ACKED, DROPPED, ENQUEUED, RELEASED
from localqueue.stores import rules
from localqueue.stores.engine.port import Note
from localqueue.stores.engine.row import CODE, DELAYED, READY, Row, from_json, to_json
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

_STEPS = ("ack", "release")


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
    limit = changes.limits.get(message.queue)
    full = limit is not None and _is_full(rows, queue, limit)
    oldest = _oldest(rows, queue) if limit is not None and full and limit.overflow == "drop-oldest" else None
    if full and oldest is None:
        return None
    if dedupe_key is not None and get(keys.held(keys.DEDUPE, queue, dedupe_key)) is not None:
        return None
    created_at, available_at, expires_at, _ = rules.arrival(message, now)
    busy = ordering_key is not None and get(keys.held(keys.HEADS, queue, ordering_key)) is not None
    landed = rules.landing(now=now, available_at=available_at, expires_at=expires_at, key_busy=busy)
    if landed == EXPIRED:
        return None
    if oldest is not None:
        _drop(rows, oldest)
    row = Row(key, queue, CODE[landed], message.priority, created_at, available_at, 0, expires_at)
    row.dedupe_key, row.ordering_key = dedupe_key, ordering_key
    rows.insert(row, message)
    if rows.journalled:
        rows.note([Note(ENQUEUED, row, 0, message=message)])
    rows.changed.add(queue)
    return Committed([Enqueued("stored", landed, now)])


def _is_full(rows: LMDBRows, queue: int, limit: Limit) -> bool:
    """True also where a message that finds no room goes to another queue: there its dedupe key may be in use."""
    if limit.overflow_queue is not None or limit.overflow == "overflow-queue":
        return True
    return 0 < limit.maxsize <= rows.load(queue, rows.now, limit.maxsize)


def _oldest(rows: LMDBRows, queue: int) -> Row | None:
    """The message that is to make room. None when timers have passed, it sets something free, or somebody is told."""
    if rows.observed or rows.queue_row(queue).due <= rows.now:
        return None
    found = rows.oldest(queue, 1)
    return found[0] if found and found[0].ordering_key is None else None


def _drop(rows: LMDBRows, row: Row) -> None:
    rows.delete(row, row)
    rows.txn.put(keys.one(keys.REMOVED, row.key), b"")
    rows.queue_row(row.queue).dropped += 1
    if rows.journalled:
        rows.note([Note(DROPPED, row, row.attempts)])


def is_step(changes: Changes) -> bool:
    """Whether a commit is that of a worker: what it held is acked or released, and perhaps the next is claimed."""
    if changes.enqueue or changes.edges or changes.records or changes.topics or not changes.settle:
        return False
    return all(one.action in _STEPS and one.token is not None for one in changes.settle)


def settle(rows: LMDBRows, settles: Sequence[Settle], *, strict: bool) -> list[bool] | None:
    """Which of these leases were current. None when an ack sets something free or a release ends a message."""
    found: dict[int, tuple[Row, Settle]] = {}
    done = []
    for one in settles:
        key = rows.ids.key_of(one.id)
        row = None if key is None or key in found else rows.row(key)
        current = row is not None and row.token == one.token and row.queue == rows.find_queue(one.queue)
        done.append(current)
        if row is not None and current:
            if _sets_free(row) if one.action == "ack" else not _returns(rows, row, one):
                return None
            found[row.key] = row, one
        elif strict:
            raise LeaseLost(one.queue, one.id, one.token)
    notes = [_ack(rows, row) if one.action == "ack" else _release(rows, row, one) for row, one in found.values()]
    if rows.journalled:
        rows.note(notes)
    return done


def _sets_free(row: Row) -> bool:
    return row.ordering_key is not None or row.run is not None or row.dependents > 0


def _returns(rows: LMDBRows, row: Row, one: Settle) -> bool:
    """Whether a message that is released goes on, and nobody is to be told."""
    spent = one.max_attempts is not None and row.attempts - row.forgiven >= one.max_attempts
    outlived = row.expires_at is not None and row.expires_at <= rows.now
    return not (spent or outlived or one.forgive or rows.observed)


def _ack(rows: LMDBRows, row: Row) -> Note:
    rows.delete(row, row)
    rows.changed.add(row.queue)
    return Note(ACKED, row, row.attempts, row.leased_by)


def _release(rows: LMDBRows, row: Row, one: Settle) -> Note:
    now, error = rows.now, to_json(one.error)
    note = Note(RELEASED, row, row.attempts, row.leased_by, row.leased_at, error or row.last_error)
    row.before = row.snapshot()
    row.history += 1
    attempt = rules.Attempt(row.attempts, RELEASED, now, row.leased_at, row.leased_by, from_json(note.error))
    rows.remember(row.key, row.history, attempt)
    if error is not None:
        row.last_error, row.failed_at = error, now
    row.available_at = now + one.delay
    row.state = DELAYED if row.available_at > now else READY
    row.leased_until = row.leased_at = row.leased_by = row.most = None
    rows.update(row)
    rows.changed.add(row.queue)
    return note


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
