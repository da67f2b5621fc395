"""`manage.py localqueue_worker`: runs the tasks that were enqueued."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from localqueue.django.api import InvalidTaskBackend, task_backends
from localqueue.django.backend import LocalqueueBackend
from localqueue.tasks import TaskError, TaskWorker
from localqueue.tasks.branches import Branches
from localqueue.tasks.command import banner, show_log, weights_of
from localqueue.workers.counts import WorkerCounts
from localqueue.workers.signals import StopSignals

_LEVELS = ("warning", "info", "info", "debug")  # by --verbosity


class Command(BaseCommand):
    help = (
        "Run enqueued tasks until SIGTERM or Ctrl-C, which let running ones finish; a second signal does not wait. "
        "Ends with 0 when it was stopped, and with --until-empty with 1 when tasks failed for good."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="The name of the backend in TASKS.")
        parser.add_argument(
            "--queue",
            "-q",
            action="append",
            metavar="NAME[=WEIGHT]",
            help="A queue to work for; may be given again. All.",
        )
        parser.add_argument("--concurrency", "-c", type=int, default=8, help="Threads of each process.")
        parser.add_argument("--processes", "-p", type=int, default=1, help="Processes, each with its threads.")
        parser.add_argument("--strict", action="store_true", help="A queue named earlier goes first, always.")
        parser.add_argument("--until-empty", action="store_true", help="End when nothing is ready or running.")
        parser.add_argument("--shutdown-timeout", type=float, help="Seconds to wait for tasks when stopped.")

    def handle(self, *_: Any, **options: Any) -> None:
        show_log(_LEVELS[options["verbosity"]])
        if options["processes"] < 1:
            raise CommandError(f"--processes must be at least 1, not {options['processes']}")
        self._worker(options)  # what is wrong is said before there are processes
        counts = self._work(options) if options["processes"] == 1 else self._work_in_processes(options)
        if options["verbosity"]:
            self.stdout.write(f"stopped: {counts.acked} succeeded, {counts.dead_lettered} failed for good")
        if options["until_empty"] and counts.dead_lettered:
            raise CommandError(f"{counts.dead_lettered} tasks failed for good; look at the dead letters", returncode=1)

    def _worker(self, options: dict[str, Any]) -> TaskWorker:
        try:
            backend = task_backends[options["backend"]]
        except InvalidTaskBackend as error:
            raise CommandError(str(error)) from error
        if not isinstance(backend, LocalqueueBackend):
            raise CommandError(
                f"TASKS[{options['backend']!r}] is a {type(backend).__name__}, whose tasks this worker does not run; "
                "name another one with --backend"
            )
        try:
            return backend.tasks.worker(
                queues=weights_of(options["queue"]),
                concurrency=options["concurrency"],
                strict=options["strict"],
                shutdown_timeout=options["shutdown_timeout"],
            )
        except (ValueError, TypeError, TaskError) as error:
            raise CommandError(str(error)) from error

    def _work(self, options: dict[str, Any]) -> WorkerCounts:
        worker = self._worker(options)
        if options["verbosity"]:
            for line in banner(f"TASKS[{options['backend']!r}]", worker.tasks, worker):
                self.stdout.write(line)
        with worker.tasks:
            return worker.run_until_empty() if options["until_empty"] else worker.run()

    def _work_in_processes(self, options: dict[str, Any]) -> WorkerCounts:
        connections.close_all()  # none of them may be used by two processes
        work = [lambda: self._work(options)] * options["processes"]
        branches = Branches(work, until_done=options["until_empty"])
        with StopSignals(branches.stop, enabled=True):
            return branches.run()
