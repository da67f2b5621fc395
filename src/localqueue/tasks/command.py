"""What every command that starts a worker of tasks says and reads: `localqueue work`, and those of the frameworks."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localqueue.tasks.registry import Tasks
    from localqueue.tasks.worker import TaskWorker

_SHOWN = 20  # names of a queue that are listed
LEVELS = ("debug", "info", "warning", "error")


def weights_of(queues: Iterable[str] | None) -> dict[str, float] | None:
    """The weights of queues that a user names as `mail=3`, each 1 unless said; None where none is named."""
    weights = {}
    for one in queues or ():
        name, equals, weight = one.partition("=")
        try:
            weights[name] = float(weight) if equals else 1.0
        except ValueError:
            raise ValueError(f"--queue {one!r}: the weight must be a number, as in {name}=3") from None
    return weights or None


def show_log(level: str) -> None:
    """Log lines with times on stderr, unless the application has set up logging."""
    log = logging.getLogger("localqueue")
    log.setLevel(level.upper())
    if not logging.getLogger().handlers and not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
        log.addHandler(handler)


def banner(spec: str, tasks: Tasks, worker: TaskWorker) -> list[str]:
    """What a worker is about to do: its store, its queues with their tasks, and its schedules."""
    from localqueue._version import __version__

    lines = [f"localqueue {__version__} works for {spec} as {worker.worker_id}", f"  store     {tasks.store.url}"]
    for name, weight in worker.weights.items():
        executor = worker.executors[name]
        places = worker.processes if executor == "processes" else worker.concurrency
        share = f", weight {weight:g}" if weight != 1 else ""
        kind = "jobs on asyncio" if executor == "asyncio" else executor
        names = _listed(tasks.names_in(name))
        lines.append(f"  queue     {name} ({places} {kind}{share}){f': {names}' if names else ''}")
    lines += [f"  schedule  {_when(schedule)}: {task.name}" for task, schedule in worker.schedules]
    return lines


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} others" if more > 0 else "")


def _when(schedule: Any) -> str:
    cron = getattr(schedule, "cron", None)
    return f"every {schedule.seconds:g} s" if cron is None else f"{cron} {schedule.timezone}"
