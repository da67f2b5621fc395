"""Push of a queue by blocking reads, which take no more than there is room for."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from localqueue.brokers.port import Delivery, Message, MessageNotification
from localqueue.brokers.redis_streams.wait import LONGEST, StreamWait
from localqueue.errors import QueueStoreClosedError

if TYPE_CHECKING:
    from localqueue.brokers.redis_streams.broker import RedisStreamsBroker


class StreamSubscription:
    """One that met an error is as good as new: its next `next` connects again."""

    def __init__(self, broker: RedisStreamsBroker, queue: str, *, prefetch: int, lease: float) -> None:
        self._broker = broker
        self._queue = queue
        self._prefetch = prefetch
        self._lease = lease
        self._wait: StreamWait = broker.open_wait(queue)
        self._buffer: deque[Delivery] = deque()
        self._fresh_until = 0.0
        self._held: dict[bytes, float] = {}
        self._counting = threading.Lock()
        self._taking = threading.Lock()
        self._woken = False
        self._closed = False

    def next(self, timeout: float | None = None) -> MessageNotification | None:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with self._taking:
            while True:
                if self._closed:
                    raise QueueStoreClosedError(f"the subscription of queue {self._queue!r} is closed")
                self._broker.require_open()
                if self._woken:
                    self._woken = False
                    return None
                self._refresh()
                if self._buffer:
                    return Message(self._buffer.popleft())
                if not self._fill(deadline):
                    return None

    def _fill(self, deadline: float) -> bool:
        """Read, or wait for something to read or for room; False when the time was up already."""
        room, free_in = self._room()
        after, look_again = None, free_in
        if room > 0:
            taken = self._broker.take(self._queue, room, self._lease, self)
            if taken.deliveries:
                with self._counting:
                    end = time.monotonic() + self._lease
                    self._held.update((one.receipt.name, end) for one in taken.deliveries)
                self._buffer.extend(taken.deliveries)
                self._fresh_until = time.monotonic() + self._lease / 2
                return True
            after, look_again = taken.after, taken.look_again
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        self._wait.until(after, min(left, look_again, LONGEST))
        return True

    def _room(self) -> tuple[int, float]:
        """How many more may be held, and in how many seconds a lease that nobody settles is over."""
        with self._counting:
            if len(self._held) < self._prefetch:
                return self._prefetch - len(self._held), 0.0
            now = time.monotonic()
            self._held = {name: until for name, until in self._held.items() if until > now}
            return self._prefetch - len(self._held), max(0.01, min(self._held.values(), default=now) - now)

    def _refresh(self) -> None:
        """Renew the lease of what lies here if half of it is over; what was lost is left out."""
        if self._buffer and time.monotonic() > self._fresh_until:
            kept = list(self._buffer)
            until = self._broker.extend(kept, self._lease)
            self._buffer = deque(
                one._replace(leased_until=end) for one, end in zip(kept, until, strict=True) if end is not None
            )
            self._fresh_until = time.monotonic() + self._lease / 2

    def extended(self, name: bytes, seconds: float) -> None:
        with self._counting:
            if name in self._held:
                self._held[name] = time.monotonic() + seconds

    def settled(self, name: bytes) -> None:
        with self._counting:
            was_full = len(self._held) >= self._prefetch
            self._held.pop(name, None)
        if was_full:
            self._wait.wake()

    def wake(self) -> None:
        self._woken = True
        self._wait.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._wait.wake()
        with self._taking:
            left, self._buffer = list(self._buffer), deque()
            self._broker.end_wait(self._queue, self._wait)
            self._broker.give_back(left)
