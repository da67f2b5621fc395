"""The job a handler is running, for handlers that want more than the value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from localqueue.errors import QueueError
from localqueue.message import QueueMessage
from localqueue.stores.port import NewMessage

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue
    from localqueue.queue.drafts import PutOptions
    from localqueue.workers.commits.saga import SagaLog

_current: ContextVar[Job | None] = ContextVar("localqueue_job", default=None)


class FollowUp(NamedTuple):
    """A message that is stored together with the ack of the one that led to it."""

    queue: PersistentQueue[Any]
    draft: NewMessage
    item: Any


class Job:
    """One delivery of a message: what a handler can see of it and add to its commit."""

    __slots__ = ("_lost", "_queue", "follow_ups", "message", "saga")

    def __init__(self, queue: PersistentQueue[Any], message: QueueMessage[Any]) -> None:
        self.message = message
        self.follow_ups: list[FollowUp] = []
        self._queue = queue
        self.saga: SagaLog | None = None
        self._lost = False

    @property
    def lost(self) -> bool:
        """Whether the lease ran out: another worker may have the message, and this one's result will be refused."""
        return self._lost

    def lose(self) -> None:
        self._lost = True

    def begin_try(self) -> None:
        """The handler runs, maybe again: what an earlier try put is not wanted."""
        self.follow_ups.clear()

    def put(self, item: Any, *, to: PersistentQueue[Any] | None = None, **options: Unpack[PutOptions]) -> str:
        """Store a follow-up message in the transaction that acks this one; nothing is stored if the handler fails.

        `to` names another queue of the same store. Returns the id the message will have, for `after=` of another one.
        """
        queue = self._queue if to is None else to
        self._queue.desk.check_shares_store(queue.desk, "pass both the same store=, or use TransactionalOutboxCommit")
        queue.desk.check_stores_itself()
        draft = queue.desk.draft(item, **options)
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
    token = _current.set(job)
    try:
        return function(*args, **kwargs)
    finally:
        _current.reset(token)


async def with_job_async(job: Job, function: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
    token = _current.set(job)
    try:
        return await function(*args, **kwargs)
    finally:
        _current.reset(token)
