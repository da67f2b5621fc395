"""What one commit does, in the order of the port, inside whichever transaction it was given."""

from __future__ import annotations

from localqueue.stores.port import Changes, Committed, Enqueued
from localqueue.stores.sqlite import lease as leasing
from localqueue.stores.sqlite import operate
from localqueue.stores.sqlite.dependencies import add_edges
from localqueue.stores.sqlite.enqueue import enqueue
from localqueue.stores.sqlite.settle import settle
from localqueue.stores.sqlite.tx import Tx
from localqueue.stores.wiring import Wiring


def apply(tx: Tx, changes: Changes) -> Committed:
    enqueued: list[Enqueued] = []
    if changes.enqueue or changes.edges or changes.topics:
        wiring = Wiring()
        enqueued = enqueue(tx, changes, wiring)
        add_edges(tx, changes.edges, wiring)
    settled = settle(tx, changes.settle, strict=changes.strict)
    operate.write_records(tx.store, tx.connection.execute, tx.now, changes.records)
    leased = leasing.lease(tx, changes.lease, settle_all=True) if changes.lease is not None else None
    return Committed(enqueued, settled, leased or [])
