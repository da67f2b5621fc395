"""A handler that takes too long is left behind: its message fails, and another thread takes over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.contracts.steps import PATIENCE
from localqueue.message import QueueMessage
from localqueue.workers import Worker, current_job
from tests.unit.worker_steps import Log, Running, eventually


@pytest.fixture
def queue() -> Iterator[PersistentQueue[Any]]:
    with MemoryQueueStore() as store:
        yield PersistentQueue("jobs", store=store)


class OfStuck(Worker):
    """Only handlers of the value "stuck" have their time: on a busy machine others may take long as well."""

    def timeout_for(self, message: QueueMessage[Any]) -> float | None:
        return self.timeout if message.value == "stuck" else None


class Stuck:
    """Hangs on the value "stuck" until it is freed."""

    def __init__(self) -> None:
        self.hangs, self.free = threading.Event(), threading.Event()
        self.lost: list[bool] = []
        self.ended = threading.Semaphore(0)

    def __call__(self, value: str) -> str:
        if value == "stuck":
            self.hangs.set()
            assert self.free.wait(PATIENCE)
            self.lost.append(current_job().lost)
            self.ended.release()
        return value


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_handler_that_hangs_fails_its_message_and_the_others_go_on(
    queue: PersistentQueue[Any], concurrency: int
) -> None:
    queue.put_many(["stuck", "a", "b"])
    handler, log = Stuck(), Log()
    worker = OfStuck(queue, handler, concurrency=concurrency, timeout=0.1, max_tries=1, prefetch=3, on_settled=log)
    with Running(worker):
        eventually(lambda: queue.stats().total == 1)
        (dead,) = queue.dead_letters()
        assert (dead.value, (dead.last_error or {})["type"]) == ("stuck", "TimeoutError")
        handler.free.set()
        assert handler.ended.acquire(timeout=PATIENCE)
        queue.put("c")
        eventually(lambda: queue.stats().total == 1)
    assert handler.lost == [True]
    assert sorted((one.message.value, one.state) for one in log.settled if one.state != "released") == [
        ("a", "acked"), ("b", "acked"), ("c", "acked"), ("stuck", "dead-lettered"),
    ]  # fmt: skip


def test_messages_behind_a_handler_that_hangs_are_given_back_without_costing_a_try(
    queue: PersistentQueue[Any],
) -> None:
    queue.put_many(["stuck", "a"])
    handler, log = Stuck(), Log()
    worker = OfStuck(queue, handler, timeout=0.1, max_tries=1, prefetch=2, on_settled=log)
    worker.run_until_empty()
    handler.free.set()
    (acked,) = [one for one in log.settled if one.state == "acked"]
    assert (acked.message.value, acked.message.tries) == ("a", 1)


def test_a_message_whose_handler_hangs_each_time_uses_up_its_budget(queue: PersistentQueue[Any]) -> None:
    queue.put("stuck")
    handler = Stuck()
    counts = Worker(queue, handler, concurrency=2, timeout=0.05, max_tries=3, wait=None).run_until_empty()
    handler.free.set()
    assert (counts.released, counts.dead_lettered) == (2, 1)
    for _ in range(3):
        assert handler.ended.acquire(timeout=PATIENCE)
    assert handler.lost == [True] * 3


def test_a_handler_that_ends_just_when_its_time_is_up_is_settled_once_and_the_worker_goes_on(
    queue: PersistentQueue[Any],
) -> None:
    """Whoever wins the race: no thread is lost, no message stays leased."""
    log = Log()
    pause = threading.Event()
    worker = Worker(
        queue, lambda value: pause.wait(0.02), timeout=0.02, max_tries=1, prefetch=2, concurrency=2, on_settled=log
    )
    queue.put_many(range(60))
    worker.run_until_empty()
    final = [one for one in log.settled if one.state != "released"]
    assert sorted(one.message.value for one in final) == list(range(60))
    assert {one.state for one in final} <= {"acked", "dead-lettered"}
    assert queue.stats().inflight == 0


def test_a_worker_stops_while_a_handler_hangs_when_its_time_is_up(queue: PersistentQueue[Any]) -> None:
    queue.put("stuck")
    handler, log = Stuck(), Log()
    worker = Worker(queue, handler, timeout=0.3, max_tries=1, on_settled=log)
    with Running(worker) as running:
        assert handler.hangs.wait(PATIENCE)
        worker.stop()
        running.join()
    handler.free.set()
    assert log.states == ["dead-lettered"]
