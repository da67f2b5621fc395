"""The server's clock, as seen from here.

MongoDB can not put its own time into an inserted document, so the time is known beforehand: the difference between the
server's clock and this machine's monotonic one, from the quickest of a few questions. The clock on this machine's wall
has no part in it. The answer is right to about half a round trip plus a millisecond, the server's resolution; leases
are fenced by their tokens and do not depend on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_SAMPLES = 4
_GOOD_FOR = 30.0  # seconds until the difference is measured again
_DRIFT = 0.5  # between the two clocks of this machine: it was suspended, or somebody set the time


class ServerClock:
    """`ask` returns the server's time in seconds."""

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._offset = 0.0
        self._measured_at = float("-inf")
        self._between = 0.0  # wall minus monotonic time of this machine, when the offset was measured

    def __call__(self) -> float:
        monotonic = time.monotonic()
        if monotonic - self._measured_at > _GOOD_FOR or abs(time.time() - monotonic - self._between) > _DRIFT:
            self._measure()
        return time.monotonic() + self._offset

    def doubt(self) -> None:
        """Measure before the next answer: the server may be another one now."""
        self._measured_at = float("-inf")

    def _measure(self) -> None:
        with self._lock:
            if time.monotonic() - self._measured_at <= 1.0 and self._holds():
                return  # another thread has just done it
            best = float("inf")
            for _ in range(_SAMPLES):
                before = time.monotonic()
                server = self._ask()
                after = time.monotonic()
                if after - before < best:
                    best = after - before
                    self._offset = server + 0.0005 - (before + after) / 2  # the server cuts off after milliseconds
            self._between = time.time() - time.monotonic()
            self._measured_at = time.monotonic()

    def _holds(self) -> bool:
        return abs(time.time() - time.monotonic() - self._between) <= _DRIFT
