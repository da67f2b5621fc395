"""What a worker does after a failed attempt, without sleeping: when to try again, or to give up.

Importing this module does not import Tenacity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from localqueue.interrupts import is_interrupt
from localqueue.retry.decision import Decision, drive, drive_async, used_up, worth_retrying
from localqueue.stores.kept_error import attribute_of

if TYPE_CHECKING:
    from localqueue.retry.call_state import CallState

NOT_FOUND = 127  # the exit code of a shell that knows no such command

_UNSET = object()


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again in `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again: the budget is used up, or the error is not one to retry.

    `permanent` says that no later attempt could succeed either, see `is_permanent`.
    """

    permanent: bool


class Strategies(NamedTuple):
    retry: Callable[..., Any]
    stop: Callable[..., Any]
    wait: Callable[..., Any]


def is_permanent(error: BaseException) -> bool:
    """Whether the code or the command is missing: ImportError, NameError, or an `exit_code` of 127."""
    return isinstance(error, ImportError | NameError) or attribute_of(error, "exit_code") == NOT_FOUND


def any_failure(state: CallState) -> bool:
    """What workers retry unless they are told otherwise: whatever a handler raises, but not its `SystemExit`."""
    error = None if state.outcome is None else state.outcome.exception()
    return error is not None and not isinstance(error, SystemExit) and not is_interrupt(error)


def next_step(
    retry_kwargs: Mapping[str, Any], *, attempt: int, started_at: float, now: float, error: BaseException
) -> Retry | GiveUp:
    """Decide about a failed attempt by the `retry`, `stop` or `max_tries`, and `wait` of `retry_kwargs`.

    `attempt` counts from 1 and `started_at` is the wall-clock time of the first attempt. Permanent errors and those
    that the retry predicate refuses are given up at once; without `stop` and `max_tries` the rest is retried for ever.
    """
    return drive(_judge(retry_kwargs, attempt, started_at, now, error))


async def next_step_async(
    retry_kwargs: Mapping[str, Any], *, attempt: int, started_at: float, now: float, error: BaseException
) -> Retry | GiveUp:
    """`next_step` for strategies that may be coroutine functions."""
    return await drive_async(_judge(retry_kwargs, attempt, started_at, now, error))


def strategies(retry_kwargs: Mapping[str, Any]) -> Strategies:
    """The strategies that retry settings name, with the defaults for those they leave out."""
    from tenacity import retry_if_exception_type, stop_after_attempt, stop_never, wait_exponential, wait_none

    max_tries, stop = retry_kwargs.get("max_tries"), retry_kwargs.get("stop")
    if max_tries is not None:
        if stop is not None:
            raise ValueError("pass either max_tries= or stop=, not both")
        if isinstance(max_tries, bool) or not isinstance(max_tries, int) or max_tries <= 0:
            raise ValueError(f"max_tries must be a positive integer, not {max_tries!r}")
        stop = stop_after_attempt(max_tries)
    wait = retry_kwargs.get("wait", _UNSET)
    if wait is _UNSET:
        wait = wait_exponential(multiplier=1, min=2, max=10)
    elif wait is None or wait == 0:
        wait = wait_none()
    retry = retry_kwargs.get("retry")
    return Strategies(
        retry=retry_if_exception_type() if retry is None else retry,
        stop=stop_never if stop is None else stop,
        wait=wait,
    )


def _judge(
    retry_kwargs: Mapping[str, Any], attempt: int, started_at: float, now: float, error: BaseException
) -> Decision[Retry | GiveUp]:
    if is_permanent(error):
        return GiveUp(permanent=True)
    retry, stop, wait = strategies(retry_kwargs)
    if retry_kwargs.get("retry") is None:
        retry = any_failure
    state = _failed(attempt, started_at, now, error)
    if not (yield from worth_retrying(retry, state)) or (yield from used_up(wait, stop, state)):
        return GiveUp(permanent=False)
    return Retry(state.upcoming_sleep)


def _failed(attempt: int, started_at: float, now: float, error: BaseException) -> CallState:
    from localqueue.retry.call_state import CallState

    state = CallState(_nobody(), None, (), {})
    state.attempt_number = attempt
    state.start_time = started_at
    state.set_exception((type(error), error, error.__traceback__))
    state.outcome_timestamp = now
    return state


@cache
def _nobody() -> Any:
    """Whom a strategy finds as `retry_object` when nobody sleeps and calls again."""
    from tenacity import Retrying

    return Retrying()
