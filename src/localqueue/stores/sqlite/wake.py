"""Waking blocked callers without a broker.

A commit in this process wakes the threads that wait on its queues at once. Commits of other processes are seen through
`PRAGMA data_version`, which costs microseconds and takes no lock; of all threads that wait on a store, one polls it.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from localqueue.stores import rules

_POLL = 0.004
_LONGEST_WAIT = 0.5  # bounds how late a jump of the clock is noticed


class Wake:
    """Tells when anything in the store changed. `connect` is None for a store only this process can change."""

    def __init__(self, connect: Callable[[], sqlite3.Connection] | None) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._connection_lock = threading.Lock()
        self._condition = threading.Condition()
        self._generation = 0
        self._data_version = 0
        self._polling = False
        self.waited: Counter[str] = Counter()

    def touched(self, queues: Iterable[str]) -> None:
        """A commit of this process changed these queues."""
        if self.waited and not self.waited.keys().isdisjoint(queues):
            with self._condition:
                self._generation += 1
                self._condition.notify_all()

    def watch(self, queues: Sequence[str], by: int) -> None:
        with self._condition:
            for name in queues:
                self.waited[name] += by
                if not self.waited[name]:
                    del self.waited[name]

    def generation(self) -> int:
        with self._condition:
            self._poll()
            return self._generation

    def wait_for_change(self, generation: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        polled = False
        with self._condition:
            while self._generation == generation:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                if self._polling and not polled:
                    self._condition.wait(remaining)
                    continue
                self._polling = polled = True
                self._condition.wait(min(_POLL, remaining))
                if self._poll():
                    self._condition.notify_all()
            if polled:
                self._polling = False
                self._condition.notify()

    def _poll(self) -> bool:
        if self._connect is None:
            return False
        version = self.query("PRAGMA data_version")[0][0]
        if version == self._data_version:
            return False
        self._data_version = version
        self._generation += 1
        return True

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """A small read on the connection that also watches the file."""
        assert self._connect is not None
        with self._connection_lock:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection.execute(statement, parameters).fetchall()

    def close(self) -> None:
        with self._connection_lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class StoreWaiter:
    """Blocks until `check` says so. It returns whether to stop, and when to look again at the latest."""

    def __init__(
        self,
        wake: Wake,
        queues: Sequence[str],
        check: Callable[[], tuple[bool, float]],
        clock: Callable[[], float],
    ) -> None:
        self._wake = wake
        self._queues = queues
        self._check = check
        self._clock = clock
        wake.watch(queues, 1)

    def wait(self, timeout: float | None = None) -> bool:
        deadline = rules.NEVER if timeout is None else time.monotonic() + timeout
        while True:
            generation = self._wake.generation()
            done, due = self._check()
            if done:
                return True
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            self._wake.wait_for_change(generation, min(remaining, max(due - self._clock(), 0.0005), _LONGEST_WAIT))

    def close(self) -> None:
        if self._queues:
            self._wake.watch(self._queues, -1)
            self._queues = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
