"""Waiting at a store without a thread: a registration there, and a bell here that it rings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self

from localqueue.aio.threads import call, outlast
from localqueue.stores.port import BellWaiter, Waiter

_LOOK_AGAIN = 0.05  # seconds, at a waiter that rings no bell


class Bell:
    """A flag of one loop. `set_from_thread` may be called from anywhere, everything else on the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] = self._loop.create_future()

    @property
    def rung(self) -> bool:
        return self._rung.done()

    def set(self) -> None:
        if not self._rung.done():
            self._rung.set_result(None)

    def set_from_thread(self) -> None:
        if not self._rung.done():
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self.set)

    def clear(self) -> None:
        if self._rung.done():
            self._rung = self._loop.create_future()

    async def wait(self, seconds: float | None) -> None:
        await asyncio.wait((self._rung,), timeout=seconds)


class Watch:
    """Rests between attempts at something that may have to be waited for at a store.

    The order is: clear the bell, try, rest. What happens after the attempt rings the bell or shows in the look with
    which each rest begins, so nothing falls in between. `listen` is called by the first rest.
    """

    def __init__(self, threads: ThreadPoolExecutor, listen: Callable[[], Waiter]) -> None:
        self.bell = Bell()
        self._threads = threads
        self._listen = listen
        self._waiter: Waiter | None = None
        self._look: Callable[[], tuple[bool, float]]

    async def rest(self, seconds: float | None = None) -> None:
        """Until it is time for another attempt: the store says so, somebody rings, or the seconds have passed."""
        if self._waiter is None:
            opening = call(self._threads, self._open)
            cancelled = await outlast(opening)
            self._waiter = opening.result()
            if cancelled is not None:
                raise cancelled
        if self.bell.rung:
            return
        found, at_most = await call(self._threads, self._look)
        if not found:
            await self.bell.wait(at_most if seconds is None else max(min(at_most, seconds), 0.0))

    def _open(self) -> Waiter:
        waiter = self._listen()
        if isinstance(waiter, BellWaiter):
            waiter.ring(self.bell.set_from_thread)
            self._look = waiter.look
        else:
            self._look = lambda: (waiter.heard(0), _LOOK_AGAIN)
        return waiter

    def close(self) -> None:
        """Stop listening; that is done in a thread and not waited for."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            with suppress(RuntimeError):  # the interpreter ends
                self._threads.submit(waiter.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
