"""Tasks and queues in an application of Starlette or FastAPI: opened, closed, worked for and handed out with it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeAlias, TypeVar

from starlette.requests import HTTPConnection

from localqueue.aio import AsyncQueue
from localqueue.tasks import TaskError, Tasks

__all__ = ["get_queue", "get_tasks", "lifespan", "queue_named"]

log = logging.getLogger("localqueue.tasks")

T = TypeVar("T")
Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]
Source: TypeAlias = Tasks | AsyncQueue[Any] | Callable[[], AsyncQueue[Any]]


def lifespan(source: Source, *, worker: bool = False, inner: Lifespan | None = None, **options: Any) -> Lifespan:
    """A lifespan for `FastAPI(lifespan=...)` or `Starlette(lifespan=...)`.

    It opens `source` when the application starts, so that a store that can not be reached is known then, and closes it
    at the end. That is a `Tasks`, an `AsyncQueue`, or a function that makes an `AsyncQueue`, for applications that are
    started more than once. With `worker` a worker of the tasks runs in threads beside the application, with the
    `options` of `Tasks.worker`; at the end it lets running jobs finish. `inner` is another lifespan, which begins after
    the store is open and before the worker, and ends in the opposite order.
    """
    if options and not worker:
        raise TypeError(f"{', '.join(options)} are options of a worker; pass worker=True too")
    if worker and not isinstance(source, Tasks):
        raise TypeError(f"worker=True runs the jobs of a Tasks, not of {source!r}; give a queue a Worker of its own")

    @asynccontextmanager
    async def living(app: Any) -> AsyncIterator[Mapping[str, Any] | None]:
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(_opened(source))
            stack.enter_context(_held_by(app, opened))
            state = None if inner is None else await stack.enter_async_context(inner(app))
            if worker and isinstance(opened, Tasks):
                await stack.enter_async_context(_worked_for(opened, options))
            yield state

    return living


def get_tasks(connection: HTTPConnection) -> Tasks:
    """The `Tasks` of the application: `Depends(get_tasks)`, or called with a request."""
    return _only([one for one in _held(connection.app) if isinstance(one, Tasks)], "Tasks")


def get_queue(connection: HTTPConnection) -> AsyncQueue[Any]:
    """The `AsyncQueue` of the application that has one: `Depends(get_queue)`, or called with a request."""
    return _only([one for one in _held(connection.app) if isinstance(one, AsyncQueue)], "AsyncQueue")


def queue_named(name: str) -> Callable[[HTTPConnection], AsyncQueue[Any]]:
    """The same for one of several: `Depends(queue_named("mails"))`."""

    def get(connection: HTTPConnection) -> AsyncQueue[Any]:
        held = [one for one in _held(connection.app) if isinstance(one, AsyncQueue) and one.name == name]
        return _only(held, f"AsyncQueue named {name!r}")

    return get


@asynccontextmanager
async def _opened(source: Source) -> AsyncIterator[Tasks | AsyncQueue[Any]]:
    if isinstance(source, Tasks):
        await asyncio.to_thread(lambda: source.store)
        try:
            yield source
        finally:
            await asyncio.to_thread(source.close)
        return
    made = source if isinstance(source, AsyncQueue) else await asyncio.to_thread(source)
    async with made as queue:
        await asyncio.to_thread(lambda: queue.queue.store)
        yield queue


@contextmanager
def _held_by(app: Any, one: Tasks | AsyncQueue[Any]) -> Iterator[None]:
    """Have the application hold it while it lives, for those who ask."""
    held = _held(app)
    held.append(one)
    try:
        yield
    finally:
        held.remove(one)


def _held(app: Any) -> list[Tasks | AsyncQueue[Any]]:
    if not hasattr(app.state, "localqueue"):
        app.state.localqueue = []
    held: list[Tasks | AsyncQueue[Any]] = app.state.localqueue
    return held


def _only(found: list[T], what: str) -> T:
    if len(found) != 1:
        raise TaskError(
            f"the application has {len(found) or 'no'} {what} open; give it FastAPI(lifespan=lifespan(...)), and name "
            "one of several queues with queue_named()"
        )
    return found[0]


@asynccontextmanager
async def _worked_for(tasks: Tasks, options: Mapping[str, Any]) -> AsyncIterator[None]:
    worker = tasks.worker(**options)
    apart = [name for name, executor in worker.executors.items() if executor == "processes"]
    if apart:
        raise TaskError(
            f"queue {apart[0]!r} has tasks that run in processes, which are not started beside an application; name "
            "the other queues with queues=, and run `localqueue work` for this one"
        )

    def run() -> None:
        try:
            worker.run(signals=False)
        except BaseException:
            log.exception("the worker beside the application has ended")

    thread = threading.Thread(target=run, name="localqueue-worker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        await asyncio.to_thread(thread.join)
