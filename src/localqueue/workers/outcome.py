"""What became of one message in a worker's hands."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from localqueue.message import QueueMessage
from localqueue.stores.port import RecordWrite, Settle
from localqueue.workers.job import FollowUp

State = Literal["acked", "released", "dead-lettered", "skipped", "lost"]


class Call(NamedTuple):
    """Something of the user's to run: the handler, a participant, a compensation."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


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
    committed: Callable[[], Steps] | None = None
    rejected: Callable[[], Steps] | None = None

    @property
    def is_plain(self) -> bool:
        return not (self.records or self.follow_ups)

    def settled(self) -> Settled:
        return Settled(message=self.message, state=self.state, result=self.result, error=self.error)


def drive(steps: Steps) -> Any:
    """Run a lifecycle in this thread."""
    try:
        call = next(steps)
        while True:
            try:
                result = call.function(*call.args, **call.kwargs)
            except (Exception, SystemExit) as error:
                call = steps.throw(error)
            else:
                call = steps.send(result)
    except StopIteration as done:
        return done.value


async def drive_async(steps: Steps) -> Any:
    """Run a lifecycle from an event loop: its own work in threads, the user's coroutines on the loop."""
    import asyncio

    def move(error: BaseException | None, result: Any) -> tuple[Call | None, Any]:
        try:
            return (steps.send(result) if error is None else steps.throw(error)), None
        except StopIteration as done:
            return None, done.value

    call, value = await asyncio.to_thread(move, None, None)
    while call is not None:
        error: BaseException | None = None
        result = None
        try:
            result = call.function(*call.args, **call.kwargs)
            if hasattr(result, "__await__"):
                result = await result
        except (Exception, SystemExit) as raised:
            error = raised
        call, value = await asyncio.to_thread(move, error, result)
    return value
