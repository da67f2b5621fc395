"""The time of a store is the server's, whatever the clock on this machine's wall says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.mongodb.connection import ServerClock
from localqueue.stores.port import LeaseRequest
from tests.servers import MongoDB


@pytest.fixture
def store(mongodb: MongoDB) -> Iterator[MongoDBQueueStore]:
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex) as store:
        yield store


def test_a_store_tells_the_servers_time(store: MongoDBQueueStore) -> None:
    assert abs(store.now() - time.time()) < 1.0  # the server runs on this machine


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_host_whose_clock_is_an_hour_off_steals_no_lease(
    store: MongoDBQueueStore, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    store.put_one("jobs", "x", None)
    held = store.lease(LeaseRequest("jobs", timeout=600))[0]
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + hours * 3600)
    assert abs(store.now() - right()) < 1.0
    assert store.lease(LeaseRequest("jobs")) == []
    assert store.put_one("jobs", "y", None)[1] == pytest.approx(right(), abs=1.0)
    assert store.ack_one("jobs", held.id, held.attempts)


def test_a_clock_that_is_set_while_we_run_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def ask() -> float:
        asked.append(5_000.0)
        return 5_000.0

    clock = ServerClock(ask)
    assert clock() == pytest.approx(5_000.0, abs=0.5)
    before = len(asked)
    clock()
    assert len(asked) == before
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 60)
    assert clock() == pytest.approx(5_000.0, abs=0.5)
    assert len(asked) > before
    clock.doubt()
    before = len(asked)
    clock()
    assert len(asked) > before


def test_the_quickest_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    delays = iter([1.0, 0.2, 0.002, 0.4])

    def ask() -> float:
        delay = next(delays)
        now[0] += delay
        return 5_000.0 + now[0] - delay / 2 + (0.3 if delay > 0.1 else 0.0)

    clock = ServerClock(ask)
    assert clock() == pytest.approx(5_000.0 + now[0], abs=0.002)
