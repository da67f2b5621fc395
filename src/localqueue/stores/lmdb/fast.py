"""The short ways of a plain put and a plain ack: what the engine would decide about them is known beforehand."""

from __future__ import annotations

from localqueue.events.event import ACKED, ENQUEUED
from localqueue.stores.engine.port import Note
from localqueue.stores.engine.row import READY, Row
from localqueue.stores.lmdb import keys
from localqueue.stores.lmdb.rows import LMDBRows
from localqueue.stores.port import NewMessage, Payload


def put_one(rows: LMDBRows, name: str, payload: Payload, codec: str | None) -> tuple[str, float]:
    """Store a message without options under a new id."""
    queue = rows.queue(name)
    key = rows.ids.reserve()
    while rows.txn.get(keys.message(key)) is not None:  # another process minted the same key
        key = rows.ids.reserve()
    row = Row(key, queue, READY, 0, rows.now, rows.now)
    message = NewMessage(rows.ids.id_of(key), name, payload, codec)
    rows.insert(row, message)
    if rows.journalled:
        rows.note([Note(ENQUEUED, row, 0, message=message)])
    rows.changed.add(queue)
    return message.id, rows.now


def ack_one(rows: LMDBRows, name: str, message_id: str, token: int) -> bool | None:
    """Whether the lease was current; None when the ack sets something free: then the engine decides what."""
    key = rows.ids.key_of(message_id)
    row = None if key is None else rows.row(key)
    if row is None or row.token != token or row.queue != rows.find_queue(name):
        return False
    if row.ordering_key is not None or row.run is not None or row.dependents:
        return None
    if rows.journalled:
        rows.note([Note(ACKED, row, row.attempts, row.leased_by)])
    row.before = row.snapshot()
    rows.delete(row)
    rows.changed.add(row.queue)
    return True
