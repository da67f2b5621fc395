"""One piece of work inside a transaction: loading, saving and removing messages, with their ordering keys and journal.

Writes to messages are gathered and sent together before the next search, so that a commit of many messages takes few
round trips. A row is loaded once; what the transaction knows of it is what it has made of it.

Two transactions that only read the same document do not notice each other, so those that must exclude each other write
one: a message that gets a dependent counts it, everybody who decides by an ordering key writes that key's lock, and
everybody who counts against a capacity writes the queue. The locks of ordering keys are a fixed number of documents.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64
from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import BulkWriteError

from localqueue.errors import IdTaken, RunCancelled
from localqueue.stores import rules
from localqueue.stores.mongodb import driver, said, schema
from localqueue.stores.mongodb.journal import Entry, Journal
from localqueue.stores.mongodb.rows import (
    BLOCKED,
    CODE,
    DEAD,
    DELAYED,
    ENDINGS,
    EXPIRED,
    HEADS,
    READY,
    WITHOUT_CONTENT,
    Row,
    plain,
)
from localqueue.stores.mongodb.transaction import Again
from localqueue.stores.port import STATES, Payload, Transition

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore

_PARTS_OF_A_RUN = 8


def to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"), default=str)


class Tx:
    def __init__(self, store: MongoDBQueueStore, session: Any, now: float, observed: bool) -> None:
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

    # queues and runs

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
        found: dict[str, Any] = self.server.queues.find_one({"_id": number}, session=self.session) or {}
        return found

    def change_queue(self, number: int, update: dict[str, Any]) -> None:
        self.server.queues.update_one({"_id": number}, update, session=self.session)

    def lock_queue(self, number: int) -> None:
        """Exclude everybody else who counts the messages of this queue."""
        if -number not in self._locked:
            self._locked.add(-number)
            self.change_queue(number, {"$inc": {"lock": 1}})

    def enter_run(self, run_id: str, *, even_cancelled: bool = False) -> None:
        """Count a message of a run, made on first use. Cancelling it writes the same document."""
        if run_id in self._entered:
            self._entered[run_id] += 1
            return
        named = {"n": self.store.namespace_id, "name": run_id}
        runs = self.server.database.lq_runs
        before = runs.find_one_and_update(named, {"$inc": {"total": 1}}, upsert=True, session=self.session)
        if before is not None and before.get("cancelled_at") is not None and not even_cancelled:
            raise RunCancelled(f"run {run_id!r} was cancelled: it takes no more messages; use another run_id")
        self._entered[run_id] = 0  # how many more have come since

    def _count_entered(self) -> None:
        for run_id, more in self._entered.items():
            if more:
                named = {"n": self.store.namespace_id, "name": run_id}
                self.server.database.lq_runs.update_one(named, {"$inc": {"total": more}}, session=self.session)
        self._entered.clear()

    def count_done(self, row: Row) -> None:
        assert row.run is not None
        self._done[row.run] = self._done.get(row.run, 0) + 1

    def _write_done(self) -> None:
        part = self.store.ids.reserve() % _PARTS_OF_A_RUN
        for run_id, count in self._done.items():
            named = {"n": self.store.namespace_id, "name": run_id, "part": part}
            self.server.database.lq_done.update_one(named, {"$inc": {"done": count}}, upsert=True, session=self.session)
        self._done.clear()

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
            entry = Entry("enqueued", row.queue, row.key, payload=content["b"], codec=content.get("co"))
            self.journal.add(entry)
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
        if documents:
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

    def move(self, row: Row, state: int, *, available_at: float, error: str | None = None) -> None:
        """Put a message into another state that is not inflight, dropping its lease."""
        before, held, row.state = row.state, row.holds_key, state
        row.available_at = available_at
        row.due_at = rules.due_at(STATES[state], available_at=available_at, expires_at=row.expires_at)
        row.ended_at = self.now if state >= DEAD else None
        row.leased_at = row.leased_by = None
        if state >= DEAD > before and row.said != ENDINGS[state]:
            self.note(ENDINGS[state], row, error=error)
        row.most = None
        if error is not None:
            row.last_error, row.failed_at = error, self.now
        self.save(row)
        if state >= DEAD and held:
            self.free_key(row.queue, row.ordering_key)

    def remember(self, row: Row, event: str, error: str | None = None) -> None:
        """Add to a message's history. The caller saves the row."""
        row.said = event
        self.note(event, row, error=error)
        row.history.append([row.attempts, event, self.now, row.leased_at, row.leased_by, error])

    def flush(self) -> None:
        """Send what was gathered."""
        if not self._writes:
            return
        writes, self._writes = self._writes, []
        try:
            self.server.messages.bulk_write(writes, session=self.session)
        except BulkWriteError as error:
            raise self.refused(error) from error

    def refused(self, error: Exception) -> Exception:
        """What a write means that an index or the journal's validator refused."""
        code = driver.code_of(error)
        if code == driver.REJECTED:
            return Again()
        if code == driver.DUPLICATE:
            return IdTaken("a message id is in use") if "_id" in driver.index_of(error) else Again()
        return error

    def finish(self) -> None:
        self.flush()
        self._count_entered()
        self._write_done()
        self.journal.write(self.server, self.session, self.now)

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

    # dedupe and ordering keys: what is known of them, and who holds them

    def _know(self, row: Row) -> None:
        if row.dedupe_key is not None and row.state < DEAD:
            self._holders[row.queue, row.dedupe_key] = row
        if row.ordering_key is not None and row.holds_key:
            self._heads[row.queue, row.ordering_key] = row

    def _is_here(self, row: Row | None) -> bool:
        return row is not None and self._rows.get(row.key) is row

    def look_up_holders(self, queue: int, dedupe_keys: Iterable[str]) -> None:
        """Find out in one round trip who holds these keys, for `holder`."""
        unknown = [key for key in dict.fromkeys(dedupe_keys) if (queue, key) not in self._holders]
        if unknown:
            for key in unknown:
                self._holders[queue, key] = None
            for row in self.find({"q": queue, "u": {"$in": unknown}}, ()):
                self._know(row)

    def holder(self, queue: int, dedupe_key: str) -> Row | None:
        """The live message with this dedupe key."""
        self.look_up_holders(queue, [dedupe_key])
        row = self._holders[queue, dedupe_key]
        return row if row is not None and self._is_here(row) and row.state < DEAD else None

    def look_up_heads(self, queue: int, ordering_keys: Iterable[str]) -> None:
        """Exclude everybody else who decides by these keys, and find out which are in use, for `key_busy`."""
        keys = list(dict.fromkeys(ordering_keys))
        self._lock_keys(queue, keys)
        unknown = [key for key in keys if (queue, key) not in self._heads]
        if unknown:
            for key in unknown:
                self._heads[queue, key] = None
            for row in self.find({"q": queue, "ok": {"$in": unknown}, "s": {"$in": HEADS}}, ()):
                self._know(row)

    def _lock_keys(self, queue: int, ordering_keys: Iterable[str]) -> None:
        """Keys share a fixed number of locks, so some exclude each other without need."""
        locks = {zlib.crc32(f"{queue}:{key}".encode()) % schema.KEY_LOCKS for key in ordering_keys} - self._locked
        if locks:
            self._locked |= locks
            wanted = {"_id": {"$in": sorted(locks)}}
            self.server.database.lq_locks.update_many(wanted, {"$inc": {"n": 1}}, session=self.session)

    def key_busy(self, queue: int, ordering_key: str | None) -> bool:
        """Whether a message of the key is ready, delayed or inflight."""
        if ordering_key is None:
            return False
        self.look_up_heads(queue, [ordering_key])
        row = self._heads[queue, ordering_key]
        return row is not None and self._is_here(row) and row.holds_key

    def free_key(self, queue: int, ordering_key: str | None) -> None:
        """The head of an ordering key left: the next message of the key takes its place."""
        assert ordering_key is not None
        self._lock_keys(queue, [ordering_key])
        for row in self.find({"q": queue, "ok": ordering_key, "s": BLOCKED}, [("_id", 1)], 1):
            landed = CODE[rules.landing(now=self.now, available_at=row.available_at, expires_at=row.expires_at)]
            if landed == EXPIRED:
                self.remember(row, "expired")
            self.move(row, landed, available_at=row.available_at)
            if landed == EXPIRED:
                self.free_key(queue, ordering_key)

    def lock_edges(self) -> None:
        """Exclude everybody else who adds a dependency to a message that is there already."""
        lock = schema.KEY_LOCKS + self.store.namespace_id
        if lock not in self._locked:
            self._locked.add(lock)
            locks = self.server.database.lq_locks
            locks.update_one({"_id": lock}, {"$inc": {"n": 1}}, upsert=True, session=self.session)
