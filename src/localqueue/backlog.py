"""Whether a queue has work for a job that is started from outside, by a scheduler of pipelines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from localqueue.errors import QueueError, QueueStoreMissingError
from localqueue.queue.setup import check_name
from localqueue.stores.default import from_environment
from localqueue.stores.url import open_store


class UnknownQueue(QueueError, LookupError):
    """No message was ever put into a queue of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """When a backlog is work: `ready` messages or more, or one that has been ready for `age` seconds or longer.

    Either is enough. With neither, one ready message is work.
    """

    ready: int | None = None
    age: float | None = None

    def __post_init__(self) -> None:
        if self.ready is not None and (type(self.ready) is not int or self.ready < 1):
            raise ValueError(f"ready must be a whole number of messages from 1, not {self.ready!r}")
        if self.age is not None and (type(self.age) not in (int, float) or not self.age >= 0):
            raise ValueError(f"age must be seconds from 0, not {self.age!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The ready messages of a queue, and for how many seconds the oldest of them has been ready."""

    queue: str
    ready: int = 0
    age: float | None = None

    def reaches(self, threshold: Threshold) -> bool:
        """Whether this is work."""
        if threshold.ready is None and threshold.age is None:
            return self.ready > 0
        enough = threshold.ready is not None and self.ready >= threshold.ready
        return enough or (threshold.age is not None and self.age is not None and self.age >= threshold.age)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        oldest = "" if self.age is None else f", the oldest for {self.age:.0f} s"
        return f"queue {self.queue!r} has {self.ready} ready{oldest}"


def backlog(queue: str, *, url: str | None = None, namespace: str | None = None, missing_ok: bool = False) -> Backlog:
    """Look at a queue, without making or changing anything.

    `url` and `namespace` are those of the environment (LOCALQUEUE_URL, LOCALQUEUE_NAMESPACE) unless given. A store that
    is not there is a `QueueStoreMissingError`, a queue that is not there an `UnknownQueue`; with `missing_ok` both are
    an empty backlog.
    """
    check_name(queue)
    usual = from_environment()
    url = url or (None if usual is None else usual.url)
    if url is None:
        raise ValueError("no store is named: give url, such as sqlite:////var/lib/jobs.db, or set LOCALQUEUE_URL")
    try:
        with open_store(url, namespace=namespace or (usual.namespace if usual else "default"), read_only=True) as store:
            names = store.queues()
            if queue in names:
                stats = store.stats(queue)
                return Backlog(queue=queue, ready=stats.ready, age=stats.oldest_ready_age_seconds)
            if missing_ok:
                return Backlog(queue=queue)
            there = ", ".join(map(repr, sorted(names))) or "none"
            raise UnknownQueue(
                f"there is no queue {queue!r} in the store at {store.url!r}, there is {there}; "
                "missing_ok=True waits for it"
            )
    except QueueStoreMissingError:
        if missing_ok:
            return Backlog(queue=queue)
        raise
