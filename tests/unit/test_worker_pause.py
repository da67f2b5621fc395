"""An operator takes one worker off a queue and puts it back, from anywhere."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from localqueue import InProcessNotification, MemoryQueueStore, PersistentQueue, SQLiteQueueStore
from localqueue.contracts.steps import MOMENT, PATIENCE
from localqueue.stores.port import Changes, Committed, LeaseRequest, StoredMessage
from localqueue.workers import AsyncWorker, Worker, persistent_worker
from tests.unit.worker_steps import Log, Running, eventually


class CountingStore(MemoryQueueStore):
    """Counts who tries to lease."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: Counter[str | None] = Counter()

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        self.claims[request.leased_by] += 1
        return super().lease(request)

    def commit(self, changes: Changes) -> Committed:
        if changes.lease is not None:
            self.claims[changes.lease.leased_by] += 1
        return super().commit(changes)


@pytest.fixture
def store() -> Iterator[CountingStore]:
    with CountingStore() as opened:
        yield opened


@pytest.fixture(params=["policy", "store"])
def queue(request: pytest.FixtureRequest, store: CountingStore) -> PersistentQueue[Any]:
    policy = InProcessNotification() if request.param == "policy" else None
    return PersistentQueue("jobs", store=store, notification_policy=policy)


def test_a_paused_worker_sleeps_while_another_works(queue: PersistentQueue[Any], store: CountingStore) -> None:
    queue.pause(worker="lazy")
    lazy, busy = Log(), Log()
    with (
        Running(Worker(queue, lambda value: None, worker_id="lazy", on_settled=lazy)),
        Running(Worker(queue, lambda value: None, worker_id="busy", on_settled=busy)),
    ):
        eventually(lambda: "lazy" in queue.stats().last_seen_by_worker_id)
        for number in range(5):
            queue.put(number)
        eventually(lambda: len(busy.settled) == 5)
        queue.pause(worker="busy")
        queue.put("nobody's")
        assert not threading.Event().wait(MOMENT)
        assert store.claims["lazy"] < 20, "a paused worker asks again and again"
        assert lazy.settled == []
        queue.resume(worker="lazy")
        eventually(lambda: [one.message.value for one in lazy.settled] == ["nobody's"])
    assert len(busy.settled) == 5


def test_a_worker_that_is_paused_finishes_what_it_has(queue: PersistentQueue[Any]) -> None:
    started, go_on, log = threading.Event(), threading.Event(), Log()

    def handler(value: Any) -> None:
        started.set()
        assert go_on.wait(PATIENCE)

    with Running(Worker(queue, handler, worker_id="w", on_settled=log)):
        queue.put("begun")
        assert started.wait(PATIENCE)
        queue.pause(worker="w")
        queue.put("not begun")
        go_on.set()
        eventually(lambda: log.states == ["acked"])
        assert not threading.Event().wait(MOMENT)
    assert [message.value for message in queue.messages()] == ["not begun"]


def test_an_async_worker_sleeps_until_it_is_resumed(queue: PersistentQueue[Any], store: CountingStore) -> None:
    log = Log()

    async def handler(value: Any) -> None: ...

    async def work() -> None:
        worker = AsyncWorker(queue, handler, worker_id="lazy", on_settled=log)
        running = asyncio.create_task(worker.run(signals=False))
        await asyncio.to_thread(eventually, lambda: "lazy" in queue.stats().last_seen_by_worker_id)
        queue.put("x")
        await asyncio.sleep(MOMENT)
        assert store.claims["lazy"] < 20, "a paused worker asks again and again"
        assert log.settled == []
        queue.resume(worker="lazy")
        await asyncio.to_thread(eventually, lambda: log.states == ["acked"])
        worker.stop()
        await running

    queue.pause(worker="lazy")
    asyncio.run(work())


def test_a_decorated_function_waits_until_its_worker_is_resumed(queue: PersistentQueue[Any]) -> None:
    seen: list[Any] = []

    @persistent_worker(queue, worker_id="lazy")
    def handle(value: Any) -> None:
        seen.append(value)

    queue.pause(worker="lazy")
    queue.put("x")
    thread = threading.Thread(target=handle, daemon=True)
    thread.start()
    assert not threading.Event().wait(MOMENT)
    assert seen == []
    queue.resume(worker="lazy")
    thread.join(PATIENCE)
    assert seen == ["x"]


def test_a_paused_consumer_waits_for_its_resumption(store: CountingStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    queue.put("x")
    queue.pause(worker="lazy")
    with pytest.raises(Empty):
        queue.get_message(timeout=0.05, leased_by="lazy")
    with pytest.raises(Empty):
        queue.get_message(block=False, leased_by="lazy")
    assert store.claims["lazy"] < 10
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(queue.get_message(timeout=PATIENCE, leased_by="lazy")))
    thread.start()
    queue.resume(worker="lazy")
    thread.join(PATIENCE)
    assert [message.value for message in found] == ["x"]


def test_a_pause_is_told_by_stats_and_asked_by_name(store: CountingStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    assert not queue.is_paused(worker="w")
    queue.pause(worker="w")
    assert queue.is_paused(worker="w")
    assert not queue.is_paused()
    assert queue.stats().paused_workers == ("w",)
    queue.resume(worker="w")
    assert not queue.is_paused(worker="w")


@pytest.mark.parametrize("worker", ["", 7, "\ud800"])
def test_a_worker_has_a_proper_name(store: CountingStore, worker: Any) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    for call in (queue.pause, queue.resume, queue.is_paused):
        with pytest.raises((ValueError, TypeError), match="worker"):
            call(worker=worker)


def test_a_resume_elsewhere_is_seen_by_the_poll_not_only_by_the_catch_up(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite3"
    with SQLiteQueueStore(path) as store, SQLiteQueueStore(path) as elsewhere:
        for act in (elsewhere.pause, elsewhere.resume):
            before = store._version(("jobs",))
            act("jobs", worker="w")
            assert store._version(("jobs",)) != before
