"""Reads: none of them changes anything. Counts are taken from the documents, so they can not drift; the price is that
counting the ready messages of a queue walks its index."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from localqueue.ids import Mint
from localqueue.message import QueueStats, RunStats
from localqueue.stores import rules
from localqueue.stores.mongodb.rows import (
    BLOCKED,
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
from localqueue.stores.mongodb.schema import CLAIM
from localqueue.stores.mongodb.server import Server
from localqueue.stores.port import STATES, StoredMessage

MESSAGES = {"_id": {"$gt": Int64(0)}}  # not the barrier of a paused queue
_SHOWN = {"s": 1, "x": 1, "a": 1, "fg": 1, "m": 1, "due": 1}


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


def _part(where: dict[str, Any], states: list[int], name: str) -> list[dict[str, Any]]:
    return [
        {"$match": where | {"s": {"$in": states} if len(states) > 1 else states[0]}},
        {"$group": {"_id": "$s", "count": {"$sum": 1}}},
        {"$set": {"part": name}},
    ]


def _overdue(queue: int, now: float) -> list[dict[str, Any]]:
    """Due messages by state, whether their time to live is over, and whether they have used up their attempts."""
    outlived = {"$and": [{"$gt": ["$x", None]}, {"$lte": ["$x", now]}]}
    used = {"$subtract": ["$a", {"$ifNull": ["$fg", 0]}]}
    exhausted = {"$and": [{"$gt": ["$m", None]}, {"$gte": [used, "$m"]}]}
    return [
        {"$match": {"q": queue, "s": {"$in": LIVE}, "due": {"$lte": now}}},
        {"$group": {"_id": {"s": "$s", "outlived": outlived, "exhausted": exhausted}, "count": {"$sum": 1}}},
        {"$set": {"part": "overdue"}},
    ]


def counts(server: Server, queue: int, now: float, more: list[list[dict[str, Any]]] | None = None) -> dict[str, Any]:
    """Messages by state, with those that are due counted as what the next claim would make of them.

    `more` are further questions for the same moment, as the parts of a union.
    """
    parts = [
        _part({"q": queue, "due": {"$exists": True}}, [DELAYED, INFLIGHT], "kept"),
        _part({"q": queue}, [WAITING, BLOCKED, DEAD, EXPIRED, CODE["cancelled"]], "kept"),
        _overdue(queue, now),
        *(more or ()),
    ]
    pipeline = _part({"q": queue} | MESSAGES, [READY], "kept")
    pipeline += [{"$unionWith": {"coll": "lq_messages", "pipeline": part}} for part in parts]
    kept = [0] * len(STATES)
    found: dict[str, Any] = {"kept": kept}
    for row in server.in_snapshot(server.messages).aggregate(pipeline, hint=CLAIM):
        if row["part"] == "kept":
            kept[row["_id"]] += row["count"]
        elif row["part"] == "overdue":
            state, count = row["_id"]["s"], row["count"]
            kept[state] -= count
            after = READY if state in (DELAYED, INFLIGHT) else state
            dead = state == INFLIGHT and row["_id"]["exhausted"]
            kept[DEAD if dead else EXPIRED if row["_id"]["outlived"] else after] += count
        else:
            found.setdefault(row["part"], []).append(row)
    return found


def load(server: Server, queue: int, now: float) -> int:
    kept = counts(server, queue, now)["kept"]
    return int(kept[READY] + kept[BLOCKED])


def stats(server: Server, queue: int, now: float) -> QueueStats:
    leased: list[dict[str, Any]] = [
        {"$match": {"q": queue, "s": INFLIGHT, "due": {"$gt": now}}},
        {"$group": {"_id": "$lb", "count": {"$sum": 1}, "first": {"$min": "$la"}, "sum": {"$sum": "$la"}}},
        {"$set": {"part": "leased"}},
    ]
    found = counts(server, queue, now, [leased])
    kept, inflight = found["kept"], found.get("leased", [])
    row = server.queues.find_one({"_id": queue}) or {}
    workers = list(server.database.lq_workers.find({"q": queue}).sort("w", 1))
    held = sum(one["count"] for one in inflight)
    return QueueStats(
        **dict(zip(STATES, kept, strict=True)),
        total=sum(kept),
        by_worker_id={one["_id"]: one["count"] for one in inflight if one["_id"] is not None},
        leases_by_worker_id={one["w"]: one["leases"] for one in workers if one.get("leases")},
        last_seen_by_worker_id={one["w"]: one["last_seen"] for one in workers if one.get("last_seen") is not None},
        oldest_ready_age_seconds=_oldest_ready_age(server, queue, now) if kept[READY] else None,
        oldest_inflight_age_seconds=max(0.0, now - min(one["first"] for one in inflight)) if held else None,
        average_inflight_age_seconds=max(0.0, now - sum(one["sum"] for one in inflight) / held) if held else None,
        dropped=row.get("dropped", 0),
        paused=row.get("paused_at") is not None,
        paused_workers=tuple(sorted(one["w"] for one in row.get("off", ()))),
    )


def _oldest_ready_age(server: Server, queue: int, now: float) -> float:
    """Age of the message that has been available longest, counting those that are due but not claimed since."""
    oldest = oldest_ready(server, queue, now=now)
    times = [] if oldest is None else [oldest[0]]
    for state in (DELAYED, INFLIGHT):
        due = {"q": queue, "s": state, "due": {"$lte": now}, "x": {"$not": {"$lte": now}}}
        times += [one["due"] for one in server.messages.find(due, {"due": 1}).sort([("due", 1), ("_id", 1)]).limit(1)]
    return max(0.0, now - min(times)) if times else 0.0


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
    server: Server, ids: Mint, queue: int, name: str, state: str | None, after: str | None, limit: int | None
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
            last = server.messages.find_one({"_id": Int64(behind)}, {"e": 1})
            if last is None or last.get("e") is None:
                return []
            later = {"e": last["e"], "_id": {"$gt": Int64(behind)}}
            query["$or"] = [{"e": {"$gt": last["e"]}}, later]
    else:
        query["_id"] = {"$gt": Int64(behind)}
    found = server.in_snapshot(server.messages).find(query).sort(order).limit(limit or 0)
    return [stored_message(ids, document, name) for document in found]


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
