"""The everyday writes, each a single statement: put one, claim, ack one, renew; and the short transaction of
many acks, or of acks and records.

One message is claimed by one statement. Several are found first and then claimed each on the condition that nobody was
quicker, in one write. What a journal has to know of, or what sets something else free, is refused by the conditions of
the statement (`errors.Refused`), and takes a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64
from pymongo import ReturnDocument, UpdateMany, UpdateOne

from localqueue.errors import IdTaken
from localqueue.stores import refusals
from localqueue.stores.engine.row import DELAYED, INFLIGHT, READY
from localqueue.stores.mongodb import errors, gate
from localqueue.stores.mongodb.document import ROOM, TO_CLAIM, Document, grouped, numbers, say, simple, to_fields
from localqueue.stores.mongodb.records import write
from localqueue.stores.mongodb.schema import BY_KEY, CLAIM
from localqueue.stores.mongodb.transaction import transact
from localqueue.stores.port import STATES, Changes, Enqueued, Lease, LeaseRequest, NewMessage, RecordWrite, Settle
from localqueue.stores.wake import told_records

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore

#: Of a message whose ack sets nothing else free and is of no interest to a journal.
_NOTHING_FOLLOWS = {"ok": None, "r": None, "dep": None, "j": None}
_MOST_FOLLOWED = 10_000
_A_WHILE = 0.1  # seconds, for a server to write out what is in its cache


# putting


def insert(store: MongoDBQueueStore, document: Document) -> bool:
    """Whether a new message is stored; otherwise a journal is kept, or its dedupe key is taken.

    Any message fits into the cache of a server once that has written out what is in it, so it is waited for.
    """
    document["k"] = say(TO_CLAIM, document["n"], document["q"])
    deadline = 0.0
    while True:
        try:
            with store.server.call():
                store.server.messages.insert_one(document)
            return True
        except errors.Refused as refused:
            if "_id" in refused.index:
                raise IdTaken("a message id is in use") from refused
            store.journalled = store.journalled or refused.code == errors.REJECTED
            return False
        except errors.Crowded:
            deadline = deadline or time.monotonic() + store.server.timeout
            if time.monotonic() >= deadline:
                raise
        time.sleep(_A_WHILE)


def is_simple(changes: Changes) -> bool:
    """Whether a commit puts one message and nothing else, with nothing to look up."""
    if len(changes.enqueue) != 1 or changes.settle or changes.records or changes.edges or changes.topics:
        return False
    message = changes.enqueue[0]
    needs = message.ordering_key, message.run_id, message.past
    has_life = message.ttl is None or message.ttl > 0
    return needs == (None, None, None) and has_life and not message.after and message.queue not in changes.limits


def enqueue_one(store: MongoDBQueueStore, message: NewMessage) -> Enqueued | None:
    """None when the message needs a transaction."""
    key = store.ids.key_of(message.id)
    if key is None:
        raise refusals.not_minted(message.id)
    queue, now = store.queue_number(message.queue), store.now()
    state = DELAYED if message.delay > 0 else READY
    document = simple(store.namespace_id, key, queue, state, message, now)
    if not insert(store, document):
        return None
    store.server.looks.timer(queue, document.get("due"))
    store.ears.touched((message.queue,))
    return Enqueued("stored", STATES[state], now)


# claiming


def claim(store: MongoDBQueueStore, queue: int, request: LeaseRequest, now: float) -> list[Document]:
    """The messages as they were claimed. `errors.Refused` when a journal is kept."""
    server, update = store.server, claim_of(store, queue, request, now)
    while True:
        with server.call():
            if request.limit == 1:
                one = server.messages.find_one_and_update(
                    gate.for_claims(queue, request.leased_by, now),
                    update,
                    sort=gate.ORDER,
                    hint=CLAIM,
                    return_document=ReturnDocument.AFTER,
                )
                claimed = found = [] if one is None else [one]
            else:
                found = front(store, queue, request, now)
                claimed = take(store, queue, found, update)
        if claimed or not found:  # else others were quicker with all of them
            if len(store.followed) < _MOST_FOLLOWED:
                store.followed.update(one["_id"] for one in claimed if not _NOTHING_FOLLOWS.keys().isdisjoint(one))
            return claimed


def claim_of(
    store: MongoDBQueueStore, queue: int, request: LeaseRequest, now: float, *, journalled: bool = False
) -> Document:
    """What a claim makes of the documents it takes."""
    changed = {
        "s": INFLIGHT, "due": now + request.timeout, "la": now, "lb": request.leased_by, "m": request.max_attempts,
        "j": 1 if journalled else None, "k": say(ROOM, store.namespace_id, queue),
    }  # fmt: skip
    return to_fields(changed) | {"$inc": {"a": 1}}


def front(
    store: MongoDBQueueStore, queue: int, request: LeaseRequest, now: float, session: Any = None
) -> list[Document]:
    """The messages that a claim would take."""
    query = gate.for_claims(queue, request.leased_by, now)
    found = list(store.server.messages.find(query, session=session).sort(gate.ORDER).hint(CLAIM).limit(request.limit))
    if found and found[0]["_id"] < 0:
        raise errors.Barred("the queue or the worker is paused")
    return found


def take(
    store: MongoDBQueueStore, queue: int, found: Sequence[Document], update: Document, session: Any = None
) -> list[Document]:
    """Claim what was found, each on the condition that nobody was quicker; the messages as they were claimed."""
    if not found:
        return []
    messages = store.server.messages
    writes = [
        UpdateMany({"_id": {"$in": numbers(keys)}, "q": queue, "s": READY, "a": attempts}, update, hint=BY_KEY)
        for attempts, keys in grouped((one["a"], one["_id"]) for one in found).items()
    ]
    claimed = messages.bulk_write(writes, ordered=False, session=session).modified_count
    if 0 < claimed < len(found):
        mine = {"_id": {"$in": numbers(one["_id"] for one in found)}, "k.t": update["$set"]["k"]["t"]}
        return list(messages.find(mine, session=session).sort(gate.ORDER))
    return [as_claimed(one, update) for one in found] if claimed else []


def as_claimed(document: Document, update: Document) -> Document:
    """The document as the claim has made it."""
    kept = {name: value for name, value in document.items() if name not in update["$unset"]}
    return {**kept, **update["$set"], "a": document["a"] + 1}


def renew(store: MongoDBQueueStore, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    """Renew leases, one bulk write for all; what it matched is asked for only when it was not all of them."""
    until = store.now() + timeout
    if not leases:
        return []
    named = [(store.ids.key_of(one.id) or 0, store._find_queue(one.queue) or 0, one.token) for one in leases]
    writes = [
        UpdateOne(
            {"_id": Int64(key), "q": queue, "s": INFLIGHT, "a": token},
            {"$set": {"due": until}, "$unset": {"j": ""}},
            hint=BY_KEY,
        )
        for key, queue, token in named
    ]
    messages, renewed = store.server.messages, set(named)
    with store.server.call():
        if messages.bulk_write(writes, ordered=False).matched_count != len(leases):
            mine = {"_id": {"$in": numbers(key for key, _, _ in named)}, "s": INFLIGHT, "due": until}
            renewed = {(one["_id"], one["q"], one["a"]) for one in messages.find(mine, {"a": 1, "q": 1})}
    for _, queue, _ in renewed:
        store.server.looks.timer(queue, until)
    return [until if one in renewed else None for one in named]


# acking


def _is_followed(store: MongoDBQueueStore, keys: Sequence[int]) -> bool:
    """Whether it is known that one of these takes a transaction to ack, which saves a try that would be in vain."""
    if store.followed.isdisjoint(keys):
        return False
    store.followed.difference_update(keys)
    return True


def ack_one(store: MongoDBQueueStore, name: str, message_id: str, token: int | None) -> bool:
    """Whether it was acked; if not, it may still take a transaction."""
    key, queue = store.ids.key_of(message_id), store._find_queue(name)
    if key is None or queue is None or _is_followed(store, (key,)):
        return False
    query = {"_id": Int64(key), "q": queue, "s": INFLIGHT, "a": token, **_NOTHING_FOLLOWS}
    with store.server.call():
        return bool(store.server.messages.delete_one(query, hint=BY_KEY).deleted_count)


def is_acks(changes: Changes) -> bool:
    """Whether a commit acks leased messages, perhaps writes records, and changes nothing else."""
    if not changes.settle or changes.enqueue or changes.edges or changes.topics:
        return False
    return all(one.action == "ack" and one.token is not None for one in changes.settle)


def ack_all(store: MongoDBQueueStore, settles: Sequence[Settle], records: Sequence[RecordWrite]) -> list[int] | None:
    """The versions of the records, if all of these acks were applied; otherwise nothing was."""
    if len(settles) == 1 and not records:
        return [] if ack_one(store, settles[0].queue, settles[0].id, settles[0].token) else None
    groups = grouped(((store._find_queue(one.queue), one.token), store.ids.key_of(one.id) or 0) for one in settles)
    if _is_followed(store, [key for keys in groups.values() for key in keys]):
        return None

    def work(session: Any) -> tuple[list[int], set[tuple[str, int]]]:
        for (queue, token), keys in groups.items():
            query = {"_id": {"$in": numbers(keys)}, "q": queue, "s": INFLIGHT, "a": token, **_NOTHING_FOLLOWS}
            if store.server.messages.delete_many(query, hint=BY_KEY, session=session).deleted_count != len(keys):
                raise _NotAll
        return write(store, session, records, store.now())

    try:
        versions, told = transact(store.server, work)
    except _NotAll:
        return None
    store.ears.written(told_records(records))
    store.say(told)
    return versions


class _NotAll(Exception):
    pass
