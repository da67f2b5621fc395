"""`Tasks`: functions as messages, on a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from localqueue.limits import Limits
from localqueue.retry.options import meant
from localqueue.stores.port import QueueStore
from localqueue.tasks.errors import TaskError
from localqueue.tasks.handle import JobHandle
from localqueue.tasks.home import Home
from localqueue.tasks.options import SendOptions, put_options
from localqueue.tasks.settings import (
    DEFAULT_BACKOFF,
    DEFAULT_MAX_DELAY,
    DEFAULT_RETRIES,
    DEFAULT_RETRY_DELAY,
    Executor,
    RetryOn,
    TaskSettings,
)
from localqueue.tasks.task import Task

if TYPE_CHECKING:
    from localqueue.brokers.port import Broker
    from localqueue.message import QueueMessage
    from localqueue.schedules import Schedule
    from localqueue.tasks.crew import LoopCrew, ThreadCrew
    from localqueue.tasks.worker import TaskWorker, TaskWorkerOptions

P = ParamSpec("P")
R = TypeVar("R")
AnyTask = Task[..., Any, Any]

_AN_HOUR = 3600.0


class Declaration(Protocol):
    """A decorator that makes a task of a function, and keeps what the type checker knows of it."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


class Tasks(Home):
    """The tasks of an application, and the store their jobs live in.

    `store` is an address such as `sqlite:///jobs.db`, an open store, or nothing for the store of this process (what
    `localqueue.configure` or LOCALQUEUE_URL say, else the user's file). It is opened when it is first needed. A broker,
    open or by its address, needs `keep_results=None`, and refuses tasks that it can not serve. `queue`
    is the queue of tasks that name none. `queues` has, by the name of a queue, further arguments of `PersistentQueue`
    and `limits` of all its jobs together. What became of a job is kept for `keep_results` seconds after it ended; None
    keeps nothing. `around` makes a context manager that each try of a job runs in, such as the context of an
    application.
    """

    def __init__(
        self,
        store: str | QueueStore | Broker | None = None,
        *,
        namespace: str | None = None,
        queue: str = "default",
        queues: Mapping[str, Mapping[str, Any]] | None = None,
        keep_results: float | None = _AN_HOUR,
        lease_timeout: float = 30.0,
        around: Callable[[], AbstractContextManager[object]] | None = None,
    ) -> None:
        options = {"keep_results": keep_results, "lease_timeout": lease_timeout}
        super().__init__(store, namespace, queue, queues or {}, options)
        self.refuse_on_broker(
            keep_results is not None, "results", "it has nowhere to keep them; pass keep_results=None"
        )
        self.around = around
        self._tasks: dict[str, AnyTask] = {}
        self._aliases: dict[str, AnyTask] = {}
        self._schedules: list[tuple[AnyTask, Schedule]] = []
        #: For tests: called with the jobs that were just stored, before `enqueue` returns. Those that are part of a
        #: transaction of yours are not stored yet.
        self.on_sent: Callable[[Sequence[JobHandle[Any]]], object] | None = None

    # declaring

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        retries: int = DEFAULT_RETRIES,
        retry_delay: float = DEFAULT_RETRY_DELAY,
        backoff: float = DEFAULT_BACKOFF,
        max_delay: float = DEFAULT_MAX_DELAY,
        jitter: float = 0.0,
        retry_on: RetryOn | None = None,
        timeout: float | None = None,
        executor: Executor | None = None,
        rate: str | None = None,
        concurrency: int | None = None,
        key: Callable[..., str | int] | None = None,
        keep_result: bool = True,
        priority: int = 0,
        ttl: float | None = None,
        aliases: Sequence[str] = (),
        renamed: Mapping[str, str] | None = None,
    ) -> Declaration: ...
    def task(self, *function: Any, **options: Any) -> Any:
        """Make a task of a function: as a decorator, with or without arguments.

        A try that raises something of `retry_on` (any error unless it is given) is made again up to `retries` times,
        after `retry_delay` seconds that grow by the factor `backoff` up to `max_delay`. `timeout` gives up on a try.
        `rate` ("10/s") and `concurrency` limit its jobs wherever they run, for each value of `key`, a function of its
        arguments. `executor` runs it in "threads", "processes" or, a coroutine function, on an event loop. `aliases`
        are names that messages may still have for it, `renamed` maps parameters that had another name.
        """
        declare = self._declaration(**options)
        return declare(*function) if function else declare

    def _declaration(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        rate: str | None = None,
        concurrency: int | None = None,
        key: Callable[..., str | int] | None = None,
        priority: int = 0,
        ttl: float | None = None,
        aliases: Sequence[str] = (),
        renamed: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Callable[[Callable[..., Any]], AnyTask]:
        for unknown in settings.keys() - TaskSettings.__dataclass_fields__:
            known = (*TaskSettings.__dataclass_fields__, *(Tasks._declaration.__kwdefaults__ or ()))
            raise TypeError(f"task() got an unexpected keyword argument {unknown!r}; {meant(unknown, known)}")
        checked = TaskSettings(**settings)
        limits = _limits(rate, concurrency, key)
        self.refuse_on_broker(limits is not None, "rate= and concurrency=", "limits are counted in a store")
        self.refuse_on_broker(ttl is not None, "ttl=", "have the task look at the age of what it is given")
        if priority and self.broker is not None and priority > self.broker.priorities:
            self.refuse_on_broker(True, f"priority={priority}", f"it has priorities 0 to {self.broker.priorities}")
        options: SendOptions = {}
        if priority:
            options["priority"] = priority
        if ttl is not None:
            options["ttl"] = ttl

        def declare(function: Callable[..., Any]) -> AnyTask:
            task: AnyTask = Task(
                self,
                function,
                name=name,
                queue=queue or self._default_queue,
                settings=checked,
                aliases=aliases,
                renamed=renamed,
                limits=limits,
                options=options,
            )
            self._add(task)
            return task

        return declare

    def cron(
        self,
        cron: str,
        *,
        zone: str = "UTC",
        args: Sequence[Any] | Mapping[str, Any] = (),
        name: str | None = None,
        missed: str = "once",
        **task: Any,
    ) -> Declaration:
        """Run a function at the times of a cron expression, once however many workers there are.

        It is a task, with the settings of one, that is called with `args`. `missed` is what becomes of times at which
        no worker ran: "once", "all" or "skip". Workers of this `Tasks` keep the schedule.
        """
        from localqueue.schedules import CronSchedule

        return self._scheduled(CronSchedule, {"cron": cron, "timezone": zone, "missed": missed}, name, args, task)

    def every(
        self,
        seconds: float,
        *,
        args: Sequence[Any] | Mapping[str, Any] = (),
        name: str | None = None,
        missed: str = "once",
        **task: Any,
    ) -> Declaration:
        """Run a function every so many seconds, as `cron` does at times of day."""
        from localqueue.schedules import PeriodicSchedule

        return self._scheduled(PeriodicSchedule, {"every": seconds, "missed": missed}, name, args, task)

    def _scheduled(
        self, kind: Any, settings: dict[str, Any], name: str | None, args: Any, options: dict[str, Any]
    ) -> Declaration:
        kind(name or "schedule", **settings)  # what is wrong with it is said where it is written
        self.refuse_on_broker(True, "schedules", "when one ran last is kept in a store")

        def declare(function: Any) -> AnyTask:
            if isinstance(function, Task) and options:
                raise TaskError(f"{function!r} is a task already; give {', '.join(options)} to its own declaration")
            task: AnyTask = function if isinstance(function, Task) else self.task(**options)(function)
            given = ((), args) if isinstance(args, Mapping) else (tuple(args), {})
            value = task.value_of(task.signature.write(*given))
            self._schedules.append((task, kind(name or task.name, value=value, **settings)))
            return task

        return cast(Declaration, declare)

    def _add(self, task: AnyTask) -> None:
        for name in (task.name, *task.aliases):
            known = self._tasks.get(name) or self._aliases.get(name)
            if known is not None and not _is_again(known, task):
                raise TaskError(f"there is a task {name!r} already, {known.function!r}; give one of them a name=")
        self._tasks[task.name] = task
        self._aliases.update(dict.fromkeys(task.aliases, task))

    # what there is

    @property
    def tasks(self) -> Mapping[str, AnyTask]:
        """The tasks by name."""
        return dict(self._tasks)

    @property
    def known(self) -> Mapping[str, AnyTask]:
        """The tasks by every name that a message may have for them."""
        return {**self._aliases, **self._tasks}

    @property
    def schedules(self) -> Sequence[tuple[AnyTask, Schedule]]:
        """What runs at set times."""
        return tuple(self._schedules)

    @property
    def queues(self) -> list[str]:
        """The names of the queues that tasks are put into, in the order they were declared."""
        return list(dict.fromkeys(task.queue for task in self._tasks.values()))

    def names_in(self, queue: str) -> list[str]:
        """The tasks of a queue, as a person is told of them."""
        return [task.name for task in self._tasks.values() if task.queue == queue]

    def job(self, job_id: str, *, queue: str | None = None) -> JobHandle[Any]:
        """A handle for a job that was enqueued elsewhere, by its id; found in any queue of these tasks."""
        self.require_store()
        names = [queue] if queue is not None else self.queues or [self._default_queue]
        for name in names:
            candidate = self.queue(name)
            if candidate.status(job_id) is not None:
                return JobHandle(job_id, candidate, None)
        if queue is not None or len(names) == 1:
            return JobHandle(job_id, self.queue(names[0]), None)
        raise TaskError(f"no queue of {', '.join(names)} knows a job {job_id!r}; name the queue with queue=")

    def worker(self, **options: Unpack[TaskWorkerOptions]) -> TaskWorker:
        """A worker for all queues of these tasks, and their schedules; see `TaskWorker`."""
        from localqueue.tasks.worker import TaskWorker

        return TaskWorker(self, **options)

    def crew(self, queue: str, executor: Executor, *, concurrency: int, **options: Any) -> ThreadCrew | LoopCrew:
        """The worker of one of the queues, for a `TaskWorker`."""
        from localqueue.tasks.crew import crew_for

        return crew_for(self, queue, executor, concurrency=concurrency, **options)

    # enqueueing

    def send(self, task: AnyTask, calls: Sequence[dict[str, Any]], options: SendOptions) -> list[JobHandle[Any]]:
        """Put calls of a task, all of them or none."""
        queue = self.queue(task.queue)
        put = put_options(options, self.now)
        messages: Sequence[QueueMessage[Any]]
        if len(calls) == 1:
            messages = [queue.put(task.value_of(calls[0]), **put)]
        else:
            messages = queue.put_many([task.value_of(call) for call in calls], **put)
        jobs: list[JobHandle[Any]] = [JobHandle(message.id, queue, task.signature) for message in messages]
        if self.on_sent is not None and put.get("connection") is None:
            self.on_sent(jobs)
        return jobs

    async def send_async(self, task: AnyTask, call: dict[str, Any], options: SendOptions) -> JobHandle[Any]:
        """Put one call of a task without blocking the event loop."""
        from localqueue.aio import AsyncQueue

        queue, put = await asyncio.to_thread(lambda: (self.queue(task.queue), put_options(options, self.now)))
        message = await AsyncQueue(queue).put(task.value_of(call), **put)
        job: JobHandle[Any] = JobHandle(message.id, queue, task.signature)
        if self.on_sent is not None and put.get("connection") is None:
            await asyncio.to_thread(self.on_sent, [job])
        return job

    def __repr__(self) -> str:
        return f"Tasks({', '.join(self._tasks)})"


def _limits(rate: str | None, concurrency: int | None, key: Callable[..., str | int] | None) -> Limits | None:
    if rate is None and concurrency is None:
        if key is not None:
            raise ValueError("key= says what rate= or concurrency= count by; pass one of them too")
        return None
    return Limits(rate=rate, concurrency=concurrency, key=key)


def _is_again(known: AnyTask, task: AnyTask) -> bool:
    """Whether the same function was declared once more, as a notebook or a reload does."""
    one, other = known.function, task.function
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
