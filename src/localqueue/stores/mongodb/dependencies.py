"""Messages that come after messages."""

from __future__ import annotations

from collections.abc import Sequence

from bson.int64 import Int64

from localqueue.errors import CircularDependency, NotWaiting, UnknownMessage
from localqueue.stores import rules
from localqueue.stores.mongodb.rows import CODE, WAITING, Row
from localqueue.stores.mongodb.tx import Tx
from localqueue.stores.port import STATES, Edge
from localqueue.stores.wiring import Wiring


def wait_for(tx: Tx, dependent: int, after: Sequence[str], wiring: Wiring) -> int:
    """Record what a message comes after; how many of them are not acked yet."""
    upstream = dict.fromkeys(wiring.aliases.get(one, one) for one in after)
    tx.load_many(key for key in map(tx.store.ids.key_of, upstream) if key is not None)
    live = [row.key for row in (_depend_on(tx, one, wiring) for one in upstream) if row is not None]
    if live:
        edges = [{"u": Int64(key), "d": Int64(dependent)} for key in live]
        tx.server.database.lq_edges.insert_many(edges, session=tx.session)
    return len(live)


def add_edges(tx: Tx, edges: Sequence[Edge], wiring: Wiring) -> None:
    for edge in edges:
        upstream, dependent = (wiring.aliases.get(one, one) for one in edge)
        row = tx.load(tx.store.ids.key_of(dependent))
        if row is None or row.state != WAITING:
            state = "gone" if row is None else STATES[row.state]
            raise NotWaiting(f"message {edge.dependent!r} can not get another dependency: it is {state}, not waiting")
        if _waits_for(tx, tx.store.ids.key_of(upstream), row.key):
            raise CircularDependency(
                f"message {edge.dependent!r} can not wait for {edge.upstream!r}, which waits for it itself"
            )
        above = _depend_on(tx, upstream, wiring)
        if above is not None and _add_edge(tx, above.key, row.key):
            row.waiting_on += 1
            tx.save(row)


def _waits_for(tx: Tx, waiting: int | None, upstream: int) -> bool:
    """Whether one message comes after another, directly or through others; a message comes after itself.

    Two transactions that would close a circle together both take this lock.
    """
    tx.lock_edges()
    seen: set[int] = set()
    above = set() if waiting is None else {waiting}
    while above:
        if upstream in above:
            return True
        seen |= above
        found = tx.server.database.lq_edges.find({"d": {"$in": [Int64(key) for key in above]}}, session=tx.session)
        above = {edge["u"] for edge in found} - seen
    return False


def _depend_on(tx: Tx, upstream: str, wiring: Wiring) -> Row | None:
    """The message that another one is to come after, or None when it is acked already."""
    key = tx.store.ids.key_of(upstream)
    if key is None:
        raise UnknownMessage(
            f"no message {upstream!r} was ever put into this store; after= takes ids that put() returned"
        )
    row = tx.load(key)
    if row is None:
        removed = tx.server.database.lq_removed.find_one({"_id": Int64(key)}, session=tx.session)
        if removed is not None or upstream in wiring.dropped:
            raise UnknownMessage(f"message {upstream!r} was removed without being acked; nothing can come after it")
        return None
    row.dependents += 1  # counted, so that an ack of it at the same time is noticed
    tx.save(row)
    return row


def _add_edge(tx: Tx, upstream: int, dependent: int) -> bool:
    """Whether the edge is new."""
    edge = {"u": Int64(upstream), "d": Int64(dependent)}
    added = tx.server.database.lq_edges.update_one(edge, {"$setOnInsert": edge}, upsert=True, session=tx.session)
    return added.upserted_id is not None


def free_dependents(tx: Tx, upstream: int) -> None:
    edges = tx.server.database.lq_edges
    found = sorted(edge["d"] for edge in edges.find({"u": Int64(upstream)}, session=tx.session))
    edges.delete_many({"u": Int64(upstream)}, session=tx.session)
    tx.load_many(found)
    for key in found:
        row = tx.load(key)
        if row is None:
            continue
        row.waiting_on -= 1
        if row.state != WAITING or row.waiting_on:
            tx.save(row)
            continue
        available_at = max(row.available_at, tx.now)
        landed = rules.landing(
            now=tx.now,
            available_at=available_at,
            expires_at=row.expires_at,
            key_busy=tx.key_busy(row.queue, row.ordering_key),
        )
        tx.move(row, CODE[landed], available_at=available_at)
        tx.touched.add(tx.queue_name(row.queue))


def forget_upstreams(tx: Tx, dependents: Sequence[int]) -> None:
    """What was removed waits for nothing any more."""
    if dependents:
        keys = [Int64(key) for key in dependents]
        tx.server.database.lq_edges.delete_many({"d": {"$in": keys}}, session=tx.session)
