"""Cron schedules on the clocks of real time zones, when they are put forward and back."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from localqueue.schedules import CronSchedule

A_DAY = 86_400.0
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Asia/Kolkata", "2026-03-29"),  # half an hour off, and never changed
    ("Australia/Adelaide", "2026-04-05"),  # half an hour off
    ("Australia/Lord_Howe", "2026-04-05"),  # changed by half an hour
    ("Australia/Lord_Howe", "2026-10-04"),
    ("America/Sao_Paulo", "2018-11-04"),  # there was no midnight
    ("Pacific/Apia", "2011-12-30"),  # there was no such day
]


def around(day: str) -> tuple[float, float]:
    middle = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
    return middle - 1.5 * A_DAY, middle + 2 * A_DAY


def ticks(schedule: CronSchedule, start: float, end: float) -> list[float]:
    found = []
    moment = schedule.next_after(start)
    while moment is not None and moment <= end:
        found.append(moment)
        moment = schedule.next_after(moment)
    return found


def local_ticks(cron: str, zone: str, day: str) -> list[str]:
    """The ticks of one local day, as the clock reads with its offset."""
    schedule = CronSchedule("x", cron=cron, timezone=zone)
    shown = [datetime.fromtimestamp(tick, ZoneInfo(zone)) for tick in ticks(schedule, *around(day))]
    return [f"{at:%H:%M%z}" for at in shown if f"{at:%Y-%m-%d}" == day]


def readings(cron: str, zone: str, start: float, end: float) -> list[float]:
    """Every whole minute at which the clock reads what the expression says, found by looking at each."""
    expression = CronSim(cron, datetime(2026, 1, 1))
    found = []
    for minute in range(int(start // 60) + 1, int(end // 60) + 1):
        at = datetime.fromtimestamp(minute * 60, ZoneInfo(zone))
        if at.minute in expression.minutes and at.hour in expression.hours and expression.match_day(at.date()):
            found.append(minute * 60.0)
    return found


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize(
    "cron", ["*/15 * * * *", "30 * * * *", "*/10 2 * * *", "* 1-2 * * *", "*/7 0 * * *", "0 */2 * * *", "5 */3 * * 0"]
)
def test_a_schedule_with_a_star_ticks_whenever_the_clock_reads_so(cron: str, zone: str, day: str) -> None:
    start, end = around(day)
    schedule = CronSchedule("x", cron=cron, timezone=zone)
    assert ticks(schedule, start, end) == readings(cron, zone, start, end)


def test_repeated_minutes_of_one_day_of_the_year_all_tick() -> None:
    """The next match on the face of the clock is a year away, but the hour comes once more."""
    schedule = CronSchedule("x", cron="* 2 25 10 *", timezone="Europe/Berlin")
    assert len(ticks(schedule, *around("2026-10-25"))) == 120


@pytest.mark.parametrize(
    ("zone", "day", "cron", "expected"),
    [
        ("Europe/Berlin", "2026-03-29", "30 2 * * *", ["03:00+0200"]),
        ("Europe/Berlin", "2026-03-29", "0,30 2,3 * * *", ["03:00+0200", "03:30+0200"]),
        ("Europe/Berlin", "2026-03-29", "15 1 * * *", ["01:15+0100"]),
        ("Europe/Berlin", "2026-10-25", "30 2 * * *", ["02:30+0200"]),
        ("Europe/Berlin", "2026-10-25", "0 3 * * *", ["03:00+0100"]),
        ("America/New_York", "2026-03-08", "30 2 * * *", ["03:00-0400"]),
        ("America/New_York", "2026-11-01", "30 1 * * *", ["01:30-0400"]),
        ("Asia/Kolkata", "2026-03-29", "30 2 * * *", ["02:30+0530"]),
        ("Australia/Lord_Howe", "2026-10-04", "15 2 * * *", ["02:30+1100"]),
        ("Australia/Lord_Howe", "2026-04-05", "45 1 * * *", ["01:45+1100"]),
        ("America/Sao_Paulo", "2018-11-04", "0 0 * * *", ["01:00-0200"]),
    ],
)
def test_a_schedule_with_fixed_hours_ticks_once_a_day(zone: str, day: str, cron: str, expected: list[str]) -> None:
    assert local_ticks(cron, zone, day) == expected


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("cron", ["30 2 * * *", "0,30 0-3 * * *", "15 1,2 * * *", "*/20 * * * *", "0 0 * * *"])
def test_the_next_tick_is_the_same_from_wherever_one_looks(cron: str, zone: str, day: str) -> None:
    """So a scheduler that starts anew, at any second of the change, neither doubles nor loses a tick."""
    start, end = around(day)
    schedule = CronSchedule("x", cron=cron, timezone=zone)
    found = ticks(schedule, start, end)
    assert all(earlier < later for earlier, later in pairwise(found))
    for earlier, later in pairwise(found):
        steps = min(later - earlier, 7200.0)
        for moment in (earlier, earlier + 0.5, later - steps / 2, later - 1.0, later - 0.001):
            assert schedule.next_after(moment) == later


def test_nine_oclock_on_weekdays_is_nine_oclock_in_summer_and_winter() -> None:
    schedule = CronSchedule("x", cron="0 9 * * 1-5", timezone="Europe/Berlin")
    friday = datetime(2026, 3, 27, 9, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    monday = datetime(2026, 3, 30, 9, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    assert schedule.next_after(friday - 1) == friday and schedule.next_after(friday) == monday
    assert monday - friday == 71 * 3600
