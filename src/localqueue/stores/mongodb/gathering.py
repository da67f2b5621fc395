"""The messages of one transaction: loading, inserting, saving and removing them, with the journal's entries.

Writes to messages are gathered and sent together before the next search, so that a commit of many messages takes few
round trips. A row is loaded once; what the transaction knows of it is what it has made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64
from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import BulkWriteError

from localqueue.errors import IdTaken
from localqueue.stores.mongodb import driver, said
from localqueue.stores.mongodb.journal import Entry, Journal, enqueued
from localqueue.stores.mongodb.rows import (
    BLOCKED,
    DEAD,
    DELAYED,
    ENDINGS,
    EXPIRED,
    READY,
    WITHOUT_CONTENT,
    Row,
    plain,
)
from localqueue.stores.mongodb.transaction import Again
from localqueue.stores.port import Payload, Transition

if TYPE_CHECKING:
    from localqueue.stores.mongodb.base import Base


class Gathering:
    def __init__(self, store: Base, session: Any, now: float, observed: bool) -> None:
        self.store = store
        self.server = store.server
        self.session = session
        self.now = now
        self.observed = observed
        self.transitions: list[Transition] = []
        self.touched: set[str] = set()
        self.said: set[tuple[str, int]] = set()  # what listeners are told after the commit: the kind and the queue
        self._writes: list[Any] = []
        self._rows: dict[int, Row | None] = {}
        self._holders: dict[tuple[int, str], Row | None] = {}  # of dedupe keys
        self._heads: dict[tuple[int, str], Row | None] = {}  # of ordering keys
        self._entered: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._locked: set[int] = set()
        self._names: dict[int, str] = {}
        self.timers: list[tuple[int, float]] = []
        self.journal = Journal(store.namespace_id)

    def begin(self, wanted: Iterable[int | None] = ()) -> None:
        """Load messages, and read whether a journal is kept. Messages come first: see journal.py."""
        keys = [key for key in wanted if key is not None]
        self._search({"_id": {"$in": [Int64(key) for key in keys]}})
        for key in keys:
            self._rows.setdefault(key, None)
        self.journal.read(self.server, self.session)

    # queues

    def queue_id(self, name: str) -> int:
        """The number of a queue, made on first use: beside the transaction, which then begins anew to see it."""
        self.touched.add(name)
        known = name in self.store.queue_ids
        number = self.store.queue_number(name)
        if not known:
            raise Again
        self._names[number] = name
        return number

    def queue_name(self, number: int) -> str:
        if number not in self._names:
            self._names[number] = self.store.name_of_queue(number)
        return self._names[number]

    def queue(self, number: int) -> dict[str, Any]:
        """What is known of a queue. One that was made after this transaction began can not be seen by it."""
        found: dict[str, Any] | None = self.server.queues.find_one({"_id": number}, session=self.session)
        if found is None:
            raise Again
        return found

    def change_queue(self, number: int, update: dict[str, Any]) -> None:
        if not self.server.queues.update_one({"_id": number}, update, session=self.session).matched_count:
            raise Again

    # messages

    def load(self, key: int | None, queue: int | None = None) -> Row | None:
        """A message, if there is one with this key (in this queue)."""
        if key is None:
            return None
        if key not in self._rows:
            self.flush()
            self._search({"_id": Int64(key)})
        row = self._rows.setdefault(key, None)
        return None if row is None or (queue is not None and row.queue != queue) else row

    def adopt(self, row: Row) -> None:
        """A row that was read beside `load`."""
        self._rows[row.key] = row

    def forget(self, key: int) -> None:
        """A message that was removed beside `remove`."""
        self._rows[key] = None

    def load_many(self, keys: Iterable[int]) -> None:
        """Load messages in one round trip, for `load` to find."""
        missing = [key for key in keys if key not in self._rows]
        if missing:
            self.flush()
            self._search({"_id": {"$in": [Int64(key) for key in missing]}})
            for key in missing:
                self._rows.setdefault(key, None)

    def find(self, query: dict[str, Any], order: Sequence[tuple[str, int]], limit: int = 0) -> list[Row]:
        """Messages as this transaction has made them."""
        self.flush()
        return self._search(query, order, limit)

    def _search(self, query: dict[str, Any], order: Sequence[tuple[str, int]] = (), limit: int = 0) -> list[Row]:
        cursor = self.server.messages.find(query, WITHOUT_CONTENT, session=self.session)
        if order:
            cursor = cursor.sort(list(order))
        rows = []
        for document in cursor.limit(limit):
            if document["_id"] < 0:
                continue  # the barrier of a paused queue
            row = self._rows.get(document["_id"])
            if row is None:
                row = self._rows[document["_id"]] = Row.of(document)
            rows.append(row)
        return rows

    def document(self, key: int) -> dict[str, Any]:
        """A whole message, content and history included."""
        self.flush()
        found: dict[str, Any] = self.server.messages.find_one({"_id": Int64(key)}, session=self.session)
        return found

    def insert(self, row: Row, content: dict[str, Any], *, heard: bool, ended_elsewhere: bool = False) -> None:
        document: dict[str, Any] = {
            "_id": Int64(row.key),
            "n": self.store.namespace_id,
            "q": row.queue,
            "p": row.priority,
        }
        document |= {"c": row.created_at, **row.fields(), **content}
        for short, value in (("dk", row.dedupe_key), ("ok", row.ordering_key), ("r", row.run)):
            if value is not None:
                document[short] = value
        if row.history:
            document["h"], row.history = row.history, []
        if heard:
            document["k"] = said.say_new(self.store.namespace_id, row.queue)
        if self.journal.enabled:
            document["j"] = 1
        row.saved = row.fields()
        self._writes.append(InsertOne(document))
        self._rows[row.key] = row
        self._know(row)
        self._set_timer(row)
        if row.run is not None:
            self.said.add((said.RUN, 0))
        if self.journal.enabled:
            self.journal.add(enqueued(row, content, self.now))
        if ended_elsewhere:  # nothing happens to it here, but the journal has to know how it is
            self.record(ENDINGS[row.state], row, error=row.last_error if row.state == DEAD else None)
        elif row.state == EXPIRED:
            self.note("expired", row)

    def insert_plain(self, queue: int, keys: range, payloads: Sequence[Payload], codec: str | None) -> None:
        """Many messages without options."""
        documents = [
            plain(self.store.namespace_id, key, queue, payload, codec, self.now)
            for key, payload in zip(keys, payloads, strict=True)
        ]
        if not documents:
            return
        documents[0]["k"] = said.say_new(self.store.namespace_id, queue)
        if self.journal.enabled:
            for document in documents:
                document["j"] = 1
                entry = Entry("enqueued", queue, document["_id"], payload=document["b"], codec=codec)
                self.journal.add(entry)
        try:
            self.server.messages.insert_many(documents, session=self.session)
        except BulkWriteError as error:
            raise self.refused(error) from error

    def save(self, row: Row) -> None:
        """Write a changed message."""
        before = row.saved.get("s")
        kind = None
        if row.state != before and row.state in (READY, DELAYED):
            kind = said.READY
        elif row.state != before and before in (READY, BLOCKED):
            kind = said.ROOM
        heard = kind and said.say(kind, self.store.namespace_id, row.queue, self.store.ids.reserve())
        if row.run is not None:
            self.said.add((said.RUN, 0))
        self._writes.append(UpdateOne({"_id": Int64(row.key)}, row.update(self.journal.enabled, heard or None)))
        self._know(row)
        self._set_timer(row)

    def _set_timer(self, row: Row) -> None:
        if row.due_at is not None:
            self.timers.append((row.queue, row.due_at))

    def remove(self, row: Row, why: str = "acked") -> None:
        """Delete a message, but not what it held or set free."""
        if why == "acked":
            self.record(why, row)
        else:
            self.note(why, row)
        self._writes.append(DeleteOne({"_id": Int64(row.key)}))
        self._rows[row.key] = None
        if row.state in (READY, BLOCKED):
            self.said.add((said.ROOM, row.queue))
        if row.run is not None:
            self.said.add((said.RUN, 0))

    def mark_removed(self, keys: Sequence[int], why: str) -> None:
        """Remember of messages that they were not acked, so that nothing can come after them by mistake."""
        documents = [{"_id": Int64(key), "n": self.store.namespace_id, "why": why} for key in keys]
        if documents:
            self.server.database.lq_removed.insert_many(documents, session=self.session)

    def remember(self, row: Row, event: str, error: str | None = None) -> None:
        """Add to a message's history. The caller saves the row."""
        row.said = event
        self.note(event, row, error=error)
        row.history.append([row.attempts, event, self.now, row.leased_at, row.leased_by, error])

    def flush(self) -> None:
        """Send what was gathered, each run of one kind of write by itself.

        A bulk write of several kinds would be sent in the same runs, but the driver can lose all behind the first one
        when it has to look for a connection twice. That nothing was lost is seen by the counts.
        """
        writes, self._writes = self._writes, []
        for _, group in groupby(writes, type):
            run = list(group)
            try:
                done = self.server.messages.bulk_write(run, session=self.session)
            except BulkWriteError as error:
                raise self.refused(error) from error
            if done.inserted_count + done.matched_count + done.deleted_count != len(run):
                raise Again

    def refused(self, error: Exception) -> Exception:
        """What a write means that an index or the journal's validator refused."""
        code = driver.code_of(error)
        if code == driver.REJECTED:
            return Again()
        if code == driver.DUPLICATE:
            return IdTaken("a message id is in use") if "_id" in driver.index_of(error) else Again()
        return error

    # events

    def record(self, event: str, row: Row, *, error: str | None = None) -> None:
        """Append to the journal, if one is kept, when the transaction is done."""
        if self.journal.enabled:
            self.journal.add(Entry(event, row.queue, row.key, row.attempts, row.leased_by, error))

    def note(self, event: str, row: Row, *, error: str | None = None) -> None:
        """Journal a change that the caller will not find in the result of its call, and tell it if it wants to know."""
        self.record(event, row, error=error)
        if self.observed:
            self.transitions.append(
                Transition(
                    event, self.queue_name(row.queue), self.store.ids.id_of(row.key), self.now, row.attempts,
                    row.leased_by, row.leased_at, None if error is None else json.loads(error),
                )
            )  # fmt: skip

    # what is known of dedupe and ordering keys

    def _know(self, row: Row) -> None:
        if row.dedupe_key is not None and row.state < DEAD:
            self._holders[row.queue, row.dedupe_key] = row
        if row.ordering_key is not None and row.holds_key:
            self._heads[row.queue, row.ordering_key] = row

    def _is_here(self, row: Row | None) -> bool:
        return row is not None and self._rows.get(row.key) is row
