"""A worker's step in its shortest form: ack what is done, write its records, lease what is next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localqueue.stores.port import Changes, LeaseRequest
from localqueue.stores.postgres.quick import (
    FALSE,
    TRUE,
    bytea_array,
    float8,
    float8_or_none,
    int4,
    int4_array,
    int4_or_none,
    int8_array,
)
from localqueue.stores.postgres.rows import raw, raw_or_none
from localqueue.stores.postgres.tokens import queue_token

if TYPE_CHECKING:
    from localqueue.stores.postgres.hot import HotPaths


def is_step(changes: Changes) -> bool:
    """Acks of leases of one queue, records and a claim from the same queue, or some of these."""
    if changes.enqueue or changes.edges or changes.topics or not (changes.settle or changes.lease):
        return False
    queue = changes.settle[0].queue if changes.settle else None
    request = changes.lease
    return all(one.action == "ack" and one.token is not None and one.queue == queue for one in changes.settle) and (
        request is None or queue is None or request.queue == queue
    )


def step_values(store: HotPaths, changes: Changes) -> tuple[bytes | None, ...] | None:
    """The parameters of `lq_step`; None when a message or a queue is unknown, which the long way tells apart."""
    request = changes.lease or _NO_CLAIM
    name = changes.settle[0].queue if changes.settle else request.queue
    queue = store.queue_ids.get(name)
    if queue is None:
        return None
    key_of = store.ids.key_of
    acks = sorted([(key_of(one.id) or 0, one.token or 0) for one in changes.settle])
    records = changes.records
    return (
        int8_array([key for key, _ in acks]),
        int4_array([token for _, token in acks]),
        bytea_array([raw(one.kind) for one in records]),
        bytea_array([raw(one.key) for one in records]),
        bytea_array([one.value for one in records]),
        int8_array([store.ids.reserve() for _ in records]),
        int8_array([one.expect for one in records]),
        float8_or_none(store._given_now()),
        int4(queue),
        int4(request.limit),
        float8(request.timeout),
        raw_or_none(request.leased_by),
        int4_or_none(request.max_attempts),
        TRUE if request.consume else FALSE,
        TRUE if request.counted else FALSE,
        int4(store.namespace_id),
        raw_or_none(request.ledger),
        raw(name) if request.ledger is not None else b"",
        store.channel.encode(),
        queue_token(name).encode(),
    )


_NO_CLAIM = LeaseRequest("", 0)
