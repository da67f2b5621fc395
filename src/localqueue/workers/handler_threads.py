"""Threads for the handlers of an `AsyncWorker` that are not coroutine functions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

from localqueue.workers.outcome import Answer, as_failure


class _Work(NamedTuple):
    function: Callable[[], Any]
    future: asyncio.Future[Answer]


class HandlerThreads:
    """As many daemon threads as are needed at a time: one that is left behind keeps no place from the next call,
    and does not keep the process from ending. For one event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[SimpleQueue[_Work | None]] = []
        self._lock = threading.Lock()
        self._closed = False

    async def run(self, function: Callable[[], Any]) -> Any:
        work = _Work(function, asyncio.get_running_loop().create_future())
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name=self._name, daemon=True).start()
        inbox.put(work)
        result, error = await work.future
        if error is not None:
            raise as_failure(error)
        return result

    def close(self) -> None:
        """Have idle threads end now and the others when they are done."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)

    def _serve(self, inbox: SimpleQueue[_Work | None]) -> None:
        while (work := inbox.get()) is not None:
            result, error = None, None
            try:
                result = work.function()
            except BaseException as raised:
                error = raised
            with self._lock:
                closed = self._closed
                if not closed:
                    self._idle.append(inbox)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                work.future.get_loop().call_soon_threadsafe(_deliver, work.future, result, error)
            if closed:
                return
            del work, result, error


def _deliver(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if not future.done():
        future.set_result((result, error))
