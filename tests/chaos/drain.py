"""The end of a round: everything that can be delivered is, and what is left is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from localqueue.stores.port import Changes
from tests.chaos.client import name_of
from tests.chaos.consumer import Consumer, request, settle
from tests.chaos.history import Claim, Final, Held
from tests.chaos.producer import MOST, RECORDS

_LONG = 60.0


class Stuck(Exception):
    """Messages that are to be delivered, and are not."""


def drain(client: Consumer, patient: Callable[[bool], bool], alive: Callable[[], None] = lambda: None) -> None:
    """Deliver and ack all there is. `patient` is told after each look whether something was delivered, and lets time
    pass if not, for leases to end; False when it has waited long enough. `alive` is called for every queue: a look at a
    thousand of them may take a while."""
    while live := _live(client.store, client.store.queues(), alive):
        while live:
            if not patient(sum(_empty(client, queue) for queue in live) > 0):
                raise Stuck(f"{client.namespace}: there is no end to what is to be delivered: {live}")
            live = _live(client.store, live, alive)


def _live(store: Any, queues: Iterable[str], alive: Callable[[], None]) -> dict[str, int]:
    """How many messages can be delivered, now or later, of the queues that have any."""
    counts: dict[str, int] = {}
    for queue in queues:
        alive()
        stats = store.stats(queue)
        counts[queue] = stats.ready + stats.delayed + stats.inflight + stats.blocked
    return {queue: count for queue, count in counts.items() if count}


def _empty(client: Consumer, queue: str) -> int:
    """Deliver some of what is ready; how many that were."""
    done = client.empty(queue)
    if done is not None:
        return done
    client.held.clear()
    claim = Claim(queue, 50, _LONG, None, MOST.get(queue))
    client.ask("drain", lambda: client.store.lease(request(claim)), claim=claim)
    leases = list(client.held)
    if leases:
        changes = Changes(settle=[settle(lease, "ack") for lease in leases], strict=False)
        endings = tuple(lease.ending("ack") for lease in leases)
        client.ask("drain", lambda: client.store.commit(changes), endings=endings)
    return len(leases)


def final_of(stores: Mapping[str, Any], alive: Callable[[], None] = lambda: None) -> Final:
    """What each namespace holds in the end. `alive` is called now and then: it may take a while."""
    final = Final()
    for namespace, store in stores.items():
        for queue in store.queues():
            alive()
            final.held += (
                Held(namespace, queue, name_of(one.payload), one.id, one.state, one.dedupe_key, one.ordering_key)
                for one in store.scan(queue)
            )
            dropped = store.stats(queue).dropped
            if dropped:
                final.dropped[namespace, queue] = dropped
        final.records |= {(namespace, record.key) for record in store.records(RECORDS)}
        alive()
        final.problems += (f"{namespace}: {problem}" for problem in store.check().problems)
    return final
