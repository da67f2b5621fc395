"""How a message stands, from what the store holds of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from localqueue._dataclass import dataclass
from localqueue.jobs.progress import LogLine, Progress
from localqueue.stores import rules
from localqueue.stores.port import CANCELLED, DEAD, EXPIRED, INFLIGHT, WAITING, StoredMessage

State = Literal["waiting", "queued", "running", "succeeded", "failed", "cancelled", "expired"]

_STATES: dict[str, State] = {
    WAITING: "waiting",
    INFLIGHT: "running",
    DEAD: "failed",
    EXPIRED: "expired",
    CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """How a message stood when it was looked at. Times are by the store's clock.

    `state` is `waiting` (for the messages it comes after), `queued` (ready, delayed, or behind another one), `running`,
    `succeeded`, `failed` (a dead letter), `cancelled` or `expired`. `attempts` are its deliveries, `started_at` is when
    the last of them began. `result` is what the handler returned, `error` why it failed the last time. `progress` is
    what the handler that runs has told, `log` the last lines it has said, also after its end.
    """

    id: str
    queue: str
    state: State
    attempts: int = 0
    created_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    result: Any = None
    error: dict[str, Any] | None = None
    progress: Progress | None = None
    log: tuple[LogLine, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether nothing more will come of it, unless somebody requeues it."""
        return self.state not in ("waiting", "queued", "running")


def status_of(
    stored: StoredMessage, now: float, progress: Progress | None = None, log: tuple[LogLine, ...] = ()
) -> JobStatus:
    """The status of a message that is in the store."""
    state = _STATES.get(stored.state, "queued")
    finished_at = rules.ended_at(stored) if stored.state in rules.ENDED else None
    if state in ("queued", "waiting") and stored.expires_at is not None and stored.expires_at <= now:
        state, finished_at = "expired", stored.expires_at  # the store notices when it is looked at for a lease
    return JobStatus(
        id=stored.id,
        queue=stored.queue,
        state=state,
        attempts=stored.attempts,
        created_at=stored.created_at,
        started_at=started_at(stored.history),
        finished_at=finished_at,
        error=stored.last_error,
        progress=progress,
        log=log,
    )


def started_at(history: Sequence[Mapping[str, Any]]) -> float | None:
    """When the last delivery began."""
    return next((float(event["at"]) for event in reversed(history) if event["type"] == "leased"), None)
