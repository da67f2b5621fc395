"""Clocks that are wrong, for processes that have one of their own."""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from pathlib import Path

from localqueue import ids


def set_clock(ahead: Callable[[], float]) -> None:
    """Have this process take it for so many seconds later than it is. Who has taken `time.time` for a clock before, as
    the stores in files have, must be given another."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + ahead()
    time.time_ns = lambda: real_ns() + int(ahead() * 1e9)
    ids.time_ns = time.time_ns


class Offset:
    """Seconds by which the clock of a machine is off, in a file: all processes that look there agree at any moment."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(struct.pack("d", 0.0))
            path.chmod(0o666)
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)

    def __call__(self) -> float:
        return float(struct.unpack("d", self._memory)[0])

    def set(self, seconds: float) -> None:
        self._memory[:] = struct.pack("d", seconds)
