"""Collections and indexes, made once for each database; namespaces and queues get their numbers here.

    lq_schema         _id "version": version; _id "numbers of ...": the last number given out
    lq_namespaces     _id number, name, secret
    lq_queues         _id number, n namespace, name, paused_at, off (paused workers), dropped, version and subscribers
    lq_messages       see document.py; _id is the key, or minus a queue's number for the barrier of a pause (gate.py)
    lq_edges          u upstream, d dependent
    lq_removed        _id key, why
    lq_runs           n namespace, name, total, cancelled_at, at when a message was last put into it
    lq_done           n namespace, name, part, done: the acked messages of a run, in parts that do not get in each
                      other's way
    lq_workers        q queue, w name, leases, last_seen
    lq_records        n namespace, k kind, key, v value, version, at, told (document.py)
    lq_journals       _id namespace, enabled, whole, last, keep_seconds, keep_events
    lq_journal        _id namespace and number of the entry
    lq_locks          _id a number: what transactions write that must exclude each other (rows.py), k the newest key
    lq_wakes          _id "said": what is told to listeners beside the changes of messages

Everything is created before the first use, because a transaction can not create a collection that another one creates.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from localqueue.errors import QueueStoreError, QueueStoreVersionError

VERSION = 2
_EXISTS = 48

#: The one document of `lq_wakes`.
SAID = {"_id": "said"}

#: How many documents stand for the ordering keys that exclude each other; those behind them for the namespaces.
KEY_LOCKS = 1024

COLLECTIONS = (
    "lq_namespaces", "lq_queues", "lq_messages", "lq_edges", "lq_removed", "lq_runs", "lq_done", "lq_workers",
    "lq_records", "lq_journals", "lq_journal", "lq_locks", "lq_wakes",
)  # fmt: skip

#: Name, fields and condition of each index of the messages. Only `claim`, `due` and `all` are touched by everyday work.
CLAIM, DUE, STATE, ALL = "claim", "due", "state", "all"
BY_KEY = "_id_"  # named, so that the server does not weigh it against others
_MESSAGE_INDEXES: tuple[tuple[str, list[tuple[str, int]], dict[str, Any], bool], ...] = (
    (CLAIM, [("q", 1), ("s", 1), ("p", -1), ("at", 1), ("_id", 1)], {"s": 0}, False),
    (DUE, [("q", 1), ("s", 1), ("due", 1), ("_id", 1)], {"due": {"$exists": True}}, False),
    (STATE, [("q", 1), ("s", 1), ("e", 1), ("_id", 1)], {"s": {"$gt": 2}}, False),
    (ALL, [("q", 1), ("_id", 1)], {}, False),
    ("dedupe", [("q", 1), ("u", 1)], {"u": {"$exists": True}}, True),
    ("ordering", [("q", 1), ("ok", 1), ("s", 1), ("_id", 1)], {"ok": {"$exists": True}}, False),
    ("run", [("n", 1), ("r", 1), ("_id", 1)], {"r": {"$exists": True}}, False),
)
_OTHER_INDEXES: tuple[tuple[str, list[tuple[str, int]], bool], ...] = (
    ("lq_namespaces", [("name", 1)], True),
    ("lq_queues", [("n", 1), ("name", 1)], True),
    ("lq_edges", [("u", 1), ("d", 1)], True),
    ("lq_edges", [("d", 1)], False),
    ("lq_runs", [("n", 1), ("name", 1)], True),
    ("lq_runs", [("n", 1), ("at", 1)], False),
    ("lq_done", [("n", 1), ("name", 1), ("part", 1)], True),
    ("lq_workers", [("q", 1), ("w", 1)], True),
    ("lq_records", [("n", 1), ("k", 1), ("key", 1)], True),
)


def require_transactions(client: Any, url: str) -> None:
    """Refuse a server that has neither transactions nor change streams."""
    hello = client.admin.command("hello")
    if "setName" not in hello and hello.get("msg") != "isdbgrid":
        raise QueueStoreError(
            f"the MongoDB server at {url} stands alone, and transactions need a replica set: one of a single server "
            'will do. Start mongod with --replSet rs0, run rs.initiate() in mongosh once, and add "?replicaSet=rs0" '
            "to the url",
            path=url,
        )


def require_writes(database: Any) -> None:
    """Have the server say now what the user may not do, by writes that find nothing to change."""
    nobody = {"_id": "nobody"}
    database.lq_messages.delete_one(nobody)
    database.lq_wakes.update_one(nobody, {"$set": {"k": None}})


def version_of(database: Any, url: str) -> int:
    """The version of the schema that a database has, 0 for none."""
    found = database.lq_schema.find_one({"_id": "version"})
    version = 0 if found is None else int(found["version"])
    if version > VERSION:
        raise QueueStoreVersionError(
            f"unsupported MongoDB queue schema version: {version}; expected at most {VERSION}: the database at {url} "
            "was written by a newer localqueue, upgrade this one",
            path=url,
        )
    return version


def prepare(database: Any, url: str) -> None:
    """Make sure the database has the current schema; several processes may do so at once."""
    if version_of(database, url) == VERSION:
        return
    for name in COLLECTIONS:
        try:
            database.create_collection(name, check_exists=False)
        except OperationFailure as error:
            if error.code != _EXISTS:
                raise
    for name, fields, condition, unique in _MESSAGE_INDEXES:
        partial = {"partialFilterExpression": condition} if condition else {}
        database.lq_messages.create_index(fields, name=name, unique=unique, **partial)
    for collection, fields, unique in _OTHER_INDEXES:
        database[collection].create_index(fields, unique=unique)
    missing = set(range(KEY_LOCKS)) - {one["_id"] for one in database.lq_locks.find({}, {"_id": 1})}
    if missing:
        with suppress(BulkWriteError):  # another process was quicker with some
            database.lq_locks.insert_many([{"_id": lock, "n": 0} for lock in sorted(missing)], ordered=False)
    database.lq_wakes.update_one(SAID, {"$setOnInsert": {"k": None}}, upsert=True)
    database.lq_schema.update_one({"_id": "version"}, {"$max": {"version": VERSION}}, upsert=True)


def find_namespace(database: Any, name: str) -> tuple[int, int] | None:
    found = database.lq_namespaces.find_one({"name": name})
    return None if found is None else (int(found["_id"]), int(found["secret"]))


def number(collection: Any, named: dict[str, Any], **more: Any) -> None:
    """Give something the next number, unless another process is quicker."""
    counter = collection.database.lq_schema.find_one_and_update(
        {"_id": f"numbers of {collection.name}"},
        {"$inc": {"last": 1}},
        upsert=True,
        return_document=ReturnDocument.AFTER,
    )
    with suppress(DuplicateKeyError):
        collection.insert_one({"_id": counter["last"], **named, **more})
