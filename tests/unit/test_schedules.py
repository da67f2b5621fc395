"""Schedules as values and as records: what is accepted, stored, changed and refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from localqueue import LMDBQueueStore, MemoryQueueStore, PayloadError, PersistentQueue, SQLiteQueueStore
from localqueue.errors import ScheduleExists
from localqueue.policies import BytesCodec
from localqueue.schedules import CronSchedule, PeriodicSchedule, Schedule, Scheduler
from tests.crash.stores import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(1_800_000_000.0)


@pytest.fixture(params=["memory", "sqlite", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Any]:
    if request.param == "memory":
        opened: Any = MemoryQueueStore(clock=clock)
    elif request.param == "sqlite":
        opened = SQLiteQueueStore(tmp_path / "q.db", clock=clock)
    else:
        opened = LMDBQueueStore(tmp_path / "lmdb", clock=clock)
    with closing(opened) as store:
        yield store


@pytest.fixture
def queue(store: Any) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


@pytest.fixture
def scheduler(queue: PersistentQueue[Any]) -> Scheduler:
    return Scheduler(queue)


# values


def test_a_period_is_seconds_or_a_timedelta() -> None:
    assert PeriodicSchedule("x", every=90).seconds == PeriodicSchedule("x", every=timedelta(minutes=1.5)).seconds == 90
    assert PeriodicSchedule("x", every=90) == PeriodicSchedule("x", every=timedelta(seconds=90))


def test_a_start_is_a_time_with_a_zone_or_seconds_since_the_epoch() -> None:
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert PeriodicSchedule("x", every=1, start_at=at) == PeriodicSchedule("x", every=1, start_at=at.timestamp())
    with pytest.raises(ValueError, match="must have a time zone"):
        PeriodicSchedule("x", every=1, start_at=datetime(2026, 5, 1))


@pytest.mark.parametrize(
    ("make", "kind", "reason"),
    [
        (lambda: PeriodicSchedule("", every=1), ValueError, "name cannot be empty"),
        (lambda: PeriodicSchedule("x", every=0), ValueError, r"at least 0\.001 seconds, not 0"),
        (lambda: PeriodicSchedule("x", every=float("nan")), ValueError, "finite"),
        (lambda: PeriodicSchedule("x", every="5m"), TypeError, "number of seconds"),
        (lambda: PeriodicSchedule("x", every=1, missed="some"), ValueError, "'skip', 'once' or 'all', not 'some'"),
        (lambda: PeriodicSchedule("x", every=1, grace=-1), ValueError, "grace cannot be negative"),
        (lambda: PeriodicSchedule("x", every=1, headers={"a": 1}), TypeError, "map strings to strings"),
        (lambda: PeriodicSchedule("x", every=1, headers={"localqueue-schedule": "y"}), ValueError, "set by the sched"),
        (lambda: CronSchedule("x", cron="0 9 * *"), ValueError, "five fields .* has 4"),
        (lambda: CronSchedule("x", cron="*/5 * * * * *"), ValueError, "has 6; for seconds use PeriodicSchedule"),
        (lambda: CronSchedule("x", cron="61 9 * * *"), ValueError, "'61 9 .*' is not valid: Bad minute"),
        (lambda: CronSchedule("x", cron="0 0 30 2 *"), ValueError, "Bad day-of-month"),
        (lambda: CronSchedule("x", cron=5), TypeError, "must be a string"),
        (lambda: CronSchedule("x", cron="0 9 * * *", timezone="Europe/Berln"), ValueError, "'Europe/Berln' is not kn"),
        (lambda: CronSchedule("x", cron="0 9 * * *", timezone="../etc"), ValueError, "is not known here"),
    ],
)
def test_what_could_never_tick_is_refused_with_the_reason(make: Any, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        make()


# records


@pytest.mark.parametrize(
    "schedule",
    [
        PeriodicSchedule("p", every=60, value={"a": [1]}, missed="all", start_at=1.8e9 + 30, ttl=5, headers={"h": "v"}),
        CronSchedule("c", cron="0 9 * * 1-5", timezone="Europe/Berlin", value="x", missed="skip", dedupe_key="k"),
    ],
)
def test_a_schedule_comes_back_as_it_was_added(queue: PersistentQueue[Any], schedule: Schedule) -> None:
    added = Scheduler(queue).add(schedule)
    (listed,) = Scheduler(queue).list()
    assert listed == added == Scheduler(queue).get(schedule.name)
    assert (listed.schedule, listed.name, listed.queue) == (schedule, schedule.name, "jobs")
    assert (listed.last_at, listed.paused) == (None, False) and listed.next_at is not None


def test_the_first_tick_is_the_start_or_one_period_from_now(scheduler: Scheduler, clock: Clock) -> None:
    assert scheduler.add(PeriodicSchedule("a", every=60)).next_at == clock.now + 60
    assert scheduler.add(PeriodicSchedule("b", every=60, start_at=clock.now)).next_at == clock.now
    assert scheduler.add(PeriodicSchedule("c", every=60, start_at=clock.now + 7)).next_at == clock.now + 7
    assert scheduler.add(PeriodicSchedule("d", every=60, start_at=clock.now - 61)).next_at == clock.now + 59
    assert scheduler.next_tick() == scheduler.next_tick("b") == clock.now
    assert scheduler.next_tick("no such") is None


def test_adding_the_same_schedule_again_changes_nothing(scheduler: Scheduler, clock: Clock) -> None:
    """So every process can add its schedules when it starts."""
    first = scheduler.add(PeriodicSchedule("a", every=60, value=[1]))
    clock.advance(30)
    assert scheduler.add(PeriodicSchedule("a", every=timedelta(minutes=1), value=[1])) == first
    assert scheduler.add(PeriodicSchedule("a", every=60, value=[1]), replace=True) == first


@pytest.mark.parametrize(
    "other",
    [
        PeriodicSchedule("a", every=61),
        PeriodicSchedule("a", every=60, value=1),
        PeriodicSchedule("a", every=60, missed="all"),
        CronSchedule("a", cron="0 0 * * *"),
    ],
)
def test_other_settings_under_the_same_name_have_to_be_asked_for(
    scheduler: Scheduler, clock: Clock, other: Schedule
) -> None:
    scheduler.add(PeriodicSchedule("a", every=60))
    clock.advance(60)
    scheduler.tick()
    with pytest.raises(ScheduleExists, match="replace=True"):
        scheduler.add(other)
    changed = scheduler.add(other, replace=True)
    assert (changed.schedule, changed.last_at) == (other, clock.now)
    assert changed.next_at is not None and changed.next_at > clock.now


def test_schedules_of_other_queues_are_apart(store: Any, clock: Clock) -> None:
    schedulers = [Scheduler(PersistentQueue[Any](name, store=store)) for name in ("job", "jobs", "jobs2")]
    for n, scheduler in enumerate(schedulers):
        scheduler.add(PeriodicSchedule("a", every=60, value=n))
    clock.advance(60)
    assert [[message.value for message in scheduler.tick()] for scheduler in schedulers] == [[0], [1], [2]]
    assert schedulers[1].remove("a")
    assert [len(scheduler.list()) for scheduler in schedulers] == [1, 0, 1]


def test_a_removed_schedule_ticks_no_more(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.add(PeriodicSchedule("a", every=60))
    assert scheduler.remove("a") and not scheduler.remove("a")
    clock.advance(60)
    assert scheduler.tick() == [] == scheduler.list() and scheduler.next_tick() is None


def test_a_pause_holds_and_what_passed_in_it_is_not_put(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.add(PeriodicSchedule("a", every=60, missed="all"))
    assert scheduler.pause("a") and scheduler.pause("a")
    clock.advance(150)
    paused = scheduler.get("a")
    assert scheduler.tick() == [] and paused is not None and paused.paused and paused.next_at is None
    assert scheduler.resume("a") and scheduler.resume("a")
    assert scheduler.tick() == [] and scheduler.next_tick() == clock.now + 30
    clock.advance(30)
    assert len(scheduler.tick()) == 1
    assert not scheduler.pause("no such") and not scheduler.resume("no such")


def test_a_pause_outlives_a_replacement(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.add(PeriodicSchedule("a", every=60))
    scheduler.pause("a")
    assert scheduler.add(PeriodicSchedule("a", every=30), replace=True).paused


# the queue has its say


def test_what_the_queue_would_not_take_is_refused_when_it_is_added(scheduler: Scheduler) -> None:
    with pytest.raises(PayloadError):
        scheduler.add(PeriodicSchedule("a", every=60, value={1, 2}))
    with pytest.raises(ValueError, match="priority requires PriorityOrdering"):
        scheduler.add(PeriodicSchedule("a", every=60, priority=1))
    assert scheduler.list() == []


def test_a_value_of_bytes_is_kept_with_its_codec(store: Any, queue: PersistentQueue[Any], clock: Clock) -> None:
    raw = Scheduler(PersistentQueue[Any]("jobs", store=store, codec=BytesCodec()))
    raw.add(PeriodicSchedule("a", every=60, value=b"\x00\xff"))
    Scheduler(queue).add(PeriodicSchedule("b", every=60, value="text"))
    clock.advance(60)
    with pytest.raises(PayloadError, match="open the queue with that codec=") as failure:
        Scheduler(queue).tick()
    assert failure.value.__notes__ == ["schedule 'a' of queue 'jobs'"]
    assert [message.value for message in queue.messages()] == ["text"]
    assert [message.value for message in raw.tick()] == [b"\x00\xff"]
