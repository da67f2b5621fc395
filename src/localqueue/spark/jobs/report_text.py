"""How a report writes numbers, durations and times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

#: What stands where there is no value.
NOTHING = "\N{EN DASH}"

_SPANS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def number(value: float | None) -> str:
    """`1,234,567`; a fraction keeps one digit."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.1f}"


def share(value: float | None) -> str:
    """`12.3 %`. Neither 0 nor 100 are said of what is not."""
    if value is None:
        return NOTHING
    if 0 < value < 0.001:
        return "< 0.1 %"
    if 0.999 < value < 1:
        return "> 99.9 %"
    return f"{value:.1%}".replace(".0%", "%").replace("%", " %")


def duration(seconds: float | None) -> str:
    """`840 µs`, `12.5 ms`, `3.42 s`, `5.2 min`, `3 h`: three digits are enough to compare."""
    if seconds is None:
        return NOTHING
    if seconds == 0:
        return "0 s"
    if abs(seconds) < 0.000_999_5:
        return f"{seconds * 1e6:.3g} µs"
    if abs(seconds) < 0.999_5:
        return f"{seconds * 1e3:.3g} ms"
    for size, unit in _SPANS:
        if abs(seconds) >= size:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds)} s"


def _digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def moment(at: datetime | None, *, zone: bool = True) -> str:
    """`2026-01-31 12:00:05 UTC`."""
    if at is None:
        return NOTHING
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") + (" UTC" if zone else "")


def ticks(times: list[datetime], most: int = 5) -> list[tuple[int, str]]:
    """Which places of a time axis have a label, and what it says."""
    if not times:
        return []
    span = (times[-1] - times[0]).total_seconds()
    pattern = "%H:%M:%S" if span < 600 else "%H:%M" if span < 86_400 else "%d %b %H:%M" if span < 604_800 else "%d %b"
    step = max(1, -(-len(times) // most))
    return [(at, times[at].astimezone(UTC).strftime(pattern)) for at in range(0, len(times), step)]


#: Distances of the lines of an axis of time, from a minute on.
_TIME_STEPS = (15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


def ceiling(highest: float, *, time: bool = False) -> tuple[float, float]:
    """The top of an axis that begins at 0, and the distance of its lines: round numbers, at most four lines."""
    if highest <= 0:
        return 1.0, 0.5
    step = 10.0 ** math.floor(math.log10(highest / 4))
    steps: Iterable[float] = (step * factor for factor in (1, 2, 2.5, 5, 10))
    if time and 60 < highest <= 4 * _TIME_STEPS[-1]:
        steps = _TIME_STEPS
    step = next(one for one in steps if highest <= 4 * one * 1.000_001)
    return step * max(1, math.ceil(highest / step - 0.000_001)), step
