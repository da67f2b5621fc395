"""Capacity: decided in the transaction that inserts, so a limit of 50 admits exactly 50."""

from __future__ import annotations

import threading

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    Background,
    ack,
    assert_sound,
    counts,
    drain,
    lease,
    new,
    payloads,
    put,
    put_limited,
    put_many,
    release,
    stored,
    take,
)
from localqueue.errors import QueueFull
from localqueue.stores.port import Changes, Limit, NewMessage, QueueStore, RecordWrite, Settle


class CapacityContract:
    def test_a_full_queue_rejects(self, store: QueueStore) -> None:
        for _ in range(3):
            assert put_limited(store, Limit(3)).outcome == "stored"
        with pytest.raises(QueueFull) as caught:
            put_limited(store, Limit(3))
        assert (caught.value.queue, caught.value.maxsize) == ("jobs", 3)
        assert counts(store) == {"ready": 3}
        assert store.stats("jobs").dropped == 0

    def test_a_limit_of_zero_admits_everything(self, store: QueueStore) -> None:
        for _ in range(5):
            assert put_limited(store, Limit(0)).outcome == "stored"

    def test_a_limit_belongs_to_the_commit_that_names_it(self, store: QueueStore) -> None:
        put_many(store, "abc")
        put(store)
        with pytest.raises(QueueFull):
            put_limited(store, Limit(4))

    def test_ready_and_blocked_count_and_nothing_else(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="inflight", priority=9)
        inflight = take(store, timeout=1000)
        put(store, payload="delayed", delay=100)
        put(store, payload="waiting", after=(inflight.id,))
        put(store, payload="head", ordering_key="k")
        put(store, payload="blocked", ordering_key="k")
        assert store.load("jobs") == 2
        assert put_limited(store, Limit(3)).outcome == "stored"
        with pytest.raises(QueueFull):
            put_limited(store, Limit(3))
        assert store.load("jobs") == 3
        ack(store, inflight)
        assert store.load("jobs") == 4

    def test_a_lease_makes_room(self, store: QueueStore) -> None:
        put_limited(store, Limit(1))
        message = take(store)
        assert put_limited(store, Limit(1)).outcome == "stored"
        release(store, message)
        assert store.load("jobs") == 2
        with pytest.raises(QueueFull):
            put_limited(store, Limit(2))

    def test_messages_that_fell_due_count(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="delayed", delay=10)
        put(store, payload="leased")
        take(store, timeout=10)
        put(store, payload="short-lived", ttl=10)
        assert put_limited(store, Limit(2)).outcome == "stored"
        clock.advance(10)
        assert store.load("jobs") == 3
        with pytest.raises(QueueFull):
            put_limited(store, Limit(3))
        assert put_limited(store, Limit(4)).outcome == "stored"

    def test_a_batch_larger_than_the_room_is_rejected_whole(self, store: QueueStore) -> None:
        put_many(store, "ab")
        batch = [new(store) for _ in range(3)]
        with pytest.raises(QueueFull):
            store.commit(Changes(enqueue=batch, limits={"jobs": Limit(4)}, records=[RecordWrite("result", "a", b"1")]))
        assert counts(store) == {"ready": 2}
        assert store.record("result", "a") is None
        assert store.commit(Changes(enqueue=batch[:2], limits={"jobs": Limit(4)})).enqueued[1].outcome == "stored"

    def test_a_full_queue_rejects_the_settles_of_the_commit_too(self, store: QueueStore) -> None:
        put_limited(store, Limit(1), "full")
        put(store)
        message = take(store)
        with pytest.raises(QueueFull):
            store.commit(
                Changes(
                    enqueue=[new(store, "full")],
                    settle=[Settle("jobs", message.id, "ack", message.attempts)],
                    limits={"full": Limit(1)},
                )
            )
        assert counts(store) == {"inflight": 1}

    def test_a_duplicate_comes_with_a_message_that_the_same_commit_drops(self, store: QueueStore) -> None:
        dropped = put(store, payload="held", dedupe_key="d")
        messages = [new(store, payload="again", dedupe_key="d"), new(store, payload="newer")]
        limits = {"jobs": Limit(1, "drop-oldest")}
        again, newer = store.commit(Changes(enqueue=messages, limits=limits)).enqueued
        assert (again.outcome, newer.outcome) == ("duplicate", "stored")
        assert again.existing is not None
        assert (again.existing.id, again.existing.payload) == (dropped, "held")
        assert payloads(store.scan("jobs")) == ["newer"]

    def test_a_duplicate_on_a_full_queue_is_a_duplicate(self, store: QueueStore) -> None:
        first = put(store, dedupe_key="d")
        for overflow in ("reject", "drop-newest", "drop-oldest"):
            done = put_limited(store, Limit(1, overflow), dedupe_key="d")
            assert done.outcome == "duplicate"
            assert done.existing == stored(store, first)
        assert store.stats("jobs").dropped == 0

    def test_drop_newest_refuses_the_new_message_and_counts_it(self, store: QueueStore) -> None:
        limit = Limit(2, "drop-newest")
        done = [put_limited(store, limit, payload=value) for value in "abcd"]
        assert [one.outcome for one in done] == ["stored", "stored", "dropped", "dropped"]
        assert done[2].state == "dropped"
        assert store.stats("jobs").dropped == 2
        assert store.stats("jobs").total == 2
        assert drain(store) == ["a", "b"]

    def test_drop_oldest_makes_room_and_counts_what_it_dropped(self, store: QueueStore, clock: FakeClock) -> None:
        limit = Limit(2, "drop-oldest")
        for value in "abcd":
            assert put_limited(store, limit, payload=value).outcome == "stored"
            clock.advance(1)
        assert store.stats("jobs").dropped == 2
        assert_sound(store)
        assert drain(store) == ["c", "d"]

    def test_drop_oldest_drops_by_age_and_not_by_priority(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="urgent", priority=9)
        clock.advance(1)
        put(store, payload="plain")
        put_limited(store, Limit(2, "drop-oldest"), payload="new")
        assert drain(store) == ["plain", "new"]

    def test_drop_oldest_never_touches_a_leased_message(self, store: QueueStore) -> None:
        put(store, ordering_key="k")
        held = take(store)
        put(store, payload="blocked", ordering_key="k")
        assert put_limited(store, Limit(1, "drop-oldest"), payload="new").outcome == "stored"
        assert counts(store) == {"inflight": 1, "ready": 1}
        assert ack(store, held)
        assert_sound(store)

    def test_an_overflow_queue_takes_what_does_not_fit(self, store: QueueStore) -> None:
        limit = Limit(1, "overflow-queue", "spill")
        assert put_limited(store, limit, payload="a").outcome == "stored"
        spilled = put_limited(store, limit, payload="b")
        assert (spilled.outcome, spilled.state) == ("diverted", "ready")
        assert store.stats("jobs").dropped == 0
        assert (drain(store), drain(store, "spill")) == (["a"], ["b"])

    def test_an_overflow_queue_dedupes_too(self, store: QueueStore) -> None:
        limit = Limit(1, "overflow-queue", "spill")
        put(store)
        assert put_limited(store, limit, dedupe_key="d").outcome == "diverted"
        again = put_limited(store, limit, dedupe_key="d")
        assert again.outcome == "duplicate"
        assert again.existing is not None
        assert again.existing.queue == "spill"
        assert counts(store, "spill") == {"ready": 1}

    def test_eight_threads_fill_a_queue_to_its_limit_and_not_beyond(self, live: QueueStore) -> None:
        outcomes: list[str] = []
        go = threading.Barrier(8)

        def produce() -> None:
            go.wait()
            for _ in range(15):
                try:
                    outcomes.append(put_limited(live, Limit(50)).outcome)
                except QueueFull:
                    outcomes.append("full")

        threads = Background()
        for _ in range(8):
            threads.start(produce)
        threads.join()
        assert outcomes.count("stored") == 50
        assert outcomes.count("full") == 70
        assert counts(live) == {"ready": 50}
        assert_sound(live)

    def test_threads_that_put_batches_never_exceed_the_limit(self, live: QueueStore) -> None:
        stored_batches: list[int] = []

        def produce() -> None:
            for _ in range(10):
                batch = [NewMessage(i, "jobs", "x") for i in live.mint(7)]
                try:
                    live.commit(Changes(enqueue=batch, limits={"jobs": Limit(50)}))
                    stored_batches.append(7)
                except QueueFull:
                    pass

        threads = Background()
        for _ in range(4):
            threads.start(produce)
        threads.join()
        assert sum(stored_batches) == 49
        assert len(lease(live, limit=100)) == 49
