"""Calls the function of a step with its context."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from typing import Any

from localqueue.tasks.runner import AsyncRunner, Runner
from localqueue.workflows.context import Context
from localqueue.workflows.crew import function_of
from localqueue.workflows.errors import StepRefused
from localqueue.workflows.flow import FlowContext


class StepRunner(Runner):
    """The handler of a worker for steps."""

    def __call__(self, context: Context) -> Any:
        function = _function(context)
        with self._around():
            return function(context)


class AsyncStepRunner(AsyncRunner):
    """The same on an event loop; functions that are no coroutines run in threads beside it."""

    async def __call__(self, context: Context) -> Any:
        function = _function(context)
        limit = context.declared.settings.timeout
        with self._around():
            try:
                async with asyncio.timeout(limit) as clock:
                    result = await self._call_step(function, context)
            except TimeoutError:
                if clock.expired():
                    raise TimeoutError(f"the step did not finish within {limit} seconds") from None
                raise
        if isinstance(context, FlowContext):
            context.finish()
        return result

    async def _call_step(self, function: Any, context: Context) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(context)
        answer = functools.partial(contextvars.copy_context().run, _answer, function, context)
        result, error = await asyncio.get_running_loop().run_in_executor(self._threads, answer)
        if error is not None:
            raise error
        return result


def _answer(function: Any, context: Context) -> tuple[Any, BaseException | None]:
    """The result of a function, or what it raised: a future does not carry what suspends a step."""
    try:
        return function(context), None
    except BaseException as error:
        return None, error


def _function(context: Context) -> Any:
    step, work = context.declared, context.work
    function = function_of(step, work)
    if function is None:
        raise StepRefused(f"step {step.name!r} has no function for {work.phase!r}")
    if context.attempt > step.settings.tries:
        raise StepRefused(
            f"step {step.name!r} was begun {context.attempt - 1} times and its worker died each time; it has "
            f"{step.settings.retries} retries"
        )
    return function
