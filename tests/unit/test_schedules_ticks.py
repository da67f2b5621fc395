"""What a tick puts: once in all, with every policy for missed ticks, and never past what the queue allows."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from localqueue import (
    CallbackNotification,
    EffectivelyOnceDelivery,
    PersistentQueue,
    PublishSubscribeRouting,
    QueueFull,
    SQLiteQueueStore,
    StaticFanoutSubscriptions,
)
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreClosedError, QueueStoreError
from localqueue.policies import DropNewest
from localqueue.schedules import CronSchedule, PeriodicSchedule, Scheduler
from tests.crash.stores import Clock
from tests.unit.test_schedules import clock, queue, scheduler, store

__all__ = ["clock", "queue", "scheduler", "store"]

A_YEAR = 365 * 86_400.0


def test_a_tick_is_put_when_it_is_due_and_then_the_next(scheduler: Scheduler, clock: Clock) -> None:
    start = clock.now
    scheduler.add(PeriodicSchedule("a", every=60, value={"n": 1}))
    clock.advance(59.9)
    assert scheduler.tick() == []
    clock.advance(0.1)
    (message,) = scheduler.tick()
    assert message.value == {"n": 1} and scheduler.tick() == []
    assert [stored.id for stored in scheduler.queue.messages()] == [message.id]
    state = scheduler.get("a")
    assert state is not None and (state.last_at, state.next_at) == (start + 60, start + 120)


def test_a_message_names_its_schedule_and_its_tick_beside_the_users_headers(scheduler: Scheduler, clock: Clock) -> None:
    clock.now = 1_800_000_000.0
    scheduler.add(PeriodicSchedule("nightly", every=60, headers={"team": "ops"}, ttl=300))
    clock.advance(75)
    (message,) = scheduler.tick()
    assert message.headers == {
        "team": "ops",
        "localqueue-schedule": "nightly",
        "localqueue-scheduled-at": "2027-01-15T08:01:00+00:00",
    }
    assert message.expires_at == clock.now + 300


def test_late_ticks_do_not_shift_those_that_follow(scheduler: Scheduler, clock: Clock) -> None:
    start = clock.now
    scheduler.add(PeriodicSchedule("a", every=0.1))
    for _ in range(1000):
        clock.advance(0.137)
        scheduler.tick()
    state = scheduler.get("a")
    assert state is not None and state.next_at is not None
    assert (state.next_at - start) / 0.1 == pytest.approx(round((state.next_at - start) / 0.1), abs=1e-4)


@pytest.mark.parametrize(
    ("missed", "late", "ticks"),
    [
        ("once", 605, [600]),
        ("once", 659, [600]),
        ("skip", 605, [600]),  # within its grace
        ("skip", 645, []),
        ("all", 605, [60, 120, 180, 240, 300, 360, 420, 480, 540, 600]),
    ],
)
def test_missed_ticks_follow_the_policy(
    scheduler: Scheduler, clock: Clock, missed: Any, late: float, ticks: list[float]
) -> None:
    start = clock.now
    scheduler.add(PeriodicSchedule("a", every=60, missed=missed, grace=10))
    clock.advance(late)
    put = scheduler.tick()
    assert len(put) == len(ticks) and scheduler.tick() == []
    assert scheduler.next_tick("a") == start + 660
    state = scheduler.get("a")
    assert state is not None and state.last_at == (start + ticks[-1] if ticks else None)
    clock.now = start + 660
    assert len(scheduler.tick()) == 1


def test_all_missed_ticks_are_put_in_parts_and_in_order(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.add(PeriodicSchedule("a", every=1, missed="all"))
    clock.advance(1200)
    sizes = []
    while put := scheduler.tick():
        sizes.append(len(put))
    assert sizes == [500, 500, 200]
    times = [message.headers["localqueue-scheduled-at"] for message in scheduler.queue.get_messages(2000)]
    assert times == sorted(set(times)) and len(times) == 1200


@pytest.mark.parametrize("missed", ["skip", "once"])
def test_years_of_missed_minutes_cost_nothing(scheduler: Scheduler, clock: Clock, missed: Any) -> None:
    clock.now = 1_800_000_000.0 - 1_800_000_000.0 % 60
    scheduler.add(CronSchedule("a", cron="* * * * *", missed=missed))
    scheduler.add(PeriodicSchedule("b", every=0.001, missed=missed))
    clock.advance(20 * A_YEAR + 30)
    assert len(scheduler.tick()) == 2
    assert scheduler.next_tick("a") == clock.now + 30


def test_a_clock_that_goes_back_puts_nothing_twice(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.add(PeriodicSchedule("a", every=60))
    clock.advance(60)
    assert len(scheduler.tick()) == 1
    clock.advance(-60)
    assert scheduler.tick() == []
    clock.advance(60)
    assert scheduler.tick() == []
    clock.advance(60)
    assert len(scheduler.tick()) == 1


# the queue


def test_a_full_queue_keeps_the_tick_until_there_is_room(store: Any, clock: Clock) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, maxsize=1)
    scheduler = Scheduler(queue)
    scheduler.add(PeriodicSchedule("a", every=60, value="tick"))
    queue.put("in the way")
    clock.advance(60)
    assert scheduler.tick() == [] and scheduler.next_tick("a") == clock.now
    queue.get()
    assert [message.value for message in scheduler.tick()] == ["tick"]


def test_missed_ticks_fill_a_small_queue_as_far_as_they_fit(store: Any, clock: Clock) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, maxsize=3)
    scheduler = Scheduler(queue)
    scheduler.add(PeriodicSchedule("a", every=60, missed="all"))
    clock.advance(600)
    done = 0
    for _ in range(20):
        scheduler.tick()
        done += len(queue.get_messages(10)) if queue.qsize() else 0
    assert done == 10 and scheduler.next_tick("a") == clock.now + 60


def test_a_full_schedule_does_not_hold_up_another_queue_object_or_schedule(store: Any, clock: Clock) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, backpressure=DropNewest(1))
    scheduler = Scheduler(queue)
    scheduler.add(PeriodicSchedule("a", every=60, value="a"))
    scheduler.add(PeriodicSchedule("b", every=60, value="b"))
    clock.advance(60)
    assert [message.value for message in scheduler.tick()] == ["a"]
    assert queue.stats().dropped == 1 and scheduler.next_tick() == clock.now + 60


def test_a_dedupe_key_keeps_ticks_from_piling_up(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.add(PeriodicSchedule("a", every=60, dedupe_key="one at a time"))
    clock.advance(60)
    assert len(scheduler.tick()) == 1
    clock.advance(60)
    assert scheduler.tick() == [] and scheduler.queue.qsize() == 1
    scheduler.queue.ack(scheduler.queue.get_message())
    clock.advance(60)
    assert len(scheduler.tick()) == 1


def test_a_queue_that_needs_dedupe_keys_gets_one_for_each_tick(store: Any, clock: Clock) -> None:
    queue = PersistentQueue[Any]("jobs", store=store, delivery_policy=EffectivelyOnceDelivery())
    scheduler = Scheduler(queue)
    scheduler.add(PeriodicSchedule("a", every=60, missed="all"))
    clock.advance(120)
    assert [message.dedupe_key for message in scheduler.tick()] == [
        "a@2027-01-15T08:01:00+00:00",
        "a@2027-01-15T08:02:00+00:00",
    ]


def test_a_queue_that_publishes_gives_every_subscriber_a_copy(store: Any, clock: Clock) -> None:
    queue = PersistentQueue[Any](
        "news",
        store=store,
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=StaticFanoutSubscriptions(("ann", "bob")),
    )
    scheduler = Scheduler(queue)
    scheduler.add(PeriodicSchedule("a", every=60, value="x", missed="all"))
    clock.advance(120)
    assert [message.queue for message in scheduler.tick()] == ["news.ann", "news.ann"]
    assert [queue.subscriber_queue(name).qsize() for name in ("ann", "bob")] == [2, 2]


def test_a_tick_is_announced_and_a_failure_of_that_does_not_undo_it(store: Any, clock: Clock) -> None:
    told: list[Any] = []

    def tell(message: Any) -> None:
        told.append(message.value)
        raise LookupError("nobody there")

    queue = PersistentQueue[Any]("jobs", store=store, notification_policy=CallbackNotification((tell,)))
    scheduler = Scheduler(queue)
    for name in ("a", "b"):
        scheduler.add(PeriodicSchedule(name, every=60, value=name))
    clock.advance(60)
    with pytest.raises(ExceptionGroup, match="several schedules") as failure:
        scheduler.tick()
    assert len(failure.value.exceptions) == 2 and told == ["a", "b"]
    assert queue.qsize() == 2 and scheduler.tick() == []


# many at once


def test_schedulers_in_many_threads_put_each_tick_once(store: Any, clock: Clock) -> None:
    queue = PersistentQueue[Any]("jobs", store=store)
    Scheduler(queue).add(PeriodicSchedule("a", every=60))
    for _ in range(20):
        clock.advance(60)
        together = threading.Barrier(4)
        put: list[Any] = []

        def tick(together: threading.Barrier = together, put: list[Any] = put) -> None:
            together.wait(PATIENCE)
            put.extend(Scheduler(queue).tick())

        threads = [threading.Thread(target=tick) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(put) == 1
    assert queue.qsize() == 20


# running


def in_thread(scheduler: Scheduler) -> threading.Thread:
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    return thread


def stop(scheduler: Scheduler, thread: threading.Thread) -> None:
    scheduler.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_running_scheduler_puts_ticks_until_it_is_stopped(tmp_path: Any) -> None:
    with PersistentQueue[Any]("jobs", store_path=tmp_path / "q.db") as queue:
        scheduler = Scheduler(queue)
        scheduler.add(PeriodicSchedule("a", every=0.02, missed="all"))
        thread = in_thread(scheduler)
        messages = [queue.get_message(timeout=PATIENCE) for _ in range(5)]
        stop(scheduler, thread)
    times = [message.headers["localqueue-scheduled-at"] for message in messages]
    assert times == sorted(set(times))


def test_a_schedule_that_is_added_wakes_the_running_scheduler(tmp_path: Any) -> None:
    with PersistentQueue[Any]("jobs", store_path=tmp_path / "q.db") as queue:
        scheduler = Scheduler(queue, look_every=3600)
        thread = in_thread(scheduler)
        scheduler.add(PeriodicSchedule("a", every=0.01, value="x"))
        assert queue.get(timeout=PATIENCE) == "x"
        stop(scheduler, thread)


def test_a_schedule_that_another_process_added_is_seen(tmp_path: Any) -> None:
    with PersistentQueue[Any]("jobs", store_path=tmp_path / "q.db") as queue:
        scheduler = Scheduler(queue, look_every=0.02)
        thread = in_thread(scheduler)
        with SQLiteQueueStore(tmp_path / "q.db") as other:
            Scheduler(PersistentQueue[Any]("jobs", store=other)).add(PeriodicSchedule("a", every=0.01, value="x"))
        assert queue.get(timeout=PATIENCE) == "x"
        stop(scheduler, thread)


def test_stopping_before_running_is_enough(scheduler: Scheduler) -> None:
    scheduler.stop()
    scheduler.run()


class Outage(SQLiteQueueStore):
    """A store whose commits and reads of records fail as long as it is told to."""

    failures = 0

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Any:
        if self.failures:
            self.failures -= 1
            raise QueueStoreError("the disk is away")
        return super().records(kind, after=after, limit=limit)


def test_a_signal_handler_may_stop_a_scheduler_that_is_about_to_wait(tmp_path: Any) -> None:
    """It runs in the thread that waits, which may have taken the lock of what it waits for."""
    with SQLiteQueueStore(tmp_path / "jobs.sqlite") as store:
        scheduler = Scheduler(PersistentQueue("jobs", store=store), look_every=0.05)
        waits = []

        def interrupt(frame: Any, event: str, argument: Any) -> None:
            if event == "call" and frame.f_code is threading.Condition.wait.__code__:
                waits.append(frame)
                scheduler.stop()

        def run() -> None:
            sys.setprofile(interrupt)
            scheduler.run()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert waits and not thread.is_alive()


def test_a_running_scheduler_outlives_an_outage_of_the_store(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    with Outage(tmp_path / "q.db") as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        scheduler = Scheduler(queue, look_every=0.05)
        scheduler.add(PeriodicSchedule("a", every=0.01, value="x"))
        store.failures = 3
        thread = in_thread(scheduler)
        assert queue.get(timeout=PATIENCE) == "x"
        stop(scheduler, thread)
    assert [record.getMessage() for record in caplog.records] == ["schedules of queue 'jobs': the disk is away"] * 3


class TellsWhenFull(SQLiteQueueStore):
    """A store that tells when it has refused a commit for lack of capacity."""

    refused: threading.Event

    def commit(self, changes: Any) -> Any:
        try:
            return super().commit(changes)
        except QueueFull:
            self.refused.set()
            raise


def test_a_running_scheduler_puts_what_a_full_queue_had_kept_waiting(tmp_path: Any, clock: Clock) -> None:
    with TellsWhenFull(tmp_path / "q.db", clock=clock) as store:
        store.refused = threading.Event()
        queue = PersistentQueue[Any]("jobs", store=store, maxsize=1)
        queue.put("in the way")
        scheduler = Scheduler(queue)
        scheduler.add(PeriodicSchedule("a", every=3600, value="x"))
        clock.advance(3600)
        thread = in_thread(scheduler)
        assert store.refused.wait(PATIENCE)
        assert [queue.get(timeout=PATIENCE), queue.get(timeout=PATIENCE)] == ["in the way", "x"]
        stop(scheduler, thread)


def test_running_on_a_closed_store_ends_with_its_error(tmp_path: Any) -> None:
    queue = PersistentQueue[Any]("jobs", store_path=tmp_path / "q.db")
    queue.close()
    with pytest.raises(QueueStoreClosedError):
        Scheduler(queue).run()
