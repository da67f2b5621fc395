"""Lengths of time as people write them."""

from __future__ import annotations

import math
import re

from localqueue.cli.errors import Mistake

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|h|d|)")


def seconds_of(text: str, option: str) -> float:
    """`90`, `90s`, `1.5m`, `2h`, `1d` in seconds."""
    match = _WRITTEN.fullmatch(text.strip())
    seconds = math.inf if match is None else float(match[1]) * _UNITS[match[2]]
    if not math.isfinite(seconds):
        raise Mistake(f"{option} is a length of time like 90, 90s, 15m, 2h or 1d, not {text!r}")
    return seconds
