"""The figures of a queue, as the port shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from localqueue._named_tuple import NamedTuple
from localqueue.message import QueueStats
from localqueue.stores.port import DEAD, DELAYED, EXPIRED, INFLIGHT, READY, STATES

_READY, _DEAD, _EXPIRED = STATES.index(READY), STATES.index(DEAD), STATES.index(EXPIRED)
_COME_FREE = (STATES.index(DELAYED), STATES.index(INFLIGHT))


class Held(NamedTuple):
    """Current leases of one worker: how many, when the first began, and the sum of when they began."""

    worker: str | None
    leases: int
    first: float
    since: float


class KnownWorker(NamedTuple):
    """What a queue knows about a worker."""

    name: str
    leases: int = 0
    last_seen: float | None = None
    paused_at: float | None = None


def count_due(counts: list[int], state: int, count: int, *, outlived: bool, exhausted: bool) -> None:
    """Count messages whose timer has passed as what the next claim would make of them."""
    counts[state] -= count
    after = _READY if state in _COME_FREE else state
    counts[_DEAD if exhausted else _EXPIRED if outlived else after] += count


def queue_stats(
    counts: Sequence[int],
    *,
    now: float,
    available: Iterable[float | None],
    held: Iterable[Held],
    workers: Iterable[KnownWorker],
    dropped: int,
    paused: bool,
) -> QueueStats:
    """`counts` are by state; `available` is when those became available that may have waited longest."""
    held, workers = list(held), sorted(workers)
    leases = sum(one.leases for one in held)
    ready_since = min((at for at in available if at is not None), default=now)
    return QueueStats(
        **dict(zip(STATES, counts, strict=True)),
        total=sum(counts),
        by_worker_id={one.worker: one.leases for one in held if one.worker is not None},
        leases_by_worker_id={one.name: one.leases for one in workers if one.leases},
        last_seen_by_worker_id={one.name: one.last_seen for one in workers if one.last_seen is not None},
        oldest_ready_age_seconds=max(0.0, now - ready_since) if counts[_READY] else None,
        oldest_inflight_age_seconds=max(0.0, now - min(one.first for one in held)) if leases else None,
        average_inflight_age_seconds=max(0.0, now - sum(one.since for one in held) / leases) if leases else None,
        dropped=dropped,
        paused=paused,
        paused_workers=tuple(one.name for one in workers if one.paused_at is not None),
    )
