"""Runs the message of a task: finds the task, reads its arguments, calls it, writes its result."""

from __future__ import annotations

import asyncio
import contextvars
import difflib
import functools
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from localqueue.tasks.errors import TaskRefused, UnknownTask
from localqueue.workers.job import current_job

if TYPE_CHECKING:
    from localqueue.tasks.task import Task

    Known = Mapping[str, Task[..., Any, Any]]
    Around = Callable[[], AbstractContextManager[object]]

log = logging.getLogger("localqueue.tasks")


class Runner:
    """The handler of a worker for tasks: called with the value of a message. What tasks return is written only where
    results are kept. A task runs in the context manager that `around` makes, and so does the writing of its result."""

    def __init__(self, known: Known, *, keeps_results: bool, around: Around | None = None) -> None:
        self._known = known
        self._keeps_results = keeps_results
        self._around = around or nullcontext

    def task_of(self, value: Any) -> Task[..., Any, Any]:
        """The task a message is for, or `UnknownTask`."""
        name = value.get("task") if isinstance(value, dict) else None
        if not isinstance(name, str):
            raise UnknownTask(
                f"the message has no task but {value!r:.200}; put into this queue with a task's enqueue(), or give "
                "other messages a queue and a Worker of their own"
            )
        task = self._known.get(name)
        if task is None:
            near = difflib.get_close_matches(name, self._known, 1)
            raise UnknownTask(
                f"this worker has no task {name!r}{f'; is it {near[0]!r} now?' if near else ''} (known: "
                f"{', '.join(sorted(self._known)) or 'none'}); start the worker with the module that has it, or name "
                "it in aliases=, and requeue the message"
            )
        return task

    def __call__(self, value: Any) -> Any:
        task, args, kwargs = self._call_of(value)
        begun = time.monotonic()
        with self._around():
            result = task.function(*args, **kwargs)
            return self._result(task, result, begun)

    def _call_of(self, value: Any) -> tuple[Task[..., Any, Any], tuple[Any, ...], dict[str, Any]]:
        task = self.task_of(value)
        tries = current_job().message.tries
        if tries > task.settings.tries:
            raise TaskRefused(
                f"task {task.name!r} was begun {tries - 1} times and its worker died each time; it has "
                f"{task.settings.retries} retries"
            )
        args, kwargs = task.signature.read(value.get("args"))
        return task, args, kwargs

    def _result(self, task: Task[..., Any, Any], value: Any, begun: float) -> Any:
        kept = self._keeps_results and task.settings.keep_result
        written = task.signature.write_result(value) if kept else None
        if log.isEnabledFor(logging.INFO):
            message = current_job().message
            again = f" at try {message.tries}" if message.tries > 1 else ""
            log.info("%s %s succeeded in %.3f s%s", task.name, message.id, time.monotonic() - begun, again)
        return written


class AsyncRunner(Runner):
    """The same on an event loop; functions that are no coroutines run in `threads` threads beside it."""

    def __init__(self, known: Known, *, keeps_results: bool, threads: int, around: Around | None = None) -> None:
        super().__init__(known, keeps_results=keeps_results, around=around)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="localqueue-task")

    async def __call__(self, value: Any) -> Any:
        task, args, kwargs = self._call_of(value)
        limit, begun = task.settings.timeout, time.monotonic()
        with self._around():
            try:
                async with asyncio.timeout(limit) as clock:
                    result = await self._call(task, args, kwargs)
            except TimeoutError:
                if clock.expired():
                    raise TimeoutError(f"the task did not finish within {limit} seconds") from None
                raise
            return self._result(task, result, begun)

    async def _call(self, task: Task[..., Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if task.is_async:
            return await task.function(*args, **kwargs)
        call = functools.partial(contextvars.copy_context().run, task.function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def is_refused(error: BaseException) -> bool:
    """Whether no later attempt could run the message either."""
    return isinstance(error, TaskRefused)
