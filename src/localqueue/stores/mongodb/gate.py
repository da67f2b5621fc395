"""What stands between a claim and the next ready message: a pause, and timers that have passed.

A pause is a document among the messages, in front of the first ready one: the *barrier*. A claim takes the first
document it finds and counts its attempt, and the attempts of a barrier can not be counted, so the server refuses the
claim. There is no moment between looking and claiming, and an everyday claim pays nothing for it. A barrier also lists
the workers that are paused while others are served; claims of the others pass it.

Timers are looked at before a claim, but not before each: what this process knows of a queue's next timer is good for a
short while (longer where a look takes long, so that looking never costs much), and whatever it adds itself is known at
once. What is a little older is good for one more claim, so that a consumer who was just woken gets its message without
delay. So a message that another process delayed by less than that can be overtaken by ready ones for that long. A claim
that finds nothing always looks.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from bson.int64 import Int64

from localqueue.stores import rules
from localqueue.stores.engine.row import READY
from localqueue.stores.mongodb.document import LIVE, Document
from localqueue.stores.mongodb.schema import CLAIM

if TYPE_CHECKING:
    from localqueue.stores.mongodb.connection import Server

#: Of the messages that can be claimed.
ORDER = [("p", -1), ("at", 1), ("_id", 1)]

_LOOK_AGAIN, _LATEST = 0.05, 0.5  # seconds
_SHARE = 40  # a look is good for so many times as long as it took
_ONCE_MORE = 1.5  # a little longer than a waiting consumer goes without a look


class _Look(NamedTuple):
    at: float
    due: float
    good_for: float
    used: bool = False  # beyond its time


class Looks:
    """When the timers of each queue have to be looked at again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, _Look] = {}

    def wanted(self, queue: int, now: float) -> bool:
        known = self._known.get(queue)
        if known is None or not known.at <= now < known.due:
            return True
        if now < known.at + known.good_for:
            return False
        with self._lock:
            known = self._known.get(queue)
            if known is None or known.used or not known.at <= now < min(known.due, known.at + _ONCE_MORE):
                return True
            self._known[queue] = known._replace(used=True)
            return False

    def looked(self, queue: int, now: float, next_due: float, took: float = 0.0) -> None:
        with self._lock:
            self._known[queue] = _Look(now, next_due, min(max(_LOOK_AGAIN, _SHARE * took), _LATEST))

    def timer(self, queue: int, at: float | None) -> None:
        """This process has set a timer."""
        if at is not None:
            with self._lock:
                known = self._known.get(queue)
                if known is not None and at < known.due:
                    self._known[queue] = known._replace(due=at)

    def forget(self, queue: int) -> None:
        with self._lock:
            self._known.pop(queue, None)


class Found(NamedTuple):
    """What a look at a queue shows: whether a message is ready, whether that is barred, and the next timer."""

    ready: bool
    paused: bool
    due: float


def look(server: Server, queue: int, worker: str | None) -> Found:
    """Ready messages and timers in one round trip."""
    timers = [
        {"$match": {"q": queue, "s": {"$in": LIVE}, "due": {"$exists": True}}},
        {"$sort": {"due": 1, "_id": 1}},
        {"$limit": 1},
        {"$project": {"due": 1}},
    ]
    first = [
        {"$match": {"q": queue, "s": READY, "$nor": [_others(queue, worker)]}},
        {"$sort": {"p": -1, "at": 1, "_id": 1}},
        {"$limit": 1},
        {"$project": {"_id": 1}},
    ]
    both = [*first, {"$unionWith": {"coll": "lq_messages", "pipeline": timers}}]
    found = list(server.messages.aggregate(both, hint=CLAIM))
    keys = [one["_id"] for one in found if "due" not in one]
    due = min((one["due"] for one in found if "due" in one), default=rules.NEVER)
    return Found(any(key > 0 for key in keys), any(key < 0 for key in keys), due)


def _others(queue: int, worker: str | None) -> Document:
    """A barrier that is for other workers only."""
    return {"_id": -queue, "all": False, "off.w": {"$ne": worker}}


def for_claims(queue: int, worker: str | None, now: float) -> Document:
    """Which documents a claim considers; what has outlived its time is left for the timers."""
    return {"q": queue, "s": READY, "due": {"$not": {"$lte": now}}, "$nor": [_others(queue, worker)]}


def write_barrier(server: Server, queue: int, session: Any) -> None:
    """Put up, change or take away the barrier, after what is paused was changed in the same transaction."""
    found = server.queues.find_one({"_id": queue}, {"paused_at": 1, "off": 1}, session=session) or {}
    off = found.get("off") or []
    paused = found.get("paused_at") is not None
    if not paused and not off:
        server.messages.delete_one({"_id": -queue}, session=session)
        return
    barrier = {
        "n": 0, "q": queue, "s": READY, "p": Int64((1 << 63) - 1), "at": float("-inf"), "a": None, "all": paused,
        "off": [{"w": one["w"]} for one in off],
    }  # fmt: skip
    server.messages.replace_one({"_id": -queue}, barrier, upsert=True, session=session)
