"""Hosts whose clocks are an hour off, one way or the other, share a store on a server: its clock alone decides."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tenacity import stop_after_attempt, stop_after_delay, stop_any

from localqueue import PersistentQueue, Worker
from localqueue.retry import PersistentRetrying, QueueAttemptStore
from localqueue.stores.port import Changes, Lease, LeaseRequest, NewMessage
from tests.faults.hosts import Host
from tests.stores import SERVERS, Place, on_server, shared
from tests.unit.worker_steps import eventually

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]

HOUR = 3600.0
CLOSE = 0.2  # what two hosts take for the server's time differs by about a round trip, and this machine may be busy


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Place:
    return on_server(shared(SERVERS[request.param]))


class Hosts:
    def __init__(self, place: Place, stack: ExitStack) -> None:
        self.right = stack.enter_context(place.open())
        self.ahead = stack.enter_context(Host(place, HOUR))
        self.behind = stack.enter_context(Host(place, -HOUR))
        self.all = (self.ahead, self.behind, self.right)


@pytest.fixture
def hosts(place: Place) -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(place, stack)


def put(host: object, payload: str, **options: float) -> str:
    (message_id,) = host.mint()  # type: ignore[attr-defined]
    message = NewMessage(message_id, "jobs", payload, **options)  # type: ignore[arg-type]
    (done,) = host.commit(Changes(enqueue=[message])).enqueued  # type: ignore[attr-defined]
    return str(done.id or message_id)


def test_hosts_agree_on_leases_delays_and_ttl(hosts: Hosts) -> None:
    right = hosts.right
    for host in hosts.all:
        assert abs(host.now() - right.now()) < 60, "the store's clock is the server's"

    for holder in hosts.all:
        message_id = put(holder, "leased")
        (message,) = holder.lease(LeaseRequest("jobs", 1, 60.0, "holder"))
        assert 0 < message.leased_until - right.now() <= 60
        for thief in hosts.all:
            assert thief.lease(LeaseRequest("jobs", 5)) == [], "a lease was stolen"
        (until,) = holder.renew([Lease("jobs", message_id, 1)], timeout=120.0)
        assert 60 < until - right.now() <= 120
        assert holder.ack_one("jobs", message_id, 1)

    for host in hosts.all:
        late, mortal = put(host, "late", delay=60.0), put(host, "mortal", ttl=60.0)
        for other in hosts.all:
            (found,) = other.lease(LeaseRequest("jobs", 5, 0.0))
            assert found.id == mortal, "neither early nor expired"
        assert right.get("jobs", late).state == "delayed"
        assert right.get("jobs", mortal).created_at == pytest.approx(right.now(), abs=60)
        assert right.purge("jobs") == 2
    assert right.check().problems == ()


def test_a_short_lease_a_short_delay_and_a_short_life_end_on_every_host(hosts: Hosts) -> None:
    for holder, other in ((hosts.ahead, hosts.behind), (hosts.behind, hosts.ahead)):
        message_id = put(holder, "dropped")
        (held,) = holder.lease(LeaseRequest("jobs", 1, 0.4))
        (taken,) = eventually(lambda other=other: other.lease(LeaseRequest("jobs")))
        assert (taken.id, taken.attempts) == (message_id, 2)
        assert hosts.right.now() >= held.leased_until - CLOSE, "the lease was taken before its end"
        assert not holder.ack_one("jobs", message_id, 1)
        assert other.ack_one("jobs", message_id, 2)

        delayed = put(holder, "delayed", delay=0.4)
        (found,) = eventually(lambda other=other: other.lease(LeaseRequest("jobs")))
        assert found.id == delayed and hosts.right.now() >= found.available_at - CLOSE
        assert other.ack_one("jobs", delayed, 1)

        mortal = put(holder, "mortal", ttl=0.3)
        end = hosts.right.get("jobs", mortal).expires_at
        eventually(lambda end=end: hosts.right.now() >= end + CLOSE)
        assert other.lease(LeaseRequest("jobs")) == []
        assert hosts.right.get("jobs", mortal).state == "expired"
        hosts.right.purge("jobs")


def test_a_worker_record_and_the_age_of_a_queue_are_told_by_the_servers_clock(hosts: Hosts) -> None:
    for n, host in enumerate(hosts.all):
        host.heartbeat("jobs", f"worker-{n}")
        host.put_one("jobs", str(n), None)
    for host in hosts.all:
        stats = host.stats("jobs")
        assert all(abs(seen - hosts.right.now()) < 60 for seen in stats.last_seen_by_worker_id.values())
        assert 0 <= stats.oldest_ready_age_seconds < 60
        assert host.prune("jobs", state="dead", older_than=0.0) == 0


@pytest.mark.parametrize("off", [HOUR, -HOUR])
def test_a_worker_gives_up_by_the_servers_clock(place: Place, off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = time.time, 0

    def handler(value: Any) -> None:
        nonlocal tries
        tries += 1
        raise ValueError("no")

    with place.open() as store:
        monkeypatch.setattr("time.time", lambda: real() + off)
        queue = PersistentQueue[Any]("jobs", store=store)
        for stop, least, most in ((stop_after_delay(60), 5, 5), (stop_after_delay(0.5), 1, 99)):
            tries = 0
            queue.put("x")
            worker = Worker(queue, handler, wait=lambda state: 0.1, stop=stop_any(stop, stop_after_attempt(most)))
            worker.run_until_empty(wait_for_delayed=True)
            assert least <= tries <= most and (most == 5 or tries < most)


@pytest.mark.parametrize("off", [HOUR, -HOUR])
def test_retries_that_several_hosts_share_give_up_by_the_servers_clock(
    place: Place, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = time.time, 0

    def fail() -> None:
        nonlocal tries
        tries += 1
        raise ValueError("no")

    def die(seconds: float) -> None:
        raise InterruptedError

    with place.open() as store:
        options: dict[str, Any] = {"store": QueueAttemptStore(store), "key": "k", "wait": 0, "sleep": die}
        for ahead in (0.0, off, 0.0):  # one host after the other makes an attempt, and dies
            monkeypatch.setattr("time.time", lambda ahead=ahead: real() + ahead)
            with pytest.raises(InterruptedError):
                PersistentRetrying(stop=stop_after_delay(60), **options)(fail)
        assert tries == 3
        monkeypatch.setattr("time.time", lambda: real() + off)
        began = store.now()
        eventually(lambda: store.now() - began > 0.5)
        with pytest.raises(ValueError):
            PersistentRetrying(stop=stop_after_delay(0.5), **options)(fail)
