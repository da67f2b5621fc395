"""Time since the first attempt is counted on one clock, the store's, however wrong that of the worker's host is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tenacity import stop_after_attempt, stop_after_delay, stop_any, wait_fixed

from localqueue import MemoryQueueStore, PersistentQueue, persistent_async_worker, persistent_worker
from localqueue.contracts import FakeClock
from localqueue.idempotency import IdempotencyRecord, QueueIdempotencyStore
from localqueue.policies import TransactionalOutboxCommit
from localqueue.results import MemoryResultStore
from localqueue.retry import (
    MemoryAttemptStore,
    PersistentAsyncRetrying,
    PersistentRetrying,
    QueueAttemptStore,
    RetryRecord,
)
from localqueue.stores.port import HISTORY_LIMIT
from localqueue.workers.delivery import first_attempt
from tests.unit.effects import RUNS, keyed
from tests.unit.worker_ways import in_tasks, in_threads

Way = Callable[..., None]


@pytest.fixture
def clock() -> FakeClock:
    """Stands still, years away from that of this machine."""
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as store:
        yield store


@pytest.fixture
def queue(store: MemoryQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store)


def tries_until_dead(
    queue: PersistentQueue[Any], clock: FakeClock, way: Way, *, every: float, most: int = 99, **options: Any
) -> int:
    """How often a handler fails that is tried every so many seconds of the store's clock."""
    tries = 0

    def handler(value: Any) -> None:
        nonlocal tries
        tries += 1
        raise ValueError("no")

    while queue.stats().dead == 0 and tries < most:
        way(queue, handler, wait=wait_fixed(every), **options)
        clock.advance(every)
    return tries


@pytest.mark.parametrize("way", [in_threads, in_tasks])
def test_a_deadline_counts_from_the_first_attempt_by_the_clock_of_the_store(
    queue: PersistentQueue[Any], clock: FakeClock, way: Way
) -> None:
    queue.put("x")
    clock.advance(1000)  # waiting for a worker is no attempt
    assert tries_until_dead(queue, clock, way, every=30, stop=stop_after_delay(100)) == 5


@pytest.mark.parametrize("way", [in_threads, in_tasks])
def test_a_deadline_counts_from_the_first_attempt_though_history_forgets_it(
    queue: PersistentQueue[Any], clock: FakeClock, way: Way
) -> None:
    queue.put("x")
    tries = HISTORY_LIMIT + 10
    assert tries_until_dead(queue, clock, way, every=10, stop=stop_after_delay(10 * (tries - 1))) == tries


@pytest.mark.parametrize("way", [in_threads, in_tasks])
def test_a_requeued_message_has_a_fresh_deadline(queue: PersistentQueue[Any], clock: FakeClock, way: Way) -> None:
    message = queue.put("x")
    for _ in range(2):
        assert tries_until_dead(queue, clock, way, every=30, stop=stop_after_delay(100)) == 5
        assert queue.requeue_dead(message)


def test_the_first_attempt_is_not_written_down_where_nobody_asks_for_it(
    queue: PersistentQueue[Any], clock: FakeClock
) -> None:
    queue.put("x")
    tries_until_dead(queue, clock, in_threads, every=1, max_tries=2)
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None and dead.last_error.keys() == {"type", "module", "message", "traceback"}
    assert first_attempt(dead) == dead.attempt_history[0]["at"]


class Died(Exception):
    """The process ended while the retryer slept."""


def die(seconds: float) -> None:
    raise Died


def fail() -> None:
    raise OSError("no")


async def fail_async() -> None:
    raise OSError("no")


def try_once(way: str, attempts: Any, **options: Any) -> None:
    """One attempt of the key; dies, or raises when the budget is used up."""
    options = {"store": attempts, "key": "k", "sleep": die, **options}
    if way == "sync":
        PersistentRetrying(**options)(fail)
    else:
        asyncio.run(PersistentAsyncRetrying(**options)(fail_async))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_key_remembers_its_first_attempt_by_the_clock_of_the_store(
    store: MemoryQueueStore, clock: FakeClock, way: str
) -> None:
    attempts = QueueAttemptStore(store)
    for passed in (0, 50, 99):
        with pytest.raises(Died):
            try_once(way, attempts, stop=stop_after_delay(100))
        record = attempts.load("k")
        assert record is not None and record.first_attempt_at == pytest.approx(clock() - passed, abs=1)
        clock.advance((50, 49, 1)[(0, 50, 99).index(passed)])
    with pytest.raises(OSError):
        try_once(way, attempts, stop=stop_after_delay(100))
    record = attempts.load("k")
    assert record is not None and record.exhausted


def test_within_a_call_the_wall_clock_may_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def handler() -> None:
        monkeypatch.setattr("time.time", lambda: 1e12)
        raise OSError("no")

    retryer = PersistentRetrying(
        store=MemoryAttemptStore(),
        key="k",
        wait=0,
        stop=lambda state: seen.append(state.seconds_since_start) or state.attempt_number >= 2,
    )
    with pytest.raises(OSError):
        retryer(handler)
    assert len(seen) == 2 and all(0 <= since < 60 for since in seen)


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_a_requeued_message_has_a_fresh_budget_in_an_attempt_store_with_another_clock(
    queue: PersistentQueue[Any], clock: FakeClock, ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: clock() + ahead)
    attempts = MemoryAttemptStore()
    message = queue.put("x")
    attempts.save(message.id, RetryRecord(2, clock() + ahead, exhausted=True))  # a crash before it was forgotten
    clock.advance(60)
    queue.dead_letter(queue.get_message())
    assert queue.requeue_dead(message)
    clock.advance(60)
    handle = persistent_worker(queue, store=attempts, max_tries=2, wait=0)(lambda value: value)
    assert handle() == "x"


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_a_requeue_before_the_first_attempt_leaves_its_budget(
    queue: PersistentQueue[Any], clock: FakeClock, ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: clock() + ahead)
    attempts = MemoryAttemptStore()
    message = queue.put("x")
    queue.dead_letter(queue.get_message())
    assert queue.requeue_dead(message)
    clock.advance(60)
    attempts.save(message.id, RetryRecord(1, clock() + ahead, exhausted=False))
    clock.advance(60)
    tries: list[str] = []

    @persistent_async_worker(queue, store=attempts, max_tries=2, wait=0)
    async def handle(value: str) -> None:
        tries.append(value)
        raise OSError("no")

    with pytest.raises(OSError):
        asyncio.run(handle())  # type: ignore[arg-type]
    assert tries == ["x"]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_key_in_progress_elsewhere_excludes_by_the_clock_of_the_ledger(
    store: MemoryQueueStore, clock: FakeClock, run: Callable[..., Any]
) -> None:
    ledger = QueueIdempotencyStore(store)
    ledger.save("jobs:k", IdempotencyRecord("pending", clock(), metadata={"owner": "they", "until": clock() + 60}))
    with MemoryQueueStore() as other:
        queue = keyed(other, idempotency_store=ledger, lease_timeout=1.0)
        queue.put(1, dedupe_key="k")
        ran: list[Any] = []

        queue.add_hook(lambda event: clock.advance(61) if event.type == "released" else None)
        states = [one.state for one in run(queue, ran.append)]
        assert states[0] == "released" and states[-1] == "acked"
        record = ledger.load("jobs:k")
        assert record is not None and record.completed_at == clock()


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_success_is_recorded_by_the_clock_of_the_store(
    store: MemoryQueueStore, clock: FakeClock, run: Callable[..., Any]
) -> None:
    queue = keyed(store)
    queue.put(1, dedupe_key="k")
    run(queue, lambda value: None)
    record = QueueIdempotencyStore(store).load("jobs:k")
    assert record is not None and record.completed_at == pytest.approx(clock(), abs=60)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_envelopes_in_a_store_of_their_own_are_ordered_by_the_clock_of_the_queue(
    store: MemoryQueueStore, clock: FakeClock, run: Callable[..., Any]
) -> None:
    outbox = MemoryResultStore()
    queue = keyed(store, commit_policy=TransactionalOutboxCommit(outbox_store=outbox))
    queue.put(1, dedupe_key="k")
    run(queue, lambda value: value)
    (key,) = outbox.keys("outbox")
    assert outbox.load(key)["at"] == pytest.approx(clock(), abs=60)


def test_stop_strategies_that_count_and_those_that_measure_go_together(
    queue: PersistentQueue[Any], clock: FakeClock
) -> None:
    queue.put("x")
    stop = stop_any(stop_after_delay(3600), stop_after_attempt(3))
    assert tries_until_dead(queue, clock, in_threads, every=30, stop=stop) == 3
