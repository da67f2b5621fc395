"""The command tree, and the one place where errors become exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from localqueue.cli.command import family
from localqueue.cli.errors import ReaderGone, report
from localqueue.cli.output import flush

#: The commands of `localqueue queue`, by the module that registers them.
QUEUE_COMMANDS = {
    "messages": ("add", "pop", "inspect", "ack", "release", "dead-letter", "cancel"),
    "overview": ("list", "messages", "size", "stats", "health"),
    "dead_letters": ("dead", "requeue-dead"),
    "operations": ("purge", "pause", "resume", "backup", "check"),
    "queue_copy": ("copy",),
    "journal": ("journal", "events"),
    "process": ("process", "exec"),
}

#: The other families, and the commands that have none: the module and the function that makes or registers them.
FAMILIES = {
    "config": ("config_commands", "commands"),
    "retry": ("retention", "retry_commands"),
    "idempotency": ("retention", "idempotency_commands"),
    "schedule": ("schedule", "commands"),
    "workflow": ("workflow", "commands"),
    "pipeline": ("pipeline", "commands"),
}
COMMANDS = {
    "worker": ("worker", "register"),
    "work": ("work", "register"),
    "bridge": ("bridge", "register"),
    "compact": ("operations", "register_for_store"),
}


def build(words: Sequence[str] = ()) -> typer.Typer:
    """The command tree: the whole of it, or the branch that the first words of a command line name.

    Options come behind the command they belong to, so a first word that is a name leaves no doubt. With any other the
    tree is whole: it is shown, or the nearest name is suggested.
    """
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

    for name in _meant(["queue", *FAMILIES, *COMMANDS], words[:1]):
        if name == "queue":
            app.add_typer(_queue_family(words[1:]), name=name)
        elif name in FAMILIES:
            app.add_typer(_load(*FAMILIES[name])(), name=name)
        else:
            _load(*COMMANDS[name])(app)
    return app


def _queue_family(words: Sequence[str]) -> typer.Typer:
    queue = family("Put, take, settle and inspect messages.")
    home_of = {name: module for module, names in QUEUE_COMMANDS.items() for name in names}
    for module in dict.fromkeys(home_of[name] for name in _meant(list(home_of), words[:1])):
        _load(module, "register")(queue)
    return queue


def _meant(names: list[str], word: Sequence[str]) -> list[str]:
    """The name that a word is, or all of them."""
    return [name for name in names if name in word] or names


def _load(module: str, function: str) -> Any:
    return getattr(import_module(f"localqueue.cli.{module}"), function)


def run(args: list[str]) -> int:
    """Run one command line; the exit code."""
    command = typer.main.get_command(build(tuple(args[:2])))
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
