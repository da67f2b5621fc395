"""What one commit does, in the order of the port, inside whichever transaction it was given."""

from __future__ import annotations

from localqueue.stores.port import Changes, Committed, Enqueued
from localqueue.stores.postgres import lease as leasing
from localqueue.stores.postgres import operate
from localqueue.stores.postgres.dependencies import add_edges
from localqueue.stores.postgres.enqueue import enqueue, is_plain
from localqueue.stores.postgres.settle import settle
from localqueue.stores.postgres.tx import Tx
from localqueue.stores.wiring import Wiring


def queues_of(changes: Changes) -> list[str]:
    """The queues a commit names, always in the same order, so that two commits that make them never wait in a
    circle."""
    names = {message.queue for message in changes.enqueue} | {one.queue for one in changes.settle}
    names.update(changes.topics)
    names.update(limit.overflow_queue for limit in changes.limits.values() if limit.overflow_queue is not None)
    if changes.lease is not None:
        names.add(changes.lease.queue)
    return sorted(names)


def is_put(changes: Changes) -> bool:
    """Whether there is nothing but messages that can be inserted as they are."""
    return (
        bool(changes.enqueue)
        and not (changes.settle or changes.records or changes.edges or changes.limits or changes.topics)
        and changes.lease is None
        and all(map(is_plain, changes.enqueue))
    )


def apply(tx: Tx, changes: Changes) -> Committed:
    for message in changes.enqueue:
        tx.queue_id(message.queue)
    enqueued: list[Enqueued] = []
    if changes.enqueue or changes.edges or changes.topics:
        wiring = Wiring()
        enqueued = enqueue(tx, changes, wiring)
        add_edges(tx, changes.edges, wiring)
    settled = settle(tx, changes.settle, strict=changes.strict)
    operate.write_records(tx, changes.records)
    leased = leasing.lease(tx, changes.lease, settle_all=True) if changes.lease is not None else None
    return Committed(enqueued, settled, leased or [])
