"""How a job is put: the options of a message, with times and jobs where those have seconds and ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict

from localqueue.message import QueueMessage
from localqueue.tasks.handle import JobHandle


class SendOptions(TypedDict, total=False):
    """How a job is put. `at` is a time with a zone, instead of `delay`; `after` takes jobs, messages and ids; with
    `connection` the job is part of your database transaction."""

    delay: float
    at: datetime
    dedupe_key: str | None
    priority: int
    ttl: float | None
    headers: Mapping[str, str] | None
    ordering_key: str | None
    run_id: str | None
    after: Iterable[JobHandle[Any] | QueueMessage[Any] | str]
    timeout: float | None
    connection: Any


def put_options(options: SendOptions, now: Callable[[], float]) -> dict[str, Any]:
    """The options of a job as those of `put`; `now` is the store's clock."""
    if not options:
        return {}
    put: dict[str, Any] = dict(options)
    at = put.pop("at", None)
    if at is not None:
        if put.get("delay"):
            raise ValueError("pass either delay= or at=, not both")
        put["delay"] = max(_moment(at) - now(), 0.0)
    if "after" in put:
        put["after"] = [one.id if isinstance(one, JobHandle) else one for one in _listed(put["after"])]
    return put


def _moment(at: Any) -> float:
    if not isinstance(at, datetime):
        raise TypeError(f"at must be a datetime with a time zone, not {at!r}; for seconds use delay=")
    if at.tzinfo is None:
        raise ValueError(f"at must have a time zone, {at!r} has none; write tzinfo=UTC, for example")
    return at.astimezone(UTC).timestamp()


def _listed(after: Any) -> Iterable[Any]:
    if isinstance(after, JobHandle | str) or not isinstance(after, Iterable):
        raise TypeError(f"after= takes a list of jobs, not {after!r}; write after=[...]")
    return after
