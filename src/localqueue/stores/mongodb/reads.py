"""The reading half of the port: none of it changes anything. Counts are taken from the documents, so they can not
drift; the price is that counting the ready messages of a queue walks its index."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from bson.int64 import Int64

from localqueue.message import QueueStats, RunStats
from localqueue.stores import refusals, rules
from localqueue.stores.engine.row import BLOCKED, CANCELLED, CODE, DEAD, DELAYED, EXPIRED, INFLIGHT, READY, WAITING
from localqueue.stores.engine.store import EngineStore
from localqueue.stores.mongodb import gate
from localqueue.stores.mongodb.connection import Server
from localqueue.stores.mongodb.document import LIVE, Document, stored_message
from localqueue.stores.mongodb.schema import ALL, CLAIM
from localqueue.stores.port import STATES, Record, StoredMessage, Subscriptions
from localqueue.stores.stats import Held, KnownWorker, count_due, queue_stats

MESSAGES = {"_id": {"$gt": Int64(0)}}  # not the barrier of a paused queue


def _union(collection: str, name: str, *stages: Document) -> Document:
    """One more question for the same moment; its answers say which one they answer."""
    return {"$unionWith": {"coll": collection, "pipeline": [*stages, {"$set": {"part": name}}]}}


def _kept(where: Document, *states: int) -> list[Document]:
    return [{"$match": where | {"s": {"$in": list(states)}}}, {"$group": {"_id": "$s", "count": {"$sum": 1}}}]


def _overdue(queue: int, now: float) -> list[Document]:
    """Due messages by state, whether their time to live is over, and whether they have used up their attempts."""
    outlived = {"$and": [{"$gt": ["$x", None]}, {"$lte": ["$x", now]}]}
    used = {"$subtract": ["$a", {"$ifNull": ["$fg", 0]}]}
    exhausted = {"$and": [{"$gt": ["$m", None]}, {"$gte": [used, "$m"]}]}
    return [
        {"$match": {"q": queue, "s": {"$in": LIVE}, "due": {"$lte": now}}},
        {"$group": {"_id": {"s": "$s", "outlived": outlived, "exhausted": exhausted}, "count": {"$sum": 1}}},
    ]


def _ask(server: Server, queue: int, now: float, *more: Document) -> dict[str, list[Document]]:
    """What the counts are made of, and the answers to more questions, all of one moment."""
    pipeline = [
        *_kept({"q": queue} | MESSAGES, READY),
        {"$set": {"part": "kept"}},
        _union("lq_messages", "kept", *_kept({"q": queue, "due": {"$exists": True}}, DELAYED, INFLIGHT)),
        _union("lq_messages", "kept", *_kept({"q": queue}, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED)),
        _union("lq_messages", "overdue", *_overdue(queue, now)),
        *more,
    ]
    found: dict[str, list[Document]] = defaultdict(list)
    for row in server.in_snapshot(server.messages).aggregate(pipeline, hint=CLAIM):
        found[row["part"]].append(row)
    return found


def _counts(found: dict[str, list[Document]]) -> list[int]:
    """Messages by state, with those that are due counted as what the next claim would make of them."""
    counts = [0] * len(STATES)
    for row in found["kept"]:
        counts[row["_id"]] += row["count"]
    for row in found["overdue"]:
        of = row["_id"]
        exhausted = of["s"] == INFLIGHT and of["exhausted"]
        count_due(counts, of["s"], row["count"], outlived=of["outlived"], exhausted=exhausted)
    return counts


def _stats(server: Server, queue: int, now: float) -> QueueStats:
    leased = {"_id": "$lb", "count": {"$sum": 1}, "first": {"$min": "$la"}, "sum": {"$sum": "$la"}}
    due: Document = {"q": queue, "due": {"$lte": now}}
    alive = {"x": {"$not": {"$lte": now}}}
    found = _ask(
        server, queue, now,
        _union("lq_messages", "leased",
               {"$match": {"q": queue, "s": INFLIGHT, "due": {"$gt": now}}}, {"$group": leased}),
        _union("lq_queues", "queue", {"$match": {"_id": queue}}),
        *(_union("lq_messages", "due",
                 {"$match": due | state}, {"$sort": {"due": 1, "_id": 1}}, {"$limit": 1}, {"$project": {"due": 1}})
          for state in ({"s": INFLIGHT}, {"s": DELAYED} | alive)),
    )  # fmt: skip
    workers = list(server.database.lq_workers.find({"q": queue}))  # not waited for, so in no snapshot yet
    row = found["queue"][0] if found["queue"] else {}
    since = [one["due"] for one in found["due"]]
    return queue_stats(
        _counts(found),
        now=now,
        available=[*since, _oldest_ready(server, queue)],
        held=[Held(one["_id"], one["count"], one["first"], one["sum"]) for one in found["leased"]],
        workers=known_workers(row, workers),
        dropped=row.get("dropped", 0),
        paused=row.get("paused_at") is not None,
    )


def known_workers(queue: Document, seen: Iterable[Document]) -> list[KnownWorker]:
    """The workers of a queue: those who were seen there, and those who are paused."""
    paused = {one["w"]: one["at"] for one in queue.get("off", ())}
    known = {one["w"]: one for one in seen}
    return [
        KnownWorker(name, known.get(name, {}).get("leases", 0), known.get(name, {}).get("last_seen"), paused.get(name))
        for name in sorted(known.keys() | paused.keys())
    ]


def _oldest_ready(server: Server, queue: int) -> float:
    """When the ready message became available that did so first: one seek for each priority in use."""
    oldest, query = rules.NEVER, {"q": queue, "s": READY} | MESSAGES
    while (first := server.messages.find_one(query, {"p": 1, "at": 1}, sort=gate.ORDER, hint=CLAIM)) is not None:
        oldest = min(oldest, first["at"])
        query["p"] = {"$lt": first["p"]}
    return oldest


def first_of(found: Any, limit: int | None) -> list[Document]:
    """So many of what was found, or all. To the server 0 means all."""
    return [] if limit == 0 else list(found.limit(limit or 0))


def as_record(document: Document) -> Record:
    return Record(document["k"], document["key"], document["v"], int(document["version"]), document["at"])


class Reads(EngineStore):
    """What is read of a queue that nobody has used yet is simply empty."""

    server: Server
    namespace_id: int
    _queue_names: dict[int, str]
    _finalizer: weakref.finalize[..., Any]

    @property
    def url(self) -> str:
        return self.server.url

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise refusals.closed(self.url)

    def _look_up_queue(self, name: str) -> int | None:
        with self._call():
            found = self.server.queues.find_one({"n": self.namespace_id, "name": name}, {"_id": 1})
        return None if found is None else int(found["_id"])

    def name_of_queue(self, number: int) -> str:
        known = self._queue_names.get(number)
        if known is None:
            with self.server.call():
                found = self.server.queues.find_one({"_id": number}, {"name": 1})
            known = self._queue_names[number] = found["name"]
        return known

    def _call(self, *, long: bool = False) -> AbstractContextManager[None]:
        """For what is asked of the server; with `long` for as long as it keeps answering."""
        self._require_open()
        return self.server.long_read() if long else self.server.call()

    def _number(self, name: str) -> int:
        """The number of a queue, or 0, under which nothing is found."""
        return self._find_queue(name) or 0

    # messages

    def get(self, queue: str, message_id: str) -> StoredMessage | None:
        with self._call():
            mine = {"_id": Int64(self.ids.key_of(message_id) or 0), "q": self._number(queue)}
            found = self.server.messages.find_one(mine)
        return None if found is None else stored_message(self.ids, found, queue)

    def _count(self, queue: str, *states: int) -> int:
        now = self.now()
        with self._call():
            counts = _counts(_ask(self.server, self._number(queue), now))
        return sum(counts[state] for state in states)

    def qsize(self, queue: str) -> int:
        return self._count(queue, READY)

    def load(self, queue: str) -> int:
        return self._count(queue, READY, BLOCKED)

    def stats(self, queue: str) -> QueueStats:
        now = self.now()
        with self._call():
            return _stats(self.server, self._number(queue), now)

    def _scan(
        self, queue: str, state: str | None, after: str | None, last: int | None, limit: int | None
    ) -> list[StoredMessage]:
        query: Document = {} if state is None else {"s": CODE[state]}
        behind, order = Int64((after and self.ids.key_of(after)) or 0), [("_id", 1)]
        with self._call(long=True):
            query["q"] = self._number(queue)
            if state is None or CODE[state] < DEAD:
                query["_id"] = {"$gt": behind} | ({} if last is None else {"$lte": Int64(last)})
            else:
                order = [("e", 1), *order]
                if after is not None:
                    seen = self.server.messages.find_one({"_id": behind}, {"e": 1}) or {}
                    if seen.get("e") is None:
                        return []
                    query["$or"] = [{"e": {"$gt": seen["e"]}}, {"e": seen["e"], "_id": {"$gt": behind}}]
            found = first_of(self.server.in_snapshot(self.server.messages).find(query).sort(order), limit)
        return [stored_message(self.ids, document, queue) for document in found]

    def _prunable(self, queue: int, state: int, until: float) -> int:
        with self._call():
            return int(self.server.messages.count_documents({"q": queue, "s": state, "e": {"$lte": until}}))

    def _splits(self, queue: str, parts: int) -> list[str]:
        """By steps over an index, which the server takes without looking at a message."""
        messages = self.server.messages
        with self._call(long=True):
            number = self._number(queue)
            newest = messages.find_one({"q": number} | MESSAGES, {"_id": 1}, sort=[("_id", -1)], hint=ALL)
            if newest is None:
                return []
            end = {"$lte": newest["_id"]}
            count = messages.count_documents({"q": number, "_id": MESSAGES["_id"] | end}, hint=ALL)
            ends = rules.ends_of_parts(count, parts)
            found: list[int] = []
            for before, here in zip([-1, *ends], ends[:-1], strict=False):
                behind = {"q": number, "_id": {"$gt": found[-1] if found else Int64(0)} | end}
                step = messages.find(behind, {"_id": 1}, hint=ALL).sort("_id", 1).skip(here - before - 1).limit(1)
                found += [one["_id"] for one in step]
        return [self.ids.id_of(key) for key in dict.fromkeys([*found, newest["_id"]])]

    def upstream(self, queue: str, message_id: str) -> list[str]:
        with self._call():
            mine = {"_id": Int64(self.ids.key_of(message_id) or 0), "q": self._number(queue)}
            if self.server.messages.find_one(mine, {"_id": 1}) is None:
                return []
            found = self.server.database.lq_edges.find({"d": mine["_id"]}).sort("u", 1)
            return [self.ids.id_of(edge["u"]) for edge in found]

    # runs

    def runs(self, *, after: str = "", limit: int | None = None) -> list[str]:
        with self._call(long=True):
            found = self.server.database.lq_runs.find({"n": self.namespace_id, "name": {"$gt": after}}, {"name": 1})
            return [row["name"] for row in first_of(found.sort("name", 1), limit)]

    def run(self, run_id: str) -> RunStats | None:
        named, mine = {"n": self.namespace_id, "name": run_id}, {"n": self.namespace_id, "r": run_id}
        done = [{"$match": named}, {"$group": {"_id": "done", "count": {"$sum": "$done"}}}]
        states = [{"$match": mine}, {"$group": {"_id": "$s", "count": {"$sum": 1}}}]
        pipeline = [
            {"$match": named},
            {"$project": {"_id": "total", "count": "$total"}},
            {"$unionWith": {"coll": "lq_done", "pipeline": done}},
            {"$unionWith": {"coll": "lq_messages", "pipeline": states}},
        ]
        with self._call():
            runs = self.server.in_snapshot(self.server.database.lq_runs)
            found = {row["_id"]: row["count"] for row in runs.aggregate(pipeline)}
        if "total" not in found:
            return None
        by_state = {STATES[state]: count for state, count in found.items() if isinstance(state, int)}
        return RunStats(run_id=run_id, total=found["total"], done=found.get("done", 0), **by_state)

    def _run_messages(self, run_id: str, after: str | None, limit: int | None) -> list[StoredMessage]:
        behind = Int64((after and self.ids.key_of(after)) or 0)
        query = {"n": self.namespace_id, "r": run_id, "_id": {"$gt": behind}}
        with self._call(long=True):
            documents = first_of(self.server.in_snapshot(self.server.messages).find(query).sort("_id", 1), limit)
        return [stored_message(self.ids, one, self.name_of_queue(one["q"])) for one in documents]

    # records and queues

    def record(self, kind: str, key: str) -> Record | None:
        return next(iter(self.records_of(kind, [key]).values()), None)

    def records_of(self, kind: str, keys: list[str]) -> dict[str, Record]:
        with self._call():
            found = self.server.database.lq_records.find({"n": self.namespace_id, "k": kind, "key": {"$in": keys}})
            return {document["key"]: as_record(document) for document in found}

    def _record_versions(self, kind: str, keys: list[str]) -> dict[str, int]:
        """Those of the records that are there."""
        named = {"n": self.namespace_id, "k": kind, "key": {"$in": keys}}
        with self._call():
            found = self.server.database.lq_records.find(named, {"key": 1, "version": 1})
            return {document["key"]: int(document["version"]) for document in found}

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
        with self._call():
            found = self.server.database.lq_records.find({"n": self.namespace_id, "k": kind, "key": {"$gt": after}})
            return [as_record(document) for document in first_of(found.sort("key", 1), limit)]

    def queues(self) -> list[str]:
        with self._call():
            return sorted(row["name"] for row in self.server.queues.find({"n": self.namespace_id}, {"name": 1}))

    def _queue(self, name: str) -> Document:
        """What is known of a queue."""
        with self._call():
            return self.server.queues.find_one({"_id": self._number(name)}) or {}

    def subscriptions(self, topic: str) -> Subscriptions:
        row = self._queue(topic)
        return Subscriptions(row.get("version", 0), tuple(row.get("subscribers", ())))

    def paused(self, queue: str, *, worker: str | None = None) -> bool:
        row = self._queue(queue)
        if worker is None:
            return row.get("paused_at") is not None
        return any(one["w"] == worker for one in row.get("off", ()))
