"""`localqueue work`: the worker of an application's tasks."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import MISTAKE, NEGATIVE, OK, Mistake, say
from localqueue.cli.output import Output


def register(app: typer.Typer) -> None:
    add(app, work)


def work(
    tasks: Annotated[
        str,
        typer.Argument(metavar="MODULE[:TASKS]", help="The module with your tasks, and the name of the Tasks in it."),
    ],
    out: Output,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", "-q", metavar="NAME[=WEIGHT]", help="A queue to work for; may be given again. All."),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Jobs at a time.")] = 8,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes for tasks that want them; the number of cores.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A queue named earlier goes first, always.")] = False,
    prefetch: Annotated[int, typer.Option(min=1, help="Jobs leased in one transaction.")] = 1,
    scheduler: Annotated[bool, typer.Option("--scheduler/--no-scheduler", help="Keep the schedules too.")] = True,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing is ready or running.")] = False,
    shutdown_timeout: Annotated[float | None, typer.Option(help="Seconds to wait for jobs when stopped.")] = None,
    worker_id: Annotated[str | None, typer.Option(help="Who holds the leases, for stats; host and process.")] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    reload: Annotated[
        bool, typer.Option("--reload", help="Start anew when a Python file changes; for development.")
    ] = False,
) -> int:
    """Run the jobs of your tasks, and their schedules, until SIGTERM or Ctrl-C; a second signal ends at once.

    Exits with 0 when it was stopped or, with --until-empty, when every job succeeded in the end, with 1 when some were
    dead-lettered.
    """
    from localqueue.cli.handlers import load_object
    from localqueue.tasks import Tasks
    from localqueue.tasks.command import LEVELS, banner, show_log, weights_of

    if log_level not in LEVELS:
        raise Mistake(f"--log-level must be one of {', '.join(LEVELS)}, not {log_level!r}")
    if reload:
        return _run_again_and_again()
    show_log(log_level)
    found = load_object(tasks, Tasks, MISTAKE)
    try:
        worker = found.worker(
            queues=weights_of(queue),
            concurrency=concurrency,
            processes=processes,
            strict=strict,
            prefetch=prefetch,
            scheduler=scheduler,
            worker_id=worker_id,
            shutdown_timeout=shutdown_timeout,
        )
    except (ValueError, TypeError) as error:
        raise Mistake(str(error)) from error
    for line in banner(tasks, found, worker):
        say(line)
    with found:
        counts = worker.run_until_empty() if until_empty else worker.run()
    out.facts({"state": "stopped", "processed": counts.total, **counts.as_dict()})
    return NEGATIVE if until_empty and counts.dead_lettered else OK


def _run_again_and_again() -> int:
    try:
        import watchfiles
    except ImportError as error:
        raise Mistake('--reload requires watchfiles; install it with `pip install "localqueue[reload]"`') from error
    import shlex

    arguments = [one for one in sys.argv[1:] if one != "--reload"]
    command = shlex.join([sys.executable, "-m", "localqueue.cli", *arguments])
    say("the worker starts anew when a Python file below this directory changes")
    watchfiles.run_process(".", target=command, target_type="command", watch_filter=watchfiles.PythonFilter())
    return OK
