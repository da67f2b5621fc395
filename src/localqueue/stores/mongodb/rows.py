"""The messages of one transaction: what the engine is given of them, and how what it decided is written down.

Two transactions that only read the same document do not notice each other, so those that must exclude each other write
one: a message that gets a dependent counts it, everybody who decides by an ordering key writes that key's lock, whoever
adds messages to a run writes the run, and everybody who counts against a capacity writes the queue. The locks of
ordering keys are a fixed number of documents.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64
from pymongo import UpdateOne
from pymongo.errors import OperationFailure

from localqueue.errors import IdTaken
from localqueue.stores import rules
from localqueue.stores.engine.port import Batch, Found, Insert, Key, Run, Wanted, Writes
from localqueue.stores.engine.row import BLOCKED, DELAYED, INFLIGHT, READY, Row
from localqueue.stores.engine.unit import Unit
from localqueue.stores.mongodb import errors, fast, gate, records, schema
from localqueue.stores.mongodb.document import (
    HEADS,
    LIVE,
    ROOM,
    TO_CLAIM,
    WITHOUT_CONTENT,
    Document,
    attempt_values,
    fields_of,
    grouped,
    new_document,
    numbers,
    plain,
    row_of,
    say,
    simple,
    stored_message,
    to_fields,
)
from localqueue.stores.mongodb.journal import entry, entry_of, is_kept, write_entries
from localqueue.stores.mongodb.transaction import Again
from localqueue.stores.port import HISTORY_LIMIT, LeaseRequest, Payload, RecordWrite, StoredMessage

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore

_PARTS_OF_A_RUN = 8
_NOW_AND_THEN = 16  # for one of so many messages that are removed, old ones are forgotten
_QUESTIONS = 100  # that are asked in one statement


class MongoRows:
    """The engine's `Rows` inside a transaction.

    A store takes it that no journal is kept until it finds out (see journal.py): then the transaction begins anew, and
    looks at the switch.
    """

    writes_graphs = False

    def __init__(self, store: MongoDBQueueStore, session: Any, *, guarded: bool) -> None:
        self.guards_dedupe_keys = guarded  # by an index: a key that is taken has the transaction begin anew
        self.store = store
        self.ids = store.ids
        self.session = session
        self.server = store.server
        self.messages = store.server.messages
        self.database = store.server.database
        self.queue, self.find_queue, self.queue_name = store.queue_number, store._find_queue, store.name_of_queue
        self.looked = store.journalled  # at the journal's switch
        self.journalled = self.looked and is_kept(store, session, first=True)
        self.timers: dict[int, float] = {}
        self.told: set[tuple[str, int]] = set()  # what listeners are told after the commit: the kind and the queue
        self._entries: list[Document] = []
        self._claimed: dict[int, Row] = {}
        self._locked: set[int] = set()
        self._key_locks: set[int] = set()
        self._newest = 0  # the greatest key that those locks know of
        self._heard: set[int] = set()  # queues of which a new message tells

    # queues

    def change_queue(self, queue: int, update: Document) -> Document:
        """What was known of a queue. One that was made after this transaction began can not be seen by it."""
        found: Document | None = self.server.queues.find_one_and_update({"_id": queue}, update, session=self.session)
        if found is None:
            raise Again
        return found

    def newest(self, queues: Iterable[int]) -> int:
        return 0

    def subscription_version(self, topic: int) -> int:
        return int(self.change_queue(topic, {"$inc": {"lock": 1}}).get("version", 0))  # subscribing writes it as well

    # locks

    def _lock_keys(self, keys: Iterable[Key], newest: int = 0) -> int:
        """Exclude everybody else who decides by these keys, before messages with keys up to `newest` are put; the
        greatest key that was put before. They share a fixed number of locks, so some exclude each other without
        need."""
        locks = {zlib.crc32(f"{queue}:{key}".encode()) % schema.KEY_LOCKS for queue, key in keys} - self._key_locks
        if not locks:
            return 0
        self._key_locks.update(locks)
        update: Document = {"$inc": {"n": 1}} | ({"$max": {"k": Int64(newest)}} if newest else {})
        if len(locks) == 1:
            one = {"_id": locks.pop()}
            found = [self.database.lq_locks.find_one_and_update(one, update, session=self.session)]
        else:
            some = {"_id": {"$in": sorted(locks)}}
            found = list(self.database.lq_locks.find(some, session=self.session)) if newest else []
            self.database.lq_locks.update_many(some, update, session=self.session)
        if not newest:
            return 0
        self._newest = max(self._newest, newest)
        if all("k" in one for one in found):
            return int(max(one["k"] for one in found))
        blocked = [{"q": queue, "ok": key, "s": BLOCKED} for queue, key in set(keys)]  # from before the locks knew
        return max((row.key for row in self.search({"$or": blocked})), default=0)

    def _raise_newest(self, documents: Sequence[Document]) -> None:
        """Have the locks know of messages that got newer keys than they came with."""
        newest = max((one["_id"] for one in documents if "ok" in one), default=0)
        if newest > self._newest and self._key_locks:
            self._newest = newest
            some = {"_id": {"$in": sorted(self._key_locks)}}
            self.database.lq_locks.update_many(some, {"$max": {"k": Int64(newest)}}, session=self.session)

    def _lock_edges(self) -> None:
        """Exclude everybody else who adds a dependency to a message that is there already."""
        lock = schema.KEY_LOCKS + self.store.namespace_id
        if lock not in self._locked:
            self._locked.add(lock)
            self.database.lq_locks.update_one({"_id": lock}, {"$inc": {"n": 1}}, upsert=True, session=self.session)

    def _lock_queue(self, queue: int) -> None:
        """Exclude everybody else who counts the messages of this queue."""
        if -queue not in self._locked:
            self._locked.add(-queue)
            self.change_queue(queue, {"$inc": {"lock": 1}})

    # rows in

    def search(
        self, query: Document, order: Sequence[tuple[str, int]] = (), limit: int = 0, *, hint: str | None = None
    ) -> list[Row]:
        cursor = self.messages.find(query, WITHOUT_CONTENT, session=self.session, hint=hint)
        if order:
            cursor = cursor.sort(list(order))
        return [row_of(document) for document in cursor.limit(limit)]

    def fetch(self, wanted: Wanted) -> Found:
        newest = self._lock_keys([*wanted.heads, *wanted.behind], wanted.newest if wanted.heads else 0)
        claimed = [self._claimed.pop(key) for key in wanted.keys & self._claimed.keys()]
        keys = wanted.keys.difference(row.key for row in claimed)
        either: list[Document] = [{"_id": {"$in": numbers(keys)}}] if keys else []
        either += [{"q": queue, "u": {"$in": names}} for queue, names in grouped(wanted.holders).items()]
        heads = grouped(wanted.heads).items()
        either += [{"q": queue, "ok": {"$in": names}, "s": {"$in": HEADS}} for queue, names in heads]
        rows = claimed
        if either:
            rows += self.search({"$or": either} if len(either) > 1 else either[0])
        if wanted.behind:
            rows += self._behind(wanted.behind)
        return Found(rows, self._edges(wanted.dependents, rows) if wanted.dependents else (), newest=newest)

    def _behind(self, behind: Mapping[Key, int]) -> list[Row]:
        questions: list[list[Document]] = []
        for (queue, key), after in behind.items():
            blocked = {"q": queue, "ok": key, "s": BLOCKED, "_id": {"$gt": Int64(after)}}
            first: list[Document] = [{"$match": blocked}, {"$sort": {"_id": 1}}, {"$limit": 1}]
            questions.append([*first, {"$project": WITHOUT_CONTENT}])
        return [row_of(document) for answer in self._ask(questions) for document in answer]

    def _ask(self, questions: Sequence[list[Document]]) -> list[list[Document]]:
        """Several questions about messages, with short answers, in one statement: all are joined to one document."""
        answers: list[list[Document]] = []
        for start in range(0, len(questions), _QUESTIONS):
            part = questions[start : start + _QUESTIONS]
            joins = [
                {"$lookup": {"from": "lq_messages", "pipeline": pipeline, "as": str(n)}}
                for n, pipeline in enumerate(part)
            ]
            any_one = {"$match": {"_id": "version"}}
            (found,) = self.database.lq_schema.aggregate([any_one, *joins], session=self.session)
            answers += [found[str(n)] for n in range(len(part))]
        return answers

    def _edges(self, upstreams: Iterable[int], rows: list[Row]) -> list[tuple[int, int]]:
        """The edges of these, and the messages at their other ends."""
        pipeline: list[Document] = [
            {"$match": {"u": {"$in": numbers(upstreams)}}},
            {"$lookup": {"from": "lq_messages", "localField": "d", "foreignField": "_id", "as": "of"}},
            {"$project": {"of": WITHOUT_CONTENT}},
        ]
        edges = []
        for edge in self.database.lq_edges.aggregate(pipeline, session=self.session):
            edges.append((edge["u"], edge["d"]))
            rows += [row_of(document) for document in edge["of"]]
        return edges

    def due(self, queue: int, now: float, limit: int) -> list[Row]:
        passed = {"q": queue, "s": {"$in": LIVE}, "due": {"$lte": now}}
        return self.search(passed, [("due", 1), ("_id", 1)], limit)

    def oldest(self, queue: int, limit: int) -> list[Row]:
        """A look for each priority in use, but for those that are so few that one look shows them all."""
        found: dict[int, Row] = {}
        query: Document = {"q": queue, "s": READY, "_id": {"$gt": Int64(0)}}
        while True:
            page = self.search(query, gate.ORDER, limit, hint=schema.CLAIM)
            found.update((row.key, row) for row in page)
            if len(page) < limit:
                return sorted(found.values(), key=lambda row: (row.available_at, row.key))[:limit]
            last = page[-1].priority
            query["p"] = {"$lt" if page[0].priority == last else "$lte": last}

    def oldest_blocked(self, queue: int) -> Row | None:
        return next(iter(self.search({"q": queue, "s": BLOCKED}, [("_id", 1)], 1)), None)

    def load(self, queue: int, now: float, up_to: int) -> int:
        self._lock_queue(queue)
        more = 0
        while True:
            counts = self._count(queue, now, up_to + more)
            ready, outlived = counts["ready"], counts["outlived"]
            if ready < up_to + more or outlived <= more:
                return ready - outlived + counts["blocked"] + counts["due"]
            more = outlived  # so many of those that were counted do not count

    def _count(self, queue: int, now: float, most: int) -> dict[str, int]:
        """Ready and blocked messages up to a number, those whose life is over, and those that have become ready."""
        alive = {"x": {"$not": {"$lte": now}}}
        used = {"$subtract": ["$a", {"$ifNull": ["$fg", 0]}]}
        wanted: list[tuple[str, Document]] = [
            ("ready", {"s": READY, "_id": {"$gt": Int64(0)}}),
            ("outlived", {"s": READY, "due": {"$lte": now}}),
            ("blocked", {"s": BLOCKED, **alive}),
            ("due", {"s": DELAYED, "due": {"$lte": now}, **alive}),
            ("due", {"s": INFLIGHT, "due": {"$lte": now}, **alive,
                     "$expr": {"$or": [{"$lte": ["$m", None]}, {"$lt": [used, "$m"]}]}}),
        ]  # fmt: skip
        questions: list[list[Document]] = [
            [{"$match": {"q": queue, **which}}, {"$limit": most}, {"$count": "count"}] for _, which in wanted
        ]
        counts = dict.fromkeys(("ready", "outlived", "blocked", "due"), 0)
        for (name, _), answer in zip(wanted, self._ask(questions), strict=True):
            counts[name] += sum(one["count"] for one in answer)
        return counts

    def upstreams(self, dependents: Iterable[int]) -> list[tuple[int, int]]:
        self._lock_edges()
        found = self.database.lq_edges.find({"d": {"$in": numbers(dependents)}}, session=self.session)
        return [(edge["u"], edge["d"]) for edge in found]

    def removed(self, keys: Iterable[int]) -> set[int]:
        found = self.database.lq_removed.find({"_id": {"$in": numbers(keys)}}, {"_id": 1}, session=self.session)
        return {one["_id"] for one in found}

    def stored(self, keys: Iterable[int]) -> dict[int, StoredMessage]:
        found = self.messages.find({"_id": {"$in": numbers(keys)}}, session=self.session)
        return {one["_id"]: stored_message(self.ids, one, self.queue_name(one["q"])) for one in found}

    def ended(self, queue: int, state: int, until: float, behind: tuple[float, int], limit: int) -> list[Row]:
        at, key = behind
        query: Document = {"q": queue, "s": state, "e": {"$lte": until}}
        query["$or"] = [{"e": {"$gt": at}}, {"e": at, "_id": {"$gt": Int64(key)}}]
        return self.search(query, [("e", 1), ("_id", 1)], limit)

    def last_ended(self, queue: int, state: int) -> float:
        last = self.search({"q": queue, "s": state}, [("e", -1), ("_id", -1)], 1)
        return (last[0].ended_at or 0.0) if last else 0.0

    def of_queue(self, queue: int, behind: int, limit: int) -> list[Row]:
        return self.search({"q": queue, "_id": {"$gt": Int64(behind)}}, [("_id", 1)], limit)

    # runs: known by their names

    def runs(self, names: Iterable[str]) -> Mapping[str, Run]:
        """One that is new is made when its first message is written."""
        wanted = list(names)
        mine = {"n": self.store.namespace_id, "name": {"$in": wanted}}
        found = self.database.lq_runs.find(mine, {"name": 1, "cancelled_at": 1}, session=self.session)
        cancelled = {one["name"] for one in found if one.get("cancelled_at") is not None}
        return {name: Run(name, name in cancelled) for name in wanted}

    def cancel(self, name: str, now: float, before: int, limit: int) -> list[Row]:
        named = {"n": self.store.namespace_id, "name": name}
        lock = {"$add": [{"$ifNull": ["$lock", 0]}, 1]}
        change = [{"$set": {"cancelled_at": {"$ifNull": ["$cancelled_at", now]}, "lock": lock}}]
        if not self.database.lq_runs.update_one(named, change, session=self.session).matched_count:
            return []
        live = {"n": self.store.namespace_id, "r": name, "s": {"$in": LIVE}, "_id": {"$lt": Int64(before)}}
        return self.search(live, [("_id", -1)], limit)

    # rows out

    def write(self, writes: Writes, now: float) -> None:
        """Each kind of write by itself. A bulk write of several kinds would be sent like that as well, but the driver
        can lose all behind the first one when it has to look for a connection twice. That nothing was lost is seen by
        the counts."""
        session = self.session
        if writes.deletes:
            self._delete(writes)
        if writes.updates:
            self._update(writes)
        if writes.inserts:
            self._insert(writes.inserts)
        gone, done = set(writes.freed), set(writes.forgotten)
        edges = [{"u": Int64(u), "d": Int64(d)} for u, d in writes.edges if u not in gone and d not in done]
        if edges:
            self.database.lq_edges.insert_many(edges, session=session)
        if gone or done:
            ends = [{"u": {"$in": numbers(gone)}}, {"d": {"$in": numbers(done)}}]
            self.database.lq_edges.delete_many({"$or": ends}, session=session)
        if writes.removed:
            mine = {"n": self.store.namespace_id}
            removed = [{"_id": Int64(key), "why": why, **mine} for key, why in writes.removed.items()]
            self.database.lq_removed.insert_many(removed, session=session)
            if chosen := sum([key % _NOW_AND_THEN == 0 for key in writes.removed]):
                self._forget_removed(writes.remembered_from, 2 * _NOW_AND_THEN * chosen)
        if writes.runs:
            self._count_runs(writes, now)
        for queue, count in writes.dropped.items():
            self.change_queue(queue, {"$inc": {"dropped": count}})
        if self.journalled:
            self._entries += [entry_of(note, now) for note in writes.notes]

    def _delete(self, writes: Writes) -> None:
        """What the server does not check as it is deleted, because it is not under a lease, is checked here."""
        rows = writes.deletes.values()
        if not self.looked and not writes.inserts and any(_was(row) != INFLIGHT for row in rows):
            if is_kept(self.store, self.session):
                self._begin_anew()
            self.looked = True
        which: Document = {"_id": {"$in": numbers(writes.deletes)}}
        if not self.looked:
            which["j"] = None
        if self.messages.delete_many(which, session=self.session).deleted_count != len(rows):
            self._begin_anew()
        self.told.update((ROOM, row.queue) for row in rows if _was(row) in (READY, BLOCKED))

    def _begin_anew(self) -> None:
        """And look at the switch: a journal is kept after all, or may be."""
        self.store.journalled = True
        raise Again

    def _update(self, writes: Writes) -> None:
        attempts = grouped((row.key, attempt_values(attempt)) for row, _, attempt in writes.attempts)
        updates = [
            UpdateOne({"_id": Int64(key)}, self._change(row, attempts.get(key))) for key, row in writes.updates.items()
        ]
        with self._refusals():
            if self.messages.bulk_write(updates, session=self.session).matched_count != len(updates):
                raise Again

    def _change(self, row: Row, attempts: list[Any] | None) -> Document:
        """The update that makes the stored document what the row has become."""
        fields, before = fields_of(row) | {"j": 1 if self.journalled else None}, _was(row)
        if row.state != before:
            if row.state in (READY, DELAYED):
                fields["k"] = say(TO_CLAIM, self.store.namespace_id, row.queue)
            elif before in (READY, BLOCKED):
                fields["k"] = say(ROOM, self.store.namespace_id, row.queue)
        update = to_fields(fields)
        if attempts:
            update["$push"] = {"h": {"$each": attempts, "$slice": -HISTORY_LIMIT}}
        self.set_timer(row.queue, row.due_at)
        return update

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """What it means that an index or the journal's validator refuses a write."""
        try:
            yield
        except OperationFailure as error:
            code = errors.code_of(error)
            if code == errors.REJECTED:
                self._begin_anew()
            if code == errors.DUPLICATE:
                raise IdTaken("a message id is in use") if "_id" in errors.index_of(error) else Again from error
            raise

    def set_timer(self, queue: int, at: float | None) -> None:
        if at is not None and at < self.timers.get(queue, rules.NEVER):
            self.timers[queue] = at

    def _insert(self, inserts: Sequence[Insert]) -> None:
        for row, _ in inserts:
            self.set_timer(row.queue, row.due_at)
        self.insert_documents([new_document(self.store.namespace_id, *one) for one in inserts])

    def _forget_removed(self, remembered_from: int, limit: int) -> None:
        old = {"_id": {"$lt": Int64(remembered_from)}, "n": self.store.namespace_id}
        found = self.database.lq_removed.find(old, {"_id": 1}, session=self.session).sort("_id", 1).limit(limit)
        if keys := [one["_id"] for one in found]:
            self.database.lq_removed.delete_many({"_id": {"$in": numbers(keys)}}, session=self.session)

    def write_batch(self, batch: Batch) -> None:
        namespace, queues = self.store.namespace_id, batch.queues
        each = zip(batch.keys, batch.states, batch.messages, strict=True)
        documents = [simple(namespace, key, queues[one.queue], state, one, batch.now) for key, state, one in each]
        for document in documents:
            self.set_timer(document["q"], document.get("due"))
        self.insert_documents(documents)

    def insert_documents(self, documents: list[Document]) -> None:
        """New messages; the first of each queue tells listeners of it."""
        if not documents:
            return
        for document in documents:
            if document["q"] not in self._heard:
                self._heard.add(document["q"])
                document["k"] = say(TO_CLAIM, document["n"], document["q"])
            if self.journalled:
                document["j"] = 1
        self._raise_newest(documents)
        with self._refusals():
            self.messages.insert_many(documents, session=self.session)

    def insert_plain(self, queue: int, keys: range, payloads: Sequence[Payload], codec: str | None, now: float) -> None:
        """Many messages without options."""
        namespace = self.store.namespace_id
        each = zip(keys, payloads, strict=True)
        self.insert_documents([plain(namespace, key, queue, payload, codec, now) for key, payload in each])
        if self.journalled:
            each = zip(keys, payloads, strict=True)
            self._entries += [entry("enqueued", queue, key, b=payload, co=codec) for key, payload in each]

    def _count_runs(self, writes: Writes, now: float) -> None:
        part = self.ids.reserve() % _PARTS_OF_A_RUN  # so that acks do not get in each other's way
        totals, done = [], []
        for name, change in writes.runs.items():
            named = {"n": self.store.namespace_id, "name": name}
            at = {"$set": {"at": now}}
            if change.total:
                totals.append(UpdateOne(named, {"$inc": {"total": change.total}} | at, upsert=True))
            if change.done:
                done.append(UpdateOne({**named, "part": part}, {"$inc": {"done": change.done}} | at, upsert=True))
        if totals and (made := self.database.lq_runs.bulk_write(totals, session=self.session).upserted_count):
            self._forget_runs(now - rules.KNOWN, 2 + 2 * made)
        if done:
            self.database.lq_done.bulk_write(done, session=self.session)

    def _forget_runs(self, before: float, limit: int) -> None:
        """Forget some runs that nobody has touched for long and that have no message any more."""
        mine = {"n": self.store.namespace_id}
        old = self.database.lq_runs.find({**mine, "at": {"$lt": before}}, {"name": 1}, session=self.session).limit(
            limit
        )
        for name in [one["name"] for one in old]:
            acked = {**mine, "name": name, "at": {"$gte": before}}
            if self.messages.find_one({**mine, "r": name}, {"_id": 1}, session=self.session) is None and (
                self.database.lq_done.find_one(acked, {"_id": 1}, session=self.session) is None
            ):
                self.database.lq_runs.delete_one({**mine, "name": name}, session=self.session)
                self.database.lq_done.delete_many({**mine, "name": name}, session=self.session)

    def write_records(self, writes: Sequence[RecordWrite], now: float) -> list[int]:
        versions, told = records.write(self.store, self.session, writes, now)
        self.told |= told
        return versions

    def timers_settled(self, queue: int) -> None:
        pass  # gate.py knows what this process knows of timers

    def finish(self, now: float) -> None:
        """Append to the journal, when all else is written."""
        if self._entries:
            write_entries(self.store, self.session, self._entries, now)

    # claiming

    def paused(self, queue: int, worker: str | None) -> bool:
        return False  # the barrier tells: see gate.py

    def claimable(self, queue: int, now: float) -> bool:
        return True  # claims pass by what has outlived its time

    def claim(self, queue: int, request: LeaseRequest, now: float) -> list[StoredMessage]:
        found = fast.front(self.store, queue, request, now, self.session)
        update = fast.claim_of(self.store, queue, request, now, journalled=self.journalled)
        if request.consume:  # at most once: it is deleted without having been leased
            claimed = [fast.as_claimed(document, update) for document in found]
            for document, before in zip(claimed, found, strict=True):
                row = self._claimed[document["_id"]] = row_of(document)
                row.before = row_of(before).snapshot()
        else:
            with self._refusals():
                claimed = fast.take(self.store, queue, found, update, self.session)
        if self.journalled:
            self._entries += [entry("leased", queue, one["_id"], a=one["a"], w=request.leased_by) for one in claimed]
        return [stored_message(self.ids, document, request.queue) for document in claimed]

    # operations

    def clear(self, queue: int) -> None:
        """Let a queue whose messages are all gone be as if it had never had one."""
        self.database.lq_workers.delete_many({"q": queue}, session=self.session)
        self.change_queue(queue, {"$unset": {"dropped": ""}})

    def subscribe(self, topic: int, subscriber: str, wanted: bool) -> bool:
        found = self.change_queue(topic, {"$inc": {"lock": 1}}).get("subscribers", [])
        if wanted == (subscriber in found):
            return False
        self.change_queue(topic, {"$push" if wanted else "$pull": {"subscribers": subscriber}, "$inc": {"version": 1}})
        return True

    def pause(self, queue: int, worker: str | None, at: float | None) -> None:
        """Pause the queue, or one worker on it; without a time, resume it."""
        if worker is None:
            self.change_queue(queue, {"$unset": {"paused_at": ""}} if at is None else {"$set": {"paused_at": at}})
        else:
            self.change_queue(queue, {"$pull": {"off": {"w": worker}}})
            if at is not None:
                self.change_queue(queue, {"$push": {"off": {"w": worker, "at": at}}})
        gate.write_barrier(self.server, queue, self.session)
        if at is None:
            self.told.add((TO_CLAIM, queue))


def _was(row: Row) -> int:
    """The state in which the server has a message that was changed."""
    assert row.before is not None
    return row.before.state


def rows_of(unit: Unit) -> MongoRows:
    assert isinstance(unit.rows, MongoRows)
    return unit.rows
