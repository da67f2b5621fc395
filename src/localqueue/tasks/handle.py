"""`JobHandle`: what a producer holds of a job it has enqueued."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from localqueue.errors import JobFailed

if TYPE_CHECKING:
    from localqueue.jobs import JobStatus
    from localqueue.queue import PersistentQueue
    from localqueue.tasks.signature import TaskSignature

R = TypeVar("R")


class JobHandle(Generic[R]):
    """A job by its id: its status, its result, and a way to call it off. It is as good in another process."""

    __slots__ = ("_queue", "_signature", "id")

    def __init__(self, message_id: str, queue: PersistentQueue[Any], signature: TaskSignature | None) -> None:
        self.id = message_id
        self._queue = queue
        self._signature = signature

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self._queue.name

    def status(self) -> JobStatus | None:
        """What is known of the job; None when it is done and nothing was kept."""
        return self._queue.status(self.id)

    def result(self, timeout: float | None = None) -> R:
        """Wait for the job and return what the task returned, or raise what it raised, with its traceback as a note."""
        try:
            return self._read(self._queue.result(self.id, timeout=timeout))
        except JobFailed as failure:
            raise_as_in_worker(failure)

    async def result_async(self, timeout: float | None = None) -> R:
        """The same for coroutines; `await job` waits without a limit."""
        from localqueue.aio import AsyncQueue

        try:
            return self._read(await AsyncQueue(self._queue).result(self.id, timeout=timeout))
        except JobFailed as failure:
            raise_as_in_worker(failure)

    def __await__(self) -> Generator[Any, Any, R]:
        return self.result_async().__await__()

    def cancel(self) -> bool:
        """Call the job off; False when it has ended. One that runs is told by `current_job().cancelled`."""
        return self._queue.cancel(self.id)

    def _read(self, written: Any) -> R:
        return written if self._signature is None else self._signature.read_result(written)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<JobHandle {self.id} of queue {self.queue!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


def raise_as_in_worker(failure: JobFailed) -> NoReturn:
    """Raise the exception of the task, where its class is loaded here and can be made of its text; else the failure.

    Nothing is imported for it: what a message names must not decide what code runs.
    """
    error = failure.error
    kind = _class_of(str(error.get("module")), str(error.get("type")))
    try:
        made = None if kind is None else kind(error.get("message"))
    except Exception:  # a constructor that wants something else
        made = None
    if made is None:
        raise failure
    if failure.traceback:
        made.add_note(f"\nin the worker:\n{failure.traceback}")
    raise made from failure


def _class_of(module: str, name: str) -> type[Exception] | None:
    home = builtins if module == "builtins" else sys.modules.get(module)
    kind = getattr(home, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None
