"""SIGTERM and SIGINT: the first asks the worker to finish, the second ends it at once."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

log = logging.getLogger("localqueue.workers")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopFlag(threading.Event):
    """An event that a signal handler may set in a thread that is just setting it: its lock lets the owner in again."""

    def __init__(self) -> None:
        super().__init__()
        self._told = threading.Condition()
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with self._told:
            self._is_set = True
            self._told.notify_all()

    def clear(self) -> None:
        with self._told:
            self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        with self._told:
            return self._told.wait_for(lambda: self._is_set, timeout)


class HardStop(SystemExit):
    """The second signal: whoever waits for the worker to finish stops waiting."""


class StopSignals:
    """Handles the signals while a worker runs in the main thread; elsewhere Python does not allow it."""

    def __init__(self, stop: Callable[[], object], *, enabled: bool = True) -> None:
        self._stop = stop
        self._enabled = enabled and threading.current_thread() is threading.main_thread()
        self._earlier: dict[signal.Signals, Any] = {}
        self._count = 0

    def __enter__(self) -> Self:
        if self._enabled:
            for number in STOP_SIGNALS:
                self._earlier[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1:
            raise HardStop(128 + number)
        self._stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
