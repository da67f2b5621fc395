"""What became of a message is written by the commit that settles it, and whoever waits for it is woken."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from localqueue.contracts.harness import FakeClock, StoreHarness
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import JobCancelled, JobFailed, ResultMissing
from localqueue.queue import PersistentQueue
from localqueue.stores.port import QueueStore
from localqueue.workers import Worker, current_job

A_DAY = 86400.0


def _queue(store: QueueStore, name: str = "jobs", **options: Any) -> PersistentQueue[Any]:
    return PersistentQueue(name, store=store, lease_timeout=10, keep_results=A_DAY, **options)


def wait_for_result(store: QueueStore, message_id: str, waits: Any, answers: Any) -> None:
    """What another process does."""
    queue = PersistentQueue[Any]("jobs", store=store)
    waits.set()
    answers.put(queue.result(message_id, timeout=3 * PATIENCE))


def work_until_cancelled(store: QueueStore, runs: Any, answers: Any) -> None:
    """What another process does, with leases that are not renewed before the test is over."""
    queue = PersistentQueue[Any]("jobs", store=store, lease_timeout=100 * PATIENCE)

    def handler(value: str) -> None:
        job, deadline = current_job(), time.monotonic() + 3 * PATIENCE
        job.progress(0.5, "half way")
        runs.set()
        while not job.cancelled and time.monotonic() < deadline:
            time.sleep(0.002)
        job.check_cancelled()

    counts = Worker(queue, handler).run_until_empty(signals=False)
    answers.put((counts.lost, counts.total))


class OutcomeContract:
    def test_a_result_is_kept_with_the_ack_and_for_as_long_as_was_said(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        queue = _queue(store)
        message = queue.put({"n": 1})
        began = clock()
        clock.advance(5)
        leased = queue.get_message(block=False)
        clock.advance(2)
        assert queue.ack(leased, result={"sum": 3})
        status = queue.status(message)
        assert status is not None
        assert (status.id, status.queue, status.state, status.attempts) == (message.id, "jobs", "succeeded", 1)
        assert (status.created_at, status.started_at, status.finished_at) == (began, began + 5, began + 7)
        assert (status.result, queue.result(message)) == ({"sum": 3}, {"sum": 3})
        clock.advance(A_DAY)
        assert queue.status(message) is None
        with pytest.raises(ResultMissing, match="keep_results"):
            queue.result(message)

    def test_the_result_of_a_stale_consumer_is_refused(self, store: QueueStore, clock: FakeClock) -> None:
        queue = _queue(store)
        queue.put("x")
        stale = queue.get_message(block=False)
        clock.advance(11)
        current = queue.get_message(block=False)
        assert queue.ack(stale, result="of the stale one") is False
        assert queue.ack_many([stale], results=["of the stale one"]) == [False]
        status = queue.status(stale)
        assert status is not None and (status.state, status.attempts) == ("running", 2)
        assert queue.ack(current, result="of the current one")
        assert queue.ack(stale, result="too late") is False
        assert queue.result(stale) == "of the current one"

    def test_a_batch_keeps_the_results_of_those_that_are_current(self, store: QueueStore, clock: FakeClock) -> None:
        queue = _queue(store)
        queue.put_many(["a", "b"])
        (lost, _) = queue.get_messages(2, block=False)
        clock.advance(11)
        first, second = queue.get_messages(2, block=False)
        assert queue.ack_many([lost, first, second, second], results=[0, 1, 2, 3]) == [False, True, True, False]
        assert [queue.result(first), queue.result(second)] == [1, 2]

    def test_a_dead_letter_is_a_failure_until_it_is_requeued_and_after_it_is_gone(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        queue = _queue(store)
        message = queue.put("x")
        queue.dead_letter(queue.get_message(block=False), error=ValueError("no such customer"))
        with pytest.raises(JobFailed, match="ValueError: no such customer"):
            queue.result(message)
        queue.requeue_dead(message)
        status = queue.status(message)
        assert status is not None and status.state == "queued"
        queue.dead_letter(queue.get_message(block=False), error=ValueError("again"))
        clock.advance(1)
        assert queue.prune_dead_letters(older_than=0) == 1
        status = queue.status(message)
        assert status is not None and (status.state, status.attempts) == ("failed", 2)
        with pytest.raises(JobFailed, match="again"):
            queue.result(message)

    def test_cancelling_is_an_outcome_and_ends_the_lease(self, store: QueueStore) -> None:
        queue = _queue(store)
        queue.put("x")
        leased = queue.get_message(block=False)
        assert queue.cancel(leased.id)
        assert queue.cancel(leased.id) is False
        assert queue.ack(leased, result="too late") is False
        with pytest.raises(JobCancelled):
            queue.result(leased)

    def test_a_transaction_keeps_results_with_everything_else_or_not_at_all(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        queue = _queue(store)
        queue.put_many(["a", "b"])
        first, second = queue.get_messages(2, block=False)
        with queue.transaction() as tx:
            tx.ack(first, result=[1])
            tx.dead_letter(second, error="unwanted")
            tx.put("next")
        assert queue.result(first) == [1]
        with pytest.raises(JobFailed, match="unwanted"):
            queue.result(second)

    def test_whoever_waits_for_a_result_is_woken(self, live: QueueStore) -> None:
        queue = _queue(live)
        message = queue.put("x")
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(queue.result(message, timeout=PATIENCE)))
        thread.start()
        queue.ack(queue.get_message(timeout=PATIENCE), result="done")
        thread.join(PATIENCE)
        assert results == ["done"]


class SharedOutcomeContract:
    def test_two_processes_wait_for_one_result(self, live: QueueStore, harness: StoreHarness) -> None:
        queue = _queue(live)
        message = queue.put("x")
        context = harness.context()
        answers, waits = context.Queue(), [context.Event(), context.Event()]
        processes = [harness.in_process(wait_for_result, message.id, event, answers) for event in waits]
        assert all(event.wait(3 * PATIENCE) for event in waits)
        queue.ack(queue.get_message(timeout=PATIENCE), result={"for": "both"})
        assert [answers.get(timeout=3 * PATIENCE) for _ in processes] == [{"for": "both"}] * 2
        for process in processes:
            process.join(PATIENCE)
            assert process.exitcode == 0

    def test_progress_and_cancelling_pass_between_processes(self, live: QueueStore, harness: StoreHarness) -> None:
        queue = _queue(live)
        message = queue.put("x")
        context = harness.context()
        runs, answers = context.Event(), context.Queue()
        process = harness.in_process(work_until_cancelled, runs, answers)
        assert runs.wait(3 * PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while (status := queue.status(message)) is None or status.progress is None:
            assert time.monotonic() < deadline, "the progress was not told"
            time.sleep(0.002)
        assert (status.state, status.progress.fraction, status.progress.note) == ("running", 0.5, "half way")
        assert queue.cancel(message)
        assert answers.get(timeout=3 * PATIENCE) == (1, 1)
        process.join(PATIENCE)
        with pytest.raises(JobCancelled):
            queue.result(message)
