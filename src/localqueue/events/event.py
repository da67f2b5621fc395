"""One thing that happened to a message, or on its behalf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localqueue._dataclass import dataclass, field

ENQUEUED = "enqueued"
LEASED = "leased"
RENEWED = "renewed"
ACKED = "acked"
RELEASED = "released"
DEAD_LETTERED = "dead_lettered"
EXPIRED = "expired"
LEASE_EXPIRED = "lease_expired"
CANCELLED = "cancelled"
REQUEUED = "requeued"
PURGED = "purged"
PRUNED = "pruned"
DROPPED = "dropped"
NOTIFIED = "notified"
NOTIFICATION_FAILED = "notification_failed"
DISPATCHED = "dispatched"
DISPATCH_FAILED = "dispatch_failed"
RETRIED = "retried"

#: Every type of event. Those before `notified` are changes of a stored message, and what a journal can hold.
EVENT_TYPES: tuple[str, ...] = (
    ENQUEUED,
    LEASED,
    RENEWED,
    ACKED,
    RELEASED,
    DEAD_LETTERED,
    EXPIRED,
    LEASE_EXPIRED,
    CANCELLED,
    REQUEUED,
    PURGED,
    PRUNED,
    DROPPED,
    NOTIFIED,
    NOTIFICATION_FAILED,
    DISPATCHED,
    DISPATCH_FAILED,
    RETRIED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, after it was committed. `at` is the store's time in seconds since the epoch.

    `attempt` is the delivery it belongs to and `worker` who held the lease; `error` is what a message shows as its
    `last_error`. `data` has `created_at` and `leased_at` where they are known, and whatever else the emitter adds.
    """

    type: str
    queue: str
    at: float
    message_id: str | None = None
    attempt: int | None = None
    worker: str | None = None
    error: Mapping[str, Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "queue": self.queue,
            "at": self.at,
            "message_id": self.message_id,
            "attempt": self.attempt,
            "worker": self.worker,
            "error": None if self.error is None else dict(self.error),
            "data": dict(self.data),
        }
