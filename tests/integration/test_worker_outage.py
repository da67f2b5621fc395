"""A store that does not answer for a while: the worker keeps what it has and goes on by itself."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, SQLiteQueueStore
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreError
from localqueue.stores.port import QueueStore
from localqueue.workers import AsyncWorker, Worker
from tests.unit.worker_steps import Gate, Log, Running, eventually

pytestmark = pytest.mark.slow


class Complaints(logging.Handler):
    """Counts what workers say about a store that does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        if "does not answer" in record.getMessage():
            self.heard.release()

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.heard.acquire(timeout=PATIENCE), "the worker did not notice"


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    handler = Complaints()
    log = logging.getLogger("localqueue.workers")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[QueueStore]:
    with SQLiteQueueStore(tmp_path / "jobs.sqlite3", timeout=0.05) as opened:
        yield opened


@pytest.fixture
def foreign(tmp_path: Path, store: QueueStore) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "jobs.sqlite3", isolation_level=None)
    yield connection
    connection.close()


@pytest.mark.parametrize("prefetch", [1, 3])
def test_a_worker_keeps_outcomes_while_the_store_is_locked_and_settles_them_after(
    store: QueueStore, foreign: sqlite3.Connection, complaints: Complaints, prefetch: int
) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    queue.put_many(range(5))
    gate, log = Gate(), Log()
    with Running(Worker(queue, gate, prefetch=prefetch, on_settled=log)):
        gate.wait_for_entry()
        foreign.execute("BEGIN EXCLUSIVE")
        gate.open()
        complaints.wait_for(3)
        assert log.states == []
        foreign.execute("ROLLBACK")
        eventually(lambda: len(log.settled) == 5)
    assert log.states == ["acked"] * 5
    assert gate.seen == list(range(5))
    assert queue.stats().total == 0


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_worker_that_has_nothing_to_do_outlives_a_store_it_can_not_even_read(
    store: QueueStore, complaints: Complaints, concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads of SQLite wait for nobody, so the failure of a look is made here."""
    queue = PersistentQueue[Any]("jobs", store=store)
    down = threading.Event()
    listen, lease = store.listen, store.lease

    def failing(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if down.is_set():
                raise QueueStoreError("disk I/O error")
            return real(*arguments, **options)

        return call

    class Waiter:
        def __init__(self, waiter: Any) -> None:
            self.heard = failing(waiter.heard)
            self.interrupt, self.close = waiter.interrupt, waiter.close

    monkeypatch.setattr(store, "listen", failing(lambda queues, **options: Waiter(listen(queues, **options))))
    monkeypatch.setattr(store, "lease", failing(lease))
    log = Log()
    worker = Worker(queue, lambda value: None, concurrency=concurrency, on_settled=log)
    with Running(worker):
        eventually(lambda: worker.worker_id in queue.stats().last_seen_by_worker_id)
        down.set()
        complaints.wait_for(2 * concurrency)
        down.clear()
        queue.put("x")
        eventually(lambda: log.states == ["acked"])


def test_a_lease_that_ran_out_during_the_outage_is_lost_and_the_message_is_done_again(
    store: QueueStore, foreign: sqlite3.Connection, complaints: Complaints
) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=0.2)
    message = queue.put("x")
    gate, log = Gate(), Log()
    with Running(Worker(queue, gate, on_settled=log)):
        gate.wait_for_entry()
        foreign.execute("BEGIN EXCLUSIVE")
        found = store.get("jobs", message.id)
        assert found is not None
        eventually(lambda: store.now() > (found.leased_until or 0) + 0.1)
        gate.open()
        complaints.wait_for(1)
        foreign.execute("ROLLBACK")
        eventually(lambda: "acked" in log.states)
    *before, last = log.states
    assert last == "acked" and set(before) <= {"lost"}  # more than once where a busy machine was late again
    assert len(gate.seen) == len(log.states)
    assert queue.stats().total == 0


def test_a_worker_that_is_stopped_during_an_outage_ends_and_loses_nothing(
    store: QueueStore, foreign: sqlite3.Connection, complaints: Complaints
) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    queue.put_many(range(3))
    gate = Gate()
    with Running(Worker(queue, gate, prefetch=3)) as running:
        gate.wait_for_entry()
        foreign.execute("BEGIN EXCLUSIVE")
        running.worker.stop()
        gate.open()
        running.join()
        foreign.execute("ROLLBACK")
    assert queue.stats().inflight == 3  # until their leases run out


def test_an_async_worker_outlives_an_outage(
    store: QueueStore, foreign: sqlite3.Connection, complaints: Complaints
) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    queue.put_many(range(5))
    log = Log()

    async def main() -> None:
        started, free = asyncio.Event(), asyncio.Event()

        async def handler(value: int) -> None:
            started.set()
            await free.wait()

        worker = AsyncWorker(queue, handler, concurrency=2, on_settled=log)
        task = asyncio.create_task(worker.run())
        await started.wait()
        foreign.execute("BEGIN EXCLUSIVE")
        free.set()
        await asyncio.to_thread(complaints.wait_for, 3)
        foreign.execute("ROLLBACK")
        await asyncio.to_thread(eventually, lambda: len(log.settled) == 5)
        worker.stop()
        await task

    asyncio.run(main())
    assert log.states == ["acked"] * 5
