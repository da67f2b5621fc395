"""Messages that come after messages."""

from __future__ import annotations

from collections.abc import Sequence

from localqueue.errors import CircularDependency, NotWaiting, UnknownMessage
from localqueue.stores.lmdb import keys
from localqueue.stores.lmdb.rows import WAITING
from localqueue.stores.lmdb.tx import Tx
from localqueue.stores.port import STATES, Edge
from localqueue.stores.wiring import Wiring

__all__ = ["Wiring", "add_edges", "wait_for"]


def wait_for(tx: Tx, dependent: int, after: Sequence[str], wiring: Wiring) -> int:
    """Record what a message comes after; how many of them are not acked yet."""
    upstream = dict.fromkeys(wiring.aliases.get(one, one) for one in after)
    return sum(_add_edge(tx, one, dependent, wiring) for one in upstream)


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
        added = _add_edge(tx, upstream, row.key, wiring)
        if added:
            row.waiting_on += added
            tx.save(row)


def _waits_for(tx: Tx, waiting: int | None, upstream: int) -> bool:
    """Whether one message comes after another, directly or through others; a message comes after itself."""
    seen: set[int] = set()
    above = [] if waiting is None else [waiting]
    while above:
        key = above.pop()
        if key == upstream:
            return True
        if key not in seen:
            seen.add(key)
            above += [keys.last_number(edge) for edge in keys.walk_keys(tx.txn, keys.upstreams(key))]
    return False


def _add_edge(tx: Tx, upstream: str, dependent: int, wiring: Wiring) -> int:
    """1 if the upstream message is not acked yet and the edge is new."""
    key = tx.store.ids.key_of(upstream)
    if key is None:
        raise UnknownMessage(
            f"no message {upstream!r} was ever put into this store; after= takes ids that put() returned"
        )
    row = tx.load(key)
    if row is None:
        if upstream in wiring.dropped or tx.txn.get(keys.removed(key)) is not None:
            raise UnknownMessage(f"message {upstream!r} was removed without being acked; nothing can come after it")
        return 0
    if not row.dependents:
        row.dependents = 1
        tx.save(row)
    added = tx.txn.put(keys.dependent(key, dependent), b"", overwrite=False)
    tx.txn.put(keys.upstream(dependent, key), b"")
    return int(added)
