"""A partition while it is assigned to this process: what was fetched of it, given out, and given back."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any, NamedTuple

from localqueue.brokers.kafka.ledger import Ledger, Mark


class Returned(NamedTuple):
    """A record that was given back, in the order of the partition."""

    offset: int
    due: float
    deliveries: int
    record: Any


class Partition:
    """Its consumer's lock is held by whoever uses it."""

    def __init__(self, number: int, ledger: Ledger) -> None:
        self.number = number
        self.ledger = ledger
        self.line: deque[Any] = deque()
        self.returned: list[Returned] = []
        self.held: dict[int, tuple[int, Any]] = {}
        self.committed: Mark | None = None
        self.end = 0
        self._floor = 0
        self.gone = False
        self.leaving = False

    @property
    def position(self) -> int:
        """Up to which offset everything was fetched."""
        return max(self.ledger.next, self.end)

    def fetch(self, record: Any) -> bool:
        """A record has come; False if there is nothing to do with it."""
        offset = record.offset()
        if not self.ledger.see(offset):
            return False
        if offset < self._floor:
            self.ledger.finish(offset)
            return False
        self.line.append(record)
        return True

    def skip_to(self, end: int) -> int:
        """Records before this offset were removed; how many of them lay here."""
        self._floor = max(self._floor, end)
        offsets = [one.offset() for one in self.line] + [one.offset for one in self.returned]
        removed = [offset for offset in offsets if offset < end]
        for offset in removed:
            self.ledger.finish(offset)
        self.line = deque(one for one in self.line if one.offset() >= end)
        self.returned = [one for one in self.returned if one.offset >= end]
        heapq.heapify(self.returned)
        return len(removed)

    def has_fetched(self, end: int) -> bool:
        """Whether everything before an offset was, or waits behind a record that was given back."""
        return bool(self.returned) or self.leaving or self.position >= end

    def blocked_until(self) -> float | None:
        """When the first record may be given out, if one that was given back holds up the others."""
        return self.returned[0].due if self.returned else None

    def take(self, now: float) -> tuple[Any, int, int] | None:
        """The first record, its offset and the number of this delivery."""
        if self.returned:
            if self.returned[0].due > now:
                return None
            offset, _, count, record = heapq.heappop(self.returned)
        elif self.line:
            record, count = self.line.popleft(), 0
            offset = record.offset()
        else:
            return None
        self.held[offset] = (count + 1, record)
        return record, offset, count + 1

    def holds(self, offset: int, count: int) -> bool:
        found = self.held.get(offset)
        return not self.gone and found is not None and found[0] == count

    def finish(self, offset: int, number: int) -> bool:
        """One that is held is done; False if it is not."""
        found = self.held.get(offset)
        if found is None or found[0] != number or self.gone:
            return False
        self.ledger.finish(offset)
        return True

    def release(self, offset: int) -> bool:
        """One that is settled is not held any more; False if the partition went before that."""
        return self.held.pop(offset, None) is not None and not self.gone

    def give_back(self, offset: int, due: float, *, counted: bool = True) -> None:
        count, record = self.held.pop(offset)
        self.ledger.reopen(offset)
        heapq.heappush(self.returned, Returned(offset, due, count if counted else count - 1, record))

    def drop(self) -> None:
        """Forget what nobody has taken."""
        self.line.clear()
        self.returned.clear()
