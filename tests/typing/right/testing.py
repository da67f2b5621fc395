# pyright: strict
"""Help for tests takes what applications have: queues, their names, tasks."""

from typing import Any, assert_type

from localqueue import MemoryQueueStore, PersistentQueue, QueueMessage, SQLiteQueueStore
from localqueue.tasks import Tasks
from localqueue.testing import (
    Clock,
    assert_enqueued,
    assert_not_enqueued,
    drain,
    drain_async,
    inline,
    memory_store,
    use_store,
)
from localqueue.workers import Settled

tasks = Tasks()
numbers = PersistentQueue[int]("numbers")


@tasks.task
def double(number: int) -> int:
    return number * 2


@tasks.task
async def fetch(page: str) -> str:
    return page


def handle(number: int) -> None: ...


def is_large(number: int) -> bool:
    return number > 7


with memory_store(tasks, clock=Clock(at=0)) as store, inline(tasks, raising=True):
    assert_type(store, MemoryQueueStore)
    assert_type(assert_enqueued(numbers, 7, count=1, delay=60), list[QueueMessage[Any]])
    assert_enqueued(double, {"number": 7})
    assert_not_enqueued(fetch)
    assert_enqueued("numbers", is_large, headers={"tenant": "a"})
    assert_type(drain(numbers, handle, with_delayed=True, max_tries=3), list[Settled])
    drain(tasks, with_schedules=True)

with SQLiteQueueStore("jobs.db", clock=Clock()) as opened, use_store(opened, tasks) as used:
    assert_type(used, SQLiteQueueStore)


async def run() -> None:
    await drain_async(tasks)
    await drain_async("numbers", handle)
