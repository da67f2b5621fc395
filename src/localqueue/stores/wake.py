"""Waking blocked callers.

A commit in this process wakes the threads that wait on its queues at once. Those of other processes are told by the
server, or else seen through a version of the store that changes with each of them and is cheap to read; of all threads
that wait, one polls it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import TracebackType
from typing import Self

from localqueue.stores import rules

_POLL = 0.006
_CATCH_UP = 0.5  # bounds how late a jump of the clock, or a wake-up that was lost, is noticed


class Wake:
    """Tells when something in the queues that are waited for changed.

    `version` reads, for those queues, something that differs after another process changed them; it may differ more
    often. It is None for a store that only this process can change, or one whose server tells of changes (see
    `listener.py`). `catch_up` says how long a wait may last at most before the store is looked at again.
    """

    def __init__(
        self,
        version: Callable[[Iterable[Hashable]], Hashable] | None,
        catch_up: Callable[[], float] = lambda: _CATCH_UP,
    ) -> None:
        self._version = version
        self.catch_up = catch_up
        self._condition = threading.Condition()
        self._generation = 0
        self._seen: Hashable = None
        self._polling = False
        self._waited: Counter[Hashable] = Counter()
        self._told: dict[Hashable, int] = {}

    def touched(self, queues: Iterable[Hashable]) -> None:
        """A commit of this process changed these queues."""
        if self._waited and not self._waited.keys().isdisjoint(queues):
            self.stir()

    def told(self, queues: Iterable[Hashable]) -> None:
        """The server said that another process changed these queues."""
        with self._condition:
            waited = [name for name in queues if name in self._waited]
            if waited:
                self._generation += 1
                self._told.update(dict.fromkeys(waited, self._generation))
                self._condition.notify_all()

    def told_since(self, generation: int, queues: Iterable[Hashable]) -> bool:
        return any(self._told.get(name, 0) > generation for name in queues)

    def stir(self) -> None:
        """Have everybody who waits look again."""
        with self._condition:
            self._generation += 1
            self._condition.notify_all()

    def watch(self, queues: Sequence[Hashable], by: int) -> None:
        with self._condition:
            for name in queues:
                self._waited[name] += by
                if not self._waited[name]:
                    del self._waited[name]
                    self._told.pop(name, None)

    def generation(self) -> int:
        with self._condition:
            self._poll()
            return self._generation

    def wait_for_change(self, generation: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        polled = False
        with self._condition:
            try:
                while self._generation == generation:
                    remaining = deadline - time.monotonic()
                    if remaining <= 0:
                        break
                    if self._version is None or (self._polling and not polled):
                        self._condition.wait(remaining)
                        continue
                    self._polling = polled = True
                    self._condition.wait(min(_POLL, remaining))
                    if self._poll():
                        self._condition.notify_all()
            finally:
                if polled:
                    self._polling = False
                    self._condition.notify()

    def _poll(self) -> bool:
        if self._version is None:
            return False
        version = self._version(self._waited)
        if version == self._seen:
            return False
        self._seen = version
        self._generation += 1
        return True


def change_of(look: Callable[[], object]) -> Callable[[], tuple[bool, float]]:
    """A check that is true when `look` shows something else than it did the last time."""
    seen = look()

    def check() -> tuple[bool, float]:
        nonlocal seen
        before, seen = seen, look()
        return seen != before, rules.NEVER

    return check


class StoreWaiter:
    """Blocks until `check` says so. It returns whether to stop, and in how many seconds to look again at the latest."""

    def __init__(self, wake: Wake, queues: Sequence[Hashable], check: Callable[[], tuple[bool, float]]) -> None:
        self._wake = wake
        self._queues = queues
        self._check = check
        self._interrupted = False
        wake.watch(queues, 1)

    def wait(self, timeout: float | None = None) -> bool:
        return self._wait(timeout, trusting=False)

    def heard(self, timeout: float | None = None) -> bool:
        """What the server says is passed on without a look, which saves a round trip."""
        return self._wait(timeout, trusting=True)

    def _wait(self, timeout: float | None, *, trusting: bool) -> bool:
        deadline = rules.NEVER if timeout is None else time.monotonic() + timeout
        while True:
            generation = self._wake.generation()
            done, again = self._check()
            if done:
                return True
            remaining = deadline - time.monotonic()
            if remaining <= 0 or self._interrupted:
                self._interrupted = False
                return False
            self._wake.wait_for_change(generation, min(remaining, max(again, 0.0005), self._wake.catch_up()))
            if trusting and not self._interrupted and self._wake.told_since(generation, self._queues):
                return True

    def interrupt(self) -> None:
        """End the wait that runs, or the next one, as if its time were up."""
        self._interrupted = True
        self._wake.stir()

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
