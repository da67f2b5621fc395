"""How much room the queues of a commit have, and which message would have to go first."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from localqueue.stores.engine.row import BLOCKED, READY, Row

if TYPE_CHECKING:
    from localqueue.stores.engine.unit import Unit

_A_PAGE = 500  # ready messages that are looked for at once, where one after the other is dropped


class Room:
    """Looked up once for each queue, and kept in step with what the unit does to it as long as that can be known."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._loads: dict[int, int] = {}
        self._overfull: set[int] = set()  # queues of which not all that count were counted
        self._oldest: dict[int, deque[int]] = {}  # ready messages, as far as they were looked for
        self._latest: dict[int, float] = {}  # when the last of these became available
        self._pages: dict[int, int] = {}  # how many were looked for at last
        self._all_ready: set[int] = set()  # queues of which all ready ones were found

    def load(self, queue: int, up_to: int) -> int:
        """Messages that count against capacity; when there are more than `up_to`, some number above it."""
        known = self._loads.get(queue)
        if known is None:
            self._unit.flush()
            known = self._loads[queue] = self._unit.rows.load(queue, self._unit.now, up_to + 1)
            if known > up_to:
                self._overfull.add(queue)
        return known

    def oldest(self, queue: int) -> Row | None:
        """The message that became available first; when none is, the blocked one that was put first."""
        unit, line = self._unit, self._oldest.get(queue)
        if not line:
            unit.flush()
            page = self._pages[queue] = min(8 * self._pages.get(queue, 0) or 1, _A_PAGE)
            ready = unit.adopt(unit.rows.oldest(queue, page))
            (self._all_ready.add if len(ready) < page else self._all_ready.discard)(queue)
            if not ready:
                self._oldest.pop(queue, None)
                blocked = unit.rows.oldest_blocked(queue)
                return None if blocked is None else unit.adopt([blocked])[0]
            line = self._oldest[queue] = deque(row.key for row in ready)
            self._latest[queue] = max(row.available_at for row in ready)
        return unit.row(line.popleft())

    def count(self, row: Row, by: int) -> None:
        """A message came, or went."""
        queue = row.queue
        if queue in self._loads and row.state in (READY, BLOCKED):
            self._loads[queue] += by
            if by < 0 and queue in self._overfull:  # it is not known how far above its limit it was
                self._loads.pop(queue)
                self._overfull.discard(queue)
        if by > 0 and row.state == READY and queue in self._oldest:
            if row.available_at < self._latest[queue]:  # the clock was set back: the store knows its place
                del self._oldest[queue]
            elif queue in self._all_ready:
                self._oldest[queue].append(row.key)
                self._latest[queue] = row.available_at

    def grow(self, queue: int, by: int) -> None:
        """So many came at once."""
        if queue in self._loads:
            self._loads[queue] += by
        self._oldest.pop(queue, None)

    def forget(self, queue: int) -> None:
        """A message of the queue changes its state."""
        self._loads.pop(queue, None)
        self._oldest.pop(queue, None)
