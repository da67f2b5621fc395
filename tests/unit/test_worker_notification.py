"""A worker is woken by the notification policy, and depends on it for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import InProcessNotification, MemoryQueueStore, PersistentQueue, SQLiteQueueStore
from localqueue.stores.port import LeaseRequest
from localqueue.workers import Worker
from tests.unit.worker_steps import Log, Running, eventually


@pytest.fixture
def store() -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore() as opened:
        yield opened


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_put_wakes_the_worker(store: MemoryQueueStore, concurrency: int) -> None:
    policy = InProcessNotification()
    queue = PersistentQueue[Any]("jobs", store=store, notification_policy=policy)
    log = Log()
    with Running(Worker(queue, lambda value: None, concurrency=concurrency, on_settled=log)):
        for number in range(20):
            queue.put(number)
            eventually(lambda: len(log.settled) > number)  # noqa: B023
    assert [one.message.value for one in log.settled] == list(range(20))


def test_a_worker_can_be_given_a_policy_of_its_own_and_stops_listening_when_it_ends(store: MemoryQueueStore) -> None:
    policy = InProcessNotification()
    queue = PersistentQueue[Any]("jobs", store=store)
    log = Log()
    with Running(Worker(queue, lambda value: None, notification_policy=policy, on_settled=log)):
        eventually(lambda: policy._listeners._callbacks)
        queue.put("x")
        policy.notify(queue.inspect(queue.put("y").id))
        eventually(lambda: log.states == ["acked", "acked"])
    assert not policy._listeners._callbacks


def test_what_no_notification_tells_is_seen_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite3"
    with SQLiteQueueStore(path) as store, SQLiteQueueStore(path) as foreign:
        queue = PersistentQueue[Any]("jobs", store=store, notification_policy=InProcessNotification())
        elsewhere = PersistentQueue[Any]("jobs", store=foreign)
        elsewhere.put("expired lease")
        foreign.lease(LeaseRequest("jobs", 1, 0.3, "somebody who died"))
        elsewhere.put("delayed", delay=0.3)
        log = Log()
        with Running(Worker(queue, lambda value: None, on_settled=log)) as running:
            eventually(lambda: running.worker.worker_id in queue.stats().last_seen_by_worker_id)
            elsewhere.put("another process")
            eventually(lambda: len(log.settled) == 3)
    assert {one.message.value for one in log.settled} == {"expired lease", "delayed", "another process"}
