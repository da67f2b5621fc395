"""Reads: none of them changes anything. Counts are taken from the documents, so they can not drift; the price is that
counting the ready messages of a queue walks its index."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from bson.int64 import Int64

from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.mongodb.rows import (
    BLOCKED,
    CANCELLED,
    CODE,
    DEAD,
    DELAYED,
    EXPIRED,
    INFLIGHT,
    LIVE,
    READY,
    WAITING,
    Row,
    stored_message,
)
from localqueue.stores.mongodb.schema import ALL, CLAIM
from localqueue.stores.mongodb.server import Server
from localqueue.stores.port import STATES, StoredMessage

MESSAGES = {"_id": {"$gt": Int64(0)}}  # not the barrier of a paused queue


def becomes(row: Row, now: float) -> int:
    """The state that the next claim makes of a due message."""
    return CODE[
        rules.fall_due(
            STATES[row.state],
            now=now,
            available_at=row.available_at,
            expires_at=row.expires_at,
            attempts_used=row.attempts - row.forgiven,
            max_attempts=row.most,
        ).state
    ]


def _union(collection: str, name: str, *stages: dict[str, Any]) -> dict[str, Any]:
    """One more question for the same moment; its answers say which one they answer."""
    return {"$unionWith": {"coll": collection, "pipeline": [*stages, {"$set": {"part": name}}]}}


def _kept(where: dict[str, Any], *states: int) -> list[dict[str, Any]]:
    return [
        {"$match": where | {"s": {"$in": list(states)}}},
        {"$group": {"_id": "$s", "count": {"$sum": 1}}},
    ]


def _overdue(queue: int, now: float) -> list[dict[str, Any]]:
    """Due messages by state, whether their time to live is over, and whether they have used up their attempts."""
    outlived = {"$and": [{"$gt": ["$x", None]}, {"$lte": ["$x", now]}]}
    used = {"$subtract": ["$a", {"$ifNull": ["$fg", 0]}]}
    exhausted = {"$and": [{"$gt": ["$m", None]}, {"$gte": [used, "$m"]}]}
    return [
        {"$match": {"q": queue, "s": {"$in": LIVE}, "due": {"$lte": now}}},
        {"$group": {"_id": {"s": "$s", "outlived": outlived, "exhausted": exhausted}, "count": {"$sum": 1}}},
    ]


def _ask(server: Server, queue: int, now: float, *more: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What the counts are made of, and the answers to more questions, all of one moment."""
    pipeline = [
        *_kept({"q": queue} | MESSAGES, READY),
        {"$set": {"part": "kept"}},
        _union("lq_messages", "kept", *_kept({"q": queue, "due": {"$exists": True}}, DELAYED, INFLIGHT)),
        _union("lq_messages", "kept", *_kept({"q": queue}, WAITING, BLOCKED, DEAD, EXPIRED, CANCELLED)),
        _union("lq_messages", "overdue", *_overdue(queue, now)),
        *more,
    ]
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in server.in_snapshot(server.messages).aggregate(pipeline, hint=CLAIM):
        found[row["part"]].append(row)
    return found


def _counts(found: dict[str, list[dict[str, Any]]]) -> list[int]:
    """Messages by state, with those that are due counted as what the next claim would make of them."""
    counts = [0] * len(STATES)
    for row in found["kept"]:
        counts[row["_id"]] += row["count"]
    for row in found["overdue"]:
        state, count = row["_id"]["s"], row["count"]
        after = READY if state in (DELAYED, INFLIGHT) else state
        dead = state == INFLIGHT and row["_id"]["exhausted"]
        counts[state] -= count
        counts[DEAD if dead else EXPIRED if row["_id"]["outlived"] else after] += count
    return counts


def counts(server: Server, queue: int, now: float) -> list[int]:
    return _counts(_ask(server, queue, now))


def stats(server: Server, queue: int, now: float) -> QueueStats:
    leased = {"_id": "$lb", "count": {"$sum": 1}, "first": {"$min": "$la"}, "sum": {"$sum": "$la"}}
    ready = {"q": queue, "s": READY, "due": {"$not": {"$lte": now}}} | MESSAGES
    alive = {"due": {"$lte": now}, "x": {"$not": {"$lte": now}}}
    shown = {"$project": {"p": 1, "at": 1, "due": 1}}
    found = _ask(
        server, queue, now,
        _union("lq_messages", "leased",
               {"$match": {"q": queue, "s": INFLIGHT, "due": {"$gt": now}}}, {"$group": leased}),
        _union("lq_queues", "queue", {"$match": {"_id": queue}}),
        _union("lq_messages", "first",
               {"$match": ready}, {"$sort": {"p": -1, "at": 1, "_id": 1}}, {"$limit": 1}, shown),
        _union("lq_messages", "last",
               {"$match": ready}, {"$sort": {"p": 1, "at": -1, "_id": -1}}, {"$limit": 1}, shown),
        *(_union("lq_messages", "due",
                 {"$match": {"q": queue, "s": state} | alive}, {"$sort": {"due": 1, "_id": 1}}, {"$limit": 1}, shown)
          for state in (DELAYED, INFLIGHT)),
    )  # fmt: skip
    kept, inflight = _counts(found), found["leased"]
    workers = list(server.database.lq_workers.find({"q": queue}).sort("w", 1))  # not waited for, so in no snapshot yet
    row = found["queue"][0] if found["queue"] else {}
    since = [one["due"] for one in found["due"]]
    if found["first"]:
        one_priority = found["first"][0]["p"] == found["last"][0]["p"]
        oldest = (found["first"][0]["at"],) if one_priority else oldest_ready(server, queue, now=now)
        since += [] if oldest is None else [oldest[0]]
    held = sum(one["count"] for one in inflight)
    return QueueStats(
        **dict(zip(STATES, kept, strict=True)),
        total=sum(kept),
        by_worker_id={one["_id"]: one["count"] for one in inflight if one["_id"] is not None},
        leases_by_worker_id={one["w"]: one["leases"] for one in workers if one.get("leases")},
        last_seen_by_worker_id={one["w"]: one["last_seen"] for one in workers if one.get("last_seen") is not None},
        oldest_ready_age_seconds=max(0.0, now - min(since, default=now)) if kept[READY] else None,
        oldest_inflight_age_seconds=max(0.0, now - min(one["first"] for one in inflight)) if held else None,
        average_inflight_age_seconds=max(0.0, now - sum(one["sum"] for one in inflight) / held) if held else None,
        dropped=row.get("dropped", 0),
        paused=row.get("paused_at") is not None,
        paused_workers=tuple(sorted(one["w"] for one in row.get("off", ()))),
    )


def oldest_ready(server: Server, queue: int, session: Any = None, now: float | None = None) -> tuple[float, int] | None:
    """The ready message that became available first, whatever its priority: one seek for each priority in use."""
    found: list[tuple[float, int]] = []
    query: dict[str, Any] = {"q": queue, "s": READY} | MESSAGES
    if now is not None:
        query["due"] = {"$not": {"$lte": now}}
    order = [("p", -1), ("at", 1), ("_id", 1)]
    while True:
        first = server.messages.find_one(query, {"p": 1, "at": 1}, sort=order, hint=CLAIM, session=session)
        if first is None:
            return min(found, default=None)
        found.append((first["at"], first["_id"]))
        query["p"] = {"$lt": first["p"]}


def get(server: Server, ids: Mint, queue: int, name: str, message_id: str) -> StoredMessage | None:
    key = ids.key_of(message_id)
    found = None if key is None else server.messages.find_one({"_id": Int64(key), "q": queue})
    return None if found is None else stored_message(ids, found, name)


def scan(
    server: Server,
    ids: Mint,
    queue: int,
    name: str,
    state: str | None,
    after: str | None,
    last: int | None,
    limit: int | None,
) -> list[StoredMessage]:
    if limit == 0:
        return []
    query: dict[str, Any] = {"q": queue}
    order = [("_id", 1)]
    behind = (after and ids.key_of(after)) or 0
    if state is not None:
        query["s"] = CODE[state]
    if state is not None and CODE[state] >= DEAD:
        order = [("e", 1), ("_id", 1)]
        if after is not None:
            seen = server.messages.find_one({"_id": Int64(behind)}, {"e": 1})
            if seen is None or seen.get("e") is None:
                return []
            later = {"e": seen["e"], "_id": {"$gt": Int64(behind)}}
            query["$or"] = [{"e": {"$gt": seen["e"]}}, later]
    else:
        query["_id"] = {"$gt": Int64(behind)} | ({} if last is None else {"$lte": Int64(last)})
    found = server.in_snapshot(server.messages).find(query).sort(order).limit(limit or 0)
    return [stored_message(ids, document, name) for document in found]


def splits(server: Server, ids: Mint, queue: int, parts: int) -> list[str]:
    """By steps over an index, which the server takes without looking at a message."""
    messages = server.messages
    newest = next(messages.find({"q": queue} | MESSAGES, {"_id": 1}, hint=ALL).sort("_id", -1).limit(1), None)
    if newest is None:
        return []
    end = {"$lte": newest["_id"]}
    ends = rules.ends_of_parts(messages.count_documents({"q": queue, "_id": MESSAGES["_id"] | end}, hint=ALL), parts)
    found: list[int] = []
    for before, here in zip([-1, *ends], ends[:-1], strict=False):
        behind = {"q": queue, "_id": {"$gt": found[-1] if found else Int64(0)} | end}
        step = messages.find(behind, {"_id": 1}, hint=ALL).sort("_id", 1).skip(here - before - 1).limit(1)
        found += [one["_id"] for one in step]
    return [ids.id_of(key) for key in dict.fromkeys([*found, newest["_id"]])]


def runs(server: Server, namespace: int, after: str, limit: int | None) -> list[str]:
    if limit == 0:
        return []
    found = server.database.lq_runs.find({"n": namespace, "name": {"$gt": after}}, {"name": 1})
    return [row["name"] for row in found.sort("name", 1).limit(limit or 0)]


def run(server: Server, namespace: int, run_id: str) -> RunStats | None:
    named = {"n": namespace, "name": run_id}
    done = {
        "$unionWith": {
            "coll": "lq_done",
            "pipeline": [{"$match": named}, {"$group": {"_id": "done", "count": {"$sum": "$done"}}}],
        }
    }
    states = {
        "$unionWith": {
            "coll": "lq_messages",
            "pipeline": [{"$match": {"n": namespace, "r": run_id}}, {"$group": {"_id": "$s", "count": {"$sum": 1}}}],
        }
    }
    total = {"$project": {"_id": "total", "count": "$total"}}
    runs = server.in_snapshot(server.database.lq_runs)
    found = {row["_id"]: row["count"] for row in runs.aggregate([{"$match": named}, total, done, states])}
    if "total" not in found:
        return None
    by_state = {STATES[state]: count for state, count in found.items() if isinstance(state, int)}
    return RunStats(run_id=run_id, total=found["total"], done=found.get("done", 0), **by_state)


def run_messages(
    server: Server, ids: Mint, namespace: int, run_id: str, after: str | None, limit: int | None
) -> list[dict[str, Any]]:
    if limit == 0:
        return []
    behind = (after and ids.key_of(after)) or 0
    query = {"n": namespace, "r": run_id, "_id": {"$gt": Int64(behind)}}
    return list(server.in_snapshot(server.messages).find(query).sort("_id", 1).limit(limit or 0))


def upstream(server: Server, ids: Mint, queue: int, message_id: str) -> list[str]:
    key = ids.key_of(message_id)
    if key is None or server.messages.find_one({"_id": Int64(key), "q": queue}, {"_id": 1}) is None:
        return []
    return [ids.id_of(edge["u"]) for edge in server.database.lq_edges.find({"d": Int64(key)}).sort("u", 1)]


def next_expiry(server: Server, queue: int, now: float) -> float:
    """When the next message that counts against capacity reaches the end of its life."""
    query = {"q": queue, "s": {"$in": [READY, BLOCKED]}, "due": {"$gt": now}}
    for found in server.messages.find(query, {"due": 1}).sort([("due", 1), ("_id", 1)]).limit(1):
        return float(found["due"])
    return rules.NEVER
