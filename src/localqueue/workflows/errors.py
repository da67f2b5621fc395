"""What can be wrong with a workflow or a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localqueue.errors import QueueError
from localqueue.tasks.errors import TaskRefused


class WorkflowError(QueueError):
    """A workflow that can not be declared or run as it is written."""


class InvalidWorkflow(WorkflowError, ValueError):
    """A definition that no run could follow: a cycle, an unknown name, a step that can never run."""


class RunMissing(WorkflowError, LookupError):
    """No run of this id is in the store: it never was, or it was forgotten."""


class RunMismatch(WorkflowError, ValueError):
    """A run of this id is there and is another one: of another workflow or version, or with another input."""


class RunEnded(WorkflowError, ValueError):
    """The run has ended, so that it takes no signal and can not be paused."""


class RunFailed(WorkflowError):
    """The run has failed. `error` is what its step raised, `step` the name of that step."""

    def __init__(self, run_id: str, state: str, step: str | None, error: Mapping[str, Any] | None) -> None:
        self.run_id = run_id
        self.state = state
        self.step = step
        self.error = dict(error or {})
        where = "" if step is None else f" at step {step!r}"
        kind, text = self.error.get("type"), self.error.get("message")
        said = "" if not (kind or text) else f": {': '.join(str(one) for one in (kind, text) if one)}"
        super().__init__(f"run {run_id!r} {state}{where}{said}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run_id, self.state, self.step, self.error)


class StepRefused(WorkflowError, TaskRefused):
    """A step that no later try could run either, so its run fails at once."""


class UnknownVersion(StepRefused):
    """The run follows a version of its workflow that this worker does not have."""


class OrderChanged(StepRefused):
    """A flow called its steps in another order than when the run came here first."""


class StepFailed(WorkflowError):
    """A step of a flow has failed for good. The flow may catch it; if it does not, the run fails."""

    def __init__(self, step: str, error: Mapping[str, Any] | None) -> None:
        self.step = step
        self.error = dict(error or {})
        super().__init__(f"step {step!r} failed: {self.error.get('type')}: {self.error.get('message')}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.step, self.error)


class StepSkipped(WorkflowError, LookupError):
    """The result of a step was asked for that was skipped, so that there is none."""


class SignalTimeout(WorkflowError, TimeoutError):
    """The signal that a step waited for did not come in time."""

    def __init__(self, run_id: str, name: str) -> None:
        self.run_id = run_id
        self.name = name
        super().__init__(f"run {run_id!r} was not sent the signal {name!r} in time")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run_id, self.name)
