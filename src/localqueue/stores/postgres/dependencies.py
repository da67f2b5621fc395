"""Messages that come after messages."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import CircularDependency, NotWaiting, UnknownMessage
from localqueue.stores.port import STATES, Edge
from localqueue.stores.postgres.tx import WAITING, Tx
from localqueue.stores.wiring import Wiring


def wait_for(tx: Tx, dependent: int, after: Sequence[str], wiring: Wiring) -> int:
    """Record what a message comes after; how many of them are not acked yet."""
    upstream = dict.fromkeys(wiring.aliases.get(one, one) for one in after)
    return sum(_add_edge(tx, one, dependent, wiring) for one in upstream)


def add_edges(tx: Tx, edges: Sequence[Edge], wiring: Wiring) -> None:
    for edge in edges:
        dependent = tx.store.ids.key_of(wiring.aliases.get(edge.dependent, edge.dependent))
        message = None if dependent is None else tx.current(dependent)
        if message is None or message.state != WAITING:
            state = "gone" if message is None else STATES[message.state]
            raise NotWaiting(f"message {edge.dependent!r} can not get another dependency: it is {state}, not waiting")
        if _waits_for(tx, tx.store.ids.key_of(edge.upstream), message.key):
            raise CircularDependency(
                f"message {edge.dependent!r} can not wait for {edge.upstream!r}, which waits for it itself"
            )
        if _add_edge(tx, wiring.aliases.get(edge.upstream, edge.upstream), message.key, wiring):
            grow = "UPDATE localqueue.lq_messages SET waiting_on = waiting_on + 1 WHERE key = $1"
            tx.run_sql(grow, (message.key,))


def _waits_for(tx: Tx, waiting: int | None, upstream: int) -> bool:
    """Whether one message comes after another, directly or through others; a message comes after itself."""
    if waiting is None:
        return False
    # Two commits that close a circle from both ends would not see each other's edge: they go one after the other.
    tx.execute("SELECT pg_advisory_xact_lock(1819373158, $1::int)", (tx.store.namespace_id,))
    found = tx.run_sql(
        "WITH RECURSIVE above (key) AS (SELECT $1::bigint UNION "
        "SELECT d.upstream FROM localqueue.lq_dependencies AS d JOIN above ON d.dependent = above.key) "
        "SELECT 1 FROM above WHERE key = $2::bigint",
        (waiting, upstream),
    )
    return found.fetchone() is not None


def _add_edge(tx: Tx, upstream: str, dependent: int, wiring: Wiring) -> int:
    key = tx.store.ids.key_of(upstream)
    if key is None:
        raise UnknownMessage(
            f"no message {upstream!r} was ever put into this store; after= takes ids that put() returned"
        )
    found = tx.run_sql("SELECT queue FROM localqueue.lq_messages WHERE key = $1", (key,)).fetchone()
    if found is not None:
        tx.hold(found[0])
        mark = "UPDATE localqueue.lq_messages SET dependents = true WHERE key = $1 RETURNING queue"
        found = tx.run_sql(mark, (key,)).fetchone()
    if found is None:
        gone = tx.run_sql("SELECT 1 FROM localqueue.lq_removed WHERE key = $1", (key,)).fetchone()
        if gone or upstream in wiring.dropped:
            raise UnknownMessage(f"message {upstream!r} was removed without being acked; nothing can come after it")
        return 0
    tx.touch(found[0])  # a claim passes a row by that is locked
    return int(
        tx.run_sql(
            "INSERT INTO localqueue.lq_dependencies (upstream, dependent) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            (key, dependent),
        ).rowcount
    )
