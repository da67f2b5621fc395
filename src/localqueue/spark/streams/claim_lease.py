"""How the messages of a claim are held: taking many without taking too much, and giving back what is none.

A message is leased, or it follows one that is. Of an ordering key only the first message can be leased, and the others
are blocked behind it: as long as that lease is current, nobody else can have them. So a claim takes a key's whole run
with the lease of its head. It is settled in one commit that is refused as a whole unless every head is still ours.
Given back or expired, the head is ready again and the rest is where it always was, behind it, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from localqueue.errors import LeaseLost
from localqueue.stores.port import (
    BLOCKED,
    INFLIGHT,
    Changes,
    Committed,
    Lease,
    LeaseRequest,
    QueueStore,
    Settle,
    StoredMessage,
)

#: What the payloads of one claim weigh at most, give or take a page of leases.
CLAIM_BYTES = 64_000_000
FIRST_PAGE = 2_000
_PAGE = 25_000
_SCAN = 5_000
_LOOK_THROUGH = 200_000  # blocked messages, most of which may be behind what others hold
_TRIES = 20
_ID, _PAYLOAD, _ATTEMPTS, _HEAD = map(attrgetter, ("id", "payload", "attempts", "head"))


class Held(NamedTuple):
    """A message of a claim: the token of its lease, or the message of its ordering key that it follows."""

    id: str
    token: int | None
    head: str | None = None


class Taken(NamedTuple):
    """Messages as they are delivered, each key's in its order, and of those that follow one the head, by their ids."""

    messages: list[StoredMessage]
    heads: dict[str, str]

    def held(self) -> list[Held]:
        if not self.heads:
            return list(map(Held, map(_ID, self.messages), map(_ATTEMPTS, self.messages)))
        heads = self.heads
        return [
            Held(one.id, None, heads[one.id]) if one.id in heads else Held(one.id, one.attempts)
            for one in self.messages
        ]


def take_up_to(store: QueueStore, request: LeaseRequest, limit: int | None) -> Taken:
    """Take up to `limit` messages, fewer when they are heavy, and then those that are blocked behind them."""
    leased = _lease_up_to(store, request, limit)
    heads = {one.ordering_key: one for one in leased if one.ordering_key is not None}
    if not heads or (limit is not None and len(leased) >= limit):
        return Taken(leased, {})
    room = CLAIM_BYTES - sum(len(one.payload) for one in leased)
    behind = _behind(store, request.queue, heads.keys(), None if limit is None else limit - len(leased), room)
    messages, follows = [], {}
    for one in leased:
        messages.append(one)
        for next_one in behind.get(one.ordering_key, ()):
            follows[next_one.id] = one.id
            messages.append(
                next_one._replace(
                    state=INFLIGHT,
                    attempts=next_one.attempts + 1,
                    leased_until=one.leased_until,
                    leased_by=one.leased_by,
                )
            )
    return Taken(messages, follows)


def _lease_up_to(store: QueueStore, request: LeaseRequest, limit: int | None) -> list[StoredMessage]:
    """Pages are as large as the weight of those before allows."""
    leased: list[StoredMessage] = []
    weight, page = 0, FIRST_PAGE
    while limit is None or len(leased) < limit:
        wanted = page if limit is None else min(page, limit - len(leased))
        found = store.lease(request._replace(limit=wanted))
        leased += found
        weight += sum(map(len, map(_PAYLOAD, found)))
        if len(found) < wanted or weight >= CLAIM_BYTES:
            break
        page = max(1, min(_PAGE, (CLAIM_BYTES - weight) * len(leased) // max(weight, 1)))
    return leased


def _behind(
    store: QueueStore, queue: str, keys: Iterable[str | None], limit: int | None, room: int
) -> dict[str | None, list[StoredMessage]]:
    """The messages blocked behind the heads of these keys, up to the first of each that is not available yet."""
    found: dict[str | None, list[StoredMessage]] = {key: [] for key in keys}
    wanted, now, seen = set(found), store.now(), 0
    after: str | None = None
    while wanted and room > 0 and limit != 0 and seen < _LOOK_THROUGH:
        page = store.scan(queue, state=BLOCKED, after=after, limit=_SCAN)
        for one in page:
            if one.ordering_key not in wanted:
                continue
            if one.expires_at is not None and one.expires_at <= now:
                continue  # it leaves delivery when its turn comes
            if one.available_at > now:
                wanted.discard(one.ordering_key)
                continue
            found[one.ordering_key].append(one)
            room -= len(one.payload)
            limit = None if limit is None else limit - 1
            if room <= 0 or limit == 0:
                break
        if len(page) < _SCAN:
            break
        after, seen = page[-1].id, seen + len(page)
    return found


def held_by(store: QueueStore, queue: str, worker: str) -> Iterator[list[Held]]:
    """What is leased under a name, page by page."""
    after: str | None = None
    while page := store.scan(queue, state=INFLIGHT, after=after, limit=_SCAN):
        yield [Held(one.id, one.attempts) for one in page if one.leased_by == worker]
        after = page[-1].id


def leases(queue: str, held: Iterable[Held]) -> list[Lease]:
    """The leases by which messages are held."""
    return [Lease(queue, one.id, one.token) for one in held if one.token is not None]


def give_back(store: QueueStore, queue: str, held: Sequence[Held]) -> None:
    """Return messages that no handler has seen."""
    if held:
        store.commit(Changes(settle=returned(queue, held), strict=False))


def returned(queue: str, held: Iterable[Held]) -> list[Settle]:
    return [Settle(queue, one.id, "release", one.token, forgive=True) for one in held if one.token is not None]


def without_lost(store: QueueStore, queue: str, held: Sequence[Held], timeout: float) -> list[Held]:
    """Renew the leases; those that are still held. Who has lost a head has lost all that follows it."""
    mine = leases(queue, held)
    renewed = store.renew(mine, timeout=timeout)
    lost = {lease.id for lease, until in zip(mine, renewed, strict=True) if until is None}
    return [one for one in held if (one.head or one.id) not in lost] if lost else list(held)


def settled(queue: str, held: Sequence[Held], errors: Mapping[str, Mapping[str, Any]]) -> list[Settle]:
    """Ack messages, but those that have an error become dead letters with it.

    What follows goes before its head: until that goes it is blocked, and nothing is set free in between.
    """
    heads = any(map(_HEAD, held))
    if not errors and not heads:
        return [Settle(queue, one, "ack", token) for one, token, _ in held]
    if heads:
        held = [*(one for one in held if one.head), *(one for one in held if not one.head)]
    return [
        Settle(queue, one.id, "dead-letter" if one.id in errors else "ack", one.token, error=errors.get(one.id))
        for one in held
    ]


def settle_held(
    store: QueueStore,
    queue: str,
    held: Sequence[Held],
    commit: Callable[[Sequence[Held], bool], Committed],
    timeout: float,
) -> int:
    """Settle what is still held, by a commit that is given it and whether it must be refused as a whole when a lease is
    lost; how many were lost. Without followers each message stands for itself."""
    still = held
    for _ in range(_TRIES):
        strict = any(one.head for one in still)
        try:
            done = commit(still, strict)
            return len(held) - len(still) + done.settled.count(False)
        except LeaseLost:  # a head, or a message that an operator removed meanwhile
            still = without_lost(store, queue, still, timeout)
            still = [one for one in still if one.head is None or store.get(queue, one.id) is not None]
    raise LeaseLost(queue, still[0].id, still[0].token)
