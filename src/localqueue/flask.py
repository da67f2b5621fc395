"""`FlaskTasks`: the tasks of a Flask application, which see it as `current_app`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import click
from flask import Flask
from flask.cli import AppGroup

from localqueue.tasks import TaskError, Tasks
from localqueue.tasks.command import LEVELS, banner, show_log, weights_of
from localqueue.tasks.home import Home

__all__ = ["FlaskTasks"]

_AN_HOUR = 3600.0


class FlaskTasks(Tasks):
    """A `Tasks` whose store is named by the configuration of an application.

    `init_app` reads LOCALQUEUE_URL and LOCALQUEUE_NAMESPACE, LOCALQUEUE_KEEP_RESULTS and LOCALQUEUE_LEASE_TIMEOUT in
    seconds, and LOCALQUEUE_QUEUES, further arguments by the name of a queue; without an address the jobs live in the
    store of the process. It adds the command `flask localqueue work`. Each try of a job runs in a context of the
    application. Jobs are enqueued with or without one. A second `init_app` moves the tasks to that application.
    """

    def __init__(self, app: Flask | None = None, *, queue: str = "default") -> None:
        super().__init__(queue=queue, around=self._context)
        self._app: Flask | None = None
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Belong to an application: live where it says, and know it when a job runs."""
        self.close()
        config = app.config
        options = {
            "keep_results": config.get("LOCALQUEUE_KEEP_RESULTS", _AN_HOUR),
            "lease_timeout": config.get("LOCALQUEUE_LEASE_TIMEOUT", 30.0),
        }
        Home.__init__(
            self,
            config.get("LOCALQUEUE_URL"),
            config.get("LOCALQUEUE_NAMESPACE"),
            self._default_queue,
            config.get("LOCALQUEUE_QUEUES", {}),
            options,
        )
        self._app = app
        app.extensions["localqueue"] = self
        app.cli.add_command(_commands(self))

    def _context(self) -> AbstractContextManager[Any]:
        if self._app is None:
            raise TaskError("these tasks have no application yet; call init_app(app) before a worker runs them")
        return self._app.app_context()


def _commands(tasks: FlaskTasks) -> AppGroup:
    group = AppGroup("localqueue", help="The jobs of the application.")

    @group.command("work")
    @click.option("--queue", "-q", multiple=True, metavar="NAME[=WEIGHT]", help="A queue to work for; may be repeated.")
    @click.option(
        "--concurrency", "-c", type=click.IntRange(min=1), default=8, show_default=True, help="Jobs at a time."
    )
    @click.option("--processes", type=click.IntRange(min=1), help="Processes for tasks that want them.")
    @click.option("--strict", is_flag=True, help="A queue named earlier goes first, always.")
    @click.option("--until-empty", is_flag=True, help="End when nothing is ready or running.")
    @click.option("--shutdown-timeout", type=float, help="Seconds to wait for jobs when stopped.")
    @click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
    @click.pass_context
    def work(
        context: click.Context, /, queue: tuple[str, ...], until_empty: bool, log_level: str, **options: Any
    ) -> None:
        """Run jobs and schedules until SIGTERM or Ctrl-C; a second signal ends at once.

        Exits with 0 when it was stopped, with --until-empty with 1 when jobs were dead-lettered.
        """
        show_log(log_level)
        try:
            worker = tasks.worker(queues=weights_of(queue), **options)
        except (ValueError, TypeError, TaskError) as error:
            raise click.UsageError(str(error)) from error
        for line in banner(context.obj.load_app().name, tasks, worker):
            click.echo(line, err=True)
        with tasks:
            counts = worker.run_until_empty() if until_empty else worker.run()
        click.echo(f"stopped: {counts.acked} succeeded, {counts.dead_lettered} failed for good")
        if until_empty and counts.dead_lettered:
            context.exit(1)

    return group
