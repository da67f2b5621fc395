"""The workers of one queue of steps, and what they know."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from localqueue.limits import Limited
from localqueue.message import QueueMessage
from localqueue.tasks.crew import Crew, LoopCrew, ThreadCrew
from localqueue.tasks.errors import TaskRefused
from localqueue.workers.core import WorkerCore
from localqueue.workers.delivery import Decide, Decision, Delivery
from localqueue.workflows.definition import Definition
from localqueue.workflows.delivery import StepDelivery
from localqueue.workflows.errors import RunMissing, StepFailed, StepRefused, UnknownVersion
from localqueue.workflows.history import History
from localqueue.workflows.records import RunHeader
from localqueue.workflows.retention import Retention
from localqueue.workflows.step import Step
from localqueue.workflows.work import EXPAND, UNDO, Work, read_work

if TYPE_CHECKING:
    from localqueue.workflows.workflow import Workflow


def function_of(step: Step, work: Work) -> Callable[..., Any] | None:
    """What is called for a message."""
    if work.phase == UNDO:
        return step.compensate
    if work.phase == EXPAND:
        return step.child_input if step.kind == "child" else step.each if callable(step.each) else None
    return step.function


class Known:
    """The workflows that a worker has, those that their steps start too."""

    def __init__(self, workflows: Iterable[Workflow]) -> None:
        self.definitions: dict[tuple[str, int], Definition] = {}
        self.workflows: list[Workflow] = []
        left = list(workflows)
        while left:
            workflow = left.pop()
            definition = workflow.definition
            known = self.definitions.get((definition.name, definition.version))
            if known is not None and known.digest != definition.digest:
                raise StepRefused(
                    f"two different workflows are called {definition.name!r} and have version {definition.version}; "
                    "give one of them another version"
                )
            if known is None:
                self.definitions[definition.name, definition.version] = definition
                self.workflows.append(workflow)
                left += [step.child for step in definition.steps.values() if step.child is not None]

    def definition_for(self, work: Work, header: RunHeader) -> Definition:
        """What a run follows, or `UnknownVersion` where this worker has another one."""
        found = self.definitions.get((work.workflow, work.version))
        if found is None:
            versions = sorted(version for name, version in self.definitions if name == work.workflow)
            has = f"has version {', '.join(map(str, versions))} of it" if versions else "does not have that workflow"
            raise UnknownVersion(
                f"the run follows version {work.version} of workflow {work.workflow!r}, and this worker {has}; start "
                f"one that has Workflow({work.workflow!r}, version={work.version}), with worker(store, also=[...]) for "
                "several versions, and retry the run"
            )
        if found.digest != header.definition:
            raise UnknownVersion(
                f"the run follows workflow {work.workflow!r} version {work.version} as it was when the run began, and "
                "this worker has other steps under that version; declare the new ones as another version, keep the old "
                "ones beside it (worker(store, also=[...])), and retry the run"
            )
        return found

    def step_of(self, work: Work) -> Step | None:
        definition = self.definitions.get((work.workflow, work.version))
        return None if definition is None else definition.steps.get(work.step)

    def is_async(self, work: Work) -> bool:
        step = self.step_of(work)
        return step is not None and inspect.iscoroutinefunction(function_of(step, work))


class Subject(NamedTuple):
    """What the key of a step's limits is a function of."""

    run_id: str
    name: str
    input: Any
    item: Any


class StepCrew(Crew):
    """What the worker of a queue of steps does by step. The store buries none of them: a run has to hear of it."""

    known: Known
    history: History
    retention: Retention

    @property
    def attempt_limit(self) -> int | None:
        return None

    def new_delivery(self) -> Delivery:
        return StepDelivery(
            self.queue, self.handler, self.config, self.decider(), self.known, self.history, self.retention.note
        )

    def decider(self) -> Decide:
        by_task = super().decider()

        def decide(message: QueueMessage[Any], error: BaseException, now: float) -> Decision:
            if isinstance(error, TaskRefused | RunMissing | StepFailed):
                return Decision("dead-lettered", permanent=True)
            return by_task(message, error, now)

        return decide

    @property
    def has_limits(self) -> bool:
        steps = (step for definition in self.known.definitions.values() for step in definition.steps.values())
        return self.limits is not None or any(
            step.limits is not None and step.queue == self.queue.name for step in steps
        )

    def limits_of(self, message: QueueMessage[Any]) -> Sequence[Limited]:
        of_queue = WorkerCore.limits_of(self, message)
        try:
            work = read_work(message.value)
        except StepRefused:
            return of_queue
        step = self.known.step_of(work)
        if (
            step is None
            or step.limits is None
            or message.run_id is None
            or function_of(step, work) is not step.function
        ):
            return of_queue
        key = None
        if step.limits.key is not None:
            self.history.header(message.run_id, message)
            subject = Subject(message.run_id, step.name, self.history.input(message.run_id), work.value)
            key = step.limits.key_of(subject)
        return (*of_queue, Limited(f"{step.queue}/{work.workflow}/{step.name}", step.limits, key))

    def shared_limits(self) -> Sequence[Limited]:
        return WorkerCore.shared_limits(self)


class StepThreadCrew(StepCrew, ThreadCrew):
    """Functions in threads, or in processes."""


class StepLoopCrew(StepCrew, LoopCrew):
    """Coroutine functions on an event loop, and other functions of the same queue in threads beside it."""
