"""`localqueue queue list, messages, size, stats, health`: looking without changing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.config import Config
from localqueue.cli.messages import QueueName
from localqueue.cli.output import Output, as_dict, write
from localqueue.cli.place import Place
from localqueue.cli.watch import Interval, Watch, again_and_again

if TYPE_CHECKING:
    from localqueue.message import QueueStats

_COUNTS = ("queue", "ready", "delayed", "inflight", "waiting", "blocked", "dead", "expired", "total", "paused")
_MESSAGE = ("id", "state", "attempts", "priority", "available_at", "value")


def register(app: typer.Typer) -> None:
    add(app, list_, "list")
    add(app, messages)
    add(app, size)
    add(app, stats)
    add(app, health)


def list_(place: Place, out: Output) -> None:
    """List the queues of the store with their counts."""
    with place.open_store(read_only=True) as store:
        rows = [{"queue": name, **store.stats(name).as_dict()} for name in store.queues()]
    out.rows(rows, _COUNTS, "no queues yet")


def messages(
    queue: QueueName,
    place: Place,
    out: Output,
    state: Annotated[str | None, typer.Option(help="Only messages in this state.")] = None,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Continue behind this message.")] = None,
    limit: Annotated[int, typer.Option(help="How many at most.")] = 100,
) -> None:
    """List stored messages, oldest first."""
    with place.look_at_queue(queue) as opened:
        found = opened.messages(state=state, after=after, limit=limit)
    out.rows(map(as_dict, found), _MESSAGE, "no messages")


def size(queue: QueueName, place: Place) -> None:
    """Print how many messages could be delivered now."""
    with place.look_at_queue(queue) as opened:
        write(str(opened.qsize()))


def stats(
    queue: QueueName,
    place: Place,
    out: Output,
    watch: Watch = False,
    interval: Interval = 1.0,
    stale_after: Annotated[
        float | None, typer.Option(help="Also tell workers seen in the last SECONDS from others.")
    ] = None,
) -> None:
    """Count the messages of a queue by state, with ages and workers."""
    with place.look_at_queue(queue) as opened:

        def show() -> None:
            counts = opened.stats()
            shown = counts.as_dict()
            if stale_after is not None:
                shown["worker_health"] = worker_health(counts, opened.store.now(), stale_after)
            out.facts(shown)

        again_and_again(show, watch=watch, interval=interval)


def health(
    queue: QueueName,
    place: Place,
    out: Output,
    stale_after: Annotated[float, typer.Option(help="Seconds after which a silent worker counts as stale.")] = 120.0,
) -> None:
    """Show counts, workers, dead letters and retention settings together."""
    from localqueue.cli.dead_letters import summary_of

    config = Config.load()
    with place.look_at_queue(queue) as opened:
        counts = opened.stats()
        report: dict[str, Any] = {
            "queue": queue,
            "stats": counts.as_dict(),
            "worker_health": worker_health(counts, opened.store.now(), stale_after),
            "dead_letters": summary_of(opened.dead_letters()),
            "retention": {
                "dead_letter_ttl_seconds": config.dead_letter_ttl_seconds,
                "retry_record_ttl_seconds": config.retry_record_ttl_seconds,
            },
        }
    if out.as_json:
        return out.data(report)
    out.facts(report["stats"], f"queue {queue}")
    out.facts({"active workers": report["worker_health"]["active"], "stale workers": report["worker_health"]["stale"]})
    out.facts({"dead letters": report["dead_letters"]})


def worker_health(counts: QueueStats, now: float, stale_after: float) -> dict[str, Any]:
    """Workers by the age of their last heartbeat."""
    ages = {worker: max(0.0, now - seen) for worker, seen in counts.last_seen_by_worker_id.items()}
    active = {worker: age for worker, age in ages.items() if age <= stale_after}
    stale = {worker: age for worker, age in ages.items() if age > stale_after}
    return {
        "stale_after_seconds": stale_after,
        "active": {"count": len(active), "by_worker_id": active},
        "stale": {"count": len(stale), "by_worker_id": stale},
    }
