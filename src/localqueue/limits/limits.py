"""What a user says: `Limits`; and what a message is under: `Limited`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from localqueue._dataclass import dataclass
from localqueue.limits.rate import Rate, rate_of
from localqueue.policies._limits import require_integer

_MOST_AT_ONCE = 10_000
_LONGEST_KEY = 128
_BETWEEN = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many messages may start in a time, and how many may run at once, wherever their workers are.

    `rate` is "10/s", "100/m", "5/2s", "1000/h", "2/d" or a pair (count, seconds): at most so many messages start in any
    time of that length. At most `concurrency` messages run at once. With `key`, a function of the message's value that
    returns a text or an integer, each key has limits of its own; without, they are those of all messages together.

    The count is kept in the store, so it is one count for all threads, processes and machines. All workers that share a
    limit must be given the same one.
    """

    rate: str | tuple[int, float] | None = None
    concurrency: int | None = None
    key: Callable[..., str | int] | None = None

    def __post_init__(self) -> None:
        if self.rate is None and self.concurrency is None:
            raise ValueError("limits limit nothing without rate= or concurrency=")
        if self.rate is not None:
            rate_of(self.rate)
        if self.concurrency is not None:
            if require_integer("concurrency", self.concurrency) < 1:
                raise ValueError(f"concurrency must be at least 1, not {self.concurrency}; pause the queue to stop it")
            if self.concurrency > _MOST_AT_ONCE:
                raise ValueError(f"concurrency can be {_MOST_AT_ONCE} at most, not {self.concurrency}")
        if self.key is not None and not callable(self.key):
            raise TypeError(f"key must be a function of the message's value, not {self.key!r}")

    @property
    def starts(self) -> Rate | None:
        """The rate as numbers."""
        return None if self.rate is None else _known_rate(self.rate)

    def key_of(self, value: Any) -> str | None:
        """The key of a message with this value; None when the limits have no keys."""
        return None if self.key is None else key_text(self.key(value))


def key_text(key: object) -> str:
    """A key as it is stored; `TypeError` for what can be none."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise TypeError(f"the key of a limit must be a text or an integer, not {key!r}")
    return str(key)


@lru_cache(1024)
def _known_rate(rate: str | tuple[int, float]) -> Rate:
    return rate_of(rate)


class Limited(NamedTuple):
    """A limit that a message is under: what it is called in the store, what it allows, and the message's key."""

    name: str
    limits: Limits
    key: str | None = None

    @property
    def record(self) -> str:
        """The key of its record. What is too long or too odd for some store is known by its digest."""
        return f"{_short(self.name)}{_BETWEEN}{'' if self.key is None else '=' + _short(self.key)}"


def _short(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    return text if len(raw) <= _LONGEST_KEY and text.isprintable() else "#" + hashlib.sha256(raw).hexdigest()
