"""Workers keep to limits that are held in the store: threads, tasks and other openings of the same store alike."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.limits import Limited, Limits
from localqueue.limits.page import KIND
from localqueue.message import QueueMessage
from localqueue.stores.port import QueueStore
from localqueue.workers import AsyncWorker, Worker, current_job
from tests.limit_histories import Spans, Watched, by_key, exceeds, most_at_once
from tests.stores import SHARED, Place, new_place
from tests.unit.worker_steps import STORES, Gate, Running, eventually
from tests.unit.worker_ways import in_time

pytestmark = pytest.mark.by_turns


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return new_place(request.param, tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[QueueStore]:
    with place.open() as opened:
        yield opened


@pytest.fixture
def queue(store: QueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, lease_timeout=3)  # so that a limit is looked at every second


def in_threads(queue: PersistentQueue[Any], handler: Callable[[Any], Any], **options: Any) -> None:
    Worker(queue, handler, concurrency=4, **options).run_until_empty(wait_for_delayed=True)


def on_loop(queue: PersistentQueue[Any], handler: Callable[[Any], Any], **options: Any) -> None:
    in_time(AsyncWorker(queue, handler, concurrency=4, **options).run_until_empty(wait_for_delayed=True))


@pytest.fixture(params=[in_threads, on_loop], ids=["threads", "loop"])
def work(request: pytest.FixtureRequest) -> Any:
    return request.param


def user(value: dict[str, Any]) -> str:
    return str(value["user"])


def jobs(count: int, users: int = 1, seconds: float = 0.0) -> list[dict[str, Any]]:
    return [{"user": n % users, "seconds": seconds} for n in range(count)]


def test_no_more_run_at_once_than_may(queue: PersistentQueue[Any], work: Any) -> None:
    spans = Spans()
    queue.put_many(jobs(16, seconds=0.01))
    work(queue, spans.handle, limits=Limits(concurrency=2))
    assert len(spans.all) == 16
    assert most_at_once(spans.all) <= 2
    assert queue.stats().total == 0
    assert queue.store.records(KIND) == []


def test_no_more_of_a_key_run_at_once_than_may(queue: PersistentQueue[Any], work: Any) -> None:
    spans, tries = Spans(), []

    def handle(value: Any) -> None:
        tries.append(current_job().message.tries)
        spans.handle(value)

    queue.put_many(jobs(18, users=3, seconds=0.005))
    work(queue, handle, limits=Limits(concurrency=1, key=user))
    assert {key: len(of_key) for key, of_key in by_key(spans.all).items()} == {"0": 6, "1": 6, "2": 6}
    assert all(most_at_once(of_key) == 1 for of_key in by_key(spans.all).values())
    assert set(tries) == {1}  # what was given back does not count
    assert queue.stats().total == 0
    assert queue.store.records(KIND) == []


def test_messages_of_other_keys_run_while_one_key_has_no_place(queue: PersistentQueue[Any]) -> None:
    together = threading.Barrier(3)
    queue.put_many([{"user": name} for name in "aaab"] + [{"user": "c"}])
    met: list[str] = []

    def handle(value: Any) -> None:
        if value["user"] not in met:
            met.append(value["user"])
            together.wait(PATIENCE)

    worker = Worker(queue, handle, concurrency=4, limits=Limits(concurrency=1, key=user))
    assert worker.run_until_empty(wait_for_delayed=True).acked == 5


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, user], ids=["shared", "keyed"])
def test_no_more_start_in_any_window_than_may(queue: PersistentQueue[Any], work: Any, key: Any) -> None:
    spans, watched = Spans(), Watched(queue.store)
    queue.put_many(jobs(20, users=2))
    work(queue, spans.handle, limits=Limits(rate=(4, 0.25), key=key))
    assert len(spans.all) == 20
    assert sum(starts.total() for starts in watched.starts.values()) == 20
    assert len(watched.starts) == (1 if key is None else 2)
    assert not any(exceeds(starts.elements(), 4, 0.25) for starts in watched.starts.values())
    assert max(watched.leased.values()) <= 4


def test_rate_and_concurrency_hold_together(queue: PersistentQueue[Any], work: Any) -> None:
    spans, watched = Spans(), Watched(queue.store)
    queue.put_many(jobs(12, users=2, seconds=0.005))
    work(queue, spans.handle, limits=Limits(rate=(3, 0.2), concurrency=1, key=user))
    assert len(spans.all) == 12
    assert all(most_at_once(of_key) == 1 for of_key in by_key(spans.all).values())
    assert not any(exceeds(starts.elements(), 3, 0.2) for starts in watched.starts.values())


@pytest.mark.parametrize("kind", SHARED)
def test_workers_on_openings_of_their_own_share_a_limit(kind: str, tmp_path: Path) -> None:
    place = new_place(kind, tmp_path)
    with place.open() as store:
        PersistentQueue[Any]("jobs", store=store).put_many(jobs(24, users=2, seconds=0.005))
    spans, workers = Spans(), Background()

    def run() -> None:
        with place.open() as own:
            in_threads(PersistentQueue("jobs", store=own), spans.handle, limits=Limits(concurrency=1, key=user))

    for _ in range(3):
        workers.start(run)
    workers.join()
    assert len(spans.all) == 24
    assert all(most_at_once(of_key) == 1 for of_key in by_key(spans.all).values())


def test_while_a_limit_of_all_messages_is_closed_none_is_leased(queue: PersistentQueue[Any]) -> None:
    gate, watched = Gate(), Watched(queue.store)
    with Running(Worker(queue, gate, concurrency=4, limits=Limits(concurrency=1))):
        queue.put_many(range(10))
        gate.wait_for_entry()
        looks = watched.looks
        queue.put_many(range(10))
        eventually(lambda: watched.looks >= looks + 3)  # threads that wait have looked again
        assert watched.leased.total() <= 4  # those that raced for the first place, which were given back
        assert queue.stats().ready >= 19 - 3
        gate.open()
        eventually(lambda: queue.stats().total == 0)
    assert watched.leased.total() <= 20 + 3 + 4


def test_while_the_limit_of_a_key_is_closed_each_of_its_messages_is_leased_once(store: QueueStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=60)  # so long is a message put off
    gate, watched = Gate(), Watched(store)
    others: list[Any] = []

    def handle(value: Any) -> None:
        if value["user"] == "hot":
            gate(value)
        else:
            others.append(value)

    with Running(Worker(queue, handle, concurrency=3, limits=Limits(concurrency=1, key=user))):
        queue.put_many([{"user": "hot"}] * 10)
        gate.wait_for_entry()
        eventually(lambda: queue.stats().delayed == 9)
        queue.put_many([{"user": f"other-{n}"} for n in range(20)])
        eventually(lambda: len(others) == 20)
        assert watched.leased.total() == 30
        gate.open()
        eventually(lambda: queue.stats().total == 0)
    assert len(gate.seen) == 10
    assert max(watched.leased.values()) <= 5


def test_a_worker_stops_while_a_limit_is_closed(queue: PersistentQueue[Any]) -> None:
    watched, done = Watched(queue.store), list[Any]()
    queue.put_many(jobs(4))
    with Running(Worker(queue, done.append, concurrency=2, limits=Limits(rate="1/h"))):
        eventually(lambda: done and watched.looks >= 6)
    assert len(done) == 1
    assert queue.stats().ready == 3


def test_an_async_worker_stops_while_a_limit_is_closed(queue: PersistentQueue[Any]) -> None:
    queue.put_many(jobs(4))

    async def handle(value: Any) -> None:
        worker.stop()

    worker = AsyncWorker(queue, handle, limits=Limits(rate="1/h"))
    assert in_time(worker.run()).acked == 1
    assert queue.stats().ready == 3


def test_run_until_empty_waits_for_messages_that_a_limit_of_all_keeps_ready(
    queue: PersistentQueue[Any], work: Any
) -> None:
    done: list[Any] = []
    queue.put_many(range(6))
    if work is in_threads:
        Worker(queue, done.append, limits=Limits(rate=(2, 0.2))).run_until_empty()
    else:
        in_time(AsyncWorker(queue, done.append, limits=Limits(rate=(2, 0.2))).run_until_empty())
    assert sorted(done) == list(range(6))


@pytest.mark.slow
def test_a_message_that_is_retried_gives_its_place_to_others_meanwhile(queue: PersistentQueue[Any]) -> None:
    seen: list[Any] = []

    def handle(value: Any) -> None:
        seen.append(value["n"])
        if len(seen) == 1:
            raise OSError("not yet")

    queue.put_many([{"user": 1, "n": 1}, {"user": 1, "n": 2}])
    worker = Worker(queue, handle, limits=Limits(concurrency=1, key=user), release_delay=0.0)
    assert worker.run_until_empty(wait_for_delayed=True).acked == 2
    assert sorted(seen) == [1, 1, 2]


def test_a_key_that_can_not_be_told_is_a_failure_of_the_message(queue: PersistentQueue[Any], work: Any) -> None:
    done: list[Any] = []
    queue.put_many([{"nobody": 1}, {"user": 1}, {"user": None}])
    work(queue, done.append, limits=Limits(concurrency=1, key=lambda value: value["user"]), max_tries=1)
    assert done == [{"user": 1}]
    assert sorted((dead.last_error or {})["type"] for dead in queue.dead_letters()) == ["KeyError", "TypeError"]


class OfSome(Worker):
    """Only messages of a user are limited."""

    def limits_of(self, message: QueueMessage[Any]) -> Sequence[Limited]:
        name = message.value.get("user")
        return () if name is None else (Limited("users", Limits(concurrency=1), name),)


def test_a_place_is_given_back_also_when_an_unlimited_message_is_next(queue: PersistentQueue[Any]) -> None:
    gate, done = Gate(), list[Any]()

    def handle(value: Any) -> None:
        if "wait" in value:
            gate(value)
        done.append(value)

    queue.put_many([{"user": "ann"}, {"wait": True}])
    with Running(OfSome(queue, handle)):
        gate.wait_for_entry()
        assert done == [{"user": "ann"}]
        assert queue.store.records(KIND) == []
        gate.open()
        eventually(lambda: queue.stats().total == 0)


class OfSeveral(Worker):
    """As a worker of tasks does: each message under a limit of its own kind, and all under one of their queue."""

    of_queue = Limits(concurrency=3)
    of_kind = Limits(concurrency=1)

    def shared_limits(self) -> Sequence[Limited]:
        return (Limited("queue", self.of_queue),)

    def limits_of(self, message: QueueMessage[Any]) -> Sequence[Limited]:
        return (*self.shared_limits(), Limited("kind", self.of_kind, str(message.value["user"])))


def test_a_message_may_be_under_several_limits(queue: PersistentQueue[Any]) -> None:
    spans = Spans()
    queue.put_many(jobs(25, users=5, seconds=0.005))
    OfSeveral(queue, spans.handle, concurrency=6).run_until_empty(wait_for_delayed=True)
    assert len(spans.all) == 25
    assert most_at_once(spans.all) <= 3
    assert all(most_at_once(of_key) == 1 for of_key in by_key(spans.all).values())
    assert queue.store.records(KIND) == []
