"""`localqueue bridge`: messages go on to another store or broker, until stopped."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import OK, Mistake, say
from localqueue.cli.output import Output
from localqueue.cli.signals import stop_by_signal

if TYPE_CHECKING:
    from localqueue.bridges import Bridge

_LOOK = 0.1


def register(app: typer.Typer) -> None:
    add(app, bridge)


def bridge(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Store or broker, e.g. sqlite:///jobs.db.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Store or broker, e.g. amqp://localhost.")],
    queues: Annotated[
        list[str], typer.Option("--queue", "-q", metavar="QUEUE[=QUEUE]", help="Queue, and its name there if another.")
    ],
    out: Output,
    rate: Annotated[str | None, typer.Option(help="At most so many messages of each queue, e.g. 100/s.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Messages sent together.")] = 100,
    lease: Annotated[float, typer.Option(help="Seconds a message is held while it is sent.")] = 60.0,
    remember: Annotated[
        float | None, typer.Option(help="Seconds a store remembers what came, so that it comes once; 7 days.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Whose notes a store keeps; the address of the source.")] = None,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing came for a second.")] = False,
    progress: Annotated[float | None, typer.Option(metavar="SECONDS", help="Tell on stderr how far it is.")] = None,
) -> int:
    """Move the messages of queues to another store or broker, until SIGTERM or Ctrl-C.

    Into a store each message comes once; into a broker at least once, under the same id. A message is acked where it
    was when it has arrived, so a bridge that dies is simply started again.
    """
    from localqueue.bridges import Bridge
    from localqueue.cli.log_lines import show_log

    options: dict[str, Any] = {"rate": rate, "batch": batch, "lease": lease, "name": name}
    if remember is not None:
        options["remember"] = remember
    _require_source(source)
    show_log(logging.WARNING)
    with ExitStack() as opened:
        bridges = []
        for queue, to in [_names(one) for one in queues]:
            bridges.append(opened.enter_context(Bridge(source, target, queue=queue, to=to, **options)))
        _run(bridges, until_empty, progress)
    rows = [{"queue": one.queue, "to": one.to, **one.counts.as_dict()} for one in bridges]
    columns = ("queue", "to", "moved", "duplicates", "dead_lettered", "retries")
    out.rows(rows, columns, "no queue")
    return OK


def _require_source(source: str) -> None:
    """A store that is not there is said, and not made: nothing could ever come from it."""
    from localqueue.brokers.url import is_broker
    from localqueue.stores.url import open_store

    if not is_broker(source):
        open_store(source, read_only=True).close()


def _names(written: str) -> tuple[str, str]:
    queue, divided, to = written.partition("=")
    if not queue or (divided and not to):
        raise Mistake(f"--queue {written!r} names no queue; write jobs, or jobs=inbox for another name there")
    return queue, to or queue


def _run(bridges: list[Bridge], until_empty: bool, progress: float | None) -> None:
    """Every bridge in a thread of its own; the first that fails ends all."""
    failures: list[Exception] = []

    def work(one: Bridge) -> None:
        try:
            if until_empty:
                one.run_until_empty()
            else:
                one.run()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in bridges]
    with stop_by_signal() as stop:
        for thread in threads:
            thread.start()
        told = 0.0
        while any(thread.is_alive() for thread in threads):
            if stop.asked or failures:
                for one in bridges:
                    one.stop()
            waited = _LOOK if not stop.asked else 0.0
            for thread in threads:
                thread.join(_LOOK)
            told += waited + _LOOK * len(threads)
            if progress is not None and told >= progress:
                told = 0.0
                for one in bridges:
                    say(f"{one.queue}: {one.counts.moved} moved, {one.counts.duplicates} were there")
    if failures:
        raise failures[0]
