"""The steps of some workflows as the tasks of one worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from localqueue.stores.port import QueueStore
from localqueue.tasks.crew import LoopCrew, ThreadCrew
from localqueue.tasks.registry import Tasks
from localqueue.tasks.settings import Executor, TaskSettings
from localqueue.tasks.task import Task
from localqueue.workflows.crew import Known, StepLoopCrew, StepThreadCrew
from localqueue.workflows.errors import WorkflowError
from localqueue.workflows.history import History
from localqueue.workflows.retention import Retention
from localqueue.workflows.runner import AsyncStepRunner, StepRunner
from localqueue.workflows.values import Values
from localqueue.workflows.wake import notification_of
from localqueue.workflows.work import NO_STEP, task_name

if TYPE_CHECKING:
    from localqueue.workflows.workflow import Workflow


class StepTasks(Tasks):
    """What a worker for workflows serves: each step is a task of its queue."""

    def __init__(
        self,
        store: QueueStore,
        workflows: Iterable[Workflow],
        *,
        values: Values,
        lease_timeout: float = 30.0,
        queues: Mapping[str, Mapping[str, Any]] | None = None,
        around: Callable[[], AbstractContextManager[object]] | None = None,
    ) -> None:
        self.known_workflows = Known(workflows)
        for one in self.known_workflows.workflows:
            if one.values.results is not values.results:
                raise WorkflowError(
                    f"workflow {one.name!r} has another result_store than the first of this worker; give both one, "
                    "or each a worker of its own"
                )
        notification = notification_of(store)
        own = {} if notification is None else {"notification_policy": notification}
        homes = {one.home for one in self.known_workflows.definitions.values()}
        super().__init__(
            store, queue=min(homes), queues=queues, keep_results=None, lease_timeout=lease_timeout, around=around
        )
        self._options = {**self._options, **own}
        self.history = History(store, values)
        keep = {one.name: one.keep for one in self.known_workflows.workflows if one.keep is not None}
        self.retention = Retention(self.history, keep)
        self._declare()

    def _declare(self) -> None:
        for definition in self.known_workflows.definitions.values():
            forked = {step.queue for step in definition.steps.values() if step.settings.executor == "processes"}
            for step in definition.steps.values():
                settings = step.settings
                if step.function is None and step.queue in forked:
                    settings = TaskSettings(executor="processes")
                self._add_step(
                    task_name(definition.name, definition.version, step.name), step.queue, step.function, settings
                )
            executor: Executor | None = "processes" if definition.home in forked else None
            name = task_name(definition.name, definition.version, NO_STEP)
            self._add_step(name, definition.home, None, TaskSettings(executor=executor))

    def _add_step(self, name: str, queue: str, function: Callable[..., Any] | None, settings: TaskSettings) -> None:
        self._tasks[name] = Task(self, function or _nothing, name=name, queue=queue, settings=settings)

    def names_in(self, queue: str) -> list[str]:
        return [name for name in super().names_in(queue) if not name.endswith(f"/{NO_STEP}")]

    def crew(self, queue: str, executor: Executor, *, concurrency: int, **options: Any) -> ThreadCrew | LoopCrew:
        opened, known = self.queue(queue), self.known
        options["limits"] = self.limits_of_queue(queue)
        made: StepThreadCrew | StepLoopCrew
        if executor == "asyncio":
            runner: StepRunner | AsyncStepRunner = AsyncStepRunner(
                known, keeps_results=False, threads=concurrency, around=self.around
            )
            made = StepLoopCrew(opened, runner, concurrency=concurrency, **options)
        else:
            runner = StepRunner(known, keeps_results=False, around=self.around)
            made = StepThreadCrew(opened, runner, concurrency=concurrency, executor=executor, **options)
        made.runner, made.tasks = runner, self
        made.known, made.history, made.retention = self.known_workflows, self.history, self.retention
        return made


def _nothing(ctx: Any) -> None:
    """A step that has no function of its own."""
