"""`localqueue queue purge, pause, resume, backup, check` and `localqueue compact`: steering a queue and caring for its
store."""

from __future__ import annotations

from typing import Annotated

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import NEGATIVE, OK
from localqueue.cli.events import LogEvents, log
from localqueue.cli.messages import QueueName
from localqueue.cli.output import Output, write
from localqueue.cli.place import Place


def register(app: typer.Typer) -> None:
    for function in (purge, pause, resume, backup, check):
        add(app, function)


def register_for_store(app: typer.Typer) -> None:
    """What concerns a store with all its queues."""
    add(app, compact)


def purge(queue: QueueName, place: Place, log_events: LogEvents = False) -> None:
    """Remove every message of a queue; print how many there were."""
    with place.open_queue(queue) as opened:
        count = opened.purge()
    log(log_events, "queue.purge", queue=queue, count=count)
    write(str(count))


WorkerName = Annotated[str | None, typer.Option(metavar="ID", help="Only this worker, by its worker id.")]


def pause(queue: QueueName, place: Place, out: Output, worker: WorkerName = None) -> None:
    """Stop handing out messages, to every consumer or to one worker; those leased can still be settled."""
    with place.open_queue(queue) as opened:
        opened.pause(worker=worker)
    out.facts(_state_of(queue, worker, "paused"))


def resume(queue: QueueName, place: Place, out: Output, worker: WorkerName = None) -> None:
    """Hand out messages again."""
    with place.open_queue(queue) as opened:
        opened.resume(worker=worker)
    out.facts(_state_of(queue, worker, "resumed"))


def _state_of(queue: str, worker: str | None, state: str) -> dict[str, str]:
    return {"queue": queue, **({} if worker is None else {"worker": worker}), "state": state}


def backup(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Where the copy goes; it must not exist.")],
    place: Place,
    out: Output,
) -> None:
    """Write a verified copy of the store while it is in use."""
    with place.open_store(read_only=True) as store:
        store.backup(path)
        out.facts({"backup": path, "store": store.url})


def compact(place: Place, out: Output) -> None:
    """Give space that is free inside of the store back to the system; print its bytes before and after."""
    with place.open_store(read_only=True):
        pass  # it must be there: to write, one would be made
    with place.open_store() as store:
        before, after = store.compact()
        out.facts({"store": store.url, "before": before, "after": after})


def check(place: Place, out: Output) -> int:
    """Check the integrity of the store; exit code 1 when there is a problem."""
    with place.open_store(read_only=True) as store:
        report = store.check()
    out.facts({"ok": report.ok, "problems": list(report.problems)})
    return OK if report.ok else NEGATIVE
