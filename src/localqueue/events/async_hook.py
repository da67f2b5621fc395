"""Hooks that are `async def`, for queues that are used from any thread."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from localqueue.events.event import Event

if TYPE_CHECKING:
    # Loading asyncio takes longer than the rest of localqueue, and few queues need it.
    import asyncio


class AsyncHook:
    """Runs an `async def` hook as a task of an event loop; the queue never waits for it.

    Without `loop` it is the loop that runs where the hook is made, or else the one that runs where an event happens.
    A task that fails or is cancelled is logged. `await flush()` before the loop ends, so that no event is left behind.
    """

    def __init__(
        self, hook: Callable[[Event], Awaitable[object]], loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._hook = hook
        self._loop = loop if loop is not None else _running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, event: Event) -> None:
        loop = self._loop or _running_loop()
        if loop is None:
            raise RuntimeError(f"no event loop runs here for {self!r}; use AsyncHook(hook, loop=loop)")
        loop.call_soon_threadsafe(self._start, loop, event)

    def _start(self, loop: asyncio.AbstractEventLoop, event: Event) -> None:
        task = loop.create_task(self._run(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, event: Event) -> None:
        try:
            await self._hook(event)
        except Exception as error:
            log_failure(self._hook, event, error)
        except BaseException as error:  # cancelled: the loop ends before the hook does
            log_failure(self._hook, event, error)
            raise

    async def flush(self) -> None:
        """Wait until the hook has run for every event that happened so far; call it in the hook's loop."""
        import asyncio

        await asyncio.sleep(0)
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def __repr__(self) -> str:
        return f"AsyncHook({self._hook!r})"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    if "asyncio" not in sys.modules:  # then no loop of it runs
        return None
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def log_failure(hook: object, event: Event, error: BaseException) -> None:
    import logging

    logging.getLogger("localqueue.events").error(
        "hook %r failed for %s of message %s in queue %r",
        hook, event.type, event.message_id, event.queue, exc_info=error,
    )  # fmt: skip
