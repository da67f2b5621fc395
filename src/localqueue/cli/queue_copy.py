"""`localqueue queue copy`: moving a queue to another store."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import say
from localqueue.cli.messages import QueueName
from localqueue.cli.output import Output
from localqueue.cli.place import Place


def register(app: typer.Typer) -> None:
    add(app, copy)


def copy(
    queue: QueueName,
    to: Annotated[str, typer.Option(metavar="URL", help="Store to copy into, e.g. redis://localhost.")],
    place: Place,
    out: Output,
    to_namespace: Annotated[str, typer.Option(help="Namespace inside that store.")] = "default",
    to_queue: Annotated[str | None, typer.Option(metavar="QUEUE", help="Name of the queue there, if another.")] = None,
    progress: Annotated[bool, typer.Option("--progress", help="Tell on stderr how far it is.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove the notes of earlier copies there, and copy nothing.")
    ] = False,
) -> None:
    """Copy all messages of a queue into another store; call it again to go on, or to fetch what is new.

    The queue is paused and stays so; its messages stay too.
    """
    from localqueue.queue import PersistentQueue
    from localqueue.queue.setup import check_name
    from localqueue.queue_copy import copy_queue, forget_copies
    from localqueue.stores.url import open_store

    name = check_name(queue if to_queue is None else to_queue)
    check_name(queue)

    def tell(done: int, total: int) -> None:
        if progress:
            say(f"{done} of {total}")

    if not forget:
        with place.open_store(read_only=True):
            pass  # a source that is not there is said before a target is made
    with closing(open_store(to, namespace=to_namespace)) as there, PersistentQueue[Any](name, store=there) as target:
        if forget:
            out.facts({"queue": name, "store": there.url, "forgotten": forget_copies(target)})
            return
        with place.open_queue(queue) as source:
            report = copy_queue(source, target, progress=tell)
    out.facts(
        {
            "queue": name,
            "store": there.url,
            "copied": report.copied,
            "already_there": report.already_there,
            "duplicates": report.duplicates,
            "by_state": dict(report.by_state),
        }
    )
