"""Runs the user's calls for an `AsyncWorker`: coroutine functions on the event loop, all else in threads."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from localqueue.interrupts import is_cut_off
from localqueue.workers.core import is_async
from localqueue.workers.handler_threads import HandlerThreads
from localqueue.workers.job import with_job, with_job_async
from localqueue.workers.outcome import Answer, Call, Steps, as_failure


class Performer:
    """`timeout` is how long a handler may take."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, timeout: float | None) -> None:
        self._loop = loop
        self._timeout = timeout
        self._threads = HandlerThreads(name)

    def close(self) -> None:
        self._threads.close()

    async def attempt(self, call: Call) -> Answer:
        """The result of a call, or what it raised: some of that would end the loop if a task raised it."""
        try:
            return await self._perform(call), None
        except BaseException as error:
            if is_cut_off(error):
                raise
            return None, error

    async def _perform(self, call: Call) -> Any:
        is_handler = call.function in (with_job, with_job_async)
        limit = self._timeout if is_handler else None
        try:
            async with asyncio.timeout(limit) as clock:
                if is_async(call.function):
                    return await call.function(*call.args, **call.kwargs)
                result = await self._threads.run(lambda: call.function(*call.args, **call.kwargs))
                return await result if inspect.isawaitable(result) else result
        except TimeoutError:
            if clock.expired():
                raise TimeoutError(f"the handler did not finish within {limit} seconds") from None
            raise

    def run_to_end(self, steps: Steps) -> Any:
        """Run a lifecycle from another thread, which waits meanwhile."""
        try:
            call = next(steps)
            while True:
                try:
                    result, error = asyncio.run_coroutine_threadsafe(self.attempt(call), self._loop).result()
                except Exception as cancelled:
                    result, error = None, cancelled
                call = steps.send(result) if error is None else steps.throw(as_failure(error))
        except StopIteration as done:
            return done.value
