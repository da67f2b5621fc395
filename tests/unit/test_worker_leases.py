"""A worker keeps its leases while handlers run, and notices when it has lost one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import AtMostOnceDelivery, MemoryQueueStore, PersistentQueue
from localqueue.contracts import FakeClock
from localqueue.contracts.steps import PATIENCE
from localqueue.message import QueueMessage
from localqueue.stores.port import QueueStore
from localqueue.workers import Worker, current_job
from localqueue.workers.job import Job, with_job
from localqueue.workers.keeper import Keeper
from tests.unit.worker_steps import STORES, Gate, Log, Running, eventually, open_store

pytestmark = pytest.mark.by_turns


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueStore]:
    opened = open_store(request.param, tmp_path)
    yield opened
    opened.close()


def test_a_handler_that_takes_several_leases_is_not_run_twice(store: QueueStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=0.2)
    queue.put_many(["long", "waits behind it"])
    renewals: list[float | None] = []
    seen: list[str] = []

    def handler(value: str) -> None:
        seen.append(value)
        if value == "long":
            first = current_job().message.leased_until
            assert first is not None
            message_id = current_job().message.id
            # Four leases later by the store's own account, and still ours.
            eventually(lambda: (store.get("jobs", message_id).leased_until or 0) > first + 0.8)  # type: ignore[union-attr]
            renewals.append(first)

    log = Log()
    with Running(Worker(queue, handler, prefetch=2, on_settled=log)):
        eventually(lambda: log.states == ["acked", "acked"])
    assert seen == ["long", "waits behind it"]
    assert [one.message.tries for one in log.settled] == [1, 1]


def test_a_message_that_is_cancelled_between_its_lease_and_its_holding_is_lost_soon(store: QueueStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=600)
    queue.put_many(["long", "cancelled"])
    long, cancelled = queue.get_messages(2)
    keeper = Keeper(queue)
    keeper.start()
    try:
        held = keeper.hold(long)
        eventually(lambda: keeper._alarm is not None and held.renew_at > held.since + 200)
        before = held.renew_at
        queue.cancel(cancelled.id)
        eventually(lambda: held.renew_at > before)  # the keeper has looked, and did not hold it yet
        job = keeper.hold(cancelled).job
        eventually(lambda: job.lost)
        assert not held.job.lost
    finally:
        keeper.close()


def test_a_message_that_somebody_else_took_is_lost_and_nothing_of_it_is_settled(store: QueueStore) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=0.3)
    message = queue.put("x")
    log = Log()
    knew = threading.Event()
    entered = threading.Event()

    def handler(value: str) -> str:
        job = current_job()
        entered.set()
        eventually(lambda: job.lost)
        knew.set()
        job.put("never stored")
        return "never seen"

    with Running(Worker(queue, handler, on_settled=log)) as running:
        assert entered.wait(PATIENCE)
        queue.pause()  # so that the worker itself does not get it
        queue.release(message.id)
        assert knew.wait(PATIENCE)
        eventually(lambda: log.states == ["lost"])
        running.worker.stop()
        running.join()
    queue.resume()
    (again,) = queue.get_messages(5)
    assert (again.id, again.tries, queue.stats().total) == (message.id, 2, 1)


def test_a_lease_that_ran_out_by_the_stores_clock_is_lost() -> None:
    clock = FakeClock()
    with MemoryQueueStore(clock=clock) as store:
        queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=30)
        queue.put("x")
        gate, log = Gate(), Log()
        with Running(Worker(queue, gate, on_settled=log)) as running:
            gate.wait_for_entry()
            clock.advance(31)
            other = queue.get_message(leased_by="other")
            running.worker.stop()
            gate.open()
            running.join()
        assert log.states == ["lost"]
        assert queue.ack(other)


def test_giving_a_message_back_does_not_drop_the_lease_of_its_next_delivery() -> None:
    """Another thread of the worker may have leased it again before the first one has noted that it is gone."""
    with MemoryQueueStore() as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        queue.put("x")
        keeper = Keeper(queue, lasting=True)
        first = queue.get_message()
        keeper.hold(first)
        queue.release(first)
        second = queue.get_message()
        keeper.hold(second)
        keeper.drop(first)
        assert [(held.id, held.attempts) for held in keeper.holding()] == [(second.id, 2)]


def test_a_renewal_that_fails_in_an_unexpected_way_is_tried_again() -> None:
    class Odd(MemoryQueueStore):
        failures = 3

        def renew(self, *arguments: Any, **options: Any) -> Any:
            if Odd.failures:
                Odd.failures -= 1
                raise ZeroDivisionError("not an error of the store's own")
            return super().renew(*arguments, **options)

    with Odd() as store:
        queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=1.0)
        message = queue.put("x")
        lost: list[Job] = []
        keeper = Keeper(queue, on_lost=lost.append)
        keeper.start()
        held: QueueMessage[Any] = queue.get_message()
        keeper.hold(held)
        eventually(lambda: (store.get("jobs", message.id).leased_until or 0) > (held.leased_until or 0))  # type: ignore[union-attr]
        keeper.close()
        assert lost == [] and Odd.failures == 0


def test_a_message_that_is_delivered_at_most_once_has_no_lease_to_lose() -> None:
    with MemoryQueueStore() as store:
        queue = PersistentQueue[Any]("jobs", store=store, delivery_policy=AtMostOnceDelivery())
        queue.put("x")
        lost: list[Job] = []
        keeper = Keeper(queue, on_lost=lost.append)
        held = keeper.hold(queue.get_message())
        held.renew_at = 0.0
        keeper._tick(1.0, False)
        assert lost == [] and not held.job.lost


def test_a_message_that_was_acked_just_now_is_not_called_lost(caplog: pytest.LogCaptureFixture) -> None:
    """Its lease is gone by that, and whoever has acked it has not said so yet."""
    with MemoryQueueStore() as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        queue.put_many(["acked", "removed while it runs"])
        lost: list[Job] = []
        keeper = Keeper(queue, on_lost=lost.append)
        acked, removed = (keeper.hold(message) for message in queue.get_messages(2))
        with_job(acked.job, lambda: None)
        for held in (acked, removed):
            assert queue.ack(held.job.message)
            held.renew_at = 0.0
        keeper._tick(1.0, False)
        assert (acked.job.lost, removed.job.lost, lost) == (False, True, [removed.job])
        assert acked.job.message.id not in caplog.text and removed.job.message.id in caplog.text
