"""The short ways: what the engine would decide alike, in a statement or two.

Each says whether it may be taken, or what it left to the engine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from localqueue.errors import LeaseLost
from localqueue.stores.engine.leases import lease
from localqueue.stores.engine.settlement import settle
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Changes, Committed, LeaseRequest, Settle, StoredMessage
from localqueue.stores.sqlite import statements as sql
from localqueue.stores.sqlite.reads import claimed_message
from localqueue.stores.sqlite.records import with_record, write_records
from localqueue.stores.sqlite.rows import Execute

if TYPE_CHECKING:
    from localqueue.stores.sqlite.store import SQLiteQueueStore


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
    store: SQLiteQueueStore,
    queue: int,
    changes: Changes,
    execute: Execute,
    now: float,
    observed: bool,
    freed: set[int],
) -> tuple[Committed, Unit | None]:
    """What was done, and the unit of the engine that was needed for it, if any. In `freed` are the queues in which
    something came free beside."""
    unit: Unit | None = None
    alone = len(changes.settle) == 1
    has_steps = alone and queue in store.step_queues
    settled = [False] if has_steps else _ack(store, queue, changes.settle, execute)
    if not all(settled):
        settled = _ack_steps(store, queue, changes.settle, settled, execute, now, freed)
        if alone:
            (store.step_queues.add if settled[0] else store.step_queues.discard)(queue)
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
    if len(settles) == 1:
        one = settles[0]
        return [execute(sql.ACK_ONE, (store.ids.key_of(one.id), queue, one.token)).rowcount > 0]
    keys = store.ids.keys_of([one.id for one in settles])
    by_token: dict[int | None, list[int | None]] = {}
    for one, key in zip(settles, keys, strict=True):
        by_token.setdefault(one.token, []).append(key)
    groups = [(json.dumps(mine), queue, token) for token, mine in by_token.items()]
    execute("SAVEPOINT acks")
    if sum(execute(sql.ACK_MANY, one).rowcount for one in groups) == len(settles):
        execute("RELEASE acks")
        return [True] * len(settles)
    execute("ROLLBACK TO acks")
    execute("RELEASE acks")
    acked = {key for one in groups for (key,) in execute(f"{sql.ACK_MANY} RETURNING key", one).fetchall()}
    done = []
    for key in keys:
        done.append(key in acked)
        acked.discard(key)  # the same message twice in one batch is acked once
    return done


def _ack_steps(
    store: SQLiteQueueStore,
    queue: int,
    settles: Sequence[Settle],
    settled: list[bool],
    execute: Execute,
    now: float,
    freed: set[int],
) -> list[bool]:
    """Ack those of the rest that are steps, up to the first that the engine has to look at: it keeps their order."""
    for n, one in enumerate(settles):
        key = store.ids.key_of(one.id)
        if not settled[n] and key is not None and one.token is not None:
            below = _ack_step(execute, key, queue, one.token, now)
            if below is None:
                break
            settled[n] = True
            freed |= below
    return settled


def _ack_step(execute: Execute, key: int, queue: int, token: int, now: float) -> set[int] | None:
    """Ack a message of a run and set free what comes after it: what most steps of a workflow come to. The queues in
    which something may have come free; None, with nothing changed, where there is more to decide."""
    leased = execute(sql.LEASED_STEP, (key, queue, token)).fetchone()
    if leased is None:
        return None
    run, has_dependents, history = leased
    below = execute(sql.DEPENDENTS, (key, now)).fetchall() if has_dependents else ()
    if not all(row[5] for row in below):
        return None
    execute("DELETE FROM lq_messages WHERE key = ?", (key,))
    if history:
        execute("DELETE FROM lq_attempts WHERE message = ?", (key,))
    if has_dependents:
        execute("DELETE FROM lq_dependencies WHERE upstream = ?", (key,))
    freed: Counter[int] = Counter()
    for dependent, its_queue, waiting_on, rank, attempts, _ in below:
        if waiting_on > 1:
            execute("UPDATE lq_messages SET waiting_on = waiting_on - 1 WHERE key = ?", (dependent,))
            continue
        execute(sql.FREE_MESSAGE, (dependent, now))
        execute(sql.ENTER_LINE, (its_queue, rank, now, dependent, attempts, None))
        freed[its_queue] += 1
    for its_queue, count in freed.items():
        execute(sql.COUNT_ARRIVALS, (its_queue, count, 0, 0))
        execute("UPDATE lq_queues SET waiting = waiting - ? WHERE id = ?", (count, its_queue))
    if run is not None:
        execute(sql.COUNT_RUN, (0, 1, now, run))
    return {row[1] for row in below}


def claim_one(
    execute: Execute, queue: int, request: LeaseRequest, now: float
) -> tuple[int, int, tuple[Any, ...]] | None:
    """The key, the token and the content of a message that was leased, if there was one to lease."""
    claim = (queue, now, now + request.timeout, request.max_attempts, request.leased_by)
    claimed = execute(sql.CLAIM_ONE, claim).fetchall()
    if not claimed:
        return None
    key, token = claimed[0]
    return key, token, execute(sql.CLAIMED_MESSAGE, (key,)).fetchone()


def _claim_one(
    store: SQLiteQueueStore, queue: int, request: LeaseRequest, execute: Execute, now: float
) -> StoredMessage | None:
    claimed = claim_one(execute, queue, request, now)
    if claimed is None:
        return None
    key, token, row = claimed
    until = now + request.timeout
    message = claimed_message(store.ids, request.queue, key, token, row, now, until, request.leased_by)
    if message is None:
        message = store.new_rows().message(key)
    return with_record(store, execute, request, message)
