"""Integrity check: what the rules promise about the documents of a namespace, looked at in one snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from localqueue.stores.engine.row import BLOCKED, DEAD, DELAYED, INFLIGHT, READY, WAITING
from localqueue.stores.mongodb.document import HEADS, LIVE, WITHOUT_CONTENT
from localqueue.stores.port import CheckReport

if TYPE_CHECKING:
    from localqueue.stores.mongodb.store import MongoDBQueueStore

_MOST_PROBLEMS = 20


def check(store: MongoDBQueueStore) -> CheckReport:
    """Every message is looked at, and what several of them promise together."""
    problems: list[str] = []
    server = store.server
    with server.client.start_session(snapshot=True) as session:
        queues = {row["_id"]: row for row in server.queues.find({"n": store.namespace_id}, session=session)}
        runs = {
            row["name"] for row in server.database.lq_runs.find({"n": store.namespace_id}, {"name": 1}, session=session)
        }
        heads: dict[tuple[int, str], int] = {}
        blocked: list[tuple[int, tuple[int, str]]] = []
        waiting: dict[int, int] = {}
        for queue in queues:
            query = {"q": queue, "_id": {"$gt": Int64(0)}}
            for row in server.messages.find(query, WITHOUT_CONTENT, session=session):
                problems += _problems_of(row, store.namespace_id, runs)
                key = (row["q"], row.get("ok", ""))
                if "ok" in row and row["s"] in HEADS:
                    if key in heads:
                        problems.append(f"an ordering key has two messages in delivery: {row['_id']}")
                    heads[key] = row["_id"]
                elif "ok" in row and row["s"] == BLOCKED:
                    blocked.append((row["_id"], key))
                if row["s"] == WAITING:
                    waiting[row["_id"]] = row.get("w", 0)
        problems += [
            f"a message is blocked behind an ordering key that nobody holds: {message}"
            for message, key in blocked
            if key not in heads
        ]
        problems += _miscounted(server.database.lq_edges, waiting, session)
        problems += _barriers(server.messages, queues, session)
    return CheckReport(tuple(problems[:_MOST_PROBLEMS]))


def _problems_of(row: dict[str, Any], namespace: int, runs: set[str]) -> Iterable[str]:
    """What a message says about itself."""
    key, state = row["_id"], row["s"]
    due, expires_at = row.get("due"), row.get("x")
    if row["n"] != namespace:
        yield f"a message is in a queue of another namespace: {key}"
    if state == INFLIGHT and (due is None or row.get("la") is None):
        yield f"an inflight message has no lease: {key}"
    if state != INFLIGHT and row.get("la") is not None:
        yield f"a message that is not inflight has a lease: {key}"
    if state == DELAYED and (due is None or due > row["at"]):
        yield f"a queue would miss a timer: {key}"
    if state in (READY, WAITING, BLOCKED) and due != expires_at:
        yield f"a queue would miss a timer: {key}"
    if (state >= DEAD) != (row.get("e") is not None):
        yield f"it is not known when a message left delivery: {key}"
    if row.get("u") != (row.get("dk") if state in LIVE else None):
        yield f"a message does not hold its dedupe key: {key}"
    if "r" in row and row["r"] not in runs:
        yield f"a message is in a run that does not exist: {key}"


def _miscounted(edges: Any, waiting: dict[int, int], session: Any) -> Iterable[str]:
    keys = list(waiting)
    for start in range(0, len(keys), 1000):
        part = keys[start : start + 1000]
        pipeline = [{"$match": {"d": {"$in": part}}}, {"$group": {"_id": "$d", "count": {"$sum": 1}}}]
        found = {row["_id"]: row["count"] for row in edges.aggregate(pipeline, session=session)}
        for key in part:
            if found.get(key, 0) != waiting[key]:
                yield f"a waiting message does not count its dependencies: {key}"


def _barriers(messages: Any, queues: dict[int, dict[str, Any]], session: Any) -> Iterable[str]:
    for number, row in queues.items():
        off = [one["w"] for one in row.get("off", ())]
        paused = row.get("paused_at") is not None
        found = messages.find_one({"_id": -number}, session=session)
        stands = None if found is None else (found["all"], [one["w"] for one in found["off"]])
        if stands != ((paused, off) if paused or off else None):
            yield f"what is paused on queue {row['name']!r} and what claims see of it differ"
