"""Sharing a number of threads between queues: whose turn it is when one comes free."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Mapping


class Turns:
    """`places` handlers may run at a time, in all queues together.

    When a place comes free, it goes to the waiting queue with the highest priority, and among those with the same one
    by weight: a queue of weight 3 gets three places where one of weight 1 gets one. A queue that has nothing to do
    holds no place, so the others have all of them.
    """

    def __init__(
        self, places: int, weights: Mapping[Hashable, float], priorities: Mapping[Hashable, int] | None = None
    ) -> None:
        self._free = places
        self._weights = weights
        self._priorities = priorities or {}
        self._passed: dict[Hashable, float] = dict.fromkeys(weights, 0.0)
        self._latest = 0.0  # how far the queue was that had the last turn
        self._waiting: Counter[Hashable] = Counter()
        self._changed = threading.Condition()

    def take(self, queue: Hashable, stopping: threading.Event) -> bool:
        """Wait for a place; False when the worker is to stop instead."""
        with self._changed:
            self._passed[queue] = max(self._passed[queue], self._latest)  # what it did not want before is not made up
            self._waiting[queue] += 1
            try:
                self._changed.wait_for(lambda: stopping.is_set() or (self._free > 0 and self._is_next(queue)))
                if stopping.is_set():
                    return False
                self._free -= 1
                self._count(queue)
                return True
            finally:
                self._waiting[queue] -= 1
                self._changed.notify_all()

    def give(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def keep(self, queue: Hashable) -> bool:
        """Whether who holds a place may go on with the next message: nobody waits who has a better claim."""
        with self._changed:
            if any(self._waiting[other] and self._claim(other) < self._claim(queue) for other in self._weights):
                return False
            self._count(queue)
            return True

    def waiting(self, queue: Hashable) -> int:
        """How many wait for a place to work for this queue."""
        with self._changed:
            return self._waiting[queue]

    def stir(self) -> None:
        """Have those who wait look whether they are to stop."""
        with self._changed:
            self._changed.notify_all()

    def _count(self, queue: Hashable) -> None:
        self._latest = self._passed[queue]
        self._passed[queue] += 1 / self._weights[queue]

    def _is_next(self, queue: Hashable) -> bool:
        return all(self._claim(queue) <= self._claim(other) for other, count in self._waiting.items() if count)

    def _claim(self, queue: Hashable) -> tuple[int, float]:
        return -self._priorities.get(queue, 0), self._passed[queue]
