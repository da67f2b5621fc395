"""The command tree, and the one place where errors become exit codes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from localqueue.cli import (
    config_commands,
    dead_letters,
    journal,
    messages,
    operations,
    overview,
    pipeline,
    process,
    queue_copy,
    retention,
    schedule,
    worker,
)
from localqueue.cli.command import family
from localqueue.cli.errors import ReaderGone, report
from localqueue.cli.output import flush


def build() -> typer.Typer:
    """The whole command tree."""
    app = family("A durable queue: put, take, inspect and process messages.")

    @app.callback(invoke_without_command=True)
    def root(context: typer.Context, version: Annotated[bool, typer.Option("--version", is_eager=True)] = False) -> Any:
        """A durable queue: put, take, inspect and process messages."""
        if version:
            from localqueue._version import __version__

            typer.echo(__version__)
            raise typer.Exit
        if context.invoked_subcommand is None:
            typer.echo(context.get_help(), err=True)
            raise typer.Exit(2)

    queue = family("Put, take, settle and inspect messages.")
    for module in (messages, overview, dead_letters, operations, queue_copy, journal, process):
        module.register(queue)
    app.add_typer(queue, name="queue")
    app.add_typer(config_commands.commands(), name="config")
    app.add_typer(retention.retry_commands(), name="retry")
    app.add_typer(retention.idempotency_commands(), name="idempotency")
    app.add_typer(schedule.commands(), name="schedule")
    app.add_typer(pipeline.commands(), name="pipeline")
    worker.register(app)
    operations.register_for_store(app)
    return app


def run(args: list[str]) -> int:
    """Run one command line; the exit code."""
    command = typer.main.get_command(build())
    try:
        code = command.main(args=args, prog_name="localqueue", standalone_mode=False)
        flush()
    except Exception as error:
        code = report(error, args)
        if not isinstance(error, ReaderGone):
            try:
                flush()
            except ReaderGone as gone:
                return report(gone)
    return code if isinstance(code, int) else 0
