"""What leaves nothing to decide: renew, purge, prune, pause, subscribe, and the sign of life of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from localqueue.events.event import PRUNED, PURGED, RENEWED
from localqueue.stores import rules
from localqueue.stores.engine.port import Wanted
from localqueue.stores.engine.row import CODE, Row
from localqueue.stores.engine.unit import Unit
from localqueue.stores.lmdb import keys, reads, schema
from localqueue.stores.lmdb.rows import A_PIECE, LMDBRows
from localqueue.stores.lmdb.schema import WorkerRow
from localqueue.stores.port import STATES, Lease


def renew(unit: Unit, leases: Sequence[Lease], timeout: float) -> list[float | None]:
    numbers = [unit.rows.ids.key_of(one.id) for one in leases]
    unit.fetch(Wanted(keys={key for key in numbers if key is not None}))
    until = unit.now + timeout
    return [_renew(unit, unit.row(key), one, until) for key, one in zip(numbers, leases, strict=True)]


def _renew(unit: Unit, row: Row | None, lease: Lease, until: float) -> float | None:
    if row is None or row.token != lease.token or row.queue != unit.rows.find_queue(lease.queue):
        return None
    unit.mark(row)
    row.leased_until = until
    unit.note(RENEWED, row, told=False, lease=True)
    return until


def prune(unit: Unit, name: str, state: str, older_than: float) -> int:
    rows = cast(LMDBRows, unit.rows)
    queue = rows.find_queue(name)
    if queue is None:
        return 0
    return _remove(unit, rows, reads.ended_by(rows.txn, queue, CODE[state], unit.now - older_than), PRUNED)


def purge(unit: Unit, name: str) -> int:
    rows = cast(LMDBRows, unit.rows)
    queue = rows.find_queue(name)
    if queue is None:
        return 0
    removed = _remove(unit, rows, [row.key for row in reads.in_queue(rows.txn, queue)], PURGED)
    for key, value in list(keys.walk(rows.txn, keys.within(keys.WORKERS, queue))):
        worker = WorkerRow.unpack(value)
        if worker.paused:
            rows.save_worker(queue, WorkerRow(worker.name, paused=True))
        else:
            rows.txn.delete(key)
    kept = rows.queue_row(queue)
    kept.counts, kept.dropped, kept.due = [0] * len(STATES), 0, rules.NEVER
    return removed


def _remove(unit: Unit, rows: LMDBRows, numbers: Sequence[int], why: str) -> int:
    """Remove messages with what belongs to them, and remember that they were not acked; how many there were.

    Nothing comes free by it: what an ordering key blocks goes as well, and what left delivery holds none.
    """
    for at in range(0, len(numbers), A_PIECE):
        for row in rows.rows(numbers[at : at + A_PIECE]):
            unit.note(why, row, lease=True)
            unit.writes.deletes[row.key] = row
            unit.writes.removed[row.key] = why
            if row.waiting_on:
                unit.writes.forgotten.append(row.key)
            unit.touch(row)
        unit.flush()
    return len(numbers)


def set_subscription(rows: LMDBRows, topic: str, subscriber: str, wanted: bool) -> bool:
    queue = rows.queue_row(rows.queue(topic))
    key = keys.named(keys.SUBSCRIPTIONS, queue.id, subscriber)
    if wanted == (rows.txn.get(key) is not None):
        return False
    if wanted:
        others = keys.walk(rows.txn, keys.within(keys.SUBSCRIPTIONS, queue.id))
        last = max((schema.unpack_subscription(value)[1] for _, value in others), default=0)
        rows.txn.put(key, schema.pack_subscription(subscriber, last + 1))
    else:
        rows.txn.delete(key)
    queue.subscriptions += 1
    return True


def set_paused(rows: LMDBRows, name: str, worker: str | None, paused: bool) -> None:
    queue = rows.queue(name)
    rows.changed.add(queue)
    if worker is None:
        rows.queue_row(queue).paused = paused
    else:
        rows.save_worker(queue, reads.worker_row(rows.txn, queue, worker)._replace(paused=paused))


def heartbeat(rows: LMDBRows, name: str, worker: str, leases: int) -> None:
    queue = rows.queue(name)
    row = reads.worker_row(rows.txn, queue, worker)
    rows.save_worker(queue, row._replace(leases=row.leases + leases, last_seen=rows.now))
