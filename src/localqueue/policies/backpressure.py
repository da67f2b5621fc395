"""What a put does when the queue is full.

Capacity counts ready messages. Each strategy that can lose a message names which one in
`data_loss`.
"""

from __future__ import annotations

from typing import Any, Protocol

from localqueue._dataclass import KW_ONLY, dataclass
from localqueue.policies._described import Described
from localqueue.policies._limits import require_integer, require_queue_name, require_seconds


class BackpressureStrategy(Protocol):
    """Decides when a queue is full and names what happens then.

    `maxsize` 0 means unbounded. `overflow` is one of "block", "reject", "drop-newest",
    "drop-oldest", "throttle" and "overflow-queue".
    """

    @property
    def maxsize(self) -> int: ...

    @property
    def overflow(self) -> str: ...

    def is_full(self, *, qsize: int) -> bool: ...

    def as_dict(self) -> dict[str, Any]: ...


class _Limited(Described):
    """A limit of ready messages; 0 is none."""

    __slots__ = ()

    maxsize: int

    def is_full(self, *, qsize: int) -> bool:
        return 0 < self.maxsize <= qsize


@dataclass(frozen=True, slots=True)
class BoundedBackpressure(_Limited):
    """At most `maxsize` ready messages; a put waits for room, or fails with overflow="reject"."""

    maxsize: int = 0
    overflow: str = "block"

    def __post_init__(self) -> None:
        _require_capacity(self.maxsize)
        if self.overflow not in ("block", "reject"):
            raise ValueError("backpressure overflow must be 'block' or 'reject'")

    def as_dict(self) -> dict[str, Any]:
        return {"type": "bounded", **Described.as_dict(self)}


@dataclass(frozen=True, slots=True)
class RejectingBackpressure(_Limited):
    """At most `maxsize` ready messages; a put on a full queue raises `queue.Full` at once."""

    maxsize: int = 0
    overflow: str = "reject"

    def __post_init__(self) -> None:
        _require_capacity(self.maxsize)
        if self.overflow != "reject":
            raise ValueError("rejecting backpressure overflow must be 'reject'")

    def as_dict(self) -> dict[str, Any]:
        return {"type": "rejecting", **Described.as_dict(self)}


@dataclass(frozen=True, slots=True)
class DropNewest(_Limited):
    """A put on a full queue stores nothing and raises nothing: the new message is lost."""

    maxsize: int
    _: KW_ONLY
    overflow: str = "drop-newest"
    data_loss: str = "the message being put when the queue is full"

    def __post_init__(self) -> None:
        _require_limit(self.maxsize)
        _require_overflow(self.overflow, "drop-newest")

    def as_dict(self) -> dict[str, Any]:
        return {"type": "drop-newest", **Described.as_dict(self)}


@dataclass(frozen=True, slots=True)
class DropOldest(_Limited):
    """A put on a full queue removes the oldest ready message to make room for the new one.

    Messages that are leased, delayed or dead are never dropped.
    """

    maxsize: int
    _: KW_ONLY
    overflow: str = "drop-oldest"
    data_loss: str = "the oldest ready message when the queue is full"

    def __post_init__(self) -> None:
        _require_limit(self.maxsize)
        _require_overflow(self.overflow, "drop-oldest")

    def as_dict(self) -> dict[str, Any]:
        return {"type": "drop-oldest", **Described.as_dict(self)}


@dataclass(frozen=True, slots=True)
class Throttling(_Limited):
    """Above `maxsize` each put waits before it stores, longer the further the queue is behind.

    A soft limit: nothing is lost, and the queue may grow past `maxsize`. A put that may not wait that long
    (`block=False`, or a shorter `timeout`) raises `queue.Full`.
    """

    maxsize: int
    delay: float = 0.01
    max_delay: float = 1.0
    _: KW_ONLY
    overflow: str = "throttle"
    data_loss: str = "none"

    def __post_init__(self) -> None:
        _require_limit(self.maxsize)
        _require_overflow(self.overflow, "throttle")
        if require_seconds("delay", self.delay) <= 0:
            raise ValueError(f"delay must be greater than zero, got {self.delay!r}")
        if require_seconds("max_delay", self.max_delay) < self.delay:
            raise ValueError(f"max_delay must be at least delay, got {self.max_delay!r} < {self.delay!r}")

    def delay_for(self, *, qsize: int) -> float:
        """Seconds a put waits: `delay` for each message at or over the limit, up to `max_delay`."""
        over = qsize - self.maxsize + 1
        return min(self.delay * over, self.max_delay) if over > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": "throttling",
            "maxsize": self.maxsize,
            "overflow": self.overflow,
            "data_loss": self.data_loss,
            "delay": self.delay,
            "max_delay": self.max_delay,
        }


@dataclass(frozen=True, slots=True)
class OverflowToQueue(_Limited):
    """A put on a full queue stores the message in `queue` of the same store instead.

    Nothing is lost. The overflow queue has no limit of its own here, and somebody has to
    consume it.
    """

    maxsize: int
    _: KW_ONLY
    queue: str
    overflow: str = "overflow-queue"
    data_loss: str = "none"

    def __post_init__(self) -> None:
        _require_limit(self.maxsize)
        _require_overflow(self.overflow, "overflow-queue")
        require_queue_name("overflow queue name", self.queue)

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": "overflow-queue",
            "maxsize": self.maxsize,
            "overflow": self.overflow,
            "data_loss": self.data_loss,
            "queue": self.queue,
        }


def _require_capacity(maxsize: object) -> None:
    if require_integer("maxsize", maxsize) < 0:
        raise ValueError("maxsize cannot be negative")


def _require_limit(maxsize: object) -> None:
    if require_integer("maxsize", maxsize) <= 0:
        raise ValueError(f"maxsize must be greater than zero, got {maxsize!r}")


def _require_overflow(overflow: str, expected: str) -> None:
    if overflow != expected:
        raise ValueError(f"overflow must be {expected!r}, got {overflow!r}")


UNBOUNDED = BoundedBackpressure()
