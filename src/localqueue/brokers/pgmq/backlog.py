"""What a queue of PGMQ has to read, for those who wait."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0


class Backlog:
    """Whether there is something to read in a queue, or else when there will be.

    A message that another program has read in a transaction that is still open can not be read, and looks as if it
    could. So who was told and has read nothing since is told again after pauses that grow. `due` says in how many
    seconds the next message can be read, `reads` counts what was read from each queue.
    """

    def __init__(self, queue: str, due: Callable[[str], float], reads: Counter[str]) -> None:
        self._queue = queue
        self._due = due
        self._reads = reads
        self._reads_before = -1
        self._pause = 0.0
        self._not_before = 0.0

    def look(self) -> tuple[bool, float]:
        due = self._due(self._queue)
        if due > 0:
            return False, due
        now, reads = time.monotonic(), self._reads[self._queue]
        if reads != self._reads_before:
            self._reads_before, self._pause, self._not_before = reads, 0.0, 0.0
        if now < self._not_before:
            return False, self._not_before - now
        self._pause = min(max(2 * self._pause, _SHORTEST_PAUSE), _LONGEST_PAUSE)
        self._not_before = now + self._pause
        return True, 0.0
