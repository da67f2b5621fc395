"""Runs: messages that share a `run_id` are listed, counted, cancelled and waited for together."""

from __future__ import annotations

import threading

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    PATIENCE,
    Background,
    ack,
    assert_sound,
    counts,
    dead_letter,
    drain,
    lease,
    new,
    override,
    put,
    put_many,
    state_of,
    take,
)
from localqueue.errors import LeaseLost, RunCancelled
from localqueue.message import RunStats
from localqueue.stores.port import Changes, QueueStore, Settle
from localqueue.stores.rules import KNOWN


def _run(store: QueueStore, run_id: str = "r") -> RunStats:
    found = store.run(run_id)
    assert found is not None
    return found


class RunContract:
    def test_an_unknown_run_is_none(self, store: QueueStore) -> None:
        assert store.run("r") is None
        assert store.run_messages("r") == []
        assert store.cancel_run("r") == 0

    def test_runs_are_listed_by_id_and_in_pages(self, store: QueueStore) -> None:
        assert store.runs() == []
        names = ["r3", "r1", "naïve", "R", "r10", "日本", "r" * 500 + "b", "r" * 500 + "a", "🦄"]
        for n, name in enumerate(names):
            put(store, f"q{n % 2}", run_id=name)
        put(store, run_id="r1")
        put(store)
        ordered = sorted(names)
        assert store.runs() == ordered
        assert store.runs(limit=3) == ordered[:3]
        assert store.runs(after=ordered[2], limit=4) == ordered[3:7]
        assert store.runs(after=ordered[-1]) == store.runs(limit=0) == []

    def test_a_run_that_is_over_is_still_listed(self, store: QueueStore) -> None:
        put_many(store, "ab", run_id="done")
        drain(store)
        put(store, run_id="cancelled")
        store.cancel_run("cancelled")
        with pytest.raises(RunCancelled):
            store.commit(Changes(enqueue=[new(store, run_id="new"), new(store, run_id="cancelled")]))
        assert store.runs() == ["cancelled", "done"]

    def test_a_run_counts_its_messages_in_every_queue(self, store: QueueStore) -> None:
        first = put(store, run_id="r")
        put(store, "other", run_id="r", delay=60)
        put(store, run_id="r", after=(first,))
        put(store, run_id="r", ordering_key="k")
        put(store, run_id="r", ordering_key="k")
        put(store)
        put(store, run_id="another")
        assert _run(store) == RunStats("r", total=5, ready=2, delayed=1, waiting=1, blocked=1)
        message = take(store)
        assert _run(store) == RunStats("r", total=5, ready=1, delayed=1, inflight=1, waiting=1, blocked=1)
        ack(store, message)
        assert _run(store) == RunStats("r", total=5, done=1, ready=2, delayed=1, blocked=1)
        assert _run(store).state == "running"

    def test_a_run_whose_messages_are_all_acked_succeeded(self, store: QueueStore) -> None:
        put_many(store, "abc", run_id="r")
        drain(store)
        assert _run(store) == RunStats("r", total=3, done=3)
        assert _run(store).state == "succeeded"

    def test_a_run_whose_dead_letter_holds_others_back_is_stalled(self, store: QueueStore) -> None:
        first = put(store, run_id="r")
        put(store, run_id="r", after=(first,))
        dead_letter(store, take(store))
        assert (_run(store).state, _run(store).dead, _run(store).waiting) == ("stalled", 1, 1)
        store.requeue("jobs")
        assert _run(store).state == "running"

    def test_a_run_with_nothing_left_but_a_dead_letter_failed(self, store: QueueStore) -> None:
        put_many(store, "ab", run_id="r")
        dead_letter(store, take(store))
        drain(store)
        assert (_run(store).state, _run(store).total, _run(store).done, _run(store).dead) == ("failed", 2, 1, 1)

    def test_messages_of_a_run_are_listed_by_id_and_in_pages(self, store: QueueStore) -> None:
        ids = [put(store, f"q{n % 3}", run_id="r") for n in range(9)]
        put(store, "q1")
        assert [m.id for m in store.run_messages("r")] == ids
        assert [m.id for m in store.run_messages("r", limit=4)] == ids[:4]
        assert [m.id for m in store.run_messages("r", after=ids[3], limit=4)] == ids[4:8]
        assert {m.run_id for m in store.run_messages("r")} == {"r"}

    def test_cancelling_a_run_takes_everything_live_out_of_delivery(self, store: QueueStore) -> None:
        first = put(store, run_id="r", priority=9)
        held = take(store)
        put(store, "other", run_id="r")
        put(store, run_id="r", delay=60)
        put(store, run_id="r", after=(first,))
        put_many(store, "ab", run_id="r", ordering_key="k")
        dead = put(store, "dead", run_id="r")
        override(store, dead, "dead-letter", "dead")
        mine = put(store, ordering_key="k")
        assert store.cancel_run("r") == 6
        assert (_run(store).cancelled, _run(store).dead, _run(store).state) == (6, 1, "cancelled")
        assert state_of(store, dead, "dead") == "dead"
        assert not ack(store, held)
        assert take(store).id == mine
        assert lease(store) == lease(store, "other") == []
        assert store.cancel_run("r") == 0
        assert_sound(store, ["jobs", "other", "dead"])

    def test_a_cancelled_run_takes_no_new_messages(self, store: QueueStore) -> None:
        put(store, run_id="r")
        store.cancel_run("r")
        with pytest.raises(RunCancelled):
            store.commit(Changes(enqueue=[new(store, "other"), new(store, run_id="r")]))
        assert store.scan("other") == []
        assert _run(store).total == 1
        put(store, run_id="r2")

    def test_a_handler_of_a_cancelled_run_can_not_commit(self, store: QueueStore) -> None:
        put(store, run_id="r")
        message = take(store)
        store.cancel_run("r")
        with pytest.raises(LeaseLost):
            store.commit(
                Changes(enqueue=[new(store, "other")], settle=[Settle("jobs", message.id, "ack", message.attempts)])
            )
        assert store.scan("other") == []

    def test_a_duplicate_is_no_new_member_of_a_run(self, store: QueueStore) -> None:
        put(store, run_id="r", dedupe_key="d")
        store.commit(Changes(enqueue=[new(store, run_id="r", dedupe_key="d")]))
        assert _run(store).total == 1

    def test_what_a_rejected_commit_would_have_put_is_not_counted(self, store: QueueStore) -> None:
        put(store, run_id="r")
        with pytest.raises(ValueError, match="nope"):
            store.commit(Changes(enqueue=[new(store, run_id="r"), new(store, after=("nope",))]))
        assert _run(store).total == 1

    def test_an_expired_message_counts_as_expired_in_its_run(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, run_id="r", ttl=5)
        clock.advance(5)
        assert lease(store) == []
        assert (_run(store).expired, _run(store).state) == (1, "failed")

    def test_a_listener_of_a_run_wakes_when_something_of_it_changes(self, live: QueueStore) -> None:
        put(live, run_id="r")
        with live.listen_run("r") as waiter:
            assert not waiter.wait(0)
            ready = threading.Event()

            def work() -> None:
                ready.wait(PATIENCE)
                ack(live, take(live))

            threads = Background()
            threads.start(work)
            ready.set()
            while _run(live).state != "succeeded":
                assert waiter.wait(PATIENCE)
            threads.join()
            assert counts(live) == {}

    def test_a_listener_of_a_run_hears_of_queues_made_later(self, live: QueueStore) -> None:
        put(live, run_id="r")
        with live.listen_run("r") as waiter:
            threads = Background()
            threads.start(lambda: put(live, "a-new-queue", run_id="r"))
            assert waiter.wait(PATIENCE)
            threads.join()

    @pytest.mark.slow
    def test_counts_of_a_run_are_one_moment_while_others_work(self, live: QueueStore) -> None:
        put_many(live, (str(n) for n in range(300)), run_id="r")
        threads = Background()
        done = threading.Event()

        def work() -> None:
            drain(live)
            done.set()

        threads.start(work)
        while not done.is_set():
            run = _run(live)
            assert run.done + run.ready + run.inflight == run.total == 300
        threads.join()

    def test_a_run_that_nobody_has_touched_for_long_is_forgotten_unless_it_has_messages(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store, run_id="over")
        put(store, "kept", run_id="kept")
        assert ack(store, take(store))
        put(store, run_id="busy")
        assert ack(store, take(store))
        clock.advance(KNOWN / 2)
        put(store, run_id="busy")
        assert ack(store, take(store))
        clock.advance(KNOWN / 2 + 3700)
        for n in range(20):
            put(store, run_id=f"new {n}")
        assert store.run("over") is None and "over" not in store.runs()
        busy, kept = store.run("busy"), store.run("kept")
        assert busy is not None and (busy.total, busy.done) == (2, 2)
        assert kept is not None and (kept.total, kept.ready) == (1, 1)
        put(store, run_id="over")
        again = store.run("over")
        assert again is not None and again.total == 1
        assert_sound(store, ["jobs", "kept"])
