"""The journal's part of the port."""

from __future__ import annotations

import json
from typing import Any

from bson.int64 import Int64
from pymongo.read_concern import ReadConcern

from localqueue.events.journal import JOURNAL_TYPES, JournalEvent
from localqueue.stores import rules
from localqueue.stores.mongodb.base import Base
from localqueue.stores.mongodb.journal import base_of, entries_of, switch
from localqueue.stores.mongodb.tx import Tx


class KeepsJournal(Base):
    def enable_journal(self, *, keep_seconds: float | None = None, keep_events: int | None = None) -> None:
        rules.check_retention(keep_seconds, keep_events)
        self._require_open()
        kept = {"keep_seconds": keep_seconds, "keep_events": None if keep_events is None else Int64(keep_events)}
        switch(self.server, self.namespace_id, {"enabled": True, **kept})

    def disable_journal(self) -> None:
        self._require_open()
        switch(self.server, self.namespace_id, {"enabled": False, "keep_seconds": None, "keep_events": None})

    def journal_enabled(self) -> bool:
        self._require_open()
        with self.server.call():
            found = self.server.database.lq_journals.find_one({"_id": self.namespace_id})
        return found is not None and bool(found["enabled"])

    def events(self, after: int = 0, limit: int | None = None, queue: str | None = None) -> list[JournalEvent]:
        wanted = None if queue is None else self._find_queue(queue)
        if limit == 0 or (queue is not None and wanted is None):
            return []
        self._require_open()
        query = entries_of(self.namespace_id, after) | ({} if wanted is None else {"q": wanted})
        with self.server.long_read():
            found = list(self.server.database.lq_journal.find(query).sort("_id", 1).limit(limit or 0))
        return [self._event(entry) for entry in found]

    def _event(self, entry: dict[str, Any]) -> JournalEvent:
        get, error, options = entry.get, entry.get("e"), entry.get("o")
        return JournalEvent(
            entry["_id"] - base_of(self.namespace_id), entry["at"], JOURNAL_TYPES[entry["t"] - 1],
            self.name_of_queue(entry["q"]), self.ids.id_of(entry["k"]), get("a"), get("w"),
            None if error is None else json.loads(error), get("b"), get("co"),
            None if options is None else json.loads(options),
        )  # fmt: skip

    def journal_span(self) -> tuple[int, int]:
        self._require_open()
        first = [
            {"$match": entries_of(self.namespace_id)},
            {"$sort": {"_id": 1}},
            {"$limit": 1},
            {"$project": {"_id": 1}},
        ]
        look = [
            {"$match": {"_id": self.namespace_id}},
            {"$lookup": {"from": "lq_journal", "pipeline": first, "as": "first"}},
            {"$project": {"last": 1, "first": 1}},
        ]
        # What a majority has can not be taken back, so nothing will be written under these numbers again.
        journals = self.server.database.lq_journals.with_options(read_concern=ReadConcern("majority"))
        with self.server.call():
            found = next(iter(journals.aggregate(look)), None)
        if found is None:
            return 1, 0
        # The first entry is looked for later, when there may be others than were counted.
        behind = found["last"] + 1
        kept = [one["_id"] - base_of(self.namespace_id) for one in found["first"]]
        return min([behind, *kept]), behind - 1

    def prune_events(self, *, older_than: float, through: int | None = None) -> int:
        def work(tx: Tx) -> int:
            query = entries_of(self.namespace_id, until=through) | {"at": {"$lte": tx.now - older_than}}
            return int(self.server.database.lq_journal.delete_many(query, session=tx.session).deleted_count)

        return int(self._write(work))
