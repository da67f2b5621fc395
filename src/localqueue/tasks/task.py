"""`Task`: a function whose calls can be enqueued as messages."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from localqueue.limits import Limited, Limits
from localqueue.retry.options import refuse_unknown
from localqueue.tasks.errors import TaskError, TaskRefused
from localqueue.tasks.handle import JobHandle
from localqueue.tasks.limit_key import LimitKey
from localqueue.tasks.options import SendOptions, put_options
from localqueue.tasks.settings import TaskSettings
from localqueue.tasks.signature import TaskSignature

if TYPE_CHECKING:
    from localqueue.tasks.registry import Tasks

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")


class Sender(Generic[P, R]):
    """Puts calls of one task, with the options it was made with."""

    def __init__(self, task: Task[..., Any, R], options: SendOptions) -> None:
        self._task = task
        self._options = options

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have a worker make this call. Arguments are checked here; when this returns, the job is stored."""
        (job,) = self._send([self._task.signature.write(args, kwargs)])
        return job

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """The same as `enqueue`, by the name that others have for it."""
        return self.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """`enqueue` from a coroutine: the store is used off the event loop."""
        return await self._task.tasks.send_async(self._task, self._task.signature.write(args, kwargs), self._options)

    def many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[JobHandle[R]]:
        """Enqueue several calls in one transaction: each is a tuple of arguments, or a mapping of keyword arguments."""
        if self._options.get("dedupe_key") is not None:
            raise ValueError("many() puts several jobs, which can not share one dedupe_key; enqueue them one by one")
        return self._send([self._task.signature.write(*_arguments(call)) for call in calls])

    def follow(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Inside of a job: enqueue in the very commit that acks it, or not at all when it fails. Returns a name for
        `after=` of another one that follows."""
        from localqueue.workers.job import current_job

        value = self._task.value_of(self._task.signature.write(args, kwargs))
        options = put_options(self._options, self._task.tasks.now)
        for name in ("timeout", "connection"):
            if options.pop(name, None) is not None:
                raise ValueError(f"a job that follows another is stored with its ack, so it takes no {name}=")
        return current_job().put(value, to=self._task.tasks.queue(self._task.queue), **options)

    def _send(self, calls: list[dict[str, Any]]) -> list[JobHandle[R]]:
        return self._task.tasks.send(self._task, calls, self._options)


class Task(Sender[P, R], Generic[P, C, R]):
    """A function that can be called as ever, and enqueued: `send(user)` and `send.enqueue(user)`.

    `name` is what messages call it by, so it outlives moves of the function; `aliases` are names it had before.
    """

    def __init__(
        self,
        tasks: Tasks,
        function: Callable[P, C],
        *,
        name: str | None,
        queue: str,
        settings: TaskSettings,
        aliases: Sequence[str] = (),
        renamed: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        options: SendOptions | None = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"a task is a function, not {function!r}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TaskError(f"{function!r} is a generator, which nobody would iterate; return a list instead")
        if isinstance(aliases, str):
            raise TypeError(f"aliases takes a list of names, not the string {aliases!r}")
        super().__init__(self, options or {})
        self.tasks = tasks
        self.function = function
        self.name = name or task_name(function)
        self.queue = queue
        self.settings = settings
        self.aliases = tuple(aliases)
        self.limits = limits
        self.limit_name = f"{queue}/{self.name}"
        self.is_async = inspect.iscoroutinefunction(function)
        if settings.executor == "asyncio" and not self.is_async:
            raise TaskError(f"task {self.name!r} is no coroutine function, so it can not run on an event loop")
        if settings.executor in ("threads", "processes") and self.is_async:
            raise TaskError(
                f"task {self.name!r} is a coroutine function, which runs on an event loop; leave out executor="
            )
        self.signature = TaskSignature(self.name, function, renamed)
        by = None if limits is None else limits.key
        self._limit_key = None if by is None else LimitKey(self.name, by, inspect.signature(function))
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function here and now."""
        return self.function(*args, **kwargs)

    def options(self, **options: Unpack[SendOptions]) -> Sender[P, R]:
        """The same task with options for its jobs: `send.options(delay=60).enqueue(user)`."""
        refuse_unknown(self.options, options, SendOptions.__annotations__)
        return Sender(self, {**self._options, **options})

    def job(self, job_id: str) -> JobHandle[R]:
        """A job of this task that was enqueued elsewhere, by its id."""
        self.tasks.require_store()
        return JobHandle(job_id, self.tasks.queue(self.queue), self.signature)

    def value_of(self, written: dict[str, Any]) -> dict[str, Any]:
        """The value of a message that makes this call."""
        return {"task": self.name, "args": written}

    def limited(self, value: Any) -> Limited | None:
        """The limit that a message of this task is under, by the key that its arguments have."""
        if self.limits is None:
            return None
        if self._limit_key is None:
            return Limited(self.limit_name, self.limits)
        try:
            args, kwargs = self.signature.read(value.get("args"))
        except TaskRefused:  # the runner says what is wrong with it
            return None
        return Limited(self.limit_name, self.limits, self._limit_key.of(args, kwargs))

    def __repr__(self) -> str:
        return f"<Task {self.name} of queue {self.queue!r}>"


def task_name(function: Callable[..., Any]) -> str:
    """What a task is called that was given no name: the function's own, which survives a move to another module."""
    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise TaskError("a lambda has no name to find it by; pass name=, or write a function")
    return name


def _arguments(call: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if isinstance(call, Mapping):
        return (), call
    if isinstance(call, tuple | list):
        return tuple(call), {}
    raise TypeError(
        f"many() takes for each call a tuple of arguments or a mapping of keyword arguments, not {call!r}; "
        f"write ({call!r},)"
    )
