"""The clock of a server, as it is seen from here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from localqueue.errors import QueueStoreError

_FEW, _MANY = 4, 16  # questions; more than a few only where the answers are quick
_A_WHILE = 0.02  # seconds; with all answers as quick as the quickest, the many take no longer
_GOOD_FOR = 30.0  # seconds until the clocks are compared again
_HOLD_OFF = 5.0  # seconds in which a mint does not ask again
_DRIFT = 0.5  # between the two clocks of this machine: it was suspended, or somebody set the time


class ServerClock:
    """`ask` returns the server's time in seconds, cut off after `resolution`, or None when it can not be asked now.

    Ids are minted before the server hears of them, and not every server can put its own time into what it stores. So
    its time is known beforehand: the difference between its clock and this machine's monotonic one. Each answer says
    between which bounds that lies, by when it was asked for and when it came; the narrowest bounds of some answers are
    less than the quickest round trip apart. The clock on this machine's wall has no part in it. Leases are fenced by
    their tokens and do not depend on it.
    """

    def __init__(self, ask: Callable[[], float | None], *, resolution: float = 0.0) -> None:
        self._ask = ask
        self._resolution = resolution
        self._lock = threading.Lock()
        self._offset = time.time() - time.monotonic()
        self._measured_at = float("-inf")
        self._given_up_until = float("-inf")
        self._between = 0.0  # wall minus monotonic time of this machine, when the offset was measured

    def __call__(self) -> float:
        if not self.is_known():
            self._measure()
        return time.monotonic() + self._offset

    def is_known(self) -> bool:
        """Whether the next answer comes without asking the server."""
        return time.monotonic() - self._measured_at <= _GOOD_FOR and self._holds()

    def ns(self) -> int:
        """The same in nanoseconds, for a `Mint`, which always gets an answer: a server that is away refuses what the id
        is for soon enough."""
        try:
            if time.monotonic() >= self._given_up_until:
                return int(self() * 1e9)
        except QueueStoreError:
            self._given_up_until = time.monotonic() + _HOLD_OFF
        return int((time.monotonic() + self._offset) * 1e9)

    def doubt(self) -> None:
        """Measure before the next answer: the server may be another one now."""
        self._measured_at = float("-inf")

    def _measure(self) -> None:
        with self._lock:
            if time.monotonic() - self._measured_at <= 1.0 and self._holds():
                return  # another thread has just done it
            least, most, quickest = float("-inf"), float("inf"), float("inf")
            for n in range(1, _MANY + 1):
                before = time.monotonic()
                try:
                    server = self._ask()
                except QueueStoreError:
                    if n == 1:
                        raise
                    break  # what was answered is enough to go on with
                after = time.monotonic()
                if server is None:
                    return
                bounds = server - after, server + self._resolution - before
                if bounds[0] > most or bounds[1] < least:  # somebody has set the server's clock
                    least, most = bounds
                least, most = max(least, bounds[0]), min(most, bounds[1])
                quickest = min(quickest, after - before)
                if n >= _FEW and n * quickest > _A_WHILE:
                    break
            self._offset = (least + most) / 2
            self._between = time.time() - time.monotonic()
            self._measured_at = time.monotonic()

    def _holds(self) -> bool:
        return abs(time.time() - time.monotonic() - self._between) <= _DRIFT
