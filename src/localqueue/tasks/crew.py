"""The workers of one queue of tasks: each message by the settings of its own task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from localqueue.limits import Limited
from localqueue.message import QueueMessage
from localqueue.tasks.errors import TaskError, UnknownTask
from localqueue.tasks.runner import AsyncRunner, Runner, is_refused
from localqueue.tasks.settings import Executor
from localqueue.workers import AsyncWorker, Worker
from localqueue.workers.core import WorkerCore
from localqueue.workers.delivery import Decide, Decision, decide_by_release

if TYPE_CHECKING:
    from localqueue.tasks.registry import Tasks
    from localqueue.tasks.task import Task


class Crew(WorkerCore):
    """What the worker of a queue of tasks does by task: retries, time limits, limits of rate and concurrency."""

    runner: Runner
    tasks: Tasks

    @property
    def attempt_limit(self) -> int | None:
        """The most tries of any task; a job of one that has fewer is refused by the runner."""
        return max((task.settings.tries for task in self.tasks.tasks.values()), default=1)

    def timeout_for(self, message: QueueMessage[Any]) -> float | None:
        task = self._task_of(message)
        return self.timeout if task is None else task.settings.timeout

    def called(self, message: QueueMessage[Any]) -> str:
        task = self._task_of(message)
        return "message" if task is None else task.name

    def decider(self) -> Decide:
        of_task: dict[str, Decide] = {}

        def decide(message: QueueMessage[Any], error: BaseException, now: float) -> Decision:
            task = self._task_of(message)
            if task is None or is_refused(error):
                return Decision("dead-lettered", permanent=True)
            if task.name not in of_task:
                of_task[task.name] = decide_by_release(self.config, task.settings.retry())
            return of_task[task.name](message, error, now)

        return decide

    @property
    def has_limits(self) -> bool:
        return self.limits is not None or any(task.limits is not None for task in self.tasks.tasks.values())

    def limits_of(self, message: QueueMessage[Any]) -> Sequence[Limited]:
        task = self._task_of(message)
        of_task = None if task is None else task.limited(message.value)
        of_queue = super().limits_of(message)
        return of_queue if of_task is None else (*of_queue, of_task)

    def shared_limits(self) -> Sequence[Limited]:
        """Those of the queue, and those of the task where it has the queue for itself."""
        tasks = [task for task in self.tasks.tasks.values() if task.queue == self.queue.name]
        if len(tasks) != 1 or tasks[0].limits is None or tasks[0].limits.key is not None:
            return super().shared_limits()
        return (*super().shared_limits(), Limited(tasks[0].limit_name, tasks[0].limits))

    def _task_of(self, message: QueueMessage[Any]) -> Task[..., Any, Any] | None:
        try:
            return self.runner.task_of(message.value)
        except UnknownTask:
            return None


class ThreadCrew(Crew, Worker):
    """Functions in threads, or in processes."""


class LoopCrew(Crew, AsyncWorker):
    """Coroutine functions on an event loop, and other functions of the same queue in threads beside it."""


def executor_of(tasks: Tasks, queue: str) -> Executor:
    """Where the tasks of a queue run: all of them in one kind of place."""
    found = [task for task in tasks.tasks.values() if task.queue == queue]
    wanted = {task.settings.executor or ("asyncio" if task.is_async else None) for task in found}
    if "processes" in wanted:
        others = [task.name for task in found if task.settings.executor != "processes"]
        if others:
            raise TaskError(
                f"queue {queue!r} has tasks that run in processes and others that do not ({', '.join(others)}); give "
                "those a queue of their own, or executor='processes' too"
            )
        return "processes"
    return "asyncio" if "asyncio" in wanted else "threads"


def crew_for(
    tasks: Tasks, queue: str, executor: Executor, *, concurrency: int, **options: Any
) -> ThreadCrew | LoopCrew:
    """The worker of one queue of tasks."""
    opened = tasks.queue(queue)
    limited = [task.name for task in tasks.tasks.values() if task.queue == queue and task.limits is not None]
    if limited and opened.desk.consumes:
        raise TaskError(
            f"queue {queue!r} removes its jobs when they are taken, so none can be given back to wait for the limits "
            f"of {', '.join(limited)}; use at-least-once delivery, or no rate= and concurrency="
        )
    keeps = opened.keep_results is not None
    options["limits"] = tasks.limits_of_queue(queue)
    made: ThreadCrew | LoopCrew
    if executor == "asyncio":
        runner: Runner = AsyncRunner(tasks.known, keeps_results=keeps, threads=concurrency, around=tasks.around)
        made = LoopCrew(opened, runner, concurrency=concurrency, **options)
    else:
        runner = Runner(tasks.known, keeps_results=keeps, around=tasks.around)
        made = ThreadCrew(opened, runner, concurrency=concurrency, executor=executor, **options)
    made.runner, made.tasks = runner, tasks
    return made
