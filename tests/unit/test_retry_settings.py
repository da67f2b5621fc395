"""Retry settings are plain numbers and classes, or strategies of Tenacity, and what is neither is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tenacity import TryAgain, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_fixed

from localqueue import MemoryQueueStore, PersistentQueue, QueueSpec, Worker
from localqueue.retry import (
    GiveUp,
    MemoryAttemptStore,
    PersistentRetrying,
    Retry,
    RetrySettings,
    next_step,
    retry_settings,
)
from tests.unit.test_import import modules_loaded_by


def delays(attempts: int = 5, **options: Any) -> list[float]:
    settings = retry_settings(**options)
    steps = [step(settings, attempt=number) for number in range(1, attempts + 1)]
    return [one.delay for one in steps if isinstance(one, Retry)]


def step(settings: RetrySettings, attempt: int = 1, error: BaseException | None = None) -> Retry | GiveUp:
    return next_step(
        settings, attempt=attempt, started_at=0, now=0, error=ConnectionError() if error is None else error
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [2, 2, 4, 8, 10]),
        ({"wait": None}, [0, 0, 0, 0, 0]),
        ({"wait": 0, "backoff": 2}, [0, 0, 0, 0, 0]),
        ({"wait": 0.1}, [0.1, 0.1, 0.1, 0.1, 0.1]),
        ({"wait": 1, "backoff": 2}, [1, 2, 4, 8, 16]),
        ({"wait": 1, "backoff": 2, "max_delay": 5}, [1, 2, 4, 5, 5]),
        ({"wait": 1, "backoff": 1000}, [1, 1000, 86_400, 86_400, 86_400]),
        ({"wait": 100_000}, [100_000] * 5),
        ({"max_delay": 5}, [2, 2, 4, 5, 5]),
        ({"max_delay": 30}, [2, 2, 4, 8, 16]),
        ({"backoff": 3}, [2, 3, 9, 10, 10]),
        ({"max_tries": 3, "wait": 1}, [1, 1]),
        ({"wait": wait_fixed(7)}, [7, 7, 7, 7, 7]),
    ],
)
def test_a_wait_is_a_number_of_seconds_that_may_grow(options: dict[str, Any], expected: list[float]) -> None:
    assert delays(**options) == expected


def test_a_wait_that_has_grown_beyond_all_numbers_is_the_longest() -> None:
    assert step(retry_settings(wait=1, backoff=10, max_delay=60), attempt=10**6) == Retry(60.0)


def test_jitter_is_added_at_random_also_to_the_longest_wait() -> None:
    drawn = delays(50, wait=1, backoff=2, max_delay=4, jitter=0.5)[2:]
    assert len(set(drawn)) > 1
    assert all(4 <= delay <= 4.5 for delay in drawn)


@pytest.mark.parametrize("retry", [ConnectionError, (ConnectionError, KeyError), OSError])
def test_errors_of_the_named_classes_are_tried_again(retry: Any) -> None:
    settings = retry_settings(retry=retry, wait=1)
    assert settings.is_plain
    assert step(settings) == Retry(1)
    assert step(settings, error=TryAgain()) == Retry(1)
    assert step(settings, error=ValueError()) == GiveUp(permanent=False)


def test_no_class_is_no_retry() -> None:
    assert step(retry_settings(retry=())) == GiveUp(permanent=False)


def test_plain_settings_and_strategies_go_together() -> None:
    settings = retry_settings(wait=3, retry=ConnectionError, stop=stop_after_attempt(2))
    assert [step(settings, attempt=n) for n in (1, 2)] == [Retry(3), GiveUp(permanent=False)]
    assert step(settings, error=KeyError()) == GiveUp(permanent=False)
    settings = retry_settings(wait=3, max_tries=2, retry=retry_if_exception_type(ConnectionError))
    assert [step(settings, attempt=n) for n in (1, 2)] == [Retry(3), GiveUp(permanent=False)]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"wait": -1}, ValueError, "wait must be 0 or more seconds, not -1"),
        ({"wait": float("nan")}, ValueError, "wait must be finite, got nan"),
        ({"wait": 1e12}, ValueError, "wait can be 100000000000 seconds at most"),
        ({"wait": True}, TypeError, "wait must be a number of seconds, such as 0.5, or .*, not True"),
        ({"wait": timedelta(1)}, TypeError, r"wait must be .*, not datetime.timedelta\(days=1\)"),
        ({"wait": wait_fixed}, TypeError, "wait must be .* such as wait_fixed.2., not the class wait_fixed"),
        ({"wait": wait_fixed(1), "backoff": 2}, ValueError, "takes no backoff; these go with a number of seconds"),
        ({"backoff": 0.5}, ValueError, "backoff must be at least 1 and finite, not 0.5"),
        ({"backoff": "2"}, TypeError, "backoff must be a number .* such as 2, not '2'"),
        ({"jitter": -1}, ValueError, "jitter must be 0 or more seconds, not -1"),
        ({"max_delay": "1h"}, TypeError, "max_delay must be a number of seconds, got '1h'"),
        ({"max_tries": 0}, ValueError, "max_tries must be a positive integer, not 0"),
        ({"max_tries": 2, "stop": stop_after_delay(1)}, ValueError, "pass either max_tries= or stop=, not both"),
        ({"stop": stop_after_delay}, TypeError, "stop must be .* not the class stop_after_delay"),
        ({"retry": int}, TypeError, "retry must be an exception class.* not the class int"),
        ({"retry": (OSError, "KeyError")}, TypeError, "retry must be a tuple of exception classes"),
        ({"retry": [OSError]}, TypeError, r"retry must be an exception class, a tuple of them, .* not \[<class"),
        ({"tries": 2}, TypeError, "unexpected keyword argument 'tries'; did you mean 'max_tries'?"),
        ({"zzz": 2}, TypeError, "unexpected keyword argument 'zzz'; there are backoff, jitter, max_delay"),
    ],
)
def test_what_nobody_could_follow_is_refused(options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        retry_settings(**options)


def test_a_worker_takes_plain_settings_and_keeps_the_error_of_its_handler() -> None:
    def handler(value: Any) -> None:
        raise ConnectionError("down")

    with MemoryQueueStore() as store:
        queue = PersistentQueue[str]("jobs", store=store)
        queue.put("job")
        worker = Worker(queue, handler, wait=0.01, max_tries=2, retry=ConnectionError)
        counts = worker.run_until_empty(wait_for_delayed=True)
        assert (counts.released, counts.dead_lettered) == (1, 1)
        (dead,) = queue.dead_letters()
        assert dead.last_error is not None and dead.last_error["message"] == "down"


def test_a_worker_does_not_retry_what_its_class_does_not_cover() -> None:
    def handler(value: Any) -> None:
        raise ValueError("wrong")

    with MemoryQueueStore() as store:
        queue = QueueSpec("jobs").with_retry(retry=ConnectionError, wait=0).build_queue(store=store)
        queue.put("job")
        assert Worker(queue, handler).run_until_empty().dead_lettered == 1


def test_a_retryer_takes_plain_settings() -> None:
    slept: list[float] = []
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise ConnectionError if len(calls) < 4 else KeyError

    retryer = PersistentRetrying(
        store=MemoryAttemptStore(), key="k", max_tries=9, wait=1, backoff=3, retry=ConnectionError, sleep=slept.append
    )
    with pytest.raises(KeyError):
        retryer(fail)
    assert slept == [1, 3, 9]


def test_a_copy_of_a_retryer_keeps_its_plain_wait() -> None:
    retryer = PersistentRetrying(key="k", wait=1, backoff=3)
    assert retryer.copy(max_delay=2).wait.options() == {"wait": 1, "backoff": 3, "max_delay": 2, "jitter": 0.0}
    strategy = wait_fixed(1)
    assert retryer.copy(wait=strategy).wait is strategy
    assert PersistentRetrying(key="k").copy(key="other").wait == PersistentRetrying(key="k").wait


@pytest.mark.multiprocess
def test_plain_settings_are_decided_without_tenacity() -> None:
    program = (
        "from localqueue import MemoryQueueStore, PersistentQueue, Worker\n"
        "queue = PersistentQueue('jobs', store=MemoryQueueStore())\n"
        "queue.put(0)\n"
        "Worker(queue, lambda n: 1 / n, max_tries=2, wait=0, retry=ArithmeticError).run_until_empty()\n"
        "assert len(queue.dead_letters()) == 1"
    )
    assert "tenacity" not in modules_loaded_by(program)
