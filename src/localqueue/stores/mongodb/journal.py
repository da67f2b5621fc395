"""The journal: a switch for each namespace, and entries that a transaction appends when it is done.

The numbers of a namespace come from one document that every transaction with entries writes, so they have no gaps and
ascend in the order of the commits.

Everyday puts, claims and acks are single statements that know nothing of the journal. That none of them slips by once
it is switched on is the server's doing: a validator refuses to write a message of a journalled namespace that does not
carry the mark `j`, which only transactions that keep the journal set, and single statements take away. A delete is not
validated, so acks without a transaction ask for a message without the mark, and switching on marks what is inflight.
A transaction reads messages before it reads the switch: then either it saw the switch, or changing the validator
waited for its end.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from bson.int64 import Int64
from pymongo import ReturnDocument

from localqueue.errors import QueueStoreError
from localqueue.events.event import ENQUEUED
from localqueue.events.journal import JOURNAL_CODES
from localqueue.stores import rules
from localqueue.stores.mongodb.rows import INFLIGHT, Row
from localqueue.stores.mongodb.server import Server
from localqueue.stores.mongodb.transaction import transact

if TYPE_CHECKING:
    pass

_SEQ_BITS = 40  # of an entry's _id; the bits above are its namespace
_SPARE = 8  # how many more entries than twice those it wrote a transaction may remove


class Entry(NamedTuple):
    type: str
    queue: int
    key: int
    attempt: int | None = None
    worker: str | None = None
    error: str | None = None
    payload: str | bytes | None = None
    codec: str | None = None
    options: str | None = None

    def document(self, number: int, now: float) -> dict[str, Any]:
        found = {
            "_id": Int64(number), "at": now, "t": JOURNAL_CODES[self.type], "q": self.queue, "k": Int64(self.key),
            "a": self.attempt, "w": self.worker, "e": self.error, "b": self.payload, "co": self.codec,
            "o": self.options,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}


def enqueued(row: Row, content: dict[str, Any], now: float) -> Entry:
    """The entry of a new message."""
    options = rules.kept_options(
        priority=row.priority,
        dedupe_key=row.dedupe_key,
        ordering_key=row.ordering_key,
        run_id=row.run,
        headers=content.get("hd"),
        delay=row.available_at - now,
        ttl=None if row.expires_at is None else row.expires_at - now,
    )
    text = None if options is None else json.dumps(options, separators=(",", ":"))
    return Entry(ENQUEUED, row.queue, row.key, payload=content["b"], codec=content.get("co"), options=text)


class Journal:
    """The journal as one transaction sees it."""

    def __init__(self, namespace: int) -> None:
        self.namespace = namespace
        self.enabled = False
        self._entries: list[Entry] = []

    def read(self, server: Server, session: Any) -> None:
        found = server.database.lq_journals.find_one({"_id": self.namespace}, session=session)
        self.enabled = found is not None and bool(found["enabled"])

    def add(self, entry: Entry) -> None:
        self._entries.append(entry)

    def write(self, server: Server, session: Any, now: float) -> None:
        """Append the entries, and let go of some that are beyond what the journal keeps."""
        if not self._entries:
            return
        count = len(self._entries)
        switch = server.database.lq_journals.find_one_and_update(
            {"_id": self.namespace},
            {"$inc": {"last": Int64(count)}},
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        first = base_of(self.namespace) + switch["last"] - count + 1
        journal = server.database.lq_journal
        journal.insert_many([one.document(first + n, now) for n, one in enumerate(self._entries)], session=session)
        self._entries = []
        keep_events, keep_seconds = switch.get("keep_events"), switch.get("keep_seconds")
        if keep_events is not None or keep_seconds is not None:
            oldest = journal.find(entries_of(self.namespace), {"at": 1}, session=session).sort("_id", 1)
            beyond = base_of(self.namespace) + switch["last"] - (keep_events or switch["last"])
            since = -math.inf if keep_seconds is None else now - keep_seconds
            gone = [one["_id"] for one in oldest.limit(2 * count + _SPARE) if one["_id"] <= beyond or one["at"] < since]
            if gone:
                journal.delete_many({"_id": {"$in": gone}}, session=session)


def base_of(namespace: int) -> int:
    return namespace << _SEQ_BITS


def entries_of(namespace: int, after: int = 0, until: int | None = None) -> dict[str, Any]:
    base, end = base_of(namespace), base_of(namespace + 1)
    if until is not None:
        end = min(base + max(until, 0) + 1, end)
    return {"_id": {"$gt": Int64(base + max(after, 0)), "$lt": Int64(end)}}


def switch(server: Server, namespace: int, settings: dict[str, Any]) -> None:
    """Change the switch, then have the server guard exactly the namespaces that keep a journal."""
    journals = server.database.lq_journals
    with server.call():
        change = {"$set": settings, "$inc": {"last": Int64(0)}}
        before = journals.find_one_and_update({"_id": namespace}, change, upsert=True)

    def guard(session: Any) -> None:
        # One at a time, or a slower process would put back the guard of an earlier moment.
        locks = server.database.lq_locks
        locks.update_one({"_id": -1}, {"$inc": {"n": 1}}, upsert=True, session=session)
        kept = [one["_id"] for one in journals.find({"enabled": True}, {"_id": 1}, session=session)]
        validator = {"$or": [{"n": {"$nin": kept}}, {"j": 1}]} if kept else {}
        server.database.command("collMod", "lq_messages", validator=validator)

    try:
        transact(server, guard)
    except QueueStoreError:
        if before is None or not before["enabled"]:
            with suppress(QueueStoreError), server.call():
                journals.update_one({"_id": namespace}, {"$set": {"enabled": False}})
        raise
    if settings["enabled"]:
        with server.call():
            queues = [one["_id"] for one in server.queues.find({"n": namespace}, {"_id": 1})]
            inflight = {"q": {"$in": queues}, "s": INFLIGHT, "due": {"$exists": True}, "j": None}
            server.messages.update_many(inflight, {"$set": {"j": 1}})
