"""What became of one message in a worker's hands."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import CoroutineType
from typing import Any, Literal, NamedTuple, TypeAlias

from localqueue.errors import JobCancelled, LeaseLost
from localqueue.interrupts import is_cut_off, is_interrupt
from localqueue.message import QueueMessage
from localqueue.stores.port import Changes, RecordWrite, Settle
from localqueue.workers.job import FollowUp

State = Literal["acked", "released", "dead-lettered", "skipped", "lost"]


class Call(NamedTuple):
    """Something of the user's to run: the handler, a participant, a compensation."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


#: The result of a call, or what it raised: a future can not carry everything that a function can raise.
Answer: TypeAlias = tuple[Any, BaseException | None]

#: A lifecycle yields the user's calls and is sent their results, so that one text serves threads and asyncio.
Steps: TypeAlias = Generator[Call, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A message that left the worker's hands. `lost` means the lease ran out first: somebody else has it now.

    `skipped` is a duplicate of work that succeeded earlier; `result` is then the stored one, if results are kept.
    """

    message: QueueMessage[Any]
    state: State
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class Outcome:
    """A settle with all that has to happen in its transaction, and what follows when it did or did not happen."""

    message: QueueMessage[Any]
    state: State
    settle: Settle | None
    result: Any = None
    error: BaseException | None = None
    final: bool = True
    permanent: bool = False
    records: list[RecordWrite] = field(default_factory=list)
    follow_ups: list[FollowUp] = field(default_factory=list)
    more: Callable[[], Changes] | None = None  # makes further changes of the same commit, at each try of it
    wakes: Sequence[str] = ()  # queues in which the commit makes messages ready
    committed: Callable[[], Steps] | None = None
    rejected: Callable[[], Steps] | None = None

    @property
    def is_plain(self) -> bool:
        return not (self.records or self.follow_ups or self.more is not None)

    def become(self, other: Outcome) -> None:
        """Turn into another outcome of the same message; whoever holds this one sees what really happened."""
        for one in fields(self):
            setattr(self, one.name, getattr(other, one.name))

    def settled(self) -> Settled:
        return Settled(message=self.message, state=self.state, result=self.result, error=self.error)


def is_unwanted(outcome: Outcome) -> bool:
    """Whether a handler ended because its result was not wanted any more, which says nothing about the handler."""
    return outcome.state == "lost" and isinstance(outcome.error, JobCancelled | LeaseLost)


class Stray(Exception):
    """Carries what a call raised that means something of its own to generators, tasks and threads: a lifecycle is only
    told that the call failed."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def as_failure(error: BaseException) -> Exception:
    """What a lifecycle is told of an error that a call raised. A wish to end the process is raised again instead."""
    if is_interrupt(error):
        raise error
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return Stray(error)


def cause_of(failure: Exception) -> BaseException:
    """What the call raised."""
    return failure.error if isinstance(failure, Stray) else failure


def drive(steps: Steps) -> Any:
    """Run a lifecycle in this thread."""
    try:
        call = next(steps)
        while True:
            try:
                result = call.function(*call.args, **call.kwargs)
                if type(result) is CoroutineType:
                    raise _not_here(call, result)
            except BaseException as error:
                call = steps.throw(as_failure(error))
            else:
                call = steps.send(result)
    except StopIteration as done:
        return done.value


def _not_here(call: Call, coroutine: Any) -> TypeError:
    coroutine.close()
    named = next((one for one in (*call.args, call.function) if callable(one)), call.function)
    return TypeError(f"{named!r} is a coroutine function; AsyncWorker and persistent_async_worker run those")


async def drive_async(steps: Steps) -> Any:
    """Run a lifecycle from an event loop: coroutine functions on the loop, all else in threads."""
    import asyncio
    import inspect

    def move(failure: Exception | None, result: Any) -> tuple[Call | None, Any]:
        try:
            return (steps.send(result) if failure is None else steps.throw(failure)), None
        except StopIteration as done:
            return None, done.value

    async def perform(call: Call) -> Any:
        if inspect.iscoroutinefunction(call.function):
            return await call.function(*call.args, **call.kwargs)
        result, error = await asyncio.to_thread(attempt, call)
        if error is not None:
            raise as_failure(error)
        return await result if inspect.isawaitable(result) else result

    call, value = await asyncio.to_thread(move, None, None)
    while call is not None:
        failure, result = None, None
        try:
            result = await perform(call)
        except BaseException as error:
            if is_cut_off(error):
                raise
            failure = as_failure(error)
        call, value = await asyncio.to_thread(move, failure, result)
    return value


def attempt(call: Call) -> Answer:
    try:
        return call.function(*call.args, **call.kwargs), None
    except BaseException as error:
        return None, error
