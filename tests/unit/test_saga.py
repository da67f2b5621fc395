"""Sagas: finished steps are not run again, and a final failure is compensated, last step first, whoever dies when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import AsyncWorker, PersistentQueue, Worker, current_job, persistent_worker
from localqueue.contracts import FakeClock
from localqueue.errors import QueueError
from localqueue.policies import SagaCommit
from localqueue.results import MemoryResultStore
from localqueue.workers.commits.saga import KIND, Saga
from localqueue.workers.outcome import drive
from tests.unit.effects import KINDS, RUNS, keyed, open_queue_store, run_in_threads

pytestmark = pytest.mark.by_turns

Run = Callable[..., list[Any]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Any]:
    with open_queue_store(request.param, tmp_path, clock=clock) as store:
        yield store


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


class Trip:
    """Books three things in steps; `fails` names the steps, or compensations, that fail the next times."""

    names = ("flight", "hotel", "car")

    def __init__(self, *fails: str) -> None:
        self.log: list[Any] = []
        self.fails = list(fails)

    def _do(self, what: str) -> None:
        if what in self.fails:
            self.fails.remove(what)
            raise OSError(f"no {what}")
        self.log.append(what)

    def book(self, name: str) -> str:
        self._do(name)
        return f"{name}-1"

    def handle(self, value: Any) -> list[str]:
        booked = [current_job().step(name, self.book, name) for name in self.names]
        self._do("end")
        return booked

    def compensate(self, name: str) -> Callable[[Any, Any], None]:
        def undo(value: Any, result: Any) -> None:
            self._do(f"no {name}")
            self.log[-1] = (f"no {name}", value, result)

        return undo

    def queue(self, store: Any, **options: Any) -> PersistentQueue[Any]:
        compensations = {name: self.compensate(name) for name in self.names}
        return keyed(store, commit_policy=SagaCommit(compensations=compensations, **options))


UNDONE = [("no car", "me", "car-1"), ("no hotel", "me", "hotel-1"), ("no flight", "me", "flight-1")]


def states(settled: list[Any]) -> list[str]:
    return [one.state for one in settled]


def test_a_saga_that_succeeds_leaves_no_log(store: Any, run: Run) -> None:
    trip = Trip()
    queue = trip.queue(store)
    queue.put("me", dedupe_key="k")
    (settled,) = run(queue, trip.handle)
    assert (settled.state, settled.result) == ("acked", ["flight-1", "hotel-1", "car-1"])
    assert trip.log == ["flight", "hotel", "car", "end"]
    assert store.records(KIND) == []


def test_a_final_failure_is_compensated_in_reverse_order(store: Any, run: Run) -> None:
    trip = Trip("end")
    queue = trip.queue(store)
    queue.put("me", dedupe_key="k")
    (settled,) = run(queue, trip.handle)
    assert settled.state == "dead-lettered"
    assert trip.log[3:] == UNDONE
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None
    assert dead.last_error["message"] == "no end"
    assert store.records(KIND) == []


def test_a_step_that_failed_is_compensated_too_because_nobody_knows_how_far_it_came(store: Any, run: Run) -> None:
    trip = Trip("hotel")
    queue = trip.queue(store)
    queue.put("me", dedupe_key="k")
    run(queue, trip.handle)
    assert trip.log == ["flight", ("no hotel", "me", None), ("no flight", "me", "flight-1")]


def test_a_retry_goes_on_where_the_last_try_stopped(store: Any, run: Run) -> None:
    trip = Trip("car")
    queue = trip.queue(store)
    queue.put("me", dedupe_key="k")
    settled = run(queue, trip.handle, max_tries=2, wait=0)
    assert states(settled) == ["released", "acked"]
    assert settled[-1].result == ["flight-1", "hotel-1", "car-1"]
    assert trip.log == ["flight", "hotel", "car", "end"]
    assert store.records(KIND) == []


def test_a_handler_without_steps_leaves_no_log(store: Any, run: Run) -> None:
    queue = Trip().queue(store)
    queue.put("me", dedupe_key="k")
    run(queue, lambda value: value)
    assert store.records(KIND) == []


def test_a_compensation_that_fails_is_tried_again_and_those_before_are_not(store: Any, clock: FakeClock) -> None:
    trip = Trip("end", "no hotel")
    queue = trip.queue(store)
    queue.put("me", dedupe_key="k")
    assert states(run_once(queue, trip.handle)) == ["released"]
    assert trip.log[3:] == UNDONE[:1]
    clock.advance(10)
    assert states(run_once(queue, trip.handle)) == ["dead-lettered"]
    assert trip.log[3:] == UNDONE
    (dead,) = queue.dead_letters()
    assert dead.last_error is not None
    assert dead.last_error["message"] == "no end"
    assert store.records(KIND) == []


def run_once(queue: PersistentQueue[Any], handler: Callable[..., Any]) -> list[Any]:
    settled: list[Any] = []
    Worker(queue, handler, on_settled=settled.append, max_tries=1).run_until_empty(signals=False)
    return settled


def test_a_compensated_message_that_is_released_begins_from_the_start(store: Any) -> None:
    trip = Trip("end")
    queue = trip.queue(store)
    queue.put("me", dedupe_key="k")
    settled = run_in_threads(queue, trip.handle, dead_letter_on_failure=False)
    assert states(settled) == ["released", "acked"]
    assert trip.log == ["flight", "hotel", "car", *UNDONE, "flight", "hotel", "car", "end"]


def test_a_requeued_saga_begins_from_the_start(store: Any) -> None:
    trip = Trip("end")
    queue = trip.queue(store)
    message = queue.put("me", dedupe_key="k")
    run_in_threads(queue, trip.handle)
    assert queue.requeue_dead(message)
    assert states(run_in_threads(queue, trip.handle)) == ["acked"]
    assert trip.log[6:] == ["flight", "hotel", "car", "end"]


class Killed(SystemExit):
    """Stands for the death of a worker: nothing runs after it."""


def die_in(queue: PersistentQueue[Any], trip: Trip, step: str) -> None:
    """Run the handler of one delivery up to a step, and leave the rest as a worker that died would."""

    def die(*_: object) -> None:
        raise Killed

    def book(name: str) -> str:
        if name == step:
            queue.store.commit = die  # type: ignore[method-assign,assignment]
            raise Killed
        return trip.book(name)

    @persistent_worker(queue)
    def handle(value: Any) -> None:
        for name in trip.names:
            current_job().step(name, book, name)

    with pytest.raises(Killed):
        handle()
    vars(queue.store).pop("commit")


def test_a_saga_goes_on_after_its_worker_died(store: Any, clock: FakeClock, run: Run) -> None:
    trip = Trip()
    queue = trip.queue(store)
    queue.put("me", dedupe_key="k")
    die_in(queue, trip, "hotel")
    clock.advance(31)
    assert states(run(queue, trip.handle, max_tries=3)) == ["acked"]
    assert trip.log == ["flight", "hotel", "car", "end"]


def test_a_message_that_the_store_buried_is_compensated_by_the_next_worker(
    store: Any, clock: FakeClock, run: Run
) -> None:
    trip, told = Trip(), MemoryResultStore()
    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store=store, delivery_policy=trip.queue(store, saga_store=told).delivery_policy, max_attempts=1
    )
    message = queue.put("me", dedupe_key="k")
    die_in(queue, trip, "car")
    clock.advance(31)
    run(queue, trip.handle)
    run(queue, trip.handle)
    assert queue.stats().dead == 1
    assert trip.log == ["flight", "hotel", ("no car", "me", None), *UNDONE[1:]]
    assert store.records(KIND) == []
    assert told.load("saga:compensate:dedupe:jobs:k")["message_id"] == message.id


def test_two_recoveries_at_once_compensate_once(store: Any, clock: FakeClock) -> None:
    trip = Trip()
    queue = trip.queue(store)
    message = queue.put("me", dedupe_key="k")
    die_in(queue, trip, "car")
    assert queue.dead_letter(message.id)
    policy = queue.delivery_policy.commit_policy
    one, two = Saga(queue, policy).recover(), Saga(queue, policy).recover()
    call = next(one)
    drive(two)  # sees that the first is at it
    assert len(trip.log) == 2
    while True:
        try:
            call = one.send(call.function(*call.args))
        except StopIteration:
            break
    assert len(trip.log) == 5
    assert store.records(KIND) == []


def test_a_worker_whose_lease_ran_out_can_not_go_on_with_the_saga(store: Any, clock: FakeClock) -> None:
    trip = Trip()
    queue = trip.queue(store)
    queue.put("me", dedupe_key="k")
    inner: list[Any] = []

    def slow(value: Any) -> None:
        current_job().step("flight", trip.book, "flight")
        clock.advance(31)
        inner.extend(run_in_threads(queue, trip.handle, max_tries=3))
        current_job().step("hotel", trip.book, "hotel again")

    assert states(run_in_threads(queue, slow, max_tries=3)) == ["lost"]
    assert states(inner) == ["acked"]
    assert trip.log == ["flight", "hotel", "car", "end"]
    assert store.records(KIND) == []


def test_a_worker_whose_lease_ran_out_compensates_nothing(store: Any, clock: FakeClock) -> None:
    trip = Trip()
    queue = trip.queue(store)
    queue.put("me", dedupe_key="k")

    def slow(value: Any) -> None:
        current_job().step("flight", trip.book, "flight")
        clock.advance(31)
        assert queue.get_message().attempts == 2  # another worker goes forward with it now
        raise ImportError("too late, and for good")

    assert states(run_in_threads(queue, slow, max_tries=3)) == ["lost"]
    assert trip.log == ["flight"]
    assert len(store.records(KIND)) == 1


def test_envelopes_of_success_and_failure_are_stored(store: Any, run: Run) -> None:
    trip, told = Trip(), MemoryResultStore()
    queue = trip.queue(store, saga_store=told)
    good, bad = queue.put("good", dedupe_key="g"), queue.put("bad", dedupe_key="b")

    def handler(value: str) -> str:
        if value == "bad":
            raise ValueError("bad")
        return value

    run(queue, handler)
    assert told.load("saga:forward:dedupe:jobs:g") == {
        "queue": "jobs", "message_id": good.id, "dedupe_key": "g", "phase": "forward", "result": "good",
    }  # fmt: skip
    failed = told.load("saga:compensate:dedupe:jobs:b")
    assert (failed["message_id"], failed["phase"], failed["error"]["message"]) == (bad.id, "compensate", "bad")


def test_a_step_needs_a_compensation_and_a_saga(store: Any) -> None:
    queue = Trip().queue(store)
    queue.put("me", dedupe_key="k")
    (settled,) = run_in_threads(queue, lambda value: current_job().step("train", print))
    assert "step 'train' has no compensation" in str(settled.error)
    plain = keyed(store, "plain")
    plain.put("me", dedupe_key="k")
    (settled,) = run_in_threads(plain, lambda value: current_job().step("train", print))
    assert isinstance(settled.error, QueueError)


def test_async_steps_and_compensations_run_on_the_loop(store: Any) -> None:
    log: list[str] = []

    async def book(name: str) -> str:
        await asyncio.sleep(0)
        log.append(name)
        return f"{name}-1"

    async def undo(value: Any, result: Any) -> None:
        await asyncio.sleep(0)
        log.append(f"no {result}")

    async def handle(value: Any) -> None:
        await current_job().step_async("flight", book, "flight")
        await current_job().step_async("hotel", book, "hotel")
        raise ValueError

    async def main() -> None:
        queue = keyed(store, commit_policy=SagaCommit(compensations={"flight": undo, "hotel": undo}))
        queue.put("me", dedupe_key="k")
        await AsyncWorker(queue, handle, max_tries=1).run_until_empty(signals=False)

    asyncio.run(main())
    assert log == ["flight", "hotel", "no hotel-1", "no flight-1"]
