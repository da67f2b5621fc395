"""The short ways: plain puts, acks and claims, about which the engine has nothing to decide.

Each says None where it has: then nothing was changed, and the engine does it.
"""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import LeaseLost
from localqueue.events.event import ACKED, DROPPED, ENQUEUED, RELEASED
from localqueue.stores import rules
from localqueue.stores.engine.port import Note
from localqueue.stores.engine.row import CODE, DELAYED, READY, Row, from_json
from localqueue.stores.kept_error import error_text
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
    row = rows.queue_row(queue)
    position = row.place(0, now)
    packed, key = pack_plain(queue, now, position), ids.reserve(1, row.newest)
    while not put(keys.message(key), packed, overwrite=False):  # a message of another queue has it
        key = ids.reserve(1, row.newest)
    row.newest = key
    put(keys.one(keys.CONTENTS, key), pack_content(payload, codec, None))
    put(keys.ready(queue, 0, position, key), b"")
    row.counts[READY] += 1
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
    if key <= (newest := rows.queue_row(queue).newest):
        if changes.keep_ids or get(keys.message(key)) is not None:
            return None
        key = rows.ids.reserve(1, newest)
    if oldest is not None:
        _drop(rows, oldest)
    row = Row(key, queue, CODE[landed], message.priority, created_at, available_at, 0, expires_at)
    row.dedupe_key, row.ordering_key = dedupe_key, ordering_key
    rows.insert(row, message)
    if rows.journalled:
        rows.note([Note(ENQUEUED, row, 0, message=message)])
    rows.changed.add(queue)
    new_id = rows.ids.id_of(key)
    return Committed([Enqueued("stored", landed, now, id=None if new_id == message.id else new_id)])


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
    rows.forget_removed(2, rows.ids.key_at(rows.now - rules.REMEMBERED))
    rows.queue_row(row.queue).dropped += 1
    if rows.journalled:
        rows.note([Note(DROPPED, row, row.attempts)])


def is_step(changes: Changes) -> bool:
    """Whether a commit is that of a worker: what it held is acked or released, with records, and perhaps the next is
    claimed."""
    if changes.enqueue or changes.edges or changes.topics or not changes.settle:
        return False
    return all(one.action in _STEPS and one.token is not None for one in changes.settle)


def settle(rows: LMDBRows, settles: Sequence[Settle], *, strict: bool) -> list[bool] | None:
    """Which of these leases were current. None when an ack sets free more than the next of its ordering key, or a
    message comes to its end."""
    acked: dict[int, Row] = {}
    released: dict[int, tuple[Row, Settle]] = {}
    following: list[Row] = []
    done = []
    for one in settles:
        key = rows.ids.key_of(one.id)
        row = None if key is None or key in acked or key in released else rows.row(key)
        current = row is not None and row.token == one.token and row.queue == rows.find_queue(one.queue)
        done.append(current)
        if row is None or not current:
            if strict:
                raise LeaseLost(one.queue, one.id, one.token)
        elif one.action == "ack":
            if row.run is not None or row.dependents or (row.ordering_key is not None and _ends(rows, row, following)):
                return None
            acked[row.key] = row
        else:
            if not _returns(rows, row, one):
                return None
            released[row.key] = row, one
    for row in acked.values():
        rows.delete(row, row)
        rows.changed.add(row.queue)
    for row in following:
        row.before = row.snapshot()
        row.state = DELAYED if row.available_at > rows.now else READY
        rows.update(row)
    notes = [_release(rows, row, one) for row, one in released.values()]
    if rows.journalled:
        rows.note([Note(ACKED, row, row.attempts, row.leased_by) for row in acked.values()] + notes)
    return done


def _ends(rows: LMDBRows, row: Row, following: list[Row]) -> bool:
    """Whether what comes behind a message is at its end; else it is added to what follows."""
    assert row.ordering_key is not None
    behind = rows.row(rows.behind(row.queue, row.ordering_key))
    if behind is not None:
        following.append(behind)
    return behind is not None and _is_outlived(rows, behind)


def _returns(rows: LMDBRows, row: Row, one: Settle) -> bool:
    """Whether a message that is released goes on, and nobody is to be told."""
    spent = one.max_attempts is not None and row.attempts - row.forgiven >= one.max_attempts
    return not (spent or _is_outlived(rows, row) or one.forgive or rows.observed)


def _is_outlived(rows: LMDBRows, row: Row) -> bool:
    return row.expires_at is not None and row.expires_at <= rows.now


def _release(rows: LMDBRows, row: Row, one: Settle) -> Note:
    now, error = rows.now, error_text(one.error)
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
