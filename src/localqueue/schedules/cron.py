"""Cron-style schedules on the wall clock of a time zone."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any
from zoneinfo import ZoneInfo

from localqueue.schedules.schedule import Schedule
from localqueue.schedules.wall_clock import next_tick

_FIELDS = 5
_SOME_MOMENT = 1_767_225_600.0  # 2026-01-01; any will do to see whether an expression has ticks


@dataclass(frozen=True, slots=True)
class CronSchedule(Schedule):
    """A tick whenever the clock of `timezone` reads what `cron` says: minute, hour, day, month and weekday.

    When clocks change, an expression with fixed hours keeps to one tick a day: a time that is left out comes right
    after the gap, one that is repeated counts the first time. With `*` in the minute or the hour (`*/15 * * * *`) the
    ticks follow the time that really passes. Needs the extra `localqueue[schedule]`.
    """

    _: KW_ONLY
    cron: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        Schedule.__post_init__(self)
        if not isinstance(self.cron, str):
            raise TypeError(f"cron must be a string like '0 9 * * 1-5', not {self.cron!r}")
        if len(self.cron.split()) != _FIELDS:
            raise ValueError(
                f"cron must have five fields (minute hour day month weekday), {self.cron!r} has "
                f"{len(self.cron.split())}; for seconds use PeriodicSchedule"
            )
        zone = load_zone(self.timezone)
        cronsim = load_cronsim()
        try:
            first = next_tick(cronsim.CronSim, self.cron, zone, _SOME_MOMENT)
        except (cronsim.CronSimError, ValueError) as error:  # the latter for a number that is too long
            raise ValueError(f"cron {self.cron!r} is not valid: {error}") from error
        if first is None:
            raise ValueError(f"cron {self.cron!r} matches no time at all")

    def next_after(self, moment: float, anchor: float = 0.0) -> float | None:
        return next_tick(load_cronsim().CronSim, self.cron, load_zone(self.timezone), moment)


def load_cronsim() -> Any:
    """The library, or a `RuntimeError` that says how to install it."""
    try:
        import cronsim
    except ImportError as error:
        raise RuntimeError(
            'cron schedules require the optional dependency; install with `pip install "localqueue[schedule]"`'
        ) from error
    return cronsim


def load_zone(name: str) -> ZoneInfo:
    if not isinstance(name, str):
        raise TypeError(f"timezone must be the name of a time zone like 'Europe/Berlin', not {name!r}")
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"timezone {name!r} is not known here; use a name like 'Europe/Berlin', and on a system without a time "
            'zone database install `pip install "localqueue[schedule]"`'
        ) from error
