"""A worker's step in its shortest form: ack the last message, write its records, lease the next one.

It runs the statements of the everyday ack and claim on the bare cursor. Only when there is more to either of them is
a `Tx` made for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localqueue.stores.port import Changes, Committed
from localqueue.stores.sqlite import lease as leasing
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.operate import write_records
from localqueue.stores.sqlite.rows import claimed_message
from localqueue.stores.sqlite.settle import settle
from localqueue.stores.sqlite.tx import Tx
from localqueue.stores.sqlite.writer import Execute

if TYPE_CHECKING:
    from localqueue.stores.sqlite.store import SQLiteQueueStore


def is_exchange(changes: Changes) -> bool:
    settles, request = changes.settle, changes.lease
    return (
        request is not None
        and leasing.is_plain(request)
        and len(settles) == 1
        and settles[0].action == "ack"
        and settles[0].token is not None
        and settles[0].queue == request.queue
        and not (changes.enqueue or changes.edges or changes.topics)
    )


def exchange(
    store: SQLiteQueueStore, queue: int, changes: Changes, execute: Execute, now: float
) -> tuple[Committed, Tx | None]:
    """What was done, and the `Tx` that was needed for it, if any."""
    (done,), request = changes.settle, changes.lease
    assert request is not None
    ids = store.ids
    acked = execute(sql.ACK_ONE, (ids.key_of(done.id), queue, done.token)).rowcount > 0
    tx = None if acked else store.new_tx(now)
    settled = [True] if tx is None else settle(tx, changes.settle, strict=changes.strict)
    write_records(store, execute, now, changes.records)
    until = now + request.timeout
    claim = (queue, now, until, request.max_attempts, request.leased_by)
    claimed = execute(sql.CLAIM_ONE, claim).fetchall()
    if claimed:
        ((key, token),) = claimed
        row = execute(sql.CLAIMED_MESSAGE, (key,)).fetchone()
        message = claimed_message(ids, request.queue, key, token, row, now, until, request.leased_by)
        if message is None:
            tx = tx or store.new_tx(now)
            message = leasing.full_message(tx, key)
        if request.ledger is not None:
            message = leasing.with_record(execute, store.namespace_id, request, message)
        return Committed(settled=settled, leased=[message]), tx
    tx = tx or store.new_tx(now)
    return Committed(settled=settled, leased=leasing.lease(tx, request, settle_all=True) or []), tx
