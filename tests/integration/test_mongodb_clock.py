"""The time of a store is the server's, whatever the clock on this machine's wall says."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.errors import QueueStoreUnavailableError
from localqueue.stores.clock import ServerClock
from localqueue.stores.mongodb import MongoDBQueueStore
from localqueue.stores.port import LeaseRequest
from tests.servers import MongoDB


@pytest.fixture
def store(mongodb: MongoDB) -> Iterator[MongoDBQueueStore]:
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex) as store:
        yield store


class Now:
    """The two clocks of this machine, which stand still unless they are moved."""

    def __init__(self) -> None:
        self.wall, self.passed = 1_000.0, 100.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.passed


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    now = Now()
    monkeypatch.setattr("localqueue.stores.clock.time", now)
    return now


def assert_told(tell: Callable[[], float], right: Callable[[], float] = time.time) -> None:
    """It is the time of this machine, on which the server runs, when it was asked for."""
    before = right()
    assert before - 1.0 < tell() < right() + 1.0


def test_a_store_tells_the_servers_time(store: MongoDBQueueStore) -> None:
    assert_told(store.now)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_host_whose_clock_is_an_hour_off_steals_no_lease(
    store: MongoDBQueueStore, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    store.put_one("jobs", "x", None)
    held = store.lease(LeaseRequest("jobs", timeout=600))[0]
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + hours * 3600)
    assert_told(store.now, right)
    assert store.lease(LeaseRequest("jobs")) == []
    assert_told(lambda: store.put_one("jobs", "y", None)[1], right)
    assert store.ack_one("jobs", held.id, held.attempts)


def test_a_clock_that_is_set_while_we_run_is_measured_again(now: Now) -> None:
    asked: list[float] = []

    def ask() -> float:
        asked.append(5_000.0)
        return 5_000.0

    clock = ServerClock(ask)
    assert clock() == 5_000.0
    before = len(asked)
    clock()
    assert len(asked) == before
    now.wall += 60
    assert clock() == 5_000.0
    assert len(asked) > before
    clock.doubt()
    before = len(asked)
    clock()
    assert len(asked) > before


def test_the_quickest_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    delays = itertools.chain([1.0, 0.2, 0.002], itertools.repeat(0.4))

    def ask() -> float:
        delay = next(delays)
        now[0] += delay
        return 5_000.0 + now[0] - delay * (0.1 if delay > 0.1 else 0.5)

    clock = ServerClock(ask)
    assert clock() == pytest.approx(5_000.0 + now[0], abs=0.002)


@pytest.mark.parametrize("limit", [1, 5])
def test_a_lease_begins_when_it_is_taken_however_long_the_timers_before_it_took(
    mongodb: MongoDB, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    clock = FakeClock()
    with MongoDBQueueStore(mongodb.url, namespace=uuid4().hex, clock=clock) as store:
        store.put_one("jobs", "x", None)
        store.lease(LeaseRequest("jobs", timeout=1.0))
        clock.advance(2.0)
        settle = store._settle_timers

        def settle_slowly(*arguments: Any) -> bool:
            more = settle(*arguments)
            clock.advance(60.0)  # dead clients were in the way
            return more

        monkeypatch.setattr(store, "_settle_timers", settle_slowly)
        (message,) = store.lease(LeaseRequest("jobs", limit, timeout=30.0))
        assert message.leased_until == clock() + 30.0
        monkeypatch.undo()
        assert store.lease(LeaseRequest("jobs")) == []


def test_many_coarse_answers_tell_the_time_more_precisely_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def ask() -> float:
        now[0] += 0.00037
        return math.floor((5_000.0 + now[0] - 0.0001) * 1000) / 1000

    assert ServerClock(ask, resolution=0.001)() == pytest.approx(5_000.0 + now[0], abs=0.0002)


def test_a_mint_goes_on_while_the_server_is_away(now: Now) -> None:
    answers: list[float | Exception] = [5_000.0] * 16 + [QueueStoreUnavailableError("away", path="there")]

    def ask() -> float:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    clock = ServerClock(ask)
    assert clock.ns() == 5_000e9
    clock.doubt()
    clock.ns()
    now.passed += 1.0
    assert clock.ns() == 5_001e9
    assert answers == [], "it asked once more, and not again at once"


def test_a_server_that_goes_away_while_it_is_measured_has_told_the_time(now: Now) -> None:
    answers = iter([5_000.0, 5_000.0])

    def ask() -> float:
        for answer in answers:
            return answer
        raise QueueStoreUnavailableError("away")

    clock = ServerClock(ask)
    assert clock() == 5_000.0
    clock.doubt()
    with pytest.raises(QueueStoreUnavailableError):
        clock()
