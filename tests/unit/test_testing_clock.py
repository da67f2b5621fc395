"""A clock that is moved: what falls due does, and those who wait are woken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from localqueue import LMDBQueueStore, MemoryQueueStore, PersistentQueue, SQLiteQueueStore
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.schedules import PeriodicSchedule, Scheduler
from localqueue.stores.port import QueueStore
from localqueue.testing import Clock

STORES: dict[str, Callable[[Path, Clock], QueueStore]] = {
    "memory": lambda _, clock: MemoryQueueStore(clock=clock),
    "sqlite": lambda path, clock: SQLiteQueueStore(path / "jobs.db", clock=clock),
    "lmdb": lambda path, clock: LMDBQueueStore(path / "jobs.lmdb", clock=clock),
}


@pytest.fixture
def clock() -> Clock:
    return Clock(at=datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture(params=STORES)
def queue(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Any:
    with STORES[request.param](tmp_path, clock) as store, PersistentQueue[Any]("jobs", store=store) as queue:
        yield queue


def test_a_clock_that_was_given_a_moment_stands_there_until_it_is_moved(clock: Clock) -> None:
    begin = datetime(2030, 1, 1, tzinfo=UTC).timestamp()

    assert clock() == clock() == begin
    clock.advance(1.5)
    assert clock() == begin + 1.5
    clock.advance(timedelta(minutes=1))
    assert clock() == begin + 61.5
    clock.move_to(datetime(2030, 1, 2, tzinfo=UTC))
    assert clock() == begin + 86400


def test_a_clock_without_one_goes_on_by_itself() -> None:
    clock = Clock()
    before = clock()
    clock.advance(3600)
    first = clock()

    assert first >= before + 3600
    assert clock() >= first


def test_a_clock_does_not_go_back(clock: Clock) -> None:
    now = clock()
    with pytest.raises(ValueError, match="a clock goes forward, not by -1"):
        clock.advance(-1)
    clock.move_to(now - 60)
    assert clock() == now


def test_a_moment_without_a_time_zone_is_refused(clock: Clock) -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        clock.move_to(datetime(2031, 1, 1))
    with pytest.raises(ValueError, match="has no time zone"):
        Clock(at=datetime(2031, 1, 1))


def test_delays_end_leases_run_out_and_messages_expire(queue: PersistentQueue[Any], clock: Clock) -> None:
    queue.put("delayed", delay=60)
    with pytest.raises(Empty):
        queue.get_message(block=False)
    clock.advance(60)
    first = queue.get_message(block=False)
    clock.advance(queue.lease_timeout)
    again = queue.get_message(block=False)
    queue.put("short-lived", ttl=10)
    clock.advance(10)

    assert (first.id, first.attempts, again.attempts) == (again.id, 1, 2)
    assert not queue.ack(first)
    assert queue.stats().expired == 1


def test_who_waits_is_woken_when_the_clock_is_moved(queue: PersistentQueue[Any], clock: Clock) -> None:
    _never_look_by_yourself(queue.store)
    queue.put("later", delay=3600)
    got: list[Any] = []
    background = Background()
    background.start(lambda: got.append(queue.get(timeout=PATIENCE)))
    clock.advance(3600)
    background.join()

    assert got == ["later"]


def test_a_scheduler_that_runs_is_woken_too(queue: PersistentQueue[Any], clock: Clock) -> None:
    scheduler = Scheduler(queue, look_every=10 * PATIENCE)
    scheduler.add(PeriodicSchedule("hourly", every=3600, value="tick"))
    background = Background()
    background.start(scheduler.run)
    clock.advance(3600)

    assert queue.get(timeout=PATIENCE) == "tick"
    scheduler.stop()
    background.join()


def _never_look_by_yourself(store: Any) -> None:
    wake = store._environment.wake if isinstance(store, LMDBQueueStore) else store._wake
    wake.catch_up = lambda: 10 * PATIENCE


def test_a_schedule_falls_due(queue: PersistentQueue[Any], clock: Clock) -> None:
    scheduler = Scheduler(queue)
    scheduler.add(PeriodicSchedule("hourly", every=3600, value="tick"))
    assert scheduler.tick() == []
    clock.advance(3600)

    assert [message.value for message in scheduler.tick()] == ["tick"]
