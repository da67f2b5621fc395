"""A flag that one thread or coroutine rests on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Loading asyncio takes longer than the rest of localqueue.
    import asyncio


class Wakeup:
    """A flag for one waiter, a thread or a coroutine. `set` may be called from any thread and from a signal handler,
    which is why it is a bare lock: taken means not set."""

    def __init__(self) -> None:
        self._taken = threading.Lock()
        self._taken.acquire()
        self._future: asyncio.Future[None] | None = None

    def set(self) -> None:
        try:
            self._taken.release()
        except RuntimeError:
            return  # it is set already, and whoever waits has been told
        future = self._future
        if future is not None:
            try:
                future.get_loop().call_soon_threadsafe(_finish, future)
            except RuntimeError:
                return  # that loop is closed: nobody waits on it

    def clear(self) -> None:
        self._taken.acquire(blocking=False)

    def wait(self, seconds: float) -> bool:
        """Whether it was set; that is forgotten then."""
        return self._taken.acquire(timeout=seconds)

    async def wait_async(self, seconds: float) -> bool:
        import asyncio

        self._future = asyncio.get_running_loop().create_future()
        try:
            if self._taken.acquire(blocking=False):
                return True
            await asyncio.wait_for(self._future, seconds)
        except TimeoutError:
            pass
        finally:
            self._future = None
        return self._taken.acquire(blocking=False)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
