"""Messages that come after messages."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import CircularDependency, NotWaiting, UnknownMessage
from localqueue.stores.port import STATES, Edge
from localqueue.stores.postgres.tx import WAITING, Tx
from localqueue.stores.wiring import Wiring


def wait_for(tx: Tx, dependent: int, after: Sequence[str], wiring: Wiring) -> int:
    """Record what a message comes after; how many of them are not acked yet."""
    return _add_edges(tx, [wiring.aliases.get(one, one) for one in after], dependent, wiring)


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
        if _add_edges(tx, [wiring.aliases.get(edge.upstream, edge.upstream)], message.key, wiring):
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


def _add_edges(tx: Tx, upstream: Sequence[str], dependent: int, wiring: Wiring) -> int:
    """Have a message wait for others; how many of them are not acked yet and were not waited for before."""
    keys = {_key_of(tx, one): one for one in upstream}
    if not keys:
        return 0
    queues = "SELECT DISTINCT queue FROM localqueue.lq_messages WHERE key = ANY ($1::bigint[]) ORDER BY queue"
    for (queue,) in tx.run_sql(queues, (list(keys),)).fetchall():
        tx.hold(queue)
    pending = tx.execute(tx.sql.MARK_UPSTREAM, (sorted(keys),)).fetchall()
    _require_acked(tx, {key: keys[key] for key in keys.keys() - {key for key, _ in pending}}, wiring)
    for queue in {queue for _, queue in pending}:
        tx.touch(queue)  # a claim passes a row by that is locked
    return int(
        tx.run_sql(
            "INSERT INTO localqueue.lq_dependencies (upstream, dependent) "
            "SELECT key, $2::bigint FROM unnest($1::bigint[]) AS key ON CONFLICT DO NOTHING",
            ([key for key, _ in pending], dependent),
        ).rowcount
    )


def _key_of(tx: Tx, upstream: str) -> int:
    key = tx.store.ids.key_of(upstream)
    if key is None:
        raise UnknownMessage(
            f"no message {upstream!r} was ever put into this store; after= takes ids that put() returned"
        )
    return key


def _require_acked(tx: Tx, gone: dict[int, str], wiring: Wiring) -> None:
    """That these messages, which are there no more, were not removed in another way."""
    if not gone:
        return
    find = "SELECT key FROM localqueue.lq_removed WHERE key = ANY ($1::bigint[])"
    removed = {key for (key,) in tx.run_sql(find, (list(gone),)).fetchall()}
    for key, one in gone.items():
        if key in removed or one in wiring.dropped:
            raise UnknownMessage(f"message {one!r} was removed without being acked; nothing can come after it")
