"""What a queue hands out: messages, counts and the state of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic

from localqueue._dataclass import dataclass, field, field_names

if TYPE_CHECKING:  # what type checkers know of every Python: a queue that names no type holds anything
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


@dataclass(frozen=True)
class QueueMessage(Generic[T]):
    """One message as it was when it was read.

    `state` is `ready` (also while delayed), `inflight`, `waiting` (for the messages it comes `after`), `blocked`
    (behind an earlier message of its `ordering_key`), `dead`, `expired`, `cancelled`, or `dropped` for a message
    that a lossy backpressure policy refused to store.

    An inflight message carries its lease: `attempts` is the fencing token that `ack`, `release`, `dead_letter` and
    `renew` check. `attempt_history` holds the events of the last 20 attempts.
    """

    id: str
    value: T
    queue: str
    state: str = "ready"
    attempts: int = 0
    created_at: float = 0.0
    available_at: float = 0.0
    leased_until: float | None = None
    leased_by: str | None = None
    last_error: dict[str, Any] | None = None
    failed_at: float | None = None
    attempt_history: list[dict[str, Any]] = field(default_factory=list)
    dedupe_key: str | None = None
    priority: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str | None = None
    expires_at: float | None = None
    run_id: str | None = None
    waiting_on: int = 0
    forgiven: int = 0

    @property
    def tries(self) -> int:
        """Deliveries since it was put or last requeued, this one included."""
        return self.attempts - self.forgiven

    @classmethod
    def of(cls, **fields: Any) -> QueueMessage[T]:
        """The same as the constructor at a fifth of its price; `attempt_history` and `headers` must be given.

        A frozen dataclass sets its fields one by one through `object.__setattr__`: for this many, a tenth of a put.
        """
        message = object.__new__(cls)
        object.__setattr__(message, "__dict__", fields)
        return message


@dataclass(frozen=True, slots=True)
class UndecodablePayload:
    """Stands for the value of a message whose stored bytes the codec could not read."""

    raw: bytes
    codec: str
    reason: str


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Counts of one queue. Due messages count as what the next lease would make of them."""

    ready: int = 0
    delayed: int = 0
    inflight: int = 0
    dead: int = 0
    total: int = 0
    by_worker_id: dict[str, int] = field(default_factory=dict)
    leases_by_worker_id: dict[str, int] = field(default_factory=dict)
    last_seen_by_worker_id: dict[str, float] = field(default_factory=dict)
    oldest_ready_age_seconds: float | None = None
    oldest_inflight_age_seconds: float | None = None
    average_inflight_age_seconds: float | None = None
    waiting: int = 0
    blocked: int = 0
    expired: int = 0
    cancelled: int = 0
    dropped: int = 0
    paused: bool = False
    paused_workers: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in field_names(type(self))}


@dataclass(frozen=True, slots=True)
class RunStats:
    """Counts of one run. `total` is every message ever put into it, `done` those acked."""

    run_id: str
    total: int = 0
    done: int = 0
    ready: int = 0
    delayed: int = 0
    inflight: int = 0
    waiting: int = 0
    blocked: int = 0
    dead: int = 0
    expired: int = 0
    cancelled: int = 0

    @property
    def active(self) -> int:
        """Messages that can still move without an operator's help."""
        return self.ready + self.delayed + self.inflight + self.blocked

    @property
    def state(self) -> str:
        """`running`, `succeeded`, `stalled` (waiting on a message that left delivery), `failed` or `cancelled`."""
        if self.active:
            return "running"
        if self.waiting:
            return "stalled"
        if self.cancelled:
            return "cancelled"
        if self.done == self.total:
            return "succeeded"
        return "failed"

    def as_dict(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in field_names(type(self))}
        return {**counts, "state": self.state}
