"""Claiming and renewing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from localqueue.stores.port import Lease, LeaseRequest, StoredMessage
from localqueue.stores.postgres import driver
from localqueue.stores.postgres.due import settle_due
from localqueue.stores.postgres.rows import claimed_message, raw, raw_or_none
from localqueue.stores.postgres.settle import follow_ack
from localqueue.stores.postgres.tokens import queue_token
from localqueue.stores.postgres.tx import Tx

if TYPE_CHECKING:
    from localqueue.stores.postgres.hot import HotPaths
    from localqueue.stores.postgres.reads import ReadsQueues

_DUE_A_CLAIM = 500


def claim_values(
    store: HotPaths, queue: int, request: LeaseRequest, *, now: float | None, consume: bool
) -> tuple[Any, ...]:
    """The parameters of `lq_claim`, behind the first."""
    name = request.queue
    return (
        now, queue, request.limit, float(request.timeout), raw_or_none(request.leased_by), request.max_attempts,
        consume, request.counted, store.namespace_id, raw_or_none(request.ledger),
        raw(name) if request.ledger is not None else b"", store.channel, queue_token(name),
    )  # fmt: skip


def lease(tx: Tx, request: LeaseRequest, *, settle_all: bool = False) -> list[StoredMessage] | None:
    """Claim from the front of the line, after settling the timers that have passed.

    None when so many were due that it is not known yet what may be claimed: what was settled should be committed, and
    the claim tried again. With `settle_all` it settles them in this transaction.
    """
    queue = tx.queue_id(request.queue)
    if is_paused(tx, queue, request.leased_by):
        return []
    while not settle_due(tx, queue, max_attempts=request.max_attempts, limit=_DUE_A_CLAIM, in_pieces=not settle_all):
        if not settle_all:
            return None
    values = claim_values(tx.store, queue, request, now=tx.now, consume=False)
    rows = tx.execute(tx.sql.CLAIM, values).fetchall()
    if any(row[0] is None for row in rows):  # a lease as short as nothing has ended meanwhile
        return lease(tx, request, settle_all=settle_all) if settle_all else None
    messages = [claimed_message(tx.store.ids, request, row) for row in rows]
    if request.consume:
        for key, *_ in sorted(rows):
            message = tx.current(key)
            assert message is not None
            tx.delete(message)
            follow_ack(tx, message)
    return messages


def is_plain(request: LeaseRequest) -> bool:
    """Whether there is nothing to do but to lease."""
    return not request.consume and request.ledger is None and (request.leased_by is None or not request.counted)


def is_paused(tx: Tx, queue: int, worker: str | None) -> bool:
    found = tx.run_sql(
        "SELECT q.paused_at IS NOT NULL OR EXISTS (SELECT 1 FROM localqueue.lq_workers AS w WHERE w.queue = q.id "
        "AND sha256(w.worker) = sha256($2::bytea) AND w.paused_at IS NOT NULL) "
        "FROM localqueue.lq_queues AS q WHERE q.id = $1",
        (queue, raw_or_none(worker)),
    )
    return bool(found.fetchone()[0])


def renew_values(
    store: ReadsQueues, queue_ids: dict[str, int], leases: Sequence[Lease], timeout: float, now: float | None
) -> tuple[Any, ...]:
    """The parameters of `renew_leases.sql`, in the order of the keys."""
    held = sorted(
        (key, queue_ids[one.queue], one.token)
        for one in leases
        if (key := store.ids.key_of(one.id)) is not None and one.queue in queue_ids
    )
    return now, float(timeout), [one[0] for one in held], [one[1] for one in held], [one[2] for one in held]


def more_to_do(error: BaseException) -> bool:
    """Whether one of our functions left something to the long way."""
    return driver.sqlstate(error) == driver.MORE_TO_DO
