"""The book of one limit and key: who runs, what has started, and who waits for a place. Decisions only, no store.

A message that finds no place waits outside of any worker, as a delayed message. When as many run as may, it is
*parked*: noted here, and brought back to its place in the line by whoever leaves. When as many have started as may, it
comes back by itself when the next start is due. In both ways a place is *reserved* for it; when it is late, others get
that place after a while, so that none is left unused. When too many wait already, a message is not noted: it comes back
when those before it should be through, by the pace at which messages start.

Times are the store's. The book is bounded whatever happens: see `MOST_PARKED`, `MOST_RESERVED` and `_MOST_STARTS`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Self

from localqueue._dataclass import dataclass, field
from localqueue.limits.limits import Limits

MOST_PARKED = 100
MOST_RESERVED = 100
_MOST_STARTS = 128  # above, starts of about the same time are noted together, with the last one's time
_PATIENCE = 1.0  # how long a reserved start is kept for a message that is behind others in the line
_LONG_PATIENCE = 30.0  # for one that has come too late before
_TOO_OFTEN = 3
_SOONEST, _LATEST = 0.02, 3600.0
_FIRST_GUESS = 0.1  # seconds that a message runs
_SKEW = 2.0
_LOOK_AFTER = 1.0  # a holder is not looked for more often
_LOOK_FOR = 20  # nor more holders at a time


class Entrant(NamedTuple):
    """A leased message that wants to run. `place` is where it stood in line, `turns` how often it was given back."""

    queue: str
    id: str
    token: int
    priority: int = 0
    place: float = 0.0
    turns: int = 0


class Holder(NamedTuple):
    """A message that runs. `token` is its lease's, `since` when it started, `seen` when the lease was looked at."""

    queue: str
    token: int
    since: float
    seen: float


class Starts(NamedTuple):
    """So many starts, the last one `at`."""

    at: float
    number: int


class Parked(NamedTuple):
    queue: str
    priority: int
    place: float


class Reserved(NamedTuple):
    """A place that is kept for one message from `at` on and before `until`."""

    at: float
    until: float


class Promotion(NamedTuple):
    """A parked message that is brought back, to its place in the line at once, or in `delay` seconds."""

    queue: str
    id: str
    delay: float


@dataclass(slots=True)
class Book:
    holders: dict[str, Holder] = field(default_factory=dict)
    starts: list[Starts] = field(default_factory=list)
    parked: dict[str, Parked] = field(default_factory=dict)
    reserved: dict[str, Reserved] = field(default_factory=dict)
    tail: float = 0.0  # when the last message that is not noted comes back
    mean: float = 0.0  # seconds that messages run
    window: float = 0.0  # seconds after which a start is forgotten

    # before a decision

    def turn_to(self, now: float, limits: Limits) -> float:
        """Forget what is over; the time to decide at, which is not before that of the last decision.

        Others may read the clock a little differently. Starts of before it was set back count as of now.
        """
        rate = limits.starts
        self.window = 0.0 if rate is None else rate.seconds
        last = max((one.at for one in self.starts), default=now)
        now = last if now < last <= now + _SKEW else now
        self._forget(now)
        return now

    def _forget(self, now: float) -> None:
        self.starts = [Starts(min(at, now), number) for at, number in self.starts if at + self.window > now]
        self.reserved = {name: one for name, one in self.reserved.items() if one.until > now}
        self.tail = self.tail if self.tail > now else 0.0

    def doubtful(self, now: float) -> list[str]:
        """Some holders that nobody has looked for in a while, those first that were not looked for the longest."""
        doubted = [name for name, one in self.holders.items() if not one.seen <= now < one.seen + _LOOK_AFTER]
        return sorted(doubted, key=lambda name: self.holders[name].seen)[:_LOOK_FOR]

    def confirm(self, name: str, now: float) -> None:
        self.holders[name] = self.holders[name]._replace(seen=now)

    def is_idle(self, now: float) -> bool:
        """Whether an empty book would say the same."""
        self._forget(now)
        return not (self.holders or self.starts or self.parked or self.reserved)

    # decisions

    def is_full(self, limits: Limits, name: str | None = None) -> bool:
        """Whether as many run as may, not counting this message."""
        others = len(self.holders) - (name in self.holders)
        return limits.concurrency is not None and others >= limits.concurrency

    def has_place_for(self, now: float, limits: Limits, one: Entrant) -> bool:
        """Whether a message may start now. It yields to those that wait and come before it."""
        before = sum(self._rank(name) < (-one.priority, one.id) for name in self.parked if name != one.id)
        return self.free(now, limits, one.id) > before

    def free(self, now: float, limits: Limits, name: str | None = None, *, leaving: int = 0) -> int:
        """How many more may start now, of which this message may be one, when so many have left."""
        places = []
        if limits.concurrency is not None:
            places.append(limits.concurrency - len(self.holders) + (name in self.holders) + leaving)
        if limits.starts is not None:
            places.append(limits.starts.most - sum(one.number for one in self.starts))
        return max(min(places) - self._kept(now, name), 0)

    def _kept(self, now: float, name: str | None = None) -> int:
        """How many places are kept for others: before this message, if one is kept for it as well."""
        own = self.reserved.get(name or "")
        kept = [(one.at, other) for other, one in self.reserved.items() if one.at <= now and other != name]
        return len(kept) if own is None or name is None else sum(one < (own.at, name) for one in kept)

    def opens_at(self, now: float, limits: Limits) -> float:
        """When one more may start as far as the rate goes."""
        rate = limits.starts
        if rate is None:
            return now
        left = rate.most
        planned = [*self.starts, *(Starts(max(one.at, now), 1) for one in self.reserved.values())]
        for at, number in sorted(planned, reverse=True):
            left -= number
            if left <= 0:
                return max(at + rate.seconds, now)
        return now

    def admit(self, now: float, limits: Limits, one: Entrant) -> None:
        """Note that a message starts."""
        self.forsake(one.id)
        if limits.concurrency is not None:
            self.holders[one.id] = Holder(one.queue, one.token, now, now)
        if limits.starts is not None:
            self._note_start(now, limits.starts.seconds / _MOST_STARTS if limits.starts.most > _MOST_STARTS else 0.0)

    def _note_start(self, now: float, grain: float) -> None:
        if self.starts and grain and self.starts[-1].at // grain == now // grain:
            self.starts[-1] = Starts(now, self.starts[-1].number + 1)
        else:
            self.starts.append(Starts(now, 1))

    def refuse(self, now: float, limits: Limits, one: Entrant, catch_up: float) -> float:
        """Have a message wait that finds no place; in how many seconds it comes back if nobody brings it back."""
        self.reserved.pop(one.id, None)
        full = self.is_full(limits, one.id)
        if full or self.parked or self.opens_at(now, limits) <= now:
            if len(self.parked) < MOST_PARKED or one.id in self.parked:
                self.parked[one.id] = Parked(one.queue, one.priority, one.place)
                return catch_up if full else 2 * _PATIENCE  # somebody for whom a place is kept may never come
        elif len(self.reserved) < MOST_RESERVED:
            return max(self._reserve(now, limits, one.id, one.turns), _SOONEST)
        return self._queue_up(now, limits)

    def _reserve(self, now: float, limits: Limits, name: str, turns: int) -> float:
        at = self.opens_at(now, limits)
        self.reserved[name] = Reserved(at, at + (_PATIENCE if turns < _TOO_OFTEN else _LONG_PATIENCE))
        return at - now

    def _queue_up(self, now: float, limits: Limits) -> float:
        pace = 0.0 if limits.starts is None else limits.starts.interval
        if limits.concurrency is not None:
            pace = max(pace, self._running_time(now) / limits.concurrency)
        before = now + (len(self.parked) + len(self.reserved)) * pace
        self.tail = min(max(self.tail, before) + pace, now + _LATEST)
        return max(self.tail - now, _SOONEST)

    def _running_time(self, now: float) -> float:
        return self.mean or max((now - one.since for one in self.holders.values()), default=0.0) or _FIRST_GUESS

    def forsake(self, name: str) -> bool:
        """Forget a message that waits; False when none is known by that name."""
        parked, reserved = self.parked.pop(name, None), self.reserved.pop(name, None)
        return parked is not None or reserved is not None

    def leave(self, now: float, name: str, token: int) -> bool:
        """Note that a message does not run any more; False when it was not known to."""
        holder = self.holders.get(name)
        if holder is None or holder.token != token:
            return False
        del self.holders[name]
        ran = max(now - holder.since, 0.0)
        self.mean = ran if not self.mean else 0.8 * self.mean + 0.2 * ran
        return True

    def promote(self, now: float, limits: Limits) -> list[Promotion]:
        """Bring back as many parked messages as there are places for: by priority, and the oldest first."""
        places = len(self.parked) if limits.concurrency is None else limits.concurrency - len(self.holders)
        places = min(places - self._kept(now), MOST_RESERVED - len(self.reserved))
        chosen = sorted(self.parked, key=self._rank)[: max(places, 0)]
        return [self._bring_back(now, limits, name) for name in chosen]

    def _rank(self, name: str) -> tuple[int, str]:
        return -self.parked[name].priority, name

    def _bring_back(self, now: float, limits: Limits, name: str) -> Promotion:
        queue, _, place = self.parked.pop(name)
        delay = self._reserve(now, limits, name, 0)
        return Promotion(queue, name, delay if delay > 0 else min(place - now, 0.0))

    # in the store

    def encode(self) -> bytes:
        fields: dict[str, Any] = {
            "holders": self.holders,
            "starts": self.starts,
            "parked": self.parked,
            "reserved": self.reserved,
            "tail": self.tail,
            "mean": self.mean,
            "window": self.window,
        }
        return json.dumps({name: value for name, value in fields.items() if value}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        fields = json.loads(value)
        return cls(
            holders={name: Holder(*one) for name, one in fields.get("holders", {}).items()},
            starts=[Starts(*one) for one in fields.get("starts", ())],
            parked={name: Parked(*one) for name, one in fields.get("parked", {}).items()},
            reserved={name: Reserved(*one) for name, one in fields.get("reserved", {}).items()},
            tail=fields.get("tail", 0.0),
            mean=fields.get("mean", 0.0),
            window=fields.get("window", 0.0),
        )
