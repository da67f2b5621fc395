"""`localqueue worker`: many messages at a time, until stopped."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import MISTAKE, OK
from localqueue.cli.events import LogEvents, log
from localqueue.cli.output import Output
from localqueue.cli.pace import Pace
from localqueue.cli.place import Place

if TYPE_CHECKING:
    from localqueue.workers import Settled, WorkerCounts


def register(app: typer.Typer) -> None:
    add(app, worker)


def worker(
    handler: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="Called with the value of a message.")],
    pace: Pace,
    place: Place,
    out: Output,
    queue: Annotated[str, typer.Option("--queue", "-q", help="Name of the queue.")],
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Messages at a time.")] = 1,
    processes: Annotated[
        bool, typer.Option("--processes/--threads", help="Where functions run; coroutines run in one event loop.")
    ] = False,
    prefetch: Annotated[int, typer.Option(min=1, help="Messages leased in one transaction.")] = 1,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a handler is given up.")] = None,
    max_tries: Annotated[int | None, typer.Option(min=1, help="Deliveries before the last failure; 3.")] = None,
    retry_wait: Annotated[
        float | None, typer.Option(min=0, help="Seconds between deliveries; 2 to 10, growing, without it.")
    ] = None,
    lease_timeout: Annotated[float, typer.Option(help="Seconds; leases are renewed while handlers run.")] = 30.0,
    shutdown_timeout: Annotated[float | None, typer.Option(help="Seconds to wait for handlers when stopped.")] = None,
    worker_id: Annotated[str | None, typer.Option(help="Who holds the leases, for stats; host and process.")] = None,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing is ready or running.")] = False,
    log_events: LogEvents = False,
) -> int:
    """Call a function for each message, several at a time, until SIGTERM or Ctrl-C; a second signal ends at once.

    A message whose handler fails is released and delivered again later.
    """
    from localqueue.cli.handlers import is_async, load_handler
    from localqueue.cli.log_lines import show_log
    from localqueue.workers import AsyncWorker, Worker

    function = load_handler(handler, MISTAKE)
    retry: dict[str, Any] = {} if max_tries is None else {"max_tries": max_tries}
    if retry_wait is not None:
        retry["wait"] = retry_wait
    options: dict[str, Any] = {
        "concurrency": concurrency,
        "prefetch": prefetch,
        "config": pace.config(**retry),
        "worker_id": worker_id,
        "timeout": timeout,
        "shutdown_timeout": shutdown_timeout,
        "on_settled": lambda settled: _log_settled(log_events, settled),
    }
    show_log(logging.ERROR if log_events else logging.WARNING)  # events tell of failures already
    with place.open_queue(queue, lease_timeout=lease_timeout) as opened:
        if is_async(function):
            import asyncio

            tasks = AsyncWorker(opened, function, **options)
            counts = asyncio.run(tasks.run_until_empty() if until_empty else tasks.run())
        else:
            threads = Worker(opened, function, executor="processes" if processes else "threads", **options)
            counts = threads.run_until_empty() if until_empty else threads.run()
    out.facts(_summary(counts))
    return OK


def _summary(counts: WorkerCounts) -> dict[str, Any]:
    return {"state": "stopped", "processed": counts.total, **counts.as_dict()}


def _log_settled(wanted: bool, settled: Settled) -> None:
    from localqueue.stores.kept_error import describe_error

    message = settled.message
    log(
        wanted,
        f"worker.{settled.state.replace('-', '_')}",
        queue=message.queue,
        id=message.id,
        attempt=message.attempts,
        worker_id=message.leased_by,
        error=describe_error(settled.error),
    )
