"""`localqueue queue process, exec`: run a function or a command for the messages of a queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add, shared
from localqueue.cli.config import Config
from localqueue.cli.errors import NEGATIVE, CommandFailed, Mistake
from localqueue.cli.events import LogEvents
from localqueue.cli.messages import QueueName
from localqueue.cli.output import Output
from localqueue.cli.pace import Pace
from localqueue.cli.place import Place

if TYPE_CHECKING:
    from localqueue.worker_config import PersistentWorkerConfig


def register(app: typer.Typer) -> None:
    add(app, process)
    # An option that is not ours belongs to the command.
    add(app, exec_, "exec", context_settings={"ignore_unknown_options": True})


@shared
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How many messages to process, and how."""

    retry_store_path: Annotated[
        str | None, typer.Option(metavar="FILE", help="SQLite file that counts tries; otherwise the store does.")
    ] = None
    max_jobs: Annotated[int | None, typer.Option(min=1, help="How many messages; 1 without it.")] = None
    forever: Annotated[bool, typer.Option("--forever", help="Until SIGTERM or Ctrl-C.")] = False
    max_tries: Annotated[int, typer.Option(min=1, help="Tries inside one lease.")] = 3
    retry_wait: Annotated[float, typer.Option(min=0, help="Seconds between the tries.")] = 0.0
    lease_timeout: Annotated[float, typer.Option(help="Seconds; the lease is renewed while it is worked on.")] = 30.0
    worker_id: Annotated[str | None, typer.Option(help="Who holds the leases, for stats.")] = None
    block: Annotated[bool, typer.Option("--block", help="Wait for messages.")] = False
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds to wait for a message at most.")] = None
    idle_sleep: Annotated[float, typer.Option(min=0.001, help="Longest rest between looks at an empty queue.")] = 1.0
    log_events: LogEvents = False

    def config(self, pace: Pace) -> PersistentWorkerConfig:
        from tenacity import retry_if_exception

        from localqueue.retry import is_permanent

        retry: dict[str, Any] = {
            "max_tries": self.max_tries,
            "wait": self.retry_wait,
            "retry": retry_if_exception(lambda error: isinstance(error, Exception) and not is_permanent(error)),
        }
        path = self.retry_store_path if self.retry_store_path is not None else Config.load().retry_store_path
        if path is not None:
            retry["store_path"] = path
        return pace.config(**retry)


def process(
    queue: QueueName,
    handler: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="Called with the value of a message.")],
    run: Run,
    pace: Pace,
    place: Place,
    out: Output,
) -> int:
    """Call a function for each message: it is acked when the function returns."""
    from localqueue.cli.handlers import called_in_thread, load_handler

    return _run(queue, called_in_thread(load_handler(handler, NEGATIVE)), run, pace, place, out, "process")


def exec_(
    queue: QueueName,
    command: Annotated[list[str], typer.Argument(metavar="[--] COMMAND...", help="The command and its arguments.")],
    run: Run,
    pace: Pace,
    place: Place,
    out: Output,
) -> int:
    """Run a command for each message, with the value as JSON on its stdin: exit code 0 acks the message."""
    from localqueue.cli.shell import run_command

    if command[0].startswith("-"):
        raise Mistake(f"localqueue queue exec: No such option: {command[0]}; write '--' before a command like that")
    return _run(queue, lambda value: run_command(command, value), run, pace, place, out, "exec")


def _run(queue: str, handler: Callable[[Any], Any], run: Run, pace: Pace, place: Place, out: Output, name: str) -> int:
    import logging

    from localqueue.cli.log_lines import show_log
    from localqueue.cli.process_loop import Plan, ProcessLoop
    from localqueue.cli.signals import stop_by_signal

    if run.forever and run.max_jobs is not None:
        raise CommandFailed("pass either --forever or --max-jobs, not both")
    plan = Plan(
        most=None if run.forever else run.max_jobs or 1,
        waits=run.block or run.forever,
        timeout=run.timeout,
        idle_sleep=run.idle_sleep,
    )
    config = run.config(pace)
    show_log(logging.ERROR)  # the output tells of failures already
    with stop_by_signal() as stop, place.open_queue(queue, lease_timeout=run.lease_timeout) as opened:
        loop = ProcessLoop(
            opened, handler, config, worker_id=run.worker_id, out=out, name=name, log_events=run.log_events
        )
        return loop.run(plan, stop)
