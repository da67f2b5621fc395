"""Events with ids, kept for a while, for any number of subscribers who are never waited for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from localqueue.notifications.event import Arrival, Event, EventCount
from localqueue.notifications.fork import heed_forks
from localqueue.notifications.mailbox import Mailbox, look_again


class Subscription:
    """What one subscriber has not taken yet. `position` is the id of the last event it knows, `is_open` whether there
    will be more. `take` may be called by one thread or task; it is rung for when there is something to take."""

    def __init__(self, feed: Feed, queues: frozenset[str], position: str, mailbox: Mailbox[Event]) -> None:
        self.queues = queues
        self.position = position
        self.is_open = True
        self.mailbox = mailbox
        self._feed = feed

    def take(self) -> list[Event]:
        """Everything that came since the last time."""
        return self.mailbox.take_all()

    def close(self) -> None:
        self._feed.forget(self)


class Feed:
    """Passes events on in the order of their ids. `history` of them are kept for subscribers who come back; `buffer` is
    how many one subscriber may leave lying before they shrink to one for each queue.

    Any thread may publish and subscribe.
    """

    def __init__(self, *, history: int, buffer: int) -> None:
        for name, count in (("history", history), ("buffer", buffer)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be a number of events, at least 1, got {count!r}")
        self._history_size, self._buffer = history, buffer
        self.abandon()
        heed_forks(self)

    def abandon(self) -> None:
        self._lock = threading.Lock()
        self._count = EventCount()
        self._history: deque[Event] = deque(maxlen=self._history_size)
        self._rings: dict[Subscription, Callable[[], object]] = {}
        self._of_queue: dict[str | None, list[Subscription]] = {}
        self._coalesced = 0
        self._closed = False

    def publish(self, arrival: Arrival) -> None:
        """Tell the subscribers of its queue."""
        with self._lock:
            if self._closed:
                return
            event = self._count.next(arrival)
            self._history.append(event)
            if event.queue is None:
                found = list(self._rings)
            else:
                found = [*self._of_queue.get(event.queue, ()), *self._of_queue.get(None, ())]
            for subscription in found:
                if subscription.mailbox.put(event):
                    self._ring(subscription)

    def subscribe(
        self, queues: Iterable[str], ring: Callable[[], object], last_event_id: str | None = None
    ) -> Subscription:
        """Hear of these queues, of all when there are none, from the event after `last_event_id` or from now on.

        Where that event is no longer known the first one to take is a reset. `ring` is called from any thread when
        there is something to take; it must be quick.
        """
        names = frozenset(queues)
        with self._lock:
            position, held = self._start(last_event_id, names)
            subscription = Subscription(self, names, position, Mailbox(self._buffer, look_again, held))
            subscription.is_open = not self._closed
            self._rings[subscription] = ring
            for name in names or (None,):
                self._of_queue.setdefault(name, []).append(subscription)
        return subscription

    def _start(self, last_event_id: str | None, queues: frozenset[str]) -> tuple[str, list[Event]]:
        """Where a subscriber begins, and what it has missed."""
        now = self._count.name(self._count.last)
        if last_event_id is None:
            return now, []
        number = self._count.number(last_event_id)
        if number is None or number < self._count.last - len(self._history):
            return now, [Event(event_id=now, queue=None, message_id=None, at=time.time())]
        missed = list(self._history)[len(self._history) - (self._count.last - number) :]
        return last_event_id, [one for one in missed if not queues or one.queue is None or one.queue in queues]

    def forget(self, subscription: Subscription) -> None:
        with self._lock:
            self._forget(subscription)

    @property
    def subscriber_count(self) -> int:
        return len(self._rings)

    @property
    def coalesced(self) -> int:
        """Events that were not passed on one by one, because a subscriber was slow."""
        with self._lock:
            return self._coalesced + sum(one.mailbox.coalesced for one in self._rings)

    def close(self) -> None:
        """End all subscriptions; what is published from now on reaches nobody."""
        with self._lock:
            self._closed = True
            for subscription in list(self._rings):
                subscription.is_open = False
                self._ring(subscription)

    def _ring(self, subscription: Subscription) -> None:
        try:
            self._rings[subscription]()
        except RuntimeError:  # its event loop is closed: nobody is there
            self._forget(subscription)

    def _forget(self, subscription: Subscription) -> None:
        if self._rings.pop(subscription, None) is None:
            return
        self._coalesced += subscription.mailbox.coalesced
        for name in subscription.queues or (None,):
            others = self._of_queue[name]
            others.remove(subscription)
            if not others:
                del self._of_queue[name]
