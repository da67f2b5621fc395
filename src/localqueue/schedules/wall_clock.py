"""When a cron expression matches, on a clock that is put forward and back.

`CronSim` does the matching. What changes of the clock do to it follows Debian's cron: an expression with fixed hours
has each of its times once, and one with `*` in the minute or the hour matches whatever the clock reads. The first is
CronSim's own; the second is done here, because its own arithmetic assumes that clocks change by whole hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

Matching = Callable[[str, datetime], Iterator[datetime]]

_A_DAY = 86_400.0
_A_SECOND = timedelta(seconds=1)


def next_tick(matching: Matching, cron: str, zone: ZoneInfo, after: float) -> float | None:
    """The first moment later than `after` at which the expression matches."""
    minute, hour = cron.split()[:2]
    if minute.startswith("*") or hour.startswith("*"):
        return _next_reading(matching, cron, zone, after)
    for tick in matching(cron, datetime.fromtimestamp(after, zone)):
        if tick.timestamp() > after:  # an earlier one is the first pass of a time that is repeated just now
            return tick.timestamp()
    return None


def _next_reading(matching: Matching, cron: str, zone: ZoneInfo, after: float) -> float | None:
    """As long as the clock is not changed its readings are as good as time itself; so go from change to change."""
    reading = datetime.fromtimestamp(after, zone).replace(tzinfo=None)
    while True:
        match = next(matching(cron, reading), None)
        if match is None:
            return None
        offset = _offset(zone, after)
        tick = (match - offset).replace(tzinfo=UTC).timestamp()
        end = min(tick, after + _A_DAY)
        if _offset(zone, end) == offset == _offset(zone, tick):
            return tick
        if _offset(zone, end) == offset:
            end = tick
        after = _change(zone, after, end)
        reading = datetime.fromtimestamp(after, zone).replace(tzinfo=None) - _A_SECOND


def _offset(zone: ZoneInfo, moment: float) -> timedelta:
    return datetime.fromtimestamp(moment, zone).utcoffset() or timedelta()


def _change(zone: ZoneInfo, before: float, after: float) -> float:
    """The second between two moments from which on the clock is no longer that of the earlier."""
    offset = _offset(zone, before)
    low, high = int(before), int(after) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == offset:
            low = middle
        else:
            high = middle
    return float(high)
