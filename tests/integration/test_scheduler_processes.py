"""Several processes run the same schedules on one store: one message for each tick, also when one of them is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from localqueue import LMDBQueueStore, PersistentQueue, SQLiteQueueStore
from localqueue.contracts import steps
from localqueue.schedules import PeriodicSchedule, Scheduler
from tests.processes import context

pytestmark = [pytest.mark.multiprocess, pytest.mark.slow]


PATIENCE = 3 * steps.PATIENCE  # processes are started
EVERY = 0.02
SCHEDULE = PeriodicSchedule("tick", every=EVERY, start_at=0.0, missed="all")
OPENERS: dict[str, Any] = {"sqlite": SQLiteQueueStore, "lmdb": LMDBQueueStore}


def run(kind: str, path: str, running: Any) -> None:
    """Add the schedule, as every process of a program would, and run it until killed or told to stop."""
    with closing(OPENERS[kind](path)) as store:
        scheduler = Scheduler(PersistentQueue[Any]("jobs", store=store))
        scheduler.add(SCHEDULE)
        signal.signal(signal.SIGTERM, lambda *_: scheduler.stop())
        running.release()
        scheduler.run()


class Fleet:
    def __init__(self, kind: str, path: str) -> None:
        self._of = (kind, path)
        self.processes: list[Any] = []

    def start(self, count: int) -> None:
        running = context.Semaphore(0)
        for _ in range(count):
            process = context.Process(target=run, args=(*self._of, running), daemon=True)
            process.start()
            self.processes.append(process)
        for _ in range(count):
            assert running.acquire(timeout=PATIENCE)

    def kill(self, count: int) -> None:
        for _ in range(count):
            process = self.processes.pop(0)
            os.kill(process.pid, signal.SIGKILL)
            process.join(PATIENCE)
            assert process.exitcode == -signal.SIGKILL

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join(PATIENCE)


@pytest.fixture(params=list(OPENERS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Iterator[Any]:
    with closing(OPENERS[kind](str(tmp_path / "store"))) as store:
        yield store


@pytest.fixture
def fleet(kind: str, tmp_path: Path, store: Any) -> Iterator[Fleet]:
    fleet = Fleet(kind, str(tmp_path / "store"))
    yield fleet
    fleet.stop()


def wait_for(queue: PersistentQueue[Any], count: int) -> None:
    """Until so many more messages are there."""
    wanted = queue.qsize() + count
    deadline = time.monotonic() + PATIENCE
    while queue.qsize() < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def assert_one_message_a_tick(queue: PersistentQueue[Any]) -> None:
    """No tick twice and none left out, from the first to the last."""
    times = [datetime.fromisoformat(message.headers["localqueue-scheduled-at"]) for message in queue.messages()]
    numbers = sorted(round(at.timestamp() / EVERY) for at in times)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_every_tick_is_put_once_by_four_processes(store: Any, fleet: Fleet) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    fleet.start(4)
    wait_for(queue, 50)
    fleet.stop()
    assert [process.exitcode for process in fleet.processes] == [0] * 4
    assert_one_message_a_tick(queue)


def test_kills_neither_lose_nor_double_a_tick(store: Any, fleet: Fleet) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    fleet.start(3)
    for _ in range(4):
        wait_for(queue, 10)
        fleet.kill(1)
        fleet.start(1)
    wait_for(queue, 10)
    fleet.stop()
    assert_one_message_a_tick(queue)


def test_ticks_that_passed_while_no_process_ran_are_made_up_for(store: Any, fleet: Fleet) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    fleet.start(2)
    wait_for(queue, 5)
    fleet.kill(2)
    died_at = store.now()
    while store.now() - died_at <= 2 * EVERY:
        time.sleep(EVERY)
    fleet.start(2)
    wait_for(queue, 5)
    fleet.stop()
    assert_one_message_a_tick(queue)
