"""The names and types of what steps are declared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from localqueue.tasks.settings import Executor, RetryOn
from localqueue.workflows.step import Needs, Step

#: A step, or the name of one, which may be declared further down.
StepName = Step | str


class CallOptions(TypedDict, total=False):
    """How a call of a flow is tried: as a task is."""

    retries: int
    retry_delay: float
    backoff: float
    max_delay: float
    jitter: float
    retry_on: RetryOn | None
    timeout: float | None


class PlaceOptions(TypedDict, total=False):
    """Where a step stands in the graph, and where its messages go."""

    after: Sequence[StepName]
    queue: str | None
    on: str | None
    needs: Needs
    priority: int


class StepOptions(CallOptions, PlaceOptions, total=False):
    """What a step may be declared with."""

    name: str | None
    executor: Executor | None
    rate: str | None
    concurrency: int | None
    key: Callable[[Any], str | int] | None
    keep_result: bool
    compensate: Callable[..., Any] | None
    each: StepName | Callable[..., Any] | None
    batch: int | None
