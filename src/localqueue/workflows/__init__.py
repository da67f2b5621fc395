"""Workflows: steps that come after steps, as messages of a store; and durable functions."""

from localqueue.workflows.context import AsyncStepContext, StepContext
from localqueue.workflows.errors import (
    InvalidWorkflow,
    OrderChanged,
    RunEnded,
    RunFailed,
    RunMismatch,
    RunMissing,
    SignalTimeout,
    StepFailed,
    StepRefused,
    StepSkipped,
    UnknownVersion,
    WorkflowError,
)
from localqueue.workflows.flow import FlowContext
from localqueue.workflows.run import Run
from localqueue.workflows.runs import forget_runs, list_runs
from localqueue.workflows.status import RunStatus, StepStatus
from localqueue.workflows.step import Step
from localqueue.workflows.workflow import Workflow

__all__ = [
    "AsyncStepContext",
    "FlowContext",
    "InvalidWorkflow",
    "OrderChanged",
    "Run",
    "RunEnded",
    "RunFailed",
    "RunMismatch",
    "RunMissing",
    "RunStatus",
    "SignalTimeout",
    "Step",
    "StepContext",
    "StepFailed",
    "StepRefused",
    "StepSkipped",
    "StepStatus",
    "UnknownVersion",
    "Workflow",
    "WorkflowError",
    "forget_runs",
    "list_runs",
]
