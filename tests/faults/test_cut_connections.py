"""A connection that breaks at any round trip leaves each call wholly done or wholly undone, and the store goes on.

Every kind of write transaction is run through a proxy that cuts the connection at the first round trip of it, at the
last, and at some between them.

Some calls may be found half done, in one way each, and in no other:

- A claim may settle the timers that have passed in a transaction of its own before it claims. The next claim would
  settle them just the same.
- A commit may take its lease in a transaction of its own, directly after everything else. Cut between the two, it has
  done all but the lease, and nobody holds the messages.
- A claim on MongoDB counts the leases of its worker in a statement of its own, directly after it, because a client that
  dies inside of a transaction stops a queue. Cut between the two, the worker has leased more messages than are counted.
"""

from __future__ import annotations

import pytest

from localqueue.errors import QueueStoreUnavailableError
from tests.crash.scenarios import SCENARIOS
from tests.faults.cuts import PATIENT_TIMEOUT, TIMEOUT, TRIES, Rehearsal, connected, rehearse, run, vanish
from tests.faults.proxy import Proxy
from tests.servers import Server
from tests.stores import SERVERS, shared

pytestmark = pytest.mark.slow

#: Scenarios with a bit of everything, for what takes time.
FEW = ("put_one", "ack_with_puts_and_a_record", "lease_a_batch", "cancel_a_run")


#: So many cuts of each scenario.
MOST, MOST_FOR_GOOD = 6, 5


def cut_all_over(kind: str, name: str, *, journal: bool = False, for_good: bool = False) -> None:
    """Once more where a rehearsal had round trips that no run has: a busy MongoDB had a transaction begin anew."""
    server = shared(SERVERS[kind])
    with Proxy(server.port) as proxy, connected(server, proxy):
        for _ in range(TRIES):
            rehearsal = rehearse(server, proxy, name, journal=journal)
            if cut(server, proxy, rehearsal, for_good=for_good) >= min(len(rehearsal.round_trips), MOST_FOR_GOOD):
                return
    raise AssertionError("each call must have been cut")


def cut(server: Server, proxy: Proxy, rehearsal: Rehearsal, *, for_good: bool) -> int:
    """How many of the runs were cut."""
    cuts = failures = 0
    for nth, where in rehearsal.points(MOST_FOR_GOOD if for_good else MOST):
        try:
            outcome = run(
                server,
                proxy,
                rehearsal,
                lambda it: it.cut(nth, where, for_good=for_good),  # noqa: B023
                timeout=TIMEOUT if for_good else PATIENT_TIMEOUT,
            )
        except Exception as error:
            raise AssertionError(f"cut {where} round trip {nth} of {rehearsal.round_trips}") from error
        cuts += proxy.has_cut
        failures += outcome.failure is not None
    assert failures or not for_good, "a call that can not reach its server must say so"
    return cuts


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("kind", SERVERS)
def test_a_cut_at_any_round_trip_leaves_each_call_wholly_done_or_undone(kind: str, name: str) -> None:
    cut_all_over(kind, name)


@pytest.mark.parametrize("name", ["ack_with_puts_and_a_record", "settling_of_passed_timers"])
@pytest.mark.parametrize("kind", SERVERS)
def test_the_journal_is_written_with_the_change_or_not_at_all(kind: str, name: str) -> None:
    cut_all_over(kind, name, journal=True)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_is_gone_from_any_round_trip_on_fails_the_call_and_the_store_goes_on_when_it_is_back(
    kind: str, name: str
) -> None:
    cut_all_over(kind, name, for_good=True)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("kind", SERVERS)
def test_a_network_that_swallows_everything_does_not_hang_a_call(kind: str, name: str) -> None:
    server = shared(SERVERS[kind])
    with Proxy(server.port) as proxy, connected(server, proxy):
        rehearsal = rehearse(server, proxy, name)
        outcome = run(server, proxy, rehearsal, Proxy.silence)
        assert isinstance(outcome.failure, QueueStoreUnavailableError)


@pytest.mark.parametrize("name", ["ack_with_puts_and_a_record", "cancel_a_run"])
@pytest.mark.parametrize("kind", SERVERS)
def test_a_host_that_vanishes_in_the_middle_of_a_transaction_does_not_hold_up_the_others(kind: str, name: str) -> None:
    """The server still believes it to be there: what it locked must not stay locked until the server finds out."""
    server = shared(SERVERS[kind])
    with Proxy(server.port) as proxy, connected(server, proxy):
        total = sum(rehearse(server, proxy, name).round_trips)
        for nth in sorted({max(1, total // 2), total}):
            vanish(server, proxy, name, nth)
