"""One run of a scenario during which its connection is cut, and what must be true after it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from localqueue.errors import QueueStoreUnavailableError
from localqueue.stores.port import Changes, LeaseRequest
from localqueue.stores.sqlite import MemoryQueueStore
from tests.crash.picture import picture
from tests.crash.scenarios import SCENARIOS
from tests.crash.stores import Clock
from tests.faults.proxy import PLACES, Proxy, Where
from tests.faults.ways import through, within_deadline
from tests.servers import MongoDB, Server
from tests.stores import Place, on_server

#: What a store on the far side of a proxy is given, in seconds, to find out that the server does not answer.
TIMEOUT = 1.0

#: And where it does answer, or is found to be gone at once: a server that is busy may take its time.
PATIENT_TIMEOUT = 8.0

_BEFORE_THE_LAST = 5

#: Of what a machine that stands still, or a server that is busy, has spoilt.
TRIES = 4

Picture = dict[str, Any]
T = TypeVar("T")


class Halves(NamedTuple):
    """What a store may show of a call that has two transactions."""

    settled_timers: list[Picture]
    without_lease: list[Picture]
    uncounted: list[Picture]


class Halving:
    """Makes each call in the parts that it may have, and keeps what the store showed between them.

    Passed timers may be settled before anything is claimed, the lease of a commit may follow the rest of it, and with
    `counts_beside` the count of a worker's leases may follow the claim.
    """

    def __init__(self, store: Any, *, counts_beside: bool) -> None:
        self._store = store
        self._counts_beside = counts_beside
        self.halves = Halves([], [], [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def lease(self, request: LeaseRequest) -> Any:
        self._store.lease(request._replace(limit=0))
        before = shown(self._store)
        self.halves.settled_timers.append(before)
        leased = self._store.lease(request)
        if self._counts_beside:
            self.halves.uncounted.append(_with_counts_of(before, shown(self._store)))
        return leased

    def commit(self, changes: Changes) -> Any:
        if changes.lease is None:
            return self._store.commit(changes)
        committed = self._store.commit(replace(changes, lease=None))
        self.halves.without_lease.append(shown(self._store))
        committed.leased = self.lease(changes.lease)
        return committed


def _with_counts_of(before: Picture, after: Picture) -> Picture:
    """What was shown after a claim, with the counts of leases that were shown before it."""
    for name, queue in after["queues"].items():
        queue["stats"]["leases_by_worker_id"] = before["queues"][name]["stats"]["leases_by_worker_id"]
    return after


class Rehearsal(NamedTuple):
    """What a store shows before, between and after the calls of a scenario when nothing is broken, where each call may
    stop halfway, and how many round trips each of the calls takes."""

    name: str
    journal: bool
    pictures: list[Picture]
    halves: list[Halves]
    round_trips: list[int]

    def points(self, most: int) -> list[tuple[int, Where]]:
        """Which round trips to cut, and where: the first of each call, its last at every place, and some between them.

        No more than `most`, evenly from the first to the last.
        """
        places = itertools.cycle(PLACES)
        points: list[tuple[int, Where]] = []
        for end, count in zip(itertools.accumulate(self.round_trips), self.round_trips, strict=True):
            first = end - count + 1
            before_the_last = range(first, end, math.ceil(count / _BEFORE_THE_LAST))
            points += [(nth, next(places)) for nth in before_the_last]
            points += [(end, where) for where in PLACES]
        few = min(most, len(points))
        return [points[n * (len(points) - 1) // max(few - 1, 1)] for n in range(few)]


class Outcome(NamedTuple):
    """How far a run came, and why it came no further."""

    calls: int
    failure: QueueStoreUnavailableError | None

    def allowed(self, rehearsal: Rehearsal) -> list[Picture]:
        """What the store may hold: a call that failed did all of its work, none, or the first part where it has two.

        A commit may return without the lease that was asked of it; the caller then has no messages and no error.
        """
        if self.failure is None:
            return [rehearsal.pictures[-1], *rehearsal.halves[-1].without_lease, *rehearsal.halves[-1].uncounted]
        halves = itertools.chain(*rehearsal.halves[self.calls])
        return [*rehearsal.pictures[self.calls : self.calls + 2], *halves]


@contextmanager
def connected(server: Server, proxy: Proxy) -> Iterator[None]:
    """Keeps open what stores of one process share, so that each run does not begin with making it."""
    place = on_server(server)
    with place.open(), _open(place, proxy, timeout=TIMEOUT):
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
        with through(place, proxy.port).open(clock=Clock(clock.now), timeout=PATIENT_TIMEOUT) as store:
            _connect(store, witness)
            proxy.requests()
            for _ in SCENARIOS[name].steps(store, given):
                round_trips.append(proxy.requests())
                pictures.append(shown(witness))
    assert all(before != after for before, after in itertools.pairwise(pictures)), (
        "a call that changes nothing proves nothing"
    )
    halves = _halves(name, journal, counts_beside=isinstance(server, MongoDB))
    return Rehearsal(name, journal, pictures, halves, round_trips)


def _halves(name: str, journal: bool, *, counts_beside: bool) -> list[Halves]:
    """Where each call may stop halfway, as a store in memory shows it: all stores show the same."""
    clock, found = Clock(), []
    with MemoryQueueStore(clock=clock) as store:
        halving = Halving(store, counts_beside=counts_beside)
        for _ in SCENARIOS[name].steps(halving, prepared(store, name, clock, journal)):
            found.append(halving.halves)
            halving.halves = Halves([], [], [])
    return found


def run(
    server: Server,
    proxy: Proxy,
    rehearsal: Rehearsal,
    break_it: Callable[[Proxy], None],
    *,
    timeout: float = TIMEOUT,
) -> Outcome:
    """Run a scenario through the proxy, which `break_it` has told what to do, and look at what is left of it.

    Once more when it failed before anything was broken, because this machine stood still for longer than the timeout.
    """
    for _ in range(TRIES):
        outcome, broken = _run(server, proxy, rehearsal, break_it, timeout)
        if broken or outcome.failure is None:
            return outcome
    raise AssertionError("it fails though nothing is broken") from outcome.failure


def _run(
    server: Server, proxy: Proxy, rehearsal: Rehearsal, break_it: Callable[[Proxy], None], timeout: float
) -> tuple[Outcome, bool]:
    """How a run ended, and whether anything was broken by then."""
    clock, place = Clock(), on_server(server)
    with place.open(clock=clock) as witness:
        given = prepared(witness, rehearsal.name, clock, rehearsal.journal)
        with _open(place, proxy, clock=Clock(clock.now), timeout=timeout) as store:
            patiently(lambda: _connect(store, witness), timeout)
            break_it(proxy)
            outcome = within_deadline(lambda: _steps(store, rehearsal.name, given))
            late = proxy.is_silent
            broken = late or proxy.has_cut
            proxy.mend()
            seen = shown(witness)
            while late and seen != (seen := shown(witness)):
                pass  # what was held back arrives while it is looked at
            assert seen in outcome.allowed(rehearsal), f"{outcome}: neither before nor after"
            within_deadline(lambda: patiently(lambda: assert_works(store), timeout))
        assert witness.check().problems == ()
    return outcome, broken


def vanish(server: Server, proxy: Proxy, name: str, nth: int) -> None:
    """A host that is gone, as far as the server can tell, from the nth round trip on: others must get on with it."""
    for _ in range(TRIES):  # where it failed before, this machine stood still
        outcome = _vanish(server, proxy, name, nth)
        if proxy.has_cut or outcome.failure is None:
            return
    raise AssertionError("it fails though nobody is gone") from outcome.failure


def _vanish(server: Server, proxy: Proxy, name: str, nth: int) -> Outcome:
    clock, place = Clock(), on_server(server)
    with place.open(clock=clock) as witness:
        given = prepared(witness, name, clock, False)
        store = _open(place, proxy, clock=Clock(clock.now), timeout=TIMEOUT)
        try:
            patiently(lambda: _connect(store, witness), TIMEOUT)
            proxy.silence_at(nth)
            outcome = within_deadline(lambda: _steps(store, name, given))
            if proxy.has_cut:
                within_deadline(lambda: assert_works(witness))
        finally:
            proxy.mend()
            store.close()
    return outcome


def patiently(call: Callable[[], T], timeout: float) -> T:
    """What `call` returns. When it got no answer within the store's timeout it is tried again: this machine may have
    stood still. What fails sooner fails for a reason."""
    for _ in range(TRIES - 1):
        began = time.monotonic()
        try:
            return call()
        except QueueStoreUnavailableError:
            if time.monotonic() - began < 0.9 * timeout:
                raise
    return call()


def _open(place: Place, proxy: Proxy, *, timeout: float, **options: Any) -> Any:
    return patiently(lambda: through(place, proxy.port).open(timeout=timeout, **options), timeout)


def _connect(store: Any, witness: Any) -> None:
    """By then the store is connected, and knows what time it is on the server."""
    assert store.qsize("jobs") == witness.qsize("jobs")
    store.ids.take()


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
