"""Claiming and renewing.

One message is claimed by one statement. Several are found first and then claimed each on the condition that nobody was
quicker, in one write; what a claim marked with its stamp is its own. A transaction is needed only where a journal is
kept, the leases of the worker are counted, or what is claimed is acked as well: to delete it in one statement would be
to pass by the barrier of a pause and the guard of the journal. A claim is never part of a larger transaction: whatever
else a commit asks for is committed first, and claims of many workers at the head of a queue never undo it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bson.errors import BSONError
from bson.int64 import Int64
from pymongo import ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, PyMongoError

from localqueue.stores.mongodb import driver, gate, hot, said
from localqueue.stores.mongodb.due import settle_due
from localqueue.stores.mongodb.records import by_keys
from localqueue.stores.mongodb.rows import INFLIGHT, READY, Row, stored_message
from localqueue.stores.mongodb.schema import CLAIM
from localqueue.stores.mongodb.settle import ack
from localqueue.stores.mongodb.tx import Tx
from localqueue.stores.port import Lease, LeaseRequest, StoredMessage

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore

_DUE_A_CLAIM = 500
_ORDER = [("p", -1), ("at", 1), ("_id", 1)]

Document = dict[str, Any]


class JournalKept(Exception):
    """The namespace keeps a journal, so this has to be done in a transaction."""


def lease(store: MongoDBQueueStore, queue: int, request: LeaseRequest) -> list[StoredMessage]:
    """Claim down the ready index, after settling the timers that have passed."""
    looks = store.server.looks
    documents: list[Document] = []
    while request.limit > 0:
        now = store.now()
        looked = looks.wanted(queue, now)
        more = looked and _settle_timers(store, queue, request, now)
        found = _claim(store, queue, request, request.limit - len(documents), now)
        if found is None:
            break  # paused
        documents += found
        if documents or (looked and not more):
            break
        looks.forget(queue)  # nothing is ready: look at the timers, whatever is known of them
    if not documents:
        return []
    if not request.consume:
        hot.learn(store, documents)
    if any("r" in one for one in documents):
        store.say([(said.RUN, 0)])
    return _with_records(store, request, documents)


def _settle_timers(store: MongoDBQueueStore, queue: int, request: LeaseRequest, now: float) -> bool:
    """Settle a bounded number of the timers that have passed; whether there may be more."""
    with store.server.call():
        next_due = gate.next_due(store.server, queue)
    if next_due > now:
        store.server.looks.looked(queue, now, next_due)
        return False
    if store.is_paused(queue, request.leased_by):
        return False
    bound = max(_DUE_A_CLAIM, request.limit)
    return not store._write(lambda tx: settle_due(tx, queue, max_attempts=request.max_attempts, limit=bound))


def _claim(
    store: MongoDBQueueStore, queue: int, request: LeaseRequest, limit: int, now: float
) -> list[Document] | None:
    """What was claimed; None when the queue or the worker is paused."""
    counted = request.leased_by is not None and request.counted
    if not (store.journalled or counted or request.consume):
        try:
            return (_claim_one if limit == 1 else _claim_many)(store, queue, request, limit, now)
        except JournalKept:
            store.journalled = True
    return store._write(lambda tx: _claim_in(tx, queue, request, limit))


def _changes(store: MongoDBQueueStore, queue: int, request: LeaseRequest, now: float) -> Document:
    changed: Document = {"s": INFLIGHT, "due": now + request.timeout, "la": now}
    changed["k"] = said.say(said.ROOM, store.namespace_id, queue, store.ids.reserve())
    gone = {"j": "", "st": ""}
    for name, value in (("lb", request.leased_by), ("m", request.max_attempts)):
        if value is None:
            gone[name] = ""
        else:
            changed[name] = value
    return {"$set": changed, "$inc": {"a": 1}, "$unset": gone}


def _claim_one(
    store: MongoDBQueueStore, queue: int, request: LeaseRequest, limit: int, now: float
) -> list[Document] | None:
    try:
        with store.server.deadline():
            found = store.server.messages.find_one_and_update(
                gate.for_claims(queue, request.leased_by, now),
                _changes(store, queue, request, now),
                sort=_ORDER,
                hint=CLAIM,
                return_document=ReturnDocument.AFTER,
            )
    except (PyMongoError, BSONError) as error:
        code = driver.code_of(error)
        if code == driver.BARRED:
            return None
        if code == driver.REJECTED:
            raise JournalKept from error
        raise driver.translate(error, store.url) from error
    if found is None:
        return []
    store.server.looks.timer(queue, found["due"])
    return [found]


def _claim_many(
    store: MongoDBQueueStore, queue: int, request: LeaseRequest, limit: int, now: float
) -> list[Document] | None:
    messages = store.server.messages
    while True:
        with store.server.call():
            query = gate.for_claims(queue, request.leased_by, now)
            found = list(messages.find(query).sort(_ORDER).hint(CLAIM).limit(limit))
            if found and found[0]["_id"] < 0:
                return None
            if not found:
                return []
            update = _changes(store, queue, request, now)
            stamp = update["$set"]["st"] = update["$set"]["k"]["t"]
            del update["$unset"]["st"]
            by_attempts: dict[int, list[Int64]] = {}
            for one in found:
                by_attempts.setdefault(one["a"], []).append(Int64(one["_id"]))
            writes = [
                UpdateMany({"_id": {"$in": keys}, "q": queue, "s": READY, "a": attempts}, update)
                for attempts, keys in by_attempts.items()
            ]
            try:
                claimed = messages.bulk_write(writes, ordered=False).modified_count
            except BulkWriteError as error:
                if driver.code_of(error) == driver.REJECTED:
                    raise JournalKept from error
                raise
            if claimed == 0:
                continue  # others were quicker with all of them
            if claimed == len(found):
                mine = [_claimed(one, update) for one in found]
            else:
                keys = [Int64(one["_id"]) for one in found]
                mine = list(messages.find({"_id": {"$in": keys}, "st": stamp}).sort(_ORDER))
        store.server.looks.timer(queue, now + request.timeout)
        return mine


def _claimed(document: Document, update: Document) -> Document:
    """The document as the claim has made it."""
    claimed = {name: value for name, value in document.items() if name not in update["$unset"]}
    return {**claimed, **update["$set"], "a": document["a"] + 1}


def _claim_in(tx: Tx, queue: int, request: LeaseRequest, limit: int) -> list[Document] | None:
    """The same in a transaction, with what the journal wants to know and the count of the worker's leases."""
    query = gate.for_claims(queue, request.leased_by, tx.now)
    messages = tx.server.messages
    found = list(messages.find(query, session=tx.session).sort(_ORDER).hint(CLAIM).limit(limit))
    tx.store.journalled = tx.journal.enabled
    if found and found[0]["_id"] < 0:
        return None
    rows = [Row.of(document) for document in found]
    claimed = []
    for document, row in zip(found, rows, strict=True):
        tx.adopt(row)
        row.state = INFLIGHT
        row.attempts += 1
        row.due_at, row.leased_at = tx.now + request.timeout, tx.now
        row.leased_by, row.most = request.leased_by, request.max_attempts
        if not request.consume:
            tx.save(row)
        tx.record("leased", row)
        claimed.append({name: value for name, value in document.items() if name not in ("lb", "m")} | row.fields())
    if request.consume:  # at most once: the claim is also the ack
        tx.said |= {(said.ROOM, queue)} if rows else set()
        for row in rows:
            ack(tx, row)
    if claimed and request.leased_by is not None and request.counted:
        worker, count = {"q": queue, "w": request.leased_by}, {"$inc": {"leases": len(claimed)}}
        tx.server.database.lq_workers.update_one(worker, count, upsert=True, session=tx.session)
    tx.touched.add(request.queue)
    return claimed


def _with_records(store: MongoDBQueueStore, request: LeaseRequest, documents: list[Document]) -> list[StoredMessage]:
    messages = [stored_message(store.ids, one, request.queue) for one in documents]
    keys = {f"{request.queue}:{one.dedupe_key}": n for n, one in enumerate(messages) if one.dedupe_key is not None}
    if request.ledger is not None and keys:
        with store.server.call():
            found = by_keys(store.server, store.namespace_id, request.ledger, list(keys))
        for key, record in found.items():
            messages[keys[key]] = messages[keys[key]]._replace(record=record)
    return messages


def renew(store: MongoDBQueueStore, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    """Renew leases, one bulk write for all; what it matched is asked for only when it was not all of them."""
    if not store.journalled:
        try:
            return _renew(store, leases, timeout)
        except JournalKept:
            store.journalled = True
    return store._write(lambda tx: _renew_in(tx, leases, timeout))


def _renew(store: MongoDBQueueStore, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    until = store.now() + timeout
    keys = [store.ids.key_of(one.id) for one in leases]
    writes = []
    for key, one in zip(keys, leases, strict=True):
        queue = store._find_queue(one.queue)
        if key is not None and queue is not None:
            query = {"_id": Int64(key), "q": queue, "s": INFLIGHT, "a": one.token}
            writes.append(UpdateOne(query, {"$set": {"due": until}, "$unset": {"j": ""}}))
            store.server.looks.timer(queue, until)
    if not writes:
        return [None] * len(leases)
    messages = store.server.messages
    with store.server.call():
        try:
            matched = messages.bulk_write(writes, ordered=False).matched_count
        except BulkWriteError as error:
            if driver.code_of(error) == driver.REJECTED:
                raise JournalKept from error
            raise
        if matched == len(leases):
            return [until] * len(leases)
        mine: Document = {"_id": {"$in": [Int64(key) for key in keys if key is not None]}, "s": INFLIGHT, "due": until}
        renewed = {(one["_id"], one["a"], one["q"]) for one in messages.find(mine, {"a": 1, "q": 1})}
    return [
        until if (key, one.token, store._find_queue(one.queue)) in renewed else None
        for key, one in zip(keys, leases, strict=True)
    ]


def _renew_in(tx: Tx, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    tx.store.journalled = tx.journal.enabled
    until = tx.now + timeout
    keys = [tx.store.ids.key_of(one.id) for one in leases]
    tx.load_many([key for key in keys if key is not None])
    renewed: list[float | None] = []
    for one, key in zip(leases, keys, strict=True):
        row = tx.load(key, tx.queue_id(one.queue))
        if row is None or row.state != INFLIGHT or row.attempts != one.token:
            renewed.append(None)
            continue
        row.due_at = until
        tx.save(row)
        tx.record("renewed", row)
        renewed.append(until)
    return renewed
