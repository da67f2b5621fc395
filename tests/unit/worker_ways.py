"""All ways to have a handler called with the messages of a queue, until there are none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from localqueue import PersistentQueue, persistent_async_worker, persistent_worker
from localqueue.contracts.steps import PATIENCE
from localqueue.workers import AsyncWorker, Worker

Handler = Callable[[Any], Any]


def on_loop(handler: Handler) -> Any:
    async def handle(value: Any) -> Any:
        await asyncio.sleep(0)
        return handler(value)

    return handle


def in_time(work: Any) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await work

    return asyncio.run(main())


def in_threads(queue: PersistentQueue[Any], handler: Handler, **options: Any) -> None:
    Worker(queue, handler, **{"concurrency": 2, "prefetch": 2, **options}).run_until_empty()


def in_tasks(queue: PersistentQueue[Any], handler: Handler, **options: Any) -> None:
    in_time(AsyncWorker(queue, on_loop(handler), **{"concurrency": 2, **options}).run_until_empty())


def in_threads_of_a_loop(queue: PersistentQueue[Any], handler: Handler, **options: Any) -> None:
    in_time(AsyncWorker(queue, handler, **{"concurrency": 2, **options}).run_until_empty())


def one_by_one(queue: PersistentQueue[Any], handler: Handler, **options: Any) -> None:
    handle = persistent_worker(queue, **options)(lambda value: handler(value))
    while queue.qsize():
        with contextlib.suppress(BaseException):
            handle()


def one_by_one_on_a_loop(queue: PersistentQueue[Any], handler: Handler, **options: Any) -> None:
    handle = persistent_async_worker(queue, **options)(on_loop(handler))

    async def main() -> None:
        while queue.qsize():
            with contextlib.suppress(BaseException):
                await handle()
            assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

    in_time(main())


WAYS = {way.__name__: way for way in (in_threads, in_tasks, in_threads_of_a_loop, one_by_one, one_by_one_on_a_loop)}
