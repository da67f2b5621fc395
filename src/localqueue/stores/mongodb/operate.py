"""What an operator does: requeue, prune, purge, cancel, pause, subscribe.

What concerns more messages than fit into a transaction takes several of them: each function does a piece, and says with
what to go on. Somebody who looks meanwhile sees part of it done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bson.int64 import Int64

from localqueue.errors import DedupeKeyInUse
from localqueue.stores import rules
from localqueue.stores.mongodb import gate, said
from localqueue.stores.mongodb.dependencies import forget_upstreams
from localqueue.stores.mongodb.rows import BLOCKED, CODE, DEAD, LIVE, READY, Row
from localqueue.stores.mongodb.settle import leave
from localqueue.stores.mongodb.tx import Tx
from localqueue.stores.port import Settle

if TYPE_CHECKING:
    from localqueue.stores.mongodb.base import Base
    from localqueue.stores.mongodb.server import Server

_A_PIECE = 5000


class Piece(NamedTuple):
    """How many messages a piece of the work changed, and the key to go on behind; None when there is no more."""

    changed: int
    behind: int | None = None


def requeue(tx: Tx, name: str, ids: Sequence[str], delay: float) -> int:
    queue = tx.queue_id(name)
    keys = [tx.store.ids.key_of(one) for one in ids]
    tx.load_many(key for key in keys if key is not None)
    count = 0
    for key in keys:
        row = tx.load(key, queue)
        if row is None or row.state < DEAD:
            continue
        if _key_in_use(tx, row):
            raise DedupeKeyInUse(
                f"message {tx.store.ids.id_of(row.key)} can not return to queue {name!r}: a live message has its "
                f"dedupe key {row.dedupe_key!r}; settle that one first"
            )
        _requeue(tx, row, delay)
        count += 1
    return count


def requeue_dead(tx: Tx, name: str, delay: float, behind: int, until: float) -> Piece:
    """Dead messages that died until then, by the time they did; one whose dedupe key is in use stays dead."""
    queue = tx.queue_id(name)
    dead: dict[str, Any] = {"q": queue, "s": DEAD, "e": {"$lte": until}}
    last = tx.load(behind or None)
    if last is not None and last.ended_at is not None:  # it stayed dead, as did some before it
        dead["$or"] = [{"e": {"$gt": last.ended_at}}, {"e": last.ended_at, "_id": {"$gt": Int64(behind)}}]
    rows = tx.find(dead, [("e", 1), ("_id", 1)], _A_PIECE)
    tx.look_up_holders(queue, [row.dedupe_key for row in rows if row.dedupe_key is not None])
    tx.look_up_heads(queue, [row.ordering_key for row in rows if row.ordering_key is not None])
    count, stayed = 0, behind
    for row in rows:
        if _key_in_use(tx, row):
            stayed = row.key
        else:
            _requeue(tx, row, delay)
            count += 1
    return Piece(count, stayed if len(rows) == _A_PIECE else None)


def _key_in_use(tx: Tx, row: Row) -> bool:
    return row.dedupe_key is not None and tx.holder(row.queue, row.dedupe_key) is not None


def _requeue(tx: Tx, row: Row, delay: float) -> None:
    """Return a message to delivery with a fresh attempt budget, and without a life that is over."""
    available_at = tx.now + delay
    if row.expires_at is not None and row.expires_at <= available_at:
        row.expires_at = None
    landed = rules.landing(
        now=tx.now,
        available_at=available_at,
        expires_at=row.expires_at,
        waiting_on=row.waiting_on,
        key_busy=tx.key_busy(row.queue, row.ordering_key),
    )
    row.forgiven = row.attempts
    tx.remember(row, "requeued")
    tx.move(row, CODE[landed], available_at=available_at)


def prune(tx: Tx, name: str, state: str, until: float) -> Piece:
    return _remove(tx, prunable(tx.queue_id(name), state, until), "pruned")


def prunable(queue: int, state: str, until: float) -> dict[str, Any]:
    """Messages of a state that left delivery by then; of a state they can not leave delivery for, none."""
    return {"q": queue, "s": CODE[state], "e": {"$lte": until}}


def last_key(server: Server, queue: int) -> int:
    """The greatest key of a queue, 0 when it has none. Keys come from the clocks of those who put."""
    found = server.messages.find({"q": queue, "_id": {"$gt": Int64(0)}}, {"_id": 1}).sort([("_id", -1)]).limit(1)
    return next((int(document["_id"]) for document in found), 0)


def purge(tx: Tx, name: str, last: int) -> Piece:
    """Messages up to the key `last`, so that it comes to an end while others put."""
    queue = tx.queue_id(name)
    piece = _remove(tx, {"q": queue, "_id": {"$gt": Int64(0), "$lte": Int64(last)}}, "purged")
    if piece.behind is None:
        tx.server.database.lq_workers.delete_many({"q": queue}, session=tx.session)
        tx.change_queue(queue, {"$unset": {"dropped": ""}})
    return piece


def _remove(tx: Tx, query: dict[str, Any], why: str) -> Piece:
    """Remove messages with what belongs to them, and remember that they were not acked."""
    rows = tx.find(query, [("_id", 1)], _A_PIECE)
    if tx.journal.enabled or tx.observed:
        for row in rows:
            tx.note(why, row)
    keys = [row.key for row in rows]
    tx.mark_removed(keys, why)
    if keys:
        tx.server.messages.delete_many({"_id": {"$in": [Int64(key) for key in keys]}}, session=tx.session)
        forget_upstreams(tx, [row.key for row in rows if row.waiting_on])
    _free_keys_of(tx, rows)
    if any(row.run is not None for row in rows):
        tx.said.add((said.RUN, 0))
    for queue in {row.queue for row in rows if row.state in (READY, BLOCKED)}:
        tx.said.add((said.ROOM, queue))
    return Piece(len(rows), keys[-1] if len(rows) == _A_PIECE else None)


def _free_keys_of(tx: Tx, removed: Sequence[Row]) -> None:
    """Nobody may be left in line behind a message that is gone: the rest of the queue, or who came meanwhile."""
    for row in removed:
        tx.forget(row.key)
    for queue, key in dict.fromkeys((row.queue, row.ordering_key) for row in removed if row.holds_key):
        tx.free_key(queue, key)


def cancel_run(tx: Tx, run_id: str) -> Piece:
    """The run takes no more messages from the first piece on."""
    named = {"n": tx.store.namespace_id, "name": run_id}
    runs = tx.server.database.lq_runs
    run = runs.find_one_and_update(named, {"$inc": {"lock": 1}}, session=tx.session)
    if run is None:
        return Piece(0)
    if run.get("cancelled_at") is None:
        runs.update_one(named, {"$set": {"cancelled_at": tx.now}}, session=tx.session)
    live = {"n": tx.store.namespace_id, "r": run_id, "s": {"$in": LIVE}}
    rows = tx.find(live, [("_id", -1)], _A_PIECE)
    cancelled = 0
    for row in rows:
        if row.state < DEAD:
            name = tx.queue_name(row.queue)
            tx.touched.add(name)
            cancelled += leave(tx, row, Settle(name, "", "cancel"))
    return Piece(cancelled, rows[-1].key if len(rows) == _A_PIECE else None)


def set_subscription(tx: Tx, topic: str, subscriber: str, wanted: bool) -> bool:
    number = tx.queue_id(topic)
    subscribers = tx.queue(number).get("subscribers", [])
    if wanted == (subscriber in subscribers):
        return False
    change = {"$push" if wanted else "$pull": {"subscribers": subscriber}, "$inc": {"version": 1}}
    tx.change_queue(number, change)
    return True


def set_paused(tx: Tx, name: str, worker: str | None, paused: bool) -> None:
    number = tx.queue_id(name)
    if worker is None:
        tx.change_queue(number, {"$set": {"paused_at": tx.now}} if paused else {"$unset": {"paused_at": ""}})
    else:
        tx.change_queue(number, {"$pull": {"off": {"w": worker}}})
        if paused:
            tx.change_queue(number, {"$push": {"off": {"w": worker, "at": tx.now}}})
    gate.write_barrier(tx.server, number, tx.session)
    if not paused:
        tx.said.add((said.READY, number))


def heartbeat(store: Base, queue: int, worker_id: str, leases: int) -> None:
    """One statement, and nothing that has to outlive a crash of the server."""
    workers = store.server.database.lq_workers.with_options(write_concern=store.server.soon)
    update: dict[str, Any] = {"$set": {"last_seen": store.now()}, "$inc": {"leases": leases}}
    with store.server.call():
        workers.update_one({"q": queue, "w": worker_id}, update, upsert=True)
