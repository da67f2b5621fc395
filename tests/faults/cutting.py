"""One run of a scenario during which its connection is cut, and what must be true after it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from localqueue.errors import QueueStoreUnavailableError
from localqueue.stores.port import LeaseRequest
from tests.crash.picture import picture
from tests.crash.scenarios import SCENARIOS
from tests.crash.stores import Clock
from tests.faults.proxy import PLACES, Proxy, Where
from tests.faults.stores import on_server, through, within_deadline
from tests.servers import Server

#: What a store on the far side of a proxy is given, in seconds, to find out that the server does not answer.
TIMEOUT = 1.0

_BETWEEN = 5

Picture = dict[str, Any]


class Rehearsal(NamedTuple):
    """What a store shows before, between and after the calls of a scenario when nothing is broken, and how many round
    trips each of the calls takes."""

    name: str
    journal: bool
    pictures: list[Picture]
    round_trips: list[int]

    def points(self) -> Iterator[tuple[int, Where]]:
        """Which round trips to cut, and where: the first and the last of each call at every place, and up to five of
        those between them."""
        places = itertools.cycle(PLACES)
        for end, count in zip(itertools.accumulate(self.round_trips), self.round_trips, strict=True):
            first = end - count + 1
            for nth in sorted({first, end}):
                yield from ((nth, where) for where in PLACES)
            for nth in range(first + 1, end, math.ceil(max(count - 2, 1) / _BETWEEN)):
                yield nth, next(places)


class Outcome(NamedTuple):
    """How far a run came, and why it came no further."""

    calls: int
    failure: QueueStoreUnavailableError | None

    def allowed(self, pictures: list[Picture]) -> list[Picture]:
        """What the store may hold: a call that failed did all of its work or none."""
        return [pictures[-1]] if self.failure is None else pictures[self.calls : self.calls + 2]


@contextmanager
def connected(server: Server, proxy: Proxy) -> Iterator[None]:
    """Keeps open what stores of one process share, so that each run does not begin with making it."""
    place = on_server(server)
    with place.open(), through(place, proxy.port).open(timeout=TIMEOUT):
        yield


def shown(store: Any) -> Picture:
    """The picture of a store with its journal, without ids: each run has its own."""
    seen = picture(store)
    return {
        **seen,
        "records": [(value, at) for _, value, at in seen["records"]],
        "journal": [(event.type, event.queue, event.at) for event in store.events()],
    }


def prepared(store: Any, name: str, clock: Clock, journal: bool) -> Any:
    if journal:
        store.enable_journal()
    return SCENARIOS[name].prepare(store, clock)


def rehearse(server: Server, proxy: Proxy, name: str, *, journal: bool = False) -> Rehearsal:
    clock, place = Clock(), on_server(server)
    with place.open(clock=clock) as witness:
        given = prepared(witness, name, clock, journal)
        pictures, round_trips = [shown(witness)], []
        with through(place, proxy.port).open(clock=Clock(clock.now), timeout=TIMEOUT) as store:
            assert store.qsize("jobs") == witness.qsize("jobs")
            proxy.requests()
            for _ in SCENARIOS[name].steps(store, given):
                round_trips.append(proxy.requests())
                pictures.append(shown(witness))
    assert all(before != after for before, after in itertools.pairwise(pictures)), (
        "a call that changes nothing proves nothing"
    )
    return Rehearsal(name, journal, pictures, round_trips)


def run(server: Server, proxy: Proxy, rehearsal: Rehearsal, break_it: Callable[[Proxy], None]) -> Outcome:
    """Run a scenario through the proxy, which `break_it` has told what to do, and look at what is left of it."""
    clock, place = Clock(), on_server(server)
    with place.open(clock=clock) as witness:
        given = prepared(witness, rehearsal.name, clock, rehearsal.journal)
        with through(place, proxy.port).open(clock=Clock(clock.now), timeout=TIMEOUT) as store:
            assert store.qsize("jobs") == witness.qsize("jobs")  # by now it is connected
            break_it(proxy)
            outcome = within_deadline(lambda: _steps(store, rehearsal.name, given))
            proxy.mend()
            assert shown(witness) in outcome.allowed(rehearsal.pictures), f"{outcome}: neither before nor after"
            within_deadline(lambda: assert_works(store))
        assert witness.check().problems == ()
    return outcome


def vanish(server: Server, proxy: Proxy, name: str, nth: int) -> bool:
    """A host that is gone, as far as the server can tell, from the nth round trip on: others must get on with it.

    False when the scenario came to its end before.
    """
    clock, place = Clock(), on_server(server)
    with place.open(clock=clock) as witness:
        given = prepared(witness, name, clock, False)
        store = through(place, proxy.port).open(clock=Clock(clock.now), timeout=TIMEOUT)
        try:
            assert store.qsize("jobs") == witness.qsize("jobs")
            proxy.silence_at(nth)
            outcome = within_deadline(lambda: _steps(store, name, given))
            assert (outcome.failure is not None) == proxy.has_cut
            if proxy.has_cut:
                within_deadline(lambda: assert_works(witness))
        finally:
            proxy.mend()
            store.close()
        return proxy.has_cut


def _steps(store: Any, name: str, given: Any) -> Outcome:
    done = 0
    try:
        for _ in SCENARIOS[name].steps(store, given):
            done += 1
    except QueueStoreUnavailableError as failure:
        return Outcome(done, failure)
    return Outcome(done, None)


def assert_works(store: Any) -> None:
    """The store does its work again, in a queue of its own and in the one that was worked on."""
    for queue in ("probe", "jobs"):
        message_id, _ = store.put_one(queue, f"alive in {queue}", None)
        assert store.get(queue, message_id).state == "ready"
    (probe,) = store.lease(LeaseRequest("probe"))
    assert store.ack_one("probe", probe.id, probe.attempts)
