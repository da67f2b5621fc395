"""The short ways: what the engine would decide alike, in a statement or two.

Each says whether it may be taken, or what it left to the engine.
"""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from localqueue.errors import IdTaken, LeaseLost
from localqueue.stores.engine.leases import lease
from localqueue.stores.engine.row import READY
from localqueue.stores.engine.settlement import settle
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Changes, Committed, LeaseRequest, Payload, Settle, StoredMessage
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.reads import claimed_message
from localqueue.stores.sqlite.rows import Counts, Execute, SQLiteRows, with_record, write_records

if TYPE_CHECKING:
    from localqueue.stores.sqlite.store import SQLiteQueueStore

_ROWS_A_STATEMENT = 500
_BATCH = "INSERT INTO lq_messages (key, queue, state, priority, created_at, payload, codec) VALUES "
_BATCH_LINE = "INSERT INTO lq_line (queue, part, rank, position, key, count) VALUES "


@functools.lru_cache(maxsize=64)
def _insert_rows(count: int) -> str:
    return _BATCH + ", ".join(f"(?1 + {n}, ?2, 0, 0, ?3, ?{n + 5}, ?4)" for n in range(count))


@functools.lru_cache(maxsize=64)
def _enter_line(count: int) -> str:
    return _BATCH_LINE + ", ".join(f"(?2, 2, 0, ?3, ?1 + {n}, 0)" for n in range(count))


def insert_batch(
    rows: SQLiteRows, now: float, queue: int, payloads: Sequence[Payload], codec: str | None, keys: range
) -> None:
    """Plain messages of one queue, many rows a statement."""
    if not keys:
        return
    try:
        for start in range(0, len(payloads), _ROWS_A_STATEMENT):
            part = payloads[start : start + _ROWS_A_STATEMENT]
            rows.execute(_insert_rows(len(part)), (keys[start], queue, now, codec, *part))
    except sqlite3.IntegrityError as error:
        raise IdTaken("a message id of this batch is in use") from error
    for start in range(0, len(keys), _ROWS_A_STATEMENT):  # apart from the messages: taking turns would be slower
        entering = keys[start : start + _ROWS_A_STATEMENT]
        rows.execute(_enter_line(len(entering)), (entering[0], queue, now))
    counts = Counts(rows.execute)
    counts.add(queue, READY, len(payloads))
    counts.write()


def is_plain(request: LeaseRequest) -> bool:
    """Whether one message is wanted, with nothing to do but to lease it."""
    return request.limit == 1 and not request.consume and (request.leased_by is None or not request.counted)


def is_step(changes: Changes) -> bool:
    """Whether it is a worker's step: acks of leases of one queue, records, and a claim from the same queue."""
    if changes.enqueue or changes.edges or changes.topics or not changes.settle:
        return False
    queue, request = changes.settle[0].queue, changes.lease
    if request is not None and request.queue != queue:
        return False
    return all(one.action == "ack" and one.token is not None and one.queue == queue for one in changes.settle)


def step(
    store: SQLiteQueueStore, queue: int, changes: Changes, execute: Execute, now: float, observed: bool
) -> tuple[Committed, Unit | None]:
    """What was done, and the unit of the engine that was needed for it, if any."""
    unit: Unit | None = None
    settled = _ack(store, queue, changes.settle, execute)
    if not all(settled):
        unit = store.new_unit(now, observed=observed)
        rest = [one for one, done in zip(changes.settle, settled, strict=True) if not done]
        others = iter(settle(unit, rest, strict=False))
        settled = [done or next(others) for done in settled]
        if changes.strict and not all(settled):
            stale = changes.settle[settled.index(False)]
            raise LeaseLost(stale.queue, stale.id, stale.token)
    versions = write_records(store, execute, now, changes.records)
    request = changes.lease
    if request is None:
        return Committed(settled=settled, versions=versions), unit
    if is_plain(request):
        if unit is not None:
            unit.flush()
        message = _claim_one(store, queue, request, execute, now)
        if message is not None:
            return Committed(settled=settled, leased=[message], versions=versions), unit
    unit = unit or store.new_unit(now, observed=observed)
    return Committed(settled=settled, leased=lease(unit, request, settle_all=True) or [], versions=versions), unit


def _ack(store: SQLiteQueueStore, queue: int, settles: Sequence[Settle], execute: Execute) -> list[bool]:
    """Ack those that leave nothing else to do."""
    key_of = store.ids.key_of
    if len(settles) == 1:
        one = settles[0]
        return [execute(sql.ACK_ONE, (key_of(one.id), queue, one.token)).rowcount > 0]
    by_token: dict[int | None, list[int | None]] = {}
    for one in settles:
        by_token.setdefault(one.token, []).append(key_of(one.id))
    acked: set[int] = set()
    for token, keys in by_token.items():
        acked.update(row[0] for row in execute(sql.ACK_MANY, (json.dumps(keys), queue, token)).fetchall())
    done = []
    for one in settles:
        key = key_of(one.id) or 0
        done.append(key in acked)
        acked.discard(key)  # the same message twice in one batch is acked once
    return done


def _claim_one(
    store: SQLiteQueueStore, queue: int, request: LeaseRequest, execute: Execute, now: float
) -> StoredMessage | None:
    until = now + request.timeout
    claimed = execute(sql.CLAIM_ONE, (queue, now, until, request.max_attempts, request.leased_by)).fetchall()
    if not claimed:
        return None
    ((key, token),) = claimed
    row = execute(sql.CLAIMED_MESSAGE, (key,)).fetchone()
    message = claimed_message(store.ids, request.queue, key, token, row, now, until, request.leased_by)
    if message is None:
        message = store.new_rows().message(key)
    return with_record(store, execute, request, message)
