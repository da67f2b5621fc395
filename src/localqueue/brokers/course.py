"""How a hybrid consumer finds its next messages: decisions without I/O.

Push comes first. Where push is only a signal, or may lose one, the queue is polled as well, rarely; where push fails,
it is polled often until push is back, which begins with what came in between. `Course.find` yields what is to be done
and is sent what came of it, so the same decisions drive threads, event loops and tests.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from localqueue.brokers.capabilities import BrokerCapabilities
from localqueue.brokers.port import Delivery, Message
from localqueue.errors import QueueStoreUnavailableError, UnsupportedByBroker

Mode = Literal["hybrid", "push_only", "poll_only"]
State = Literal["push", "poll", "degraded"]
MODES: tuple[Mode, ...] = ("hybrid", "push_only", "poll_only")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_DEGRADED = 0.5  # seconds between polls while push is down, unless the interval is shorter


class Subscribe(NamedTuple):
    """Begin to be told; the answer is nothing, or `QueueStoreUnavailableError` is thrown."""


class Listen(NamedTuple):
    """Wait for a push, at most so many seconds; the answer is what was pushed, or None."""

    seconds: float | None


class Receive(NamedTuple):
    """Ask for messages, waiting at most so many seconds; the answer is a list."""

    limit: int
    seconds: float = 0.0


class Rest(NamedTuple):
    """Do nothing for so many seconds."""

    seconds: float | None


class Unsubscribe(NamedTuple):
    """Let go of a subscription that has failed."""


Step = Subscribe | Listen | Receive | Rest | Unsubscribe
Found = Generator[Step, Any, list[Delivery]]


@dataclass(slots=True, kw_only=True)
class Counters:
    """What came by which way. `pushes` and `polls` count asking, `pushed` and `polled` messages."""

    pushes: int = 0
    pushed: int = 0
    polls: int = 0
    polled: int = 0
    empty_polls: int = 0
    degradations: int = 0
    recoveries: int = 0
    acked: int = 0
    returned: int = 0
    dead_lettered: int = 0
    lost: int = 0
    state: State = field(default="push")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Course:
    def __init__(
        self,
        can: BrokerCapabilities,
        *,
        mode: Mode = "hybrid",
        batch: int = 10,
        fallback_interval: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise ValueError(f"batch must be a whole number from 1 on, not {batch!r}")
        if isinstance(fallback_interval, bool) or not isinstance(fallback_interval, int | float):
            raise TypeError(f"fallback_interval must be a number of seconds, not {fallback_interval!r}")
        if not 0 < fallback_interval <= 86400:
            raise ValueError(f"fallback_interval must be between 0 and 86400 seconds, not {fallback_interval!r}")
        if mode == "push_only" and can.push == "none":
            raise UnsupportedByBroker(f"{can.name} can not push: use mode='hybrid' or mode='poll_only'")
        self.counters = Counters()
        self.found: deque[Delivery] = deque()  # and not handed out yet
        self._can = can
        self._batch = batch
        self._interval = fallback_interval
        self._clock = clock
        self._pushes = mode != "poll_only" and can.push != "none"
        self._may_poll = mode != "push_only"
        self._polls_beside_push = self._may_poll and can.fallback != "none"
        self._subscribed = False
        self._more = False  # a signal may stand for more messages than were received after it
        self._pause = _FIRST_PAUSE
        self._subscribe_at = self._poll_at = clock()
        if not self._pushes:
            self.counters.state = "poll"

    def find(self, timeout: float | None) -> Found:
        """The next messages; none after `timeout` seconds."""
        if self.found:
            return self.take()
        deadline = None if timeout is None else self._clock() + timeout
        while True:
            if self._pushes and not self._subscribed and self._clock() >= self._subscribe_at:
                yield from self._subscribe()
            if self._is_poll_due():
                found = yield from self._poll(deadline)
            elif self._subscribed:
                found = yield from self._listen(deadline)
            else:
                yield Rest(self._left(deadline))
                found = []
            if found or (deadline is not None and self._clock() >= deadline):
                return found

    def take(self) -> list[Delivery]:
        """What was found and not handed out."""
        taken = list(self.found)
        self.found.clear()
        return taken

    def take_up(self, step: Step, answer: Any) -> None:
        """A step was done for a search that had been given up: what it brought is not lost."""
        match step:
            case Subscribe():
                self._begin()
            case Receive():
                self.found.extend(answer)
            case Listen() if isinstance(answer, Message):
                self.found.append(answer.delivery)
            case Listen():
                self._more = self._more or answer is not None

    def interrupted(self) -> None:
        """A step failed that nobody waited for, so nothing is known of the subscription."""
        self._subscribed = False

    def _is_poll_due(self) -> bool:
        if not self._may_poll or (self._subscribed and not self._polls_beside_push):
            return False
        return self._clock() >= self._poll_at

    def _left(self, deadline: float | None) -> float | None:
        """How long nothing else is to be done."""
        ends = [] if deadline is None else [deadline]
        if self._may_poll and (self._polls_beside_push or not self._subscribed):
            ends.append(self._poll_at)
        if self._pushes and not self._subscribed:
            ends.append(self._subscribe_at)
        return max(min(ends) - self._clock(), 0.0) if ends else None

    def _subscribe(self) -> Generator[Step, Any, None]:
        try:
            yield Subscribe()
        except QueueStoreUnavailableError:
            yield from self._degrade()
            return
        self._begin()

    def _begin(self) -> None:
        """Push works from now on."""
        self._subscribed = True
        self._pause = _FIRST_PAUSE
        if self.counters.state == "degraded":
            self.counters.recoveries += 1
        self.counters.state = "push"
        self._poll_at = self._clock() + self._interval  # a subscription begins with what is there
        self._more = self._can.push == "signal"

    def _degrade(self) -> Generator[Step, Any, None]:
        if self._subscribed:
            self._subscribed = False
            yield Unsubscribe()
        if self.counters.state != "degraded":
            self.counters.state = "degraded"
            self.counters.degradations += 1
            self._poll_at = self._clock()
        self._subscribe_at = self._clock() + self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _poll(self, deadline: float | None) -> Found:
        wait = 0.0
        if not self._pushes and self._can.long_wait is not None:
            left = self._interval if deadline is None else min(self._interval, deadline - self._clock())
            wait = max(0.0, min(left, self._can.long_wait))
        self.counters.polls += 1
        found: list[Delivery] = []
        try:
            found = yield Receive(self._batch, wait)
        except QueueStoreUnavailableError:
            if not self._pushes:
                self._note_outage()
        else:
            if not self._pushes and self.counters.state == "degraded":
                self.counters.state = "poll"
                self.counters.recoveries += 1
        self.counters.polled += len(found)
        self.counters.empty_polls += not found
        degraded = min(_DEGRADED, self._interval)
        rest = degraded if self.counters.state == "degraded" else self._interval
        self._poll_at = self._clock() + (0.0 if found or wait else rest)
        return found

    def _note_outage(self) -> None:
        if self.counters.state != "degraded":
            self.counters.state = "degraded"
            self.counters.degradations += 1

    def _listen(self, deadline: float | None) -> Found:
        try:
            if self._more:
                return (yield from self._receive_pushed())
            told = yield Listen(self._left(deadline))
            if told is None:
                return []
            self.counters.pushes += 1
            if not isinstance(told, Message):
                return (yield from self._receive_pushed())
            self.found.append(told.delivery)
            while len(self.found) < self._batch and (told := (yield Listen(0.0))) is not None:
                self.found.append(told.delivery)
                self.counters.pushes += 1
        except QueueStoreUnavailableError:
            yield from self._degrade()
        self.counters.pushed += len(self.found)
        return self.take()

    def _receive_pushed(self) -> Found:
        found: list[Delivery] = yield Receive(self._batch)
        self.counters.pushed += len(found)
        self._more = len(found) == self._batch
        return found
