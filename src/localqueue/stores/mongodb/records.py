"""Records: small values beside the messages, written in the same commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bson.int64 import Int64

from localqueue.errors import RecordConflict
from localqueue.stores.mongodb.server import Server
from localqueue.stores.mongodb.tx import Tx
from localqueue.stores.port import Record, RecordWrite


def write_records(tx: Tx, writes: Sequence[RecordWrite]) -> None:
    """Set or delete records. A version is never used again, so a stale `expect` can not match by chance."""
    records = tx.server.database.lq_records
    for kind, key, value, expect in writes:
        named = {"n": tx.store.namespace_id, "k": kind, "key": key}
        if expect is not None:
            found = records.find_one(named, {"version": 1}, session=tx.session)
            version = 0 if found is None else int(found["version"])
            if version != expect:
                raise RecordConflict(
                    f"record {key!r} of kind {kind!r} is in version {version}, not {expect}; nothing was changed"
                )
        if value is None:
            records.delete_one(named, session=tx.session)
            continue
        fields = {"v": value, "version": Int64(tx.store.ids.reserve()), "at": tx.now}
        records.update_one(named, {"$set": fields}, upsert=True, session=tx.session)


def as_record(document: dict[str, Any]) -> Record:
    return Record(document["k"], document["key"], document["v"], int(document["version"]), document["at"])


def record(server: Server, namespace: int, kind: str, key: str) -> Record | None:
    found = server.database.lq_records.find_one({"n": namespace, "k": kind, "key": key})
    return None if found is None else as_record(found)


def records(server: Server, namespace: int, kind: str, after: str, limit: int | None) -> list[Record]:
    if limit == 0:
        return []
    found = server.database.lq_records.find({"n": namespace, "k": kind, "key": {"$gt": after}})
    return [as_record(document) for document in found.sort("key", 1).limit(limit or 0)]


def by_keys(server: Server, namespace: int, kind: str, keys: Sequence[str]) -> dict[str, Record]:
    found = server.database.lq_records.find({"n": namespace, "k": kind, "key": {"$in": list(keys)}})
    return {document["key"]: as_record(document) for document in found}
