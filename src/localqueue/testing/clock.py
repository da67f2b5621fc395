"""A clock that a test moves."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from datetime import datetime, timedelta
from types import MethodType

from localqueue.stores.port import QueueStore


class Clock:
    """The clock of a store under test: `MemoryQueueStore(clock=clock)`, also SQLite and LMDB.

    It goes with the time of day, and `advance` puts it forward: delays end, leases run out, messages expire, schedules
    fall due, and those who wait for that are woken. With `at` (seconds since the epoch, or a datetime with a time zone)
    it stands still at that moment until it is moved. It never goes back.
    """

    def __init__(self, at: float | datetime | None = None) -> None:
        self._stands_at = None if at is None else _seconds(at)
        self._ahead = 0.0
        self._lock = threading.Lock()
        self._told: list[weakref.WeakMethod[Callable[[], object]]] = []

    def __call__(self) -> float:
        with self._lock:
            return self._now()

    def advance(self, seconds: float | timedelta) -> None:
        """Put the clock forward."""
        by = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        if not by >= 0:
            raise ValueError(f"a clock goes forward, not by {seconds!r}; begin at an earlier moment with Clock(at=...)")
        with self._lock:
            self._ahead += by
        self._tell()

    def move_to(self, moment: float | datetime) -> None:
        """Put the clock forward to a moment; one that has passed already is no error, and changes nothing."""
        with self._lock:
            self._ahead += max(_seconds(moment) - self._now(), 0.0)
        self._tell()

    def on_move(self, call: Callable[[], object]) -> None:
        """Call this bound method whenever the clock was moved, for as long as its object lives."""
        assert isinstance(call, MethodType)
        with self._lock:
            self._told = [one for one in self._told if one() is not None]
            self._told.append(weakref.WeakMethod(call))

    def __repr__(self) -> str:
        return f"<Clock at {self():.3f}>"

    def _now(self) -> float:
        return (time.time() if self._stands_at is None else self._stands_at) + self._ahead

    def _tell(self) -> None:
        for one in list(self._told):
            call = one()
            if call is not None:
                call()


def clock_of(store: QueueStore) -> Clock:
    """The clock of a store, if it is one to move."""
    clock = getattr(store, "clock", None)
    if not isinstance(clock, Clock):
        raise ValueError(
            f"the clock of {store!r} can not be moved; open the store with clock=localqueue.testing.Clock(), or use "
            "memory_store() or the fixture localqueue_store"
        )
    return clock


def _seconds(moment: float | datetime) -> float:
    if not isinstance(moment, datetime):
        return float(moment)
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; say datetime(..., tzinfo=UTC)")
    return moment.timestamp()
