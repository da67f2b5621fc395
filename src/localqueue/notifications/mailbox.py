"""A bounded place for what one listener has not taken yet.

A wake-up is a hint, so a full mailbox neither holds up who puts into it nor loses a queue: what lies in it shrinks to
the latest of each queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from localqueue.notifications.event import Event

I = TypeVar("I")  # noqa: E741


class Mailbox(Generic[I]):
    """At most `limit` items. When one more comes, `shrink` makes fewer of them; `coalesced` counts by how many.

    `shrink` is given the items and how many of them may be left, which is half of the limit: so it is seldom called,
    however long nobody takes anything.
    """

    def __init__(self, limit: int, shrink: Callable[[Sequence[I], int], Iterable[I]], held: Iterable[I] = ()) -> None:
        self._lock = threading.Lock()
        self._items: deque[I] = deque(held)
        self._limit = limit + len(self._items)
        self._shrink = shrink
        self.coalesced = 0

    def put(self, item: I) -> bool:
        """Whether it was empty before, so that who takes has to be woken."""
        with self._lock:
            self._items.append(item)
            if len(self._items) > self._limit:
                before = len(self._items)
                self._items = deque(self._shrink(tuple(self._items), max(1, self._limit // 2)))
                self.coalesced += before - len(self._items)
            return len(self._items) == 1

    def take(self) -> I | None:
        """The oldest item; None when there is none."""
        with self._lock:
            return self._items.popleft() if self._items else None

    def take_all(self) -> list[I]:
        with self._lock:
            items, self._items = list(self._items), deque()
            return items

    def __len__(self) -> int:
        return len(self._items)


def look_again(events: Sequence[Event], limit: int) -> list[Event]:
    """One event for each queue, as late as the last of it; a single one for all where there are too many queues."""
    latest: dict[str | None, Event] = {}
    for event in events:
        latest.pop(event.queue, None)  # so that they stay in the order of their ids
        latest[event.queue] = event
    if None in latest or len(latest) > limit:
        return [events[-1].of_all()]
    return [event.of_queue() for event in latest.values()]
