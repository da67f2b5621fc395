"""The journal: a switch for each namespace, and entries that a transaction appends when it is done.

The numbers of a namespace come from one document that every transaction with entries writes, so they have no gaps and
ascend in the order of the commits.

A store takes it that no journal is kept until the server says otherwise: a validator refuses to write a message of a
journalled namespace that does not carry the mark `j`, which only transactions that keep the journal set, and all others
take away. A delete is not validated. So whoever deletes a message that is under a lease asks for one without the mark,
and switching on marks what is inflight; whoever deletes another one looks at the switch first, in a transaction that
has touched the messages before: then either it sees the switch, or changing the validator waits for its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64
from pymongo import ReturnDocument
from pymongo.read_concern import ReadConcern

from localqueue.errors import QueueStoreError
from localqueue.events.journal import JOURNAL_CODES, JOURNAL_TYPES, JournalEvent
from localqueue.stores import retention
from localqueue.stores.engine.port import Note
from localqueue.stores.engine.row import INFLIGHT, from_json, options_of, to_json
from localqueue.stores.mongodb.document import Document
from localqueue.stores.mongodb.reads import Reads, first_of
from localqueue.stores.mongodb.transaction import transact

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore

_SEQ_BITS = 40  # of an entry's _id; the bits above are its namespace
_LOOK_EVERY = 64  # entries, whether twice as many of the oldest are to go


def entry(kind: str, queue: int, key: int, **more: Any) -> Document:
    """An entry without number and time: `a` attempt, `w` worker, `e` error, `b` payload, `co` codec, `o` options."""
    kept = {name: value for name, value in more.items() if value is not None}
    return {"t": JOURNAL_CODES[kind], "q": queue, "k": Int64(key), **kept}


def entry_of(note: Note, now: float) -> Document:
    row, message = note.row, note.message
    if message is None:
        return entry(note.type, row.queue, row.key, a=note.attempt, w=note.leased_by, e=note.error)
    options = options_of(row, message, now)
    return entry(note.type, row.queue, row.key, b=message.payload, co=message.codec, o=to_json(options))


def is_kept(store: KeepsJournal, session: Any = None, *, first: bool = False) -> bool:
    """Whether a journal is kept; with `first` the transaction has not touched the messages before."""
    if first:
        store.server.messages.find_one({"_id": Int64(0)}, session=session)
    found = store.server.database.lq_journals.find_one({"_id": store.namespace_id}, session=session)
    return found is not None and bool(found["enabled"])


def write_entries(store: MongoDBQueueStore, session: Any, entries: Sequence[Document], now: float) -> None:
    """Append entries, and let go of some that are beyond what the journal keeps."""
    count, namespace, database = len(entries), store.namespace_id, store.server.database
    switch = database.lq_journals.find_one_and_update(
        {"_id": namespace}, {"$inc": {"last": Int64(count)}}, return_document=ReturnDocument.AFTER, session=session
    )
    last = base_of(namespace) + switch["last"]
    journal = database.lq_journal
    documents = [{"_id": Int64(n), "at": now, **one} for n, one in enumerate(entries, last - count + 1)]
    journal.insert_many(documents, session=session)
    keep_events, keep_seconds = switch.get("keep_events"), switch.get("keep_seconds")
    if (keep_events is None and keep_seconds is None) or last // _LOOK_EVERY == (last - count) // _LOOK_EVERY:
        return
    base = base_of(namespace)
    oldest = journal.find(entries_of(namespace), {"at": 1}, session=session).sort("_id", 1)

    def time_of(number: int) -> float | None:
        found = journal.find_one({"_id": Int64(base + number)}, {"at": 1}, session=session)
        return None if found is None else float(found["at"])

    gone = retention.beyond(
        [(one["_id"] - base, one["at"]) for one in oldest.limit(max(2 * _LOOK_EVERY, 2 * count))],
        time_of,
        last=switch["last"],
        now=now,
        keep_seconds=keep_seconds,
        keep_events=keep_events,
    )
    if gone:
        journal.delete_many({"_id": {"$in": [Int64(base + number) for number in gone]}}, session=session)


def base_of(namespace: int) -> int:
    return namespace << _SEQ_BITS


def entries_of(namespace: int, after: int = 0, until: int | None = None) -> Document:
    base, end = base_of(namespace), base_of(namespace + 1)
    if until is not None:
        end = min(base + max(until, 0) + 1, end)
    return {"_id": {"$gt": Int64(base + max(after, 0)), "$lt": Int64(end)}}


class KeepsJournal(Reads):
    """The journal's part of the port."""

    def _set_journal(self, enabled: bool, keep_seconds: float | None, keep_events: int | None) -> None:
        """Change the switch, then have the server guard exactly the namespaces that keep a journal."""
        self._require_writable()
        self._require_open()
        server, namespace = self.server, self.namespace_id
        journals = server.database.lq_journals
        kept = {"keep_seconds": keep_seconds, "keep_events": None if keep_events is None else Int64(keep_events)}
        with server.call():
            change: Document = {"$set": {"enabled": enabled, **kept}, "$inc": {"last": Int64(0)}}
            change.setdefault("$setOnInsert" if enabled else "$set", {})["whole"] = False
            before = journals.find_one_and_update({"_id": namespace}, change, upsert=True)

        def guard(session: Any) -> None:
            # One at a time, or a slower process would put back the guard of an earlier moment.
            locks = server.database.lq_locks
            locks.update_one({"_id": -1}, {"$inc": {"n": 1}}, upsert=True, session=session)
            guarded = [one["_id"] for one in journals.find({"enabled": True}, {"_id": 1}, session=session)]
            validator = {"$or": [{"n": {"$nin": guarded}}, {"j": 1}]} if guarded else {}
            server.database.command("collMod", "lq_messages", validator=validator)

        try:
            transact(server, guard)
        except QueueStoreError:
            if before is None or not before["enabled"]:
                with suppress(QueueStoreError), server.call():
                    journals.update_one({"_id": namespace}, {"$set": {"enabled": False}})
            raise
        if enabled:
            with server.call():
                queues = [one["_id"] for one in server.queues.find({"n": namespace}, {"_id": 1})]
                inflight = {"q": {"$in": queues}, "s": INFLIGHT, "due": {"$exists": True}, "j": None}
                server.messages.update_many(inflight, {"$set": {"j": 1}})
                journals.update_one({"_id": namespace}, {"$set": {"whole": True}})

    def journal_enabled(self) -> bool:
        """Not while it is being switched on, or if whoever did that has died over it: then it has to be done again."""
        with self._call():
            switch = self.server.database.lq_journals.find_one({"_id": self.namespace_id})
            return switch is not None and bool(switch["enabled"]) and switch.get("whole", True)

    def _events(self, after: int, limit: int | None, queue: int | None) -> list[JournalEvent]:
        query = entries_of(self.namespace_id, after) | ({} if queue is None else {"q": queue})
        with self._call(long=True):
            entries = first_of(self.server.database.lq_journal.find(query).sort("_id", 1), limit)
        return [self._event(entry) for entry in entries]

    def _event(self, entry: Document) -> JournalEvent:
        get = entry.get
        return JournalEvent(
            entry["_id"] - base_of(self.namespace_id), entry["at"], JOURNAL_TYPES[entry["t"] - 1],
            self.name_of_queue(entry["q"]), self.ids.id_of(entry["k"]), get("a"), get("w"), from_json(get("e")),
            get("b"), get("co"), from_json(get("o")),
        )  # fmt: skip

    def journal_span(self) -> tuple[int, int]:
        mine = {"$match": entries_of(self.namespace_id)}
        first = [mine, {"$sort": {"_id": 1}}, {"$limit": 1}, {"$project": {"_id": 1}}]
        look = [
            {"$match": {"_id": self.namespace_id}},
            {"$lookup": {"from": "lq_journal", "pipeline": first, "as": "first"}},
        ]
        # What a majority has can not be taken back, so nothing will be written under these numbers again.
        journals = self.server.database.lq_journals.with_options(read_concern=ReadConcern("majority"))
        with self._call():
            found = next(iter(journals.aggregate(look)), None)
        if found is None:
            return 1, 0
        # The first entry is looked for later, when there may be others than were counted.
        behind = found["last"] + 1
        kept = [one["_id"] - base_of(self.namespace_id) for one in found["first"]]
        return min([behind, *kept]), behind - 1

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        self._require_writable()
        self._require_open()
        query = entries_of(self.namespace_id, until=through) | {"at": {"$lte": self.now() - older_than}}
        journal = self.server.database.lq_journal
        return int(transact(self.server, lambda session: journal.delete_many(query, session=session).deleted_count))
