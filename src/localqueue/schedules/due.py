"""Which ticks to put now: the policies for missed ticks, as a pure function."""

from __future__ import annotations

from typing import NamedTuple

from localqueue.schedules.schedule import Schedule

_FIRST_LOOK_BACK = 0.05


class Due(NamedTuple):
    """Ticks to put, and the tick that comes after all that is settled with them."""

    ticks: list[float]
    next_at: float | None


def due(schedule: Schedule, *, anchor: float, next_at: float | None, now: float, most: int) -> Due:
    """What a schedule whose next tick is `next_at` has to put, at most `most` at a time."""
    if next_at is None or next_at > now:
        return Due([], next_at)
    if schedule.missed == "all":
        ticks: list[float] = []
        following: float | None = next_at
        while following is not None and following <= now and len(ticks) < most:
            ticks.append(following)
            following = schedule.next_after(following, anchor)
        return Due(ticks, following)
    latest = _latest(schedule, anchor, next_at, now)
    too_late = schedule.missed == "skip" and now - latest > schedule.grace
    return Due([] if too_late else [latest], schedule.next_after(now, anchor))


def _latest(schedule: Schedule, anchor: float, first: float, now: float) -> float:
    """The last tick that is not in the future, found from its end: years may have passed since `first`."""
    back = _FIRST_LOOK_BACK
    while now - back > first:
        tick = schedule.next_after(now - back, anchor)
        if tick is not None and tick <= now:
            first = tick
            break
        back *= 4
    while (tick := schedule.next_after(first, anchor)) is not None and tick <= now:
        first = tick
    return first
