"""A rate: so many starts in any time of so many seconds."""

from __future__ import annotations

import re
from typing import NamedTuple

from localqueue.policies._limits import require_integer, require_seconds

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN = re.compile(r"(\d+)/(\d+(?:\.\d+)?)?(s|second|m|minute|h|hour|d|day)")

#: So that a rate can be written down in a record and in the time of a clock.
_MOST, _LONGEST = 1_000_000, 366 * 86400.0


class Rate(NamedTuple):
    """At most `most` starts in any `seconds`."""

    most: int
    seconds: float

    @property
    def interval(self) -> float:
        """Seconds from start to start when all of it is used."""
        return self.seconds / self.most


def rate_of(value: object) -> Rate:
    """The rate that is meant by "10/s", "100/m", "5/2s", "1000/h", "2/day" or a pair of a count and seconds."""
    if isinstance(value, str):
        written = _WRITTEN.fullmatch(value.replace(" ", ""))
        if written is None:
            raise ValueError(
                f"rate={value!r} is none; write a count, a slash and a time in s, m, h or d, such as '10/s', '100/m' "
                "or '5/2s', or give a pair (count, seconds)"
            )
        count, times, unit = written.groups()
        return _checked(value, int(count), float(times or 1) * _UNITS[unit[0]])
    if isinstance(value, tuple) and len(value) == 2:
        count, seconds = value
        return _checked(value, require_integer("the count of a rate", count), require_seconds("a rate's time", seconds))
    raise TypeError(f"rate must be a text such as '10/s' or a pair (count, seconds), not {value!r}")


def _checked(value: object, count: int, seconds: float) -> Rate:
    if not 1 <= count <= _MOST:
        raise ValueError(f"rate={value!r} must let at least 1 message start, and {_MOST} at most")
    if not 0 < seconds <= _LONGEST:
        raise ValueError(f"rate={value!r} must be over more than no time, and a year at most")
    return Rate(count, float(seconds))
