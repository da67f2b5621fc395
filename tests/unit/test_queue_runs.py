"""Messages that share a run: counting, waiting, cancelling, and what a failed step leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, SQLiteQueueStore
from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import RunCancelled


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore(clock=clock) as opened:
        yield opened


@pytest.fixture
def queue(store: MemoryQueueStore) -> PersistentQueue[Any]:
    return PersistentQueue("jobs", store=store, lease_timeout=10)


def work_off(queue: PersistentQueue[Any]) -> list[Any]:
    seen = []
    while queue.qsize():
        message = queue.get_message(block=False)
        seen.append(message.value)
        queue.ack(message)
    return seen


def test_a_run_that_never_was_is_none(queue: PersistentQueue[Any]) -> None:
    assert queue.run("r") is None
    assert queue.wait_run("r", timeout=0) is None
    assert queue.cancel_run("r") == 0
    assert queue.run_messages("r") == []


def test_a_diamond_runs_in_order_and_succeeds(queue: PersistentQueue[Any]) -> None:
    top = queue.put("top", run_id="r")
    left = queue.put("left", run_id="r", after=[top])
    right = queue.put("right", run_id="r", after=[top])
    queue.put("bottom", run_id="r", after=[left, right])
    stats = queue.run("r")
    assert stats is not None
    assert (stats.total, stats.ready, stats.waiting, stats.state) == (4, 1, 3, "running")
    assert work_off(queue) == ["top", "left", "right", "bottom"]
    stats = queue.wait_run("r", timeout=0)
    assert stats is not None
    assert (stats.done, stats.state) == (4, "succeeded")
    assert stats.as_dict()["state"] == "succeeded"
    assert queue.run_messages("r") == []


def test_an_upstream_that_was_acked_before_is_no_obstacle(queue: PersistentQueue[Any]) -> None:
    first = queue.put("first")
    queue.ack(queue.get_message(block=False))
    assert queue.put("second", after=[first]).state == "ready"


@pytest.mark.parametrize("end", ["dead_letter", "cancel"])
def test_a_step_that_left_delivery_stalls_the_run_visibly(queue: PersistentQueue[Any], end: str) -> None:
    first = queue.put("first", run_id="r")
    second = queue.put("second", run_id="r", after=[first])
    getattr(queue, end)(queue.get_message(block=False))
    stats = queue.wait_run("r", timeout=PATIENCE)
    assert stats is not None
    assert (stats.state, stats.waiting) == ("stalled", 1)
    assert queue.waits_for(second) == [first.id]
    assert queue.requeue_dead(first)
    assert work_off(queue) == ["first", "second"]
    finished = queue.run("r")
    assert finished is not None
    assert finished.state == "succeeded"


def test_a_run_whose_last_step_died_failed(queue: PersistentQueue[Any]) -> None:
    queue.put("only", run_id="r")
    queue.dead_letter(queue.get_message(block=False))
    stats = queue.run("r")
    assert stats is not None
    assert (stats.state, stats.dead) == ("failed", 1)


def test_a_cancelled_run_takes_back_leases_and_refuses_more(queue: PersistentQueue[Any]) -> None:
    first = queue.put("first", run_id="r")
    queue.put("second", run_id="r", after=[first])
    queue.put("third", run_id="r", delay=50)
    other = queue.put("other", run_id="s")
    leased = queue.get_message(block=False)
    assert queue.cancel_run("r") == 3
    assert queue.ack(leased) is False
    assert queue.renew(leased) is None
    stats = queue.run("r")
    assert stats is not None
    assert (stats.cancelled, stats.state) == (3, "cancelled")
    with pytest.raises(RunCancelled):
        queue.put("late", run_id="r")
    assert queue.cancel_run("r") == 0
    assert queue.get_message(block=False).id == other.id


def test_a_run_spans_the_queues_of_its_store(queue: PersistentQueue[Any], store: MemoryQueueStore) -> None:
    mails: PersistentQueue[Any] = PersistentQueue("mails", store=store)
    first = queue.put("first", run_id="r")
    mails.put("second", run_id="r", after=[first])
    assert [(m.queue, m.value) for m in queue.run_messages("r")] == [("jobs", "first"), ("mails", "second")]
    assert [m.value for m in queue.run_messages("r", after=first.id)] == ["second"]
    assert [m.value for m in queue.run_messages("r", limit=1)] == ["first"]
    assert mails.empty()
    work_off(queue)
    assert work_off(mails) == ["second"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_waiting_for_a_run_ends_with_its_last_ack(tmp_path: Any, kind: str) -> None:
    with MemoryQueueStore() if kind == "memory" else SQLiteQueueStore(tmp_path / "q.db") as store:
        queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
        first = queue.put("first", run_id="r")
        queue.put("second", run_id="r", after=[first])
        states: list[str] = []

        def wait() -> None:
            stats = queue.wait_run("r", timeout=PATIENCE)
            assert stats is not None
            states.append(stats.state)

        background = Background()
        background.start(wait)
        assert work_off(queue) == ["first", "second"]
        background.join()
        assert states == ["succeeded"]


def test_waiting_for_a_run_gives_its_counts_at_the_timeout(queue: PersistentQueue[Any]) -> None:
    queue.put("x", run_id="r")
    stats = queue.wait_run("r", timeout=0.01)
    assert stats is not None
    assert (stats.state, stats.ready) == ("running", 1)
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        queue.wait_run("r", timeout=-1)
