"""SIGTERM and SIGINT: the first asks to finish, the second ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether somebody asked us to finish.

    `ask` is called by a signal handler, which may interrupt this very thread anywhere: so there is a bare lock, taken
    means not asked, and no `threading.Event`, whose own lock the thread may be holding.
    """

    def __init__(self) -> None:
        self.asked = False
        self.also: Callable[[], object] = lambda: None  # told when asked
        self._not_asked = threading.Lock()
        self._not_asked.acquire()

    def ask(self) -> None:
        if not self.asked:
            self.asked = True
            self._not_asked.release()
            self.also()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until asked, or for so many seconds; whether it was asked."""
        if self._not_asked.acquire(timeout=-1 if seconds is None else seconds):
            self._not_asked.release()
        return self.asked


@contextmanager
def stop_by_signal() -> Iterator[Stop]:
    """The first signal asks; the second raises KeyboardInterrupt wherever the program is."""
    stop = Stop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.ask()

    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread hears signals
        return
    earlier = {number: signal.signal(number, on_signal) for number in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
