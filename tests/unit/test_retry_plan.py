"""A worker asks what to do after a failed attempt, and nothing sleeps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tenacity import (
    RetryCallState,
    TryAgain,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    stop_before_delay,
    wait_fixed,
    wait_incrementing,
)

from localqueue.retry import GiveUp, Retry, is_permanent, next_step, next_step_async
from tests.unit.test_import import modules_loaded_by


class CommandFailed(Exception):
    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code


def step(
    settings: dict[str, Any], *, attempt: int = 1, age: float = 0.0, error: BaseException | None = None
) -> Retry | GiveUp:
    return next_step(
        settings,
        attempt=attempt,
        started_at=1000.0,
        now=1000.0 + age,
        error=ConnectionError() if error is None else error,
    )


def test_by_default_an_error_is_retried_for_ever_with_waits_of_2_to_10_seconds() -> None:
    assert [step({}, attempt=n, age=1e6) for n in (1, 2, 3, 4, 5, 1000)] == [
        Retry(2.0), Retry(2.0), Retry(4.0), Retry(8.0), Retry(10.0), Retry(10.0)
    ]  # fmt: skip


@pytest.mark.parametrize("settings", [{"max_tries": 3}, {"stop": stop_after_attempt(3), "max_tries": None}])
def test_the_last_try_is_given_up(settings: dict[str, Any]) -> None:
    assert [step(settings, attempt=n) for n in (2, 3, 4)] == [Retry(2.0), GiveUp(False), GiveUp(False)]


def test_a_deadline_counts_from_the_first_attempt() -> None:
    assert step({"stop": stop_after_delay(60)}, age=59) == Retry(2.0)
    assert step({"stop": stop_after_delay(60)}, age=60) == GiveUp(False)


def test_a_clock_that_went_back_does_not_stop_anything() -> None:
    assert step({"stop": stop_after_delay(60)}, age=-100) == Retry(2.0)


def test_stop_sees_the_wait_that_would_come() -> None:
    assert step({"stop": stop_before_delay(60), "wait": wait_fixed(30)}, age=20) == Retry(30.0)
    assert step({"stop": stop_before_delay(60), "wait": wait_fixed(30)}, age=40) == GiveUp(False)


@pytest.mark.parametrize(("wait", "delay"), [(wait_incrementing(1, 10), 21.0), (None, 0.0), (0, 0.0)])
def test_the_wait_is_the_delay(wait: Any, delay: float) -> None:
    assert step({"wait": wait}, attempt=3) == Retry(delay)


def test_an_error_that_the_predicate_refuses_is_given_up() -> None:
    settings = {"retry": retry_if_exception_type(ConnectionError)}
    assert step(settings, error=KeyError()) == GiveUp(False)
    assert step(settings, error=ConnectionError()) == Retry(2.0)
    assert step(settings, error=TryAgain()) == Retry(2.0)
    assert step({}, error=KeyboardInterrupt()) == GiveUp(False)


@pytest.mark.parametrize("error", [ImportError(), ModuleNotFoundError(), NameError(), CommandFailed(127)])
def test_a_permanent_error_is_given_up_at_once(error: Exception) -> None:
    assert is_permanent(error)
    assert step({"max_tries": 5}, error=error) == GiveUp(True)


@pytest.mark.parametrize("error", [ValueError(), AttributeError(), CommandFailed(1), CommandFailed(0)])
def test_other_errors_are_not_permanent(error: Exception) -> None:
    assert not is_permanent(error)


def test_settings_that_concern_others_are_ignored() -> None:
    assert step({"key": "k", "before_sleep": None, "reraise": True, "max_tries": 2}) == Retry(2.0)


def test_settings_that_can_not_be_are_refused() -> None:
    with pytest.raises(ValueError, match="pass either max_tries= or stop=, not both"):
        step({"max_tries": 1, "stop": stop_after_attempt(1)})
    with pytest.raises(ValueError, match="max_tries must be a positive integer, not 0"):
        step({"max_tries": 0})


def test_coroutine_strategies_are_for_the_async_step() -> None:
    async def stop(state: RetryCallState) -> bool:
        return state.attempt_number >= 2

    with pytest.raises(TypeError, match="coroutine function"):
        step({"stop": stop})

    async def both() -> list[Retry | GiveUp]:
        error = ConnectionError()
        return [await next_step_async({"stop": stop}, attempt=n, started_at=0, now=0, error=error) for n in (1, 2)]

    assert asyncio.run(both()) == [Retry(2.0), GiveUp(False)]


@pytest.mark.multiprocess
def test_tenacity_is_imported_when_a_decision_needs_it() -> None:
    assert "tenacity" not in modules_loaded_by("import localqueue.retry.plan, localqueue.retry.stores")
    assert "asyncio" not in modules_loaded_by("from localqueue.retry import next_step, SQLiteAttemptStore")
