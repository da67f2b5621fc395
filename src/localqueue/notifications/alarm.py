"""Telling somebody later: a thread that exists while there is something to tell."""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable

_log = logging.getLogger("localqueue")

_MOST = 10_000  # beyond that those who wait catch up by themselves
_LINGER = 1.0


class Alarm:
    """Calls functions when their time has come, each once, in one thread for all."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def ring_in(self, seconds: float, call: Callable[[], object]) -> None:
        """Call `call` in so many seconds. It must be quick and raise nothing."""
        with self._condition:
            if len(self._due) >= _MOST:
                return
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="localqueue-alarm", daemon=True)
                self._thread.start()
            elif self._due[0][2] is call:
                self._condition.notify()

    def forget_parent(self) -> None:
        """In the child of a fork, which has not the thread."""
        self.__init__()  # type: ignore[misc]

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._due and not self._condition.wait_for(lambda: self._due, _LINGER):
                    self._thread = None
                    return
                pause = self._due[0][0] - time.monotonic()
                if pause > 0:
                    self._condition.wait(pause)
                    continue
                call = heapq.heappop(self._due)[2]
            try:
                call()
            except Exception:
                _log.exception("a waiter could not be told")


ALARM = Alarm()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ALARM.forget_parent)
