"""`localqueue pipeline consumers list, show, release, reset, forget`: who claims for Spark. None needs Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.durations import seconds_of
from localqueue.cli.errors import NOTHING, OK, Mistake, say
from localqueue.cli.messages import QueueName
from localqueue.cli.output import Output
from localqueue.cli.place import Place

if TYPE_CHECKING:
    from localqueue.stores.port import QueueStore

_COLUMNS = (
    "queue",
    "consumer",
    "running",
    "lag_rows",
    "lag_seconds",
    "held",
    "claimed_at",
    "seen_at",
    "driver",
    "settled",
)

ConsumerName = Annotated[str, typer.Argument(metavar="CONSUMER", help="Option 'consumer' of its query.")]
OneQueue = Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Only those of this queue.")]


def register(app: typer.Typer) -> None:
    add(app, list_consumers, "list")
    for command in (show, release, reset, forget):
        add(app, command)


def list_consumers(place: Place, out: Output, queue: OneQueue = None) -> None:
    """List consumers with their lag in rows and seconds, and what they hold since when."""
    from localqueue.spark.jobs.known_names import need_queue
    from localqueue.spark.streams.consumers import consumers

    with place.open_store(read_only=True) as store:
        rows = [one.as_dict() for one in consumers(store, queue)]
        if not rows:
            need_queue(store, queue)
    out.rows(rows, _COLUMNS, "no consumers")


def show(queue: QueueName, consumer: ConsumerName, place: Place, out: Output) -> None:
    """Show one consumer."""
    from localqueue.spark.streams.consumers import consumer as find

    with place.open_store(read_only=True) as store:
        out.facts(find(store, queue, consumer).as_dict())


def release(
    place: Place,
    out: Output,
    queue: Annotated[str | None, typer.Argument(metavar="QUEUE", help="Name of the queue.")] = None,
    consumer: Annotated[str | None, typer.Argument(metavar="CONSUMER", help="Option 'consumer' of its query.")] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="All whose driver gave no sign of life for this long, e.g. 2h; of QUEUE if given."
        ),
    ] = None,
) -> int:
    """Give back to the queue what a consumer holds. Its query, if it still runs, stops with an error.

    With --older-than the exit code is 3 when there was none to release.
    """
    from localqueue.spark.jobs.known_names import need_queue
    from localqueue.spark.streams.consumers import consumers, release_consumer, release_consumers

    if (consumer is None) == (older_than is None):
        raise Mistake("say whom to release: QUEUE CONSUMER, or --older-than AGE for all that are silent")
    if older_than is None:
        assert queue is not None and consumer is not None
        with _to_write(place) as store:
            out.facts(_released(queue, consumer, release_consumer(store, queue, consumer)))
        return OK
    age = seconds_of(older_than, "--older-than")
    with _to_write(place) as store:
        done = release_consumers(store, older_than=age, queue=queue)
        if not done and not consumers(store, queue):  # of a broker, whose queue is not in the store
            need_queue(store, queue)
    rows = [_released(one.queue, one.consumer, count) for one, count in done.items()]
    nothing = f"no consumer was silent for {older_than}: nothing to do"
    out.rows(rows, ("queue", "consumer", "released"), nothing)
    if not rows and out.as_json:
        say(nothing)  # an empty list does not say it
    return OK if rows else NOTHING


def reset(
    queue: QueueName,
    consumer: ConsumerName,
    place: Place,
    out: Output,
    to: Annotated[
        int, typer.Option(metavar="CLAIM", min=0, help="The claim that the checkpoint of its query is at.")
    ] = 0,
) -> None:
    """Give back what a consumer holds, and count its claims on from another number, to agree with a checkpoint."""
    from localqueue.spark.streams.consumers import reset_consumer

    with _to_write(place) as store:
        out.facts({**_released(queue, consumer, reset_consumer(store, queue, consumer, to=to)), "settled": to})


def forget(queue: QueueName, consumer: ConsumerName, place: Place, out: Output) -> None:
    """Give back what a consumer holds, and remove everything that is known of it."""
    from localqueue.spark.streams.consumers import forget_consumer

    with _to_write(place) as store:
        out.facts({**_released(queue, consumer, forget_consumer(store, queue, consumer)), "forgotten": True})


def _released(queue: str, consumer: str, count: int) -> dict[str, Any]:
    return {"queue": queue, "consumer": consumer, "released": count}


@contextmanager
def _to_write(place: Place) -> Iterator[QueueStore]:
    """The store, which must be there."""
    with place.open_store(read_only=True):
        pass  # to write, one would be made
    with place.open_store() as store:
        yield store
