"""What a worker does after a failed attempt, without sleeping: when to try again, or to give up.

Importing this module does not import Tenacity.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from localqueue._dataclass import dataclass
from localqueue.interrupts import is_interrupt
from localqueue.retry.decision import Decision, drive, drive_async, used_up, worth_retrying
from localqueue.retry.settings import RetrySettings, Wait, settings_of
from localqueue.stores.kept_error import attribute_of

if TYPE_CHECKING:
    from localqueue.retry.call_state import CallState

NOT_FOUND = 127  # the exit code of a shell that knows no such command


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
    return error is not None and _is_any_failure(error)


def next_step(
    settings: RetrySettings | Mapping[str, Any],
    *,
    attempt: int,
    started_at: float,
    now: float,
    error: BaseException,
) -> Retry | GiveUp:
    """Decide about a failed attempt by settings, or the options that make them; other options are not looked at.

    `attempt` counts from 1 and `started_at` is the wall-clock time of the first attempt. Permanent errors and those
    that `retry` refuses are given up at once; without `stop` and `max_tries` the rest is retried for ever.
    """
    return drive(_judge(settings, attempt, started_at, now, error))


async def next_step_async(
    settings: RetrySettings | Mapping[str, Any],
    *,
    attempt: int,
    started_at: float,
    now: float,
    error: BaseException,
) -> Retry | GiveUp:
    """`next_step` for strategies that may be coroutine functions."""
    return await drive_async(_judge(settings, attempt, started_at, now, error))


def strategies(settings: RetrySettings) -> Strategies:
    """The same settings in Tenacity's terms."""
    from tenacity import retry_if_exception_type, stop_after_attempt, stop_never

    retry, stop = settings.retry, settings.stop
    if settings.max_tries is not None:
        stop = stop_after_attempt(settings.max_tries)
    if not callable(retry):
        retry = retry_if_exception_type() if retry is None else retry_if_exception_type(retry)
    return Strategies(retry=retry, stop=stop_never if stop is None else stop, wait=settings.wait)


def _judge(
    given: RetrySettings | Mapping[str, Any], attempt: int, started_at: float, now: float, error: BaseException
) -> Decision[Retry | GiveUp]:
    if is_permanent(error):
        return GiveUp(permanent=True)
    settings = given if isinstance(given, RetrySettings) else settings_of(given)
    if settings.is_plain:
        return _plain_step(settings, attempt, error)
    retry, stop, wait = strategies(settings)
    if settings.retry is None:
        retry = any_failure
    state = _failed(attempt, started_at, now, error)
    if not (yield from worth_retrying(retry, state)) or (yield from used_up(wait, stop, state)):
        return GiveUp(permanent=False)
    return Retry(state.upcoming_sleep)


def _plain_step(settings: RetrySettings, attempt: int, error: BaseException) -> Retry | GiveUp:
    kinds, wait = settings.retry, settings.wait
    assert not callable(kinds) and isinstance(wait, Wait)
    covered = _is_any_failure(error) if kinds is None else isinstance(error, kinds)
    if not (covered or _asks_to_try_again(error)) or (settings.max_tries is not None and attempt >= settings.max_tries):
        return GiveUp(permanent=False)
    return Retry(wait.after(attempt))


def _is_any_failure(error: BaseException) -> bool:
    return not isinstance(error, SystemExit) and not is_interrupt(error)


def _asks_to_try_again(error: BaseException) -> bool:
    """Whether it is Tenacity's `TryAgain`, of which there is none as long as nobody has imported Tenacity."""
    tenacity = sys.modules.get("tenacity")
    return tenacity is not None and isinstance(error, tenacity.TryAgain)


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
