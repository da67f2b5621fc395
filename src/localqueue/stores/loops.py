"""The stores on event loops: calls that are followed there, and what a store keeps for each loop.

Connections belong to the loop they are read on, and end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from localqueue.stores.arguments import check_calls
from localqueue.stores.port import Changes, Committed, Lease, LeaseRequest, OffLoop, Payload, StoredMessage
from localqueue.stores.steps import Steps

R = TypeVar("R")

#: Is told an answer, or what went wrong instead.
Told = Callable[[Any, BaseException | None], None]

#: Asks the server a question of some steps; what came of it is told by and by.
Ask = Callable[[Any, Told], None]


def follow(steps: Steps[R], ask: Ask, off: OffLoop) -> asyncio.Future[R]:
    """Go through the steps on the event loop that runs, with the longer ways off it.

    There is no task in it: the call ends by itself, whether the future is cancelled or the loop ends its tasks.
    """
    done: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def told(answer: Any, error: BaseException | None) -> None:
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            if not done.done():
                done.set_result(end.value)
        except BaseException as raised:
            if not done.done():
                done.set_exception(raised)
        else:
            if callable(step):
                tell(off(step), told)
            else:
                ask(step, told)

    told(None, None)
    return done


def tell(answer: asyncio.Future[Any], told: Told) -> None:
    """Tell what a future becomes."""

    def ended(answer: asyncio.Future[Any]) -> None:
        error = asyncio.CancelledError() if answer.cancelled() else answer.exception()
        told(answer.result() if error is None else None, error)

    answer.add_done_callback(ended)


class InSteps(Protocol):
    """A store that has its everyday calls in steps."""

    def putting_one(self, queue: str, payload: Payload, codec: str | None) -> Steps[tuple[str, float]]: ...
    def putting_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None
    ) -> Steps[tuple[Sequence[str], float]]: ...
    def leasing(self, request: LeaseRequest) -> Steps[list[StoredMessage]]: ...
    def acking_one(self, queue: str, message_id: str, token: int) -> Steps[bool]: ...
    def renewing(self, leases: Sequence[Lease], timeout: float) -> Steps[list[float | None]]: ...
    def committing(self, changes: Changes) -> Steps[Committed]: ...


class FollowedCalls:
    """The `AsyncCalls` of a store that has them in steps."""

    def __init__(self, store: InSteps, ask: Ask, off: OffLoop) -> None:
        self._store = store
        self._ask = ask
        self._off = off

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> asyncio.Future[tuple[str, float]]:
        return follow(self._store.putting_one(queue, payload, codec), self._ask, self._off)

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None
    ) -> asyncio.Future[tuple[Sequence[str], float]]:
        return follow(self._store.putting_batch(queue, payloads, codec), self._ask, self._off)

    def lease(self, request: LeaseRequest) -> asyncio.Future[list[StoredMessage]]:
        return follow(self._store.leasing(request), self._ask, self._off)

    def ack_one(self, queue: str, message_id: str, token: int) -> asyncio.Future[bool]:
        return follow(self._store.acking_one(queue, message_id, token), self._ask, self._off)

    def renew(self, leases: Sequence[Lease], *, timeout: float) -> asyncio.Future[list[float | None]]:
        return follow(self._store.renewing(leases, timeout), self._ask, self._off)

    def commit(self, changes: Changes) -> asyncio.Future[Committed]:
        return follow(self._store.committing(changes), self._ask, self._off)


check_calls(FollowedCalls)


class Closes(Protocol):
    def close(self, *, at_once: bool = False) -> None:
        """On its loop, or anywhere once that is closed; perhaps twice. At once, no answer is waited for."""

    async def settle(self) -> None:
        """Return when nothing that was begun for it is under way in threads. Nothing is asked any more."""


C = TypeVar("C", bound=Closes)


class Loops(Generic[C]):
    """One `C` for each event loop that asks for it, closed with the loop or with the store."""

    def __init__(self) -> None:
        self._of: dict[asyncio.AbstractEventLoop, tuple[C, AsyncGenerator[None, None]]] = {}

    def get(self, make: Callable[[], C]) -> C | None:
        """That of the loop that runs; None where a loop can not watch sockets."""
        loop = asyncio.get_running_loop()
        found = self._of.get(loop)
        if found is None:
            if type(loop).add_reader is asyncio.AbstractEventLoop.add_reader:
                return None
            self._end_closed()
            end = _until_the_loop_ends(lambda: self._end_with(loop))
            found = self._of[loop] = make(), end
            with suppress(StopIteration):
                end.asend(None).send(None)
        return found[0]

    def _end(self, loop: asyncio.AbstractEventLoop, *, at_once: bool = False) -> None:
        found = self._of.pop(loop, None)
        if found is not None:
            found[0].close(at_once=at_once)

    async def _end_with(self, loop: asyncio.AbstractEventLoop) -> None:
        found = self._of.pop(loop, None)
        if found is not None:
            found[0].close(at_once=True)
            await found[0].settle()

    def _end_closed(self) -> None:
        """Those whose loop was closed without a word."""
        for loop in [loop for loop in list(self._of) if loop.is_closed()]:
            self._end(loop, at_once=True)

    def close(self) -> None:
        """Close all, from any thread; what is under way is ended first."""
        for loop in list(self._of):
            try:
                loop.call_soon_threadsafe(self._end, loop)
            except RuntimeError:  # it is closed
                self._end(loop, at_once=True)

    def abandon(self) -> None:
        """In the child of a fork, where none of these loops runs. Their generators are kept: one that goes would say so
        to its loop, and that one would wake up in the parent."""
        _left_behind.append(self._of)
        self._of = {}


_left_behind: list[Any] = []


async def _until_the_loop_ends(then: Callable[[], Awaitable[None]]) -> AsyncGenerator[None, None]:
    """A loop closes the generators that were begun on it before it ends."""
    try:
        yield
    finally:
        await then()
