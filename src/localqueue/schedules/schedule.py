"""What to put, and when: the settings of a schedule, as a value."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from localqueue.queue.drafts import check_key, check_seconds, encode_headers

Missed = Literal["skip", "once", "all"]

#: Headers of a scheduled message: the name of its schedule, and the tick it stands for (ISO 8601, UTC).
SCHEDULE_HEADER = "localqueue-schedule"
TICK_HEADER = "localqueue-scheduled-at"

_SHORTEST_PERIOD = 0.001


@dataclass(frozen=True, slots=True)
class Schedule(ABC):
    """What the schedules have in common: a name, a value to put at each tick with its options, and a `missed` policy.

    `missed` says what becomes of ticks that passed while no scheduler ran: `"once"` puts one message for all of them,
    `"all"` one for each, `"skip"` none. With `"skip"` a tick is still put when it is at most `grace` seconds late.
    """

    name: str
    _: KW_ONLY
    value: Any = None
    missed: Missed = "once"
    grace: float = 60.0
    priority: int = 0
    ttl: float | None = None
    headers: Mapping[str, str] | None = None
    dedupe_key: str | None = None
    ordering_key: str | None = None

    def __post_init__(self) -> None:
        check_key("schedule name", self.name)
        if self.missed not in get_args(Missed):
            raise ValueError(f"missed must be 'skip', 'once' or 'all', not {self.missed!r}")
        if check_seconds("grace", self.grace) < 0:
            raise ValueError(f"grace cannot be negative, this one is {self.grace!r}")
        encode_headers(self.headers)
        for name in (SCHEDULE_HEADER, TICK_HEADER):
            if self.headers and name in self.headers:
                raise ValueError(f"header {name!r} is set by the scheduler; choose another name")

    def start(self, now: float) -> tuple[float, float | None]:
        """For a schedule that is added `now`: what its ticks are counted from, and the first of them."""
        return now, self.next_after(now, now)

    @abstractmethod
    def next_after(self, moment: float, anchor: float) -> float | None:
        """The first tick later than `moment`, or None when there is none any more."""


@dataclass(frozen=True, slots=True)
class PeriodicSchedule(Schedule):
    """A tick every so many seconds, at `start_at` and then `every` after `every`, without drift.

    `every` is a number of seconds or a `timedelta`, `start_at` seconds since the epoch or a `datetime` with a time
    zone. Without `start_at` the first tick is one `every` after the schedule was added.
    """

    _: KW_ONLY
    every: float | timedelta
    start_at: float | datetime | None = None

    def __post_init__(self) -> None:
        Schedule.__post_init__(self)
        every = self.every.total_seconds() if isinstance(self.every, timedelta) else self.every
        if check_seconds("every", every) < _SHORTEST_PERIOD:
            raise ValueError(f"every must be at least {_SHORTEST_PERIOD} seconds, not {self.every!r}")
        start_at = self.start_at
        if isinstance(start_at, datetime):
            if start_at.tzinfo is None:
                raise ValueError(
                    f"start_at must have a time zone, {start_at!r} has none; write tzinfo=UTC, for example"
                )
            start_at = start_at.timestamp()
        if start_at is not None:
            check_seconds("start_at", start_at)
            start_at = float(start_at)
        object.__setattr__(self, "every", float(every))
        object.__setattr__(self, "start_at", start_at)

    @property
    def seconds(self) -> float:
        """`every` in seconds."""
        assert isinstance(self.every, float)
        return self.every

    def start(self, now: float) -> tuple[float, float | None]:
        anchor = now + self.seconds if self.start_at is None else self.start_at
        assert isinstance(anchor, float)
        return anchor, anchor if anchor >= now else self.next_after(now, anchor)

    def next_after(self, moment: float, anchor: float) -> float | None:
        count = max(0, math.floor((moment - anchor) / self.seconds) - 1)  # one early: the division may be rounded up
        while anchor + count * self.seconds <= moment:
            count += 1
        return anchor + count * self.seconds
