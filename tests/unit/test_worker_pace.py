"""How fast a worker may start messages, and when it stops asking for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, PersistentWorkerConfig
from localqueue.contracts import FakeClock
from localqueue.workers import Worker
from localqueue.workers.pace import Pace
from tests.unit.worker_steps import Log, Running, eventually


@pytest.fixture
def queue() -> Iterator[PersistentQueue[Any]]:
    with MemoryQueueStore() as store:
        yield PersistentQueue("jobs", store=store)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1000.0)


def test_messages_start_no_closer_than_the_interval(clock: FakeClock) -> None:
    pace = Pace(PersistentWorkerConfig(min_interval=2.0), clock)
    assert pace.wait() == 0
    assert pace.wait() == 2.0
    clock.advance(1.5)
    assert pace.wait() == 0.5
    clock.advance(0.5)
    assert pace.wait() == 0


def test_the_breaker_opens_after_failures_in_a_row_and_closes_after_its_cooldown(clock: FakeClock) -> None:
    pace = Pace(PersistentWorkerConfig(circuit_breaker_failures=2, circuit_breaker_cooldown=30.0), clock)
    pace.note(failed=True)
    pace.note(failed=False)
    pace.note(failed=True)
    assert (pace.open_for, pace.wait()) == (0, 0)
    pace.note(failed=True)
    assert (pace.open_for, pace.wait()) == (30, 30)
    clock.advance(30)
    assert (pace.open_for, pace.wait()) == (0, 0)
    pace.note(failed=True)
    assert pace.open_for == 0


def test_permanent_failures_do_not_open_the_breaker(clock: FakeClock) -> None:
    pace = Pace(PersistentWorkerConfig(circuit_breaker_failures=2, circuit_breaker_cooldown=30.0), clock)
    for _ in range(5):
        pace.note(failed=True, permanent=True)
    assert pace.open_for == 0


def test_a_worker_with_an_open_breaker_starts_nothing_until_the_cooldown_is_over(
    queue: PersistentQueue[Any],
) -> None:
    queue.put_many(range(5))
    log = Log()

    def handler(value: int) -> None:
        raise ValueError(value)

    options: dict[str, Any] = {"circuit_breaker_failures": 2, "circuit_breaker_cooldown": 3600, "max_tries": 1}
    with Running(Worker(queue, handler, on_settled=log, **options)) as running:
        eventually(lambda: len(log.settled) == 2)
        assert running.worker.pace.open_for > 0
    assert [one.state for one in log.settled if one.error] == ["dead-lettered"] * 2
    assert queue.stats().ready == 3
    assert [message.tries for message in queue.get_messages(3)] == [1, 1, 1]


def test_timeouts_open_the_breaker_though_other_messages_are_given_back(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(4))
    free = threading.Event()
    options: dict[str, Any] = {"circuit_breaker_failures": 2, "circuit_breaker_cooldown": 3600, "max_tries": 1}
    with Running(Worker(queue, lambda value: free.wait(20), timeout=0.05, prefetch=4, **options)) as running:
        eventually(lambda: getattr(running.worker, "pace", None) and running.worker.pace.open_for > 0)
    free.set()
    assert queue.stats().dead == 2


def test_run_until_empty_waits_for_the_breaker_to_close(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(4))
    failures = iter([True, True, False, False])

    def handler(value: int) -> None:
        if next(failures):
            raise ValueError(value)

    options: dict[str, Any] = {"circuit_breaker_failures": 2, "circuit_breaker_cooldown": 0.2, "max_tries": 1}
    counts = Worker(queue, handler, **options).run_until_empty()
    assert (counts.acked, counts.dead_lettered) == (2, 2)


def test_a_worker_stops_though_its_next_message_may_not_start_for_long(queue: PersistentQueue[Any]) -> None:
    queue.put_many(range(3))
    log = Log()
    with Running(Worker(queue, lambda value: None, min_interval=3600, prefetch=2, on_settled=log)):
        eventually(lambda: log.states == ["acked"])
    assert queue.stats().ready == 2
    assert [message.tries for message in queue.get_messages(2)] == [1, 1]
