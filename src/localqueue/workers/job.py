"""The job a handler is running, for handlers that want more than the value."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Unpack

from localqueue.errors import JobCancelled, QueueError
from localqueue.jobs.progress import Told, checked
from localqueue.message import QueueMessage
from localqueue.stores.port import NewMessage

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue
    from localqueue.queue.drafts import PutOptions
    from localqueue.workers.commits.saga import SagaLog

log = logging.getLogger("localqueue.workers")

_LAST_WORDS = 1.0  # seconds that a process which must end has for its log

_current: ContextVar[Job | None] = ContextVar("localqueue_job", default=None)
_adding = threading.Lock()
_forks = 0  # how often this process and its parents were forked


def leased_at(message: QueueMessage[Any]) -> float:
    """When a message was leased, by the store's clock."""
    return float(message.attempt_history[-1]["at"])


class FollowUp(NamedTuple):
    """A message that is stored together with the ack of the one that led to it."""

    queue: PersistentQueue[Any]
    draft: NewMessage
    item: Any


class Job:
    """One delivery of a message: what a handler can see of it and add to its commit."""

    __slots__ = (
        "_ended", "_forks", "_leased_at", "_lost", "_queue", "_tell", "follow_ups", "message", "saga", "told",
    )  # fmt: skip

    def __init__(
        self,
        queue: PersistentQueue[Any],
        message: QueueMessage[Any],
        leased_at: float,
        tell: Callable[[Job], object] | None = None,
    ) -> None:
        """`leased_at` is when that was by the monotonic clock. `tell` has what the handler tells written."""
        self.message = message
        self.follow_ups: list[FollowUp] = []
        self._queue = queue
        self.saga: SagaLog | None = None
        self._lost = False
        self._ended = False
        self._tell = tell
        self.told: Told | None = None
        self._forks = _forks
        self._leased_at = leased_at

    def end(self, token: Token[Job | None]) -> None:
        """The handler has returned or raised."""
        if self._forks != _forks:
            _leave(self.message, sys.exc_info()[1])
        _current.reset(token)
        with _adding:
            self._ended = True

    def processing(self) -> contextlib.AbstractContextManager[object]:
        """What the handler is called in."""
        return self._queue.desk.processing(self.message)

    @property
    def lost(self) -> bool:
        """Whether the lease ran out: another worker may have the message, and this one's result will be refused."""
        return self._lost

    @property
    def cancelled(self) -> bool:
        """Whether the result is not wanted any more: the message was cancelled, or its lease was lost in another way.

        A handler that runs long looks at it from time to time, and ends. Looking costs nothing: the worker is told.
        """
        return self._lost

    def check_cancelled(self) -> None:
        """Raise `JobCancelled` if the result is not wanted any more. A handler that ends by it has not failed."""
        if self._lost:
            raise JobCancelled(self.message.queue, self.message.id)

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Tell how far the handler has come, from 0 to 1, for `queue.status(message).progress`.

        May be called as often as one likes, and from an event loop: the worker writes the last of what was told, some
        times a second. It is forgotten when the message is settled for good.
        """
        fraction, note = checked(fraction, note)
        told = self._telling()
        told.fraction, told.note = fraction, note
        self._write()

    def log(self, text: str) -> None:
        """Say something about this job, for `queue.status(message).log` and the log of the worker.

        It is written as progress is. The last hundred lines are kept, with the outcome where that is kept.
        """
        self._telling().say(self.now, text)
        log.info("message %s of queue %r: %s", self.message.id, self.message.queue, text)
        self._write()

    def _telling(self) -> Told:
        if self.told is None:
            self.told = Told()
        return self.told

    def _write(self) -> None:
        if self._tell is not None:
            self._tell(self)

    @property
    def ended(self) -> bool:
        """Whether the handler has returned or raised."""
        return self._ended

    @property
    def now(self) -> float:
        """The time by the store's clock: that of the lease, and what has passed since then."""
        return leased_at(self.message) + time.monotonic() - self._leased_at

    def lose(self) -> None:
        self._lost = True

    def begin_try(self) -> None:
        """The handler runs, maybe again: what an earlier try put is not wanted."""
        self.follow_ups.clear()

    def put(self, item: Any, *, to: PersistentQueue[Any] | None = None, **options: Unpack[PutOptions]) -> str:
        """Store a follow-up message in the transaction that acks this one; nothing is stored if the handler fails.

        `to` names another queue of the same store. Returns a name for `after=` of another one: the id that the message
        gets, unless its queue has had a newer one by the time it is stored.
        """
        queue = self._queue if to is None else to
        self._queue.desk.check_shares_store(queue.desk, "pass both the same store=, or use TransactionalOutboxCommit")
        queue.desk.check_stores_itself()
        draft = queue.desk.compose(item, **options)
        with _adding:
            if self._ended:
                raise QueueError(
                    f"the handler of message {self.message.id} has ended, so nothing more can be stored with its ack; "
                    "let it wait for its threads and tasks, or put into the queue itself"
                )
            self.follow_ups.append(FollowUp(queue, draft, item))
        return draft.id

    def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run one step of a saga: once, durably. A redelivered message gets the stored result of a finished step."""
        log = self._saga_log()
        finished, result = log.begin(name)
        if not finished:
            result = function(*args, **kwargs)
            log.finish(name, result)
        return result

    async def step_async(self, name: str, function: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        """`step` for a coroutine function; the store is written in another thread."""
        import asyncio

        log = self._saga_log()
        finished, result = await asyncio.to_thread(log.begin, name)
        if not finished:
            result = await function(*args, **kwargs)
            await asyncio.to_thread(log.finish, name, result)
        return result

    def _saga_log(self) -> SagaLog:
        if self.saga is None:
            raise QueueError(
                f"queue {self._queue.name!r} runs no sagas; "
                "use EffectivelyOnceDelivery(commit_policy=SagaCommit(compensations={...}))"
            )
        return self.saga


def current_job() -> Job:
    """The job this handler is running. Raises outside of a handler."""
    job = _current.get()
    if job is None:
        raise QueueError("no job is running here: current_job() works inside a worker's handler")
    return job


def with_job(job: Job, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a handler as the given job."""
    with job.processing():
        token = _current.set(job)
        try:
            return function(*args, **kwargs)
        finally:
            job.end(token)


async def with_job_async(job: Job, function: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
    with job.processing():
        token = _current.set(job)
        try:
            return await function(*args, **kwargs)
        finally:
            job.end(token)


def _leave(message: QueueMessage[Any], error: BaseException | None) -> NoReturn:
    """End a process that a handler forked and that came back from it: the message and the worker are its parent's."""
    code = 1 if error is not None else 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)

    def say() -> None:
        if not isinstance(error, SystemExit):
            log.error("a process that the handler of message %s forked came back and ends", message.id, exc_info=error)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()

    # A thread of the parent may have been writing when it forked: here that stream is locked for good.
    speaker = threading.Thread(target=say, daemon=True)
    speaker.start()
    speaker.join(_LAST_WORDS)
    os._exit(code)


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)
