"""How fast a worker may start messages: a least interval, and a breaker that opens after failures in a row."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from localqueue.worker_config import PersistentWorkerConfig


class Pace:
    """Shared by all threads or tasks of one worker."""

    def __init__(self, config: PersistentWorkerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = config.min_interval
        self._threshold = config.circuit_breaker_failures
        self._cooldown = config.circuit_breaker_cooldown
        self._clock = clock
        self._lock = threading.Lock()
        self._next_start = 0.0
        self._open_until = 0.0
        self._failures = 0
        self.paced = self._interval > 0 or self._threshold > 0

    def wait(self) -> float:
        """Seconds until the next message may start; 0 when it may start now, which is then noted as its start."""
        with self._lock:
            now = self._clock()
            start = max(self._next_start, self._open_until)
            if start > now:
                return start - now
            self._next_start = now + self._interval
            return 0.0

    @property
    def open_for(self) -> float:
        """Seconds for which the breaker still keeps the worker from fetching messages."""
        return max(self._open_until - self._clock(), 0.0)

    def note(self, *, failed: bool, permanent: bool = False) -> None:
        """Count a result. A permanent failure says nothing about the service behind the handler."""
        if not self._threshold:
            return
        with self._lock:
            self._failures = self._failures + 1 if failed and not permanent else 0
            if self._failures >= self._threshold:
                self._failures = 0
                self._open_until = self._clock() + self._cooldown
