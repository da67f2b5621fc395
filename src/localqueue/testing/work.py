"""Work done on the spot: everything that is ready is handled before the call returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from localqueue.queue import PersistentQueue
from localqueue.testing.coroutine import run_to_end
from localqueue.testing.course import Course
from localqueue.testing.lane import WorkerHere
from localqueue.testing.target import is_task, is_tasks, queue_of
from localqueue.workers.async_worker import AsyncWorker
from localqueue.workers.core import is_async
from localqueue.workers.outcome import Settled

if TYPE_CHECKING:
    from localqueue.tasks import Tasks
    from localqueue.testing.target import AnyQueue

Handler = Callable[[Any], Any]

_MOST = 10_000


def drain(
    target: AnyQueue | Tasks,
    handler: Handler | None = None,
    *,
    with_delayed: bool = False,
    with_schedules: bool = False,
    raising: bool = False,
    most: int = _MOST,
    **options: Any,
) -> list[Settled]:
    """Run `handler(value)` for every message of a queue that is ready, or every job of some tasks, until none is left.

    It happens here, in the calling thread. What is put meanwhile is handled too. Returns what became of each message,
    in order: `message`, `state`, `result`, `error`. Messages are settled as a `Worker` does it, which takes the same
    `options`; tasks have their own settings, of which limits of rate, concurrency and time are not kept. One that fails
    is delivered again after its delay, or dead-lettered.

    `with_delayed` moves the store's clock to the next delay whenever nothing is ready, so retries and delayed messages
    are handled as well. `with_schedules` first puts what the schedules of the tasks have due since they were last
    looked at. With `raising` the first failure ends the drain and is raised as it is. After `most` messages it is an
    error: something puts as fast as it is drained. A coroutine function is run on an event loop of its own; in a test
    that has one, `await drain_async(...)`.
    """
    course = Course(with_delayed=with_delayed, raising=raising, most=most)
    if is_tasks(target):
        _require_none(handler, options)
        from localqueue.testing.crew import crews_here, put_due

        if with_schedules:
            put_due(target)
        for crew in course.rounds(crews_here(target, course.note)):
            crew.run_until_empty(signals=False)
    else:
        with _queue_for(target, handler, with_schedules) as (queue, handle):
            called = _awaited(handle)
            for worker in course.rounds([WorkerHere(queue, called, on_settled=course.note, **options)]):
                worker.run_until_empty(signals=False)
    return course.settled


async def drain_async(
    target: AnyQueue | Tasks,
    handler: Handler | None = None,
    *,
    with_delayed: bool = False,
    with_schedules: bool = False,
    raising: bool = False,
    most: int = _MOST,
    **options: Any,
) -> list[Settled]:
    """`drain` on the running event loop, as an `AsyncWorker` does it: one message at a time."""
    course = Course(with_delayed=with_delayed, raising=raising, most=most)
    if is_tasks(target):
        _require_none(handler, options)
        from localqueue.testing.crew import crews_of_loop, put_due

        if with_schedules:
            put_due(target)
        for crew in course.rounds(crews_of_loop(target, course.note)):
            await crew.run_until_empty(signals=False)
    else:
        with _queue_for(target, handler, with_schedules) as (queue, handle):
            workers = [AsyncWorker(queue, handle, **{"concurrency": 1, **options}, on_settled=course.note)]
            for worker in course.rounds(workers):
                await worker.run_until_empty(signals=False)
    return course.settled


@contextmanager
def inline(tasks: Tasks, *, raising: bool = False) -> Iterator[None]:
    """Until the block ends, `enqueue` runs the job in the caller before it returns it, finished.

    Further tries are made at once. A job with a delay, one that waits for others, and one that is part of a transaction
    of yours stays in its queue. Whatever else is ready in the queues of the tasks is run with it. With `raising` a
    failure is raised where the job was enqueued; without, it is what `job.result()` raises.
    """
    from localqueue.testing.crew import HastyCrew, crews_here

    def run(_: object) -> None:
        course = Course(with_delayed=False, raising=raising, most=_MOST)
        for crew in course.rounds(crews_here(tasks, course.note, kind=HastyCrew)):
            crew.run_until_empty(signals=False)

    before, tasks.on_sent = tasks.on_sent, run
    try:
        yield
    finally:
        tasks.on_sent = before


def _require_none(handler: Handler | None, options: dict[str, Any]) -> None:
    if handler is not None:
        raise TypeError(f"tasks are run by their functions, so there is nothing for {handler!r} to handle")
    if options:
        raise TypeError(f"tasks have settings of their own; {', '.join(options)} is for a queue and its handler")


@contextmanager
def _queue_for(
    target: object, handler: Handler | None, with_schedules: bool
) -> Iterator[tuple[PersistentQueue[Any], Handler]]:
    if is_task(target):
        raise TypeError(f"pass the Tasks that {target!r} belongs to: a task shares its queue with others")
    if with_schedules:
        raise TypeError("with_schedules is for tasks; a queue has its own Scheduler(queue).tick()")
    with queue_of(target) as queue:
        if handler is None:
            raise TypeError(f"pass a handler for the messages of queue {queue.name!r}")
        yield queue, handler


def _awaited(handler: Handler) -> Handler:
    if not (callable(handler) and is_async(handler)):
        return handler
    return lambda value: run_to_end(handler(value))
