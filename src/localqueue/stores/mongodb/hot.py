"""The everyday writes, each a single statement: put one, ack one; and the short transactions for many acks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bson.errors import BSONError
from bson.int64 import Int64
from pymongo.errors import DuplicateKeyError, PyMongoError, WriteError

from localqueue.errors import IdTaken
from localqueue.stores import rules
from localqueue.stores.mongodb import driver, said
from localqueue.stores.mongodb.enqueue import content_of
from localqueue.stores.mongodb.rows import CODE, EXPIRED, INFLIGHT
from localqueue.stores.mongodb.transaction import transact
from localqueue.stores.port import STATES, Changes, Enqueued, NewMessage, Settle

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore

#: Of a message whose ack sets nothing else free and is of no interest to a journal.
_NOTHING_FOLLOWS = {"ok": None, "r": None, "dep": None, "j": None}

_MOST_FOLLOWED = 10_000


def insert(store: MongoDBQueueStore, document: dict[str, Any]) -> None:
    """Raises the driver's own error when an index or the journal's validator refuses the document."""
    document["k"] = said.say_new(document["n"], document["q"])
    try:
        with store.server.deadline():
            store.server.messages.insert_one(document)
    except WriteError as error:
        if driver.code_of(error) in (driver.DUPLICATE, driver.REJECTED):
            raise
        raise driver.translate(error, store.server.url) from error
    except (PyMongoError, BSONError) as error:
        raise driver.translate(error, store.server.url) from error


def is_simple(changes: Changes) -> bool:
    """Whether a commit puts one message and nothing else, with nothing to look up."""
    if len(changes.enqueue) != 1 or changes.settle or changes.records or changes.edges or changes.topics:
        return False
    message = changes.enqueue[0]
    needs = message.ordering_key, message.run_id, message.past
    return needs == (None, None, None) and not message.after and message.queue not in changes.limits


def is_acks(changes: Changes) -> bool:
    """Whether a commit acks leased messages of one queue and changes nothing else."""
    if not changes.settle or changes.enqueue or changes.records or changes.edges or changes.topics:
        return False
    return all(one.action == "ack" and one.token is not None for one in changes.settle)


def simple_document(store: MongoDBQueueStore, message: NewMessage, key: int, queue: int, now: float) -> dict[str, Any]:
    _, available_at, expires_at, _ = rules.arrival(message, now)
    landed = rules.landing(now=now, available_at=available_at, expires_at=expires_at)
    due = rules.due_at(landed, available_at=available_at, expires_at=expires_at)
    document = {
        "_id": Int64(key), "n": store.namespace_id, "q": queue, "s": CODE[landed], "p": message.priority, "a": 0,
        "c": now, "at": available_at, **content_of(message),
    }  # fmt: skip
    for name, value in (("x", expires_at), ("due", due), ("dk", message.dedupe_key), ("u", message.dedupe_key)):
        if value is not None:
            document[name] = value
    return document


def enqueue_one(store: MongoDBQueueStore, message: NewMessage) -> Enqueued | None:
    """None when the message needs a transaction: it has no life left, its dedupe key is taken, or a journal is kept."""
    key = store.ids.key_of(message.id)
    if key is None:
        raise ValueError(f"{message.id!r} is not an id of this namespace; ids of new messages come from mint()")
    queue, now = store.queue_number(message.queue), store.now()
    document = simple_document(store, message, key, queue, now)
    if document["s"] == EXPIRED:
        return None
    try:
        insert(store, document)
    except DuplicateKeyError as error:
        if "_id" in driver.index_of(error):
            raise IdTaken(f"message id {message.id} is in use") from error
        return None
    except WriteError:
        store.journalled = True
        return None
    store.server.looks.timer(queue, document.get("due"))
    store.ears.touched((message.queue,))
    return Enqueued("stored", STATES[document["s"]], now)


def learn(store: MongoDBQueueStore, claimed: Sequence[dict[str, Any]]) -> None:
    """Remember which of these messages take a transaction to ack, to save a try that would be in vain."""
    if len(store.followed) < _MOST_FOLLOWED:
        store.followed.update(one["_id"] for one in claimed if not _NOTHING_FOLLOWS.keys().isdisjoint(one))


def _known_to_need_more(store: MongoDBQueueStore, keys: Sequence[int]) -> bool:
    if not store.followed or store.followed.isdisjoint(keys):
        return False
    store.followed.difference_update(keys)
    return True


def ack_one(store: MongoDBQueueStore, queue: int, key: int, token: int) -> bool:
    """Whether it was acked; if not, it may still take a transaction."""
    if _known_to_need_more(store, [key]):
        return False
    query = {"_id": Int64(key), "q": queue, "s": INFLIGHT, "a": token, **_NOTHING_FOLLOWS}
    with store.server.call():
        return bool(store.server.messages.delete_one(query).deleted_count)


def ack_all(store: MongoDBQueueStore, settles: Sequence[Settle]) -> bool:
    """Whether all of these acks were applied; otherwise none was."""
    if len(settles) > 1:
        return _ack_many(store, settles)
    key, queue, token = store.ids.key_of(settles[0].id), store._find_queue(settles[0].queue), settles[0].token
    return key is not None and queue is not None and token is not None and ack_one(store, queue, key, token)


def _ack_many(store: MongoDBQueueStore, settles: Sequence[Settle]) -> bool:
    groups: dict[tuple[int, int | None], list[Int64]] = {}
    for one in settles:
        key, queue = store.ids.key_of(one.id), store._find_queue(one.queue)
        if key is None or queue is None:
            return False
        groups.setdefault((queue, one.token), []).append(Int64(key))
    if _known_to_need_more(store, [key for keys in groups.values() for key in keys]):
        return False

    def work(session: Any) -> None:
        for (queue, token), keys in groups.items():
            query = {"_id": {"$in": keys}, "q": queue, "s": INFLIGHT, "a": token, **_NOTHING_FOLLOWS}
            if store.server.messages.delete_many(query, session=session).deleted_count != len(keys):
                raise _NotAll

    try:
        transact(store.server, work)
    except _NotAll:
        return False
    return True


class _NotAll(Exception):
    pass
