"""The everyday writes, each a single statement: put one, claim, ack one, renew; and the short transaction of many acks.

One message is claimed by one statement. Several are found first and then claimed each on the condition that nobody was
quicker, in one write; what a claim marked with its stamp is its own. What a journal has to know of, or what sets
something else free, is refused by the conditions of the statement, and takes a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pymongo
from bson.errors import BSONError
from bson.int64 import Int64
from pymongo import ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError, WriteError

from localqueue.errors import IdTaken
from localqueue.stores.engine.row import DELAYED, INFLIGHT, READY
from localqueue.stores.mongodb import errors, gate
from localqueue.stores.mongodb.document import Document, say_new, simple, stored_message
from localqueue.stores.mongodb.schema import BY_KEY, CLAIM
from localqueue.stores.mongodb.transaction import transact
from localqueue.stores.port import STATES, Changes, Enqueued, Lease, LeaseRequest, NewMessage, Settle, StoredMessage

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore

#: Of a message whose ack sets nothing else free and is of no interest to a journal.
_NOTHING_FOLLOWS = {"ok": None, "r": None, "dep": None, "j": None}
_FOLLOWED = frozenset(_NOTHING_FOLLOWS)
_MOST_FOLLOWED = 10_000


class JournalKept(Exception):
    """The namespace keeps a journal, so this has to be done in a transaction."""


# putting


def insert(store: MongoDBQueueStore, document: Document) -> None:
    """Raises the driver's own error when an index or the journal's validator refuses the document."""
    document["k"] = say_new(document["n"], document["q"])
    server = store.server
    try:
        with pymongo.timeout(server.timeout):
            server.messages.insert_one(document)
    except WriteError as error:
        if errors.code_of(error) in (errors.DUPLICATE, errors.REJECTED):
            raise
        raise errors.translate(error, server.url) from error
    except (PyMongoError, BSONError) as error:
        raise errors.translate(error, server.url) from error


def is_simple(changes: Changes) -> bool:
    """Whether a commit puts one message and nothing else, with nothing to look up."""
    if len(changes.enqueue) != 1 or changes.settle or changes.records or changes.edges or changes.topics:
        return False
    message = changes.enqueue[0]
    needs = message.ordering_key, message.run_id, message.past
    return needs == (None, None, None) and not message.after and message.queue not in changes.limits


def enqueue_one(store: MongoDBQueueStore, message: NewMessage) -> Enqueued | None:
    """None when the message needs a transaction: it has no life left, its dedupe key is taken, or a journal is kept."""
    key = store.ids.key_of(message.id)
    if key is None:
        raise ValueError(f"{message.id!r} is not an id of this namespace; ids of new messages come from mint()")
    queue, now = store.queue_number(message.queue), store.now()
    if message.ttl is not None and message.ttl <= 0:
        return None
    state = DELAYED if message.delay > 0 else READY
    document = simple(store.namespace_id, key, queue, state, message, now)
    try:
        insert(store, document)
    except DuplicateKeyError as error:
        if "_id" in errors.index_of(error):
            raise IdTaken(f"message id {message.id} is in use") from error
        return None
    except WriteError:
        store.journalled = True
        return None
    store.server.looks.timer(queue, document.get("due"))
    store.ears.touched((message.queue,))
    return Enqueued("stored", STATES[state], now)


# claiming


def claim(store: MongoDBQueueStore, queue: int, request: LeaseRequest, now: float) -> list[StoredMessage] | None:
    """What was claimed; None when the queue or the worker is paused."""
    found = (_claim_one if request.limit == 1 else _claim_many)(store, queue, request, now)
    if not found:
        return None if found is None else []
    _learn(store, found)
    return [stored_message(store.ids, document, request.queue) for document in found]


def _claim_one(store: MongoDBQueueStore, queue: int, request: LeaseRequest, now: float) -> list[Document] | None:
    """A pause of some workers is in the way of all until somebody has met it: then it is looked at by name."""
    server = store.server
    update = gate.claim_of(store, queue, request, now)
    while True:
        met = queue in server.looks.barriers
        try:
            with pymongo.timeout(server.timeout):
                found = server.messages.find_one_and_update(
                    gate.for_claims(queue, request.leased_by, now) if met else gate.unbarred(queue, now),
                    update,
                    sort=gate.ORDER,
                    hint=CLAIM,
                    return_document=ReturnDocument.AFTER,
                )
        except (PyMongoError, BSONError) as error:
            code = errors.code_of(error)
            if code == errors.BARRED and met:
                return None
            if code == errors.BARRED:
                server.looks.barriers.add(queue)
                continue
            if code == errors.REJECTED:
                raise JournalKept from error
            raise errors.translate(error, server.url) from error
        if found is None:
            return []
        server.looks.timer(queue, found["due"])
        return [found]


def _claim_many(store: MongoDBQueueStore, queue: int, request: LeaseRequest, now: float) -> list[Document] | None:
    messages = store.server.messages
    while True:
        with store.server.call():
            query = gate.for_claims(queue, request.leased_by, now)
            found = list(messages.find(query).sort(gate.ORDER).hint(CLAIM).limit(request.limit))
            if found and found[0]["_id"] < 0:
                return None
            if not found:
                return []
            update = gate.claim_of(store, queue, request, now)
            stamp = update["$set"]["st"] = update["$set"]["k"]["t"]
            del update["$unset"]["st"]
            by_attempts: dict[int, list[Int64]] = {}
            for one in found:
                by_attempts.setdefault(one["a"], []).append(Int64(one["_id"]))
            writes = [
                UpdateMany({"_id": {"$in": keys}, "q": queue, "s": READY, "a": attempts}, update, hint=BY_KEY)
                for attempts, keys in by_attempts.items()
            ]
            claimed = _write(messages, writes).modified_count
            if claimed == 0:
                continue  # others were quicker with all of them
            if claimed == len(found):
                mine = [gate.claimed(one, update) for one in found]
            else:
                keys = [Int64(one["_id"]) for one in found]
                mine = list(messages.find({"_id": {"$in": keys}, "st": stamp}).sort(gate.ORDER))
        store.server.looks.timer(queue, now + request.timeout)
        return mine


def _write(messages: Any, writes: Sequence[Any]) -> Any:
    try:
        return messages.bulk_write(writes, ordered=False)
    except BulkWriteError as error:
        if errors.code_of(error) == errors.REJECTED:
            raise JournalKept from error
        raise


def renew(store: MongoDBQueueStore, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    """Renew leases, one bulk write for all; what it matched is asked for only when it was not all of them."""
    until = store.now() + timeout
    keys = [store.ids.key_of(one.id) for one in leases]
    writes = []
    for key, one in zip(keys, leases, strict=True):
        queue = store._find_queue(one.queue)
        if key is not None and queue is not None:
            query = {"_id": Int64(key), "q": queue, "s": INFLIGHT, "a": one.token}
            writes.append(UpdateOne(query, {"$set": {"due": until}, "$unset": {"j": ""}}, hint=BY_KEY))
            store.server.looks.timer(queue, until)
    if not writes:
        return [None] * len(leases)
    messages = store.server.messages
    with store.server.call():
        if _write(messages, writes).matched_count == len(leases):
            return [until] * len(leases)
        mine = {"_id": {"$in": [Int64(key) for key in keys if key is not None]}, "s": INFLIGHT, "due": until}
        renewed = {(one["_id"], one["a"], one["q"]) for one in messages.find(mine, {"a": 1, "q": 1})}
    return [
        until if (key, one.token, store._find_queue(one.queue)) in renewed else None
        for key, one in zip(keys, leases, strict=True)
    ]


# acking


def _learn(store: MongoDBQueueStore, claimed: Sequence[Document]) -> None:
    """Remember which of these messages take a transaction to ack, to save a try that would be in vain."""
    if len(store.followed) < _MOST_FOLLOWED:
        for one in claimed:
            if not _FOLLOWED.isdisjoint(one):
                store.followed.add(one["_id"])


def _known_to_need_more(store: MongoDBQueueStore, keys: Sequence[int]) -> bool:
    if not store.followed or store.followed.isdisjoint(keys):
        return False
    store.followed.difference_update(keys)
    return True


def ack_one(store: MongoDBQueueStore, queue: int, key: int, token: int) -> bool:
    """Whether it was acked; if not, it may still take a transaction."""
    if store.followed and _known_to_need_more(store, [key]):
        return False
    server = store.server
    query = {"_id": Int64(key), "q": queue, "s": INFLIGHT, "a": token, **_NOTHING_FOLLOWS}
    try:
        with pymongo.timeout(server.timeout):
            return bool(server.messages.delete_one(query, hint=BY_KEY).deleted_count)
    except (PyMongoError, BSONError) as error:
        raise errors.translate(error, server.url) from error


def is_acks(changes: Changes) -> bool:
    """Whether a commit acks leased messages and changes nothing else."""
    if not changes.settle or changes.enqueue or changes.records or changes.edges or changes.topics:
        return False
    return all(one.action == "ack" and one.token is not None for one in changes.settle)


def ack_all(store: MongoDBQueueStore, settles: Sequence[Settle]) -> bool:
    """Whether all of these acks were applied; otherwise none was."""
    groups: dict[tuple[int, int], list[Int64]] = {}
    for one in settles:
        key, queue = store.ids.key_of(one.id), store._find_queue(one.queue)
        if key is None or queue is None or one.token is None:
            return False
        groups.setdefault((queue, one.token), []).append(Int64(key))
    if len(settles) == 1:
        ((queue, token), (key,)) = next(iter(groups.items()))
        return ack_one(store, queue, key, token)
    if _known_to_need_more(store, [key for keys in groups.values() for key in keys]):
        return False

    def work(session: Any) -> None:
        for (queue, token), keys in groups.items():
            query = {"_id": {"$in": keys}, "q": queue, "s": INFLIGHT, "a": token, **_NOTHING_FOLLOWS}
            if store.server.messages.delete_many(query, hint=BY_KEY, session=session).deleted_count != len(keys):
                raise _NotAll

    try:
        transact(store.server, work)
    except _NotAll:
        return False
    return True


class _NotAll(Exception):
    pass
