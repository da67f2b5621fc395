"""The leases behind a claim: taking many without taking too much, and giving back what is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from localqueue.stores.port import INFLIGHT, Changes, LeaseRequest, QueueStore, Settle, StoredMessage

#: What the payloads of one claim weigh at most, give or take a page of leases.
CLAIM_BYTES = 64_000_000
FIRST_PAGE = 2_000
_PAGE = 25_000
_SCAN = 5_000

#: The id of a leased message and its fencing token.
Held = tuple[str, int]


def lease_up_to(store: QueueStore, request: LeaseRequest, limit: int | None) -> list[StoredMessage]:
    """Lease up to `limit` messages, fewer when they are heavy: pages are as large as the weight of those before."""
    leased: list[StoredMessage] = []
    weight, page = 0, FIRST_PAGE
    while limit is None or len(leased) < limit:
        wanted = page if limit is None else min(page, limit - len(leased))
        found = store.lease(request._replace(limit=wanted))
        leased += found
        weight += sum(len(one.payload) for one in found)
        if len(found) < wanted or weight >= CLAIM_BYTES:
            break
        page = max(1, min(_PAGE, (CLAIM_BYTES - weight) * len(leased) // max(weight, 1)))
    return leased


def held_by(store: QueueStore, queue: str, worker: str) -> Iterator[list[Held]]:
    """What is leased under a name, page by page."""
    after: str | None = None
    while page := store.scan(queue, state=INFLIGHT, after=after, limit=_SCAN):
        yield [(one.id, one.attempts) for one in page if one.leased_by == worker]
        after = page[-1].id


def give_back(store: QueueStore, queue: str, held: Sequence[Held]) -> None:
    """Return messages that no handler has seen."""
    if held:
        store.commit(Changes(settle=returned(queue, held), strict=False))


def returned(queue: str, held: Sequence[Held]) -> list[Settle]:
    return [Settle(queue, message_id, "release", token, forgive=True) for message_id, token in held]


def settled(queue: str, held: Sequence[Held], errors: Mapping[str, Mapping[str, Any]]) -> list[Settle]:
    """Ack messages, but those that have an error become dead letters with it."""
    return [
        Settle(queue, message_id, "dead-letter" if message_id in errors else "ack", token, error=errors.get(message_id))
        for message_id, token in held
    ]
