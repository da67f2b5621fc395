"""Workers for the tasks of an application that run in the calling thread, or on the loop of the caller."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from localqueue.limits import Limited
from localqueue.message import QueueMessage
from localqueue.queue import PersistentQueue
from localqueue.schedules import Scheduler
from localqueue.tasks import Tasks
from localqueue.tasks.crew import Crew, LoopCrew
from localqueue.tasks.runner import AsyncRunner, Runner
from localqueue.testing.coroutine import run_to_end
from localqueue.testing.lane import WorkerHere
from localqueue.workers.delivery import Decide, Decision
from localqueue.workers.outcome import Settled

Note = Callable[[Settled], object]
C = TypeVar("C", bound=Crew)


class RunnerHere(Runner):
    """Runs coroutine functions to their end, too."""

    def __call__(self, value: Any) -> Any:
        task, args, kwargs = self._call_of(value)
        begun = time.monotonic()
        with self._around():
            result = task.function(*args, **kwargs)
            return self._result(task, run_to_end(result) if task.is_async else result, begun)


class Unlimited(Crew):
    """Keeps no limits of rate and concurrency: a clock that stands still would never let the next job begin."""

    def limits_of(self, message: QueueMessage[Any]) -> Sequence[Limited]:
        return ()

    def shared_limits(self) -> Sequence[Limited]:
        return ()


class CrewHere(Unlimited, WorkerHere):
    """The worker of one queue. Time limits are not kept: they would end with the calling thread left behind."""

    def timeout_for(self, message: QueueMessage[Any]) -> float | None:
        return None


class CrewOfLoop(Unlimited, LoopCrew):
    """The same on the loop of the caller, with time limits."""


class HastyCrew(CrewHere):
    """Makes further tries at once."""

    def decider(self) -> Decide:
        decide = super().decider()

        def at_once(message: QueueMessage[Any], error: BaseException, now: float) -> Decision:
            return decide(message, error, now)._replace(delay=0.0)

        return at_once


def crews_here(tasks: Tasks, note: Note, *, kind: type[CrewHere] = CrewHere) -> list[CrewHere]:
    def crew(queue: PersistentQueue[Any], keeps: bool) -> tuple[CrewHere, Runner]:
        runner = RunnerHere(tasks.known, keeps_results=keeps, around=tasks.around)
        return kind(queue, runner, on_settled=note), runner

    return _crews(tasks, crew)


def crews_of_loop(tasks: Tasks, note: Note) -> list[CrewOfLoop]:
    def crew(queue: PersistentQueue[Any], keeps: bool) -> tuple[CrewOfLoop, Runner]:
        runner = AsyncRunner(tasks.known, keeps_results=keeps, threads=1, around=tasks.around)
        return CrewOfLoop(queue, runner, concurrency=1, on_settled=note), runner

    return _crews(tasks, crew)


def _crews(tasks: Tasks, make: Callable[[PersistentQueue[Any], bool], tuple[C, Runner]]) -> list[C]:
    """One for each queue of the tasks."""
    crews = []
    for queue in map(tasks.queue, tasks.queues):
        crew, runner = make(queue, queue.keep_results is not None)
        crew.runner, crew.tasks = runner, tasks
        crews.append(crew)
    return crews


def put_due(tasks: Tasks) -> None:
    """Put what the schedules of the tasks have due, as a worker does it; from the first time on they are kept."""
    for task, schedule in tasks.schedules:
        Scheduler(tasks.queue(task.queue)).add(schedule, replace=True)
    for name in dict.fromkeys(task.queue for task, _ in tasks.schedules):
        Scheduler(tasks.queue(name)).tick()
