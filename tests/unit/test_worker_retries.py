"""A failed message comes back later, as often as its budget allows, and then becomes a dead letter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tenacity import retry_if_exception_type, stop_after_attempt, wait_fixed, wait_none

from localqueue import MemoryQueueStore, PersistentQueue, PersistentWorkerConfig
from localqueue.contracts import FakeClock
from localqueue.stores.port import QueueStore
from localqueue.workers import Worker
from tests.unit.effects import RUNS
from tests.unit.worker_steps import STORES, Log, open_store

pytestmark = pytest.mark.by_turns


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueStore]:
    opened = open_store(request.param, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def queue(store: QueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


class Failing:
    """Fails so many times, then succeeds."""

    def __init__(self, times: int = 10**9, error: type[BaseException] = ValueError) -> None:
        self.calls = 0
        self._times = times
        self._error = error

    def __call__(self, value: Any) -> str:
        self.calls += 1
        if self.calls <= self._times:
            raise self._error(f"no {self.calls}")
        return "done"


def test_a_handler_is_tried_three_times_unless_something_else_is_said(queue: PersistentQueue[Any]) -> None:
    handler = Failing()
    queue.put("x")
    counts = Worker(queue, handler, wait=None).run_until_empty()
    assert (handler.calls, counts.released, counts.dead_lettered) == (3, 2, 1)
    (dead,) = queue.dead_letters()
    assert (dead.last_error or {})["message"] == "no 3"


def test_a_message_that_succeeds_after_failures_is_acked(queue: PersistentQueue[Any]) -> None:
    handler, log = Failing(2), Log()
    queue.put("x")
    Worker(queue, handler, wait=None, on_settled=log).run_until_empty()
    assert log.states == ["released", "released", "acked"]
    assert queue.stats().total == 0


def test_between_tries_the_message_is_delayed_in_the_store(tmp_path: Path) -> None:
    clock = FakeClock()
    with MemoryQueueStore(clock=clock) as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        message = queue.put("x")
        worker = Worker(queue, Failing(), wait=wait_fixed(60), max_tries=2)
        worker.run_until_empty()
        found = store.get("jobs", message.id)
        assert found is not None and (found.state, found.available_at) == ("delayed", clock() + 60)
        clock.advance(61)
        worker.run_until_empty()
        assert queue.stats().dead == 1


@pytest.mark.parametrize(
    ("options", "tries"),
    [
        ({"max_tries": 1}, 1),
        ({"max_tries": 5}, 5),
        ({"stop": stop_after_attempt(2)}, 2),
        ({"retry": retry_if_exception_type(OSError)}, 1),
        ({"retry": retry_if_exception_type(ValueError), "max_tries": 4}, 4),
        ({"config": PersistentWorkerConfig(max_tries=4)}, 4),
        ({"config": PersistentWorkerConfig(max_tries=4), "max_tries": 2}, 2),
        ({"config": PersistentWorkerConfig(max_tries=4), "stop": stop_after_attempt(2)}, 2),
    ],
)
def test_the_budget_is_what_was_asked_for(options: dict[str, Any], tries: int) -> None:
    with MemoryQueueStore() as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        queue.put("x")
        handler = Failing()
        Worker(queue, handler, wait=wait_none(), **options).run_until_empty()
        assert (handler.calls, queue.stats().dead) == (tries, 1)


def test_retry_defaults_of_the_queue_count_less_than_the_config_and_that_less_than_overrides() -> None:
    with MemoryQueueStore() as store:
        queue = PersistentQueue[Any]("jobs", store=store, retry_defaults={"max_tries": 5, "wait": wait_none()})
        for config, overrides, tries in [
            (None, {}, 5),
            (PersistentWorkerConfig(max_tries=4), {}, 4),
            (PersistentWorkerConfig(max_tries=4), {"max_tries": 2}, 2),
        ]:
            handler = Failing()
            queue.put("x")
            Worker(queue, handler, config=config, **overrides).run_until_empty()  # type: ignore[arg-type]
            assert handler.calls == tries


@pytest.mark.parametrize(("limit", "max_tries", "tries"), [(2, None, 2), (2, 5, 2), (5, 2, 2), (1, None, 1)])
def test_the_attempt_limit_of_the_queue_and_the_workers_budget_both_hold(
    limit: int, max_tries: int | None, tries: int
) -> None:
    with MemoryQueueStore() as store:
        queue = PersistentQueue[Any]("jobs", store=store, max_attempts=limit)
        queue.put("x")
        handler = Failing()
        budget = {} if max_tries is None else {"max_tries": max_tries}
        Worker(queue, handler, wait=None, **budget).run_until_empty()
        assert (handler.calls, queue.stats().dead) == (tries, 1)


@pytest.mark.parametrize("error", [ImportError, ModuleNotFoundError, NameError])
def test_an_error_that_can_not_go_away_is_not_retried(queue: PersistentQueue[Any], error: type[Exception]) -> None:
    queue.put("x")
    handler = Failing(error=error)
    Worker(queue, handler, wait=None, dead_letter_on_failure=False).run_until_empty()
    assert (handler.calls, queue.stats().dead) == (1, 1)


def test_a_failed_message_is_released_when_it_is_not_to_be_a_dead_letter() -> None:
    clock = FakeClock()
    with MemoryQueueStore(clock=clock) as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        message = queue.put("x")
        handler, log = Failing(), Log()
        config = PersistentWorkerConfig(dead_letter_on_failure=False, release_delay=90, max_tries=1)
        Worker(queue, handler, config=config, on_settled=log).run_until_empty()
        found = store.get("jobs", message.id)
        assert log.states == ["released"]
        assert found is not None and (found.state, found.available_at) == ("delayed", clock() + 90)
        assert (found.last_error or {})["message"] == "no 1"


def test_a_handler_that_exits_fails_its_message_and_not_the_worker(queue: PersistentQueue[Any]) -> None:
    queue.put_many(["x", "y"])
    handler = Failing(1, SystemExit)
    counts = Worker(queue, handler, max_tries=1).run_until_empty()
    assert (counts.dead_lettered, counts.acked) == (1, 1)


def test_tries_go_on_counting_in_another_worker(tmp_path: Path) -> None:
    handler = Failing()

    def work_once() -> int:
        with PersistentQueue[Any]("jobs", store_path=tmp_path / "jobs") as queue:
            worker = Worker(queue, handler, wait=None, on_settled=lambda one: worker.stop())
            worker.run()
            return queue.stats().dead

    with PersistentQueue[Any]("jobs", store_path=tmp_path / "jobs") as queue:
        queue.put("x")
    assert [work_once(), work_once(), work_once()] == [0, 0, 1]
    assert handler.calls == 3


def test_a_requeued_dead_letter_has_a_fresh_budget(queue: PersistentQueue[Any]) -> None:
    handler = Failing()
    queue.put("x")
    worker = Worker(queue, handler, wait=None)
    worker.run_until_empty()
    (dead,) = queue.dead_letters()
    queue.requeue_dead(dead.id)
    worker.run_until_empty()
    assert (handler.calls, queue.stats().dead) == (6, 1)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_message_that_falls_due_while_the_worker_looks_is_waited_for(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    with MemoryQueueStore(clock=clock) as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        queue.put("x", delay=5)
        stats = queue.stats

        def late_stats() -> Any:
            clock.advance(5)
            return stats()

        monkeypatch.setattr(queue, "stats", late_stats)
        assert [one.state for one in run(queue, lambda value: None)] == ["acked"]
