"""Numbers a policy may hold: real integers and finite seconds, never a bool in disguise."""

from __future__ import annotations

import math

#: Seconds, three thousand years: a time so far away is still one that calendars have.
LONGEST = 1e11


def require_integer(name: str, value: object) -> int:
    """Return `value` when it is an integer; a bool, float or string is a TypeError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    return value


def require_seconds(name: str, value: object) -> float:
    """Return `value` when it is a finite int or float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    if abs(value) > LONGEST:
        raise ValueError(f"{name} can be {LONGEST:.0f} seconds at most, got {value!r}")
    return value


def require_queue_name(name: str, value: object) -> str:
    """Return `value` when a store would accept it as the name of a queue."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    if not value:
        raise ValueError(f"{name} cannot be empty")
    if ":" in value:
        raise ValueError(f"{name} cannot contain ':', got {value!r}")
    return value
