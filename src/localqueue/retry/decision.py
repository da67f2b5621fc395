"""What to do after an attempt, decided once for sync and async.

A decision is a generator. It yields what it needs from outside: `Ask` for a strategy or callback of Tenacity,
`Blocking` for the attempt store. `drive` and `drive_async` answer; only they know whether there is an event loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from localqueue.retry.call_state import CallState

T = TypeVar("T")


class Ask(NamedTuple):
    """The answer of a strategy or callback, which may be a coroutine function where there is an event loop."""

    strategy: Callable[..., Any]
    state: CallState

    def perform(self) -> Any:
        answer = self.strategy(self.state)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError(
                f"{self.strategy!r} is a coroutine function: only the asynchronous retryer and worker can wait for it"
            )
        return answer

    async def perform_async(self) -> Any:
        answer = self.strategy(self.state)
        return await answer if inspect.isawaitable(answer) else answer


class Blocking(NamedTuple):
    """Work that may wait for a disk or a lock, and so may not run on an event loop."""

    work: Callable[[], Any]

    def perform(self) -> Any:
        return self.work()

    async def perform_async(self) -> Any:
        import asyncio

        return await asyncio.to_thread(self.work)


Decision = Generator[Ask | Blocking, Any, T]


def drive(decision: Decision[T]) -> T:
    answer = None
    while True:
        try:
            need = decision.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = need.perform()


async def drive_async(decision: Decision[T]) -> T:
    answer = None
    while True:
        try:
            need = decision.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = await need.perform_async()


def worth_retrying(retry: Callable[..., Any], state: CallState) -> Decision[bool]:
    """Whether the outcome is one to try again after; `TryAgain` always is."""
    from tenacity import TryAgain

    outcome = state.outcome
    if outcome is not None and outcome.failed and isinstance(outcome.exception(), TryAgain):
        return True
    return bool((yield Ask(retry, state)))


def used_up(wait: Callable[..., Any], stop: Callable[..., Any], state: CallState) -> Decision[bool]:
    """Whether the budget is used up. The wait comes first, so that `stop` can see how long it would be."""
    state.upcoming_sleep = float((yield Ask(wait, state)))
    return bool((yield Ask(stop, state)))
