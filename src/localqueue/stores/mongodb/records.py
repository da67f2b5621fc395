"""Writing records in a transaction, whoever decides about the rest of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64
from pymongo import DeleteOne, UpdateOne

from localqueue.stores import refusals
from localqueue.stores.mongodb.document import RECORD, Document, grouped, record_number, say
from localqueue.stores.port import RecordWrite

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore


def write(
    store: MongoDBQueueStore, session: Any, writes: Sequence[RecordWrite], now: float
) -> tuple[list[int], set[tuple[str, int]]]:
    """Set or delete records in a transaction; their new versions, and what listeners are told after the commit, because
    nothing is left that could tell. A version is never used again, so a stale `expect` can not match by chance."""
    told: set[tuple[str, int]] = set()
    if not writes:
        return [], told
    collection, mine = store.server.database.lq_records, {"n": store.namespace_id}
    asked = grouped((one.kind, one.key) for one in writes if one.expect is not None).items()
    either = [{**mine, "k": kind, "key": {"$in": keys}} for kind, keys in asked]
    found = collection.find({"$or": either}, {"v": 0}, session=session) if either else ()
    known = {(one["k"], one["key"]): int(one["version"]) for one in found}
    last: dict[tuple[str, str], Any] = {}
    versions = []
    for one in writes:
        kind, key, value, expect, tell = one
        version = known.get((kind, key), 0)
        if expect is not None and version != expect:
            raise refusals.record_conflict(one, version)
        named = {**mine, "k": kind, "key": key}
        version = known[kind, key] = 0 if value is None else store.ids.reserve()
        fields: Document = {"v": value, "version": Int64(version), "at": now}
        if tell:
            number = record_number(kind, key)
            fields["told"] = say(RECORD, store.namespace_id, number)
            if value is None:
                told.add((RECORD, number))
        last[kind, key] = DeleteOne(named) if value is None else UpdateOne(named, {"$set": fields}, upsert=True)
        versions.append(version)
    for kind_of_write in (DeleteOne, UpdateOne):
        some = [one for one in last.values() if isinstance(one, kind_of_write)]
        if some:
            collection.bulk_write(some, ordered=False, session=session)
    return versions, told
