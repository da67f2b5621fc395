"""Timers: delays, leases and lives that run out, without anything running in the background."""

from __future__ import annotations

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    ack,
    assert_sound,
    counts,
    dead_letter,
    drain,
    lease,
    override,
    payloads,
    put,
    put_limited,
    put_many,
    release,
    state_of,
    stored,
    take,
)
from localqueue.stores.port import Limit, QueueStore


class TimerContract:
    def test_a_message_past_its_ttl_is_not_delivered(self, store: QueueStore, clock: FakeClock) -> None:
        gone = put(store, payload="gone", ttl=5)
        put(store, payload="kept", ttl=6)
        assert stored(store, gone).expires_at == clock() + 5
        clock.advance(5)
        assert payloads(lease(store, limit=10)) == ["kept"]
        assert counts(store) == {"inflight": 1, "expired": 1}
        (expired,) = store.scan("jobs", state="expired")
        assert (expired.id, expired.state) == (gone, "expired")
        assert_sound(store)

    def test_a_ttl_of_zero_expires_at_once(self, store: QueueStore) -> None:
        message_id = put(store, ttl=0)
        assert state_of(store, message_id) == "expired"
        assert lease(store) == []
        assert_sound(store)

    def test_counts_follow_the_clock_before_anyone_leases(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="ttl", ttl=5)
        put(store, payload="delayed", delay=5)
        put(store, payload="leased", priority=1)
        take(store, timeout=5)
        assert counts(store) == {"ready": 1, "delayed": 1, "inflight": 1}
        clock.advance(5)
        assert counts(store) == {"ready": 2, "expired": 1}
        assert (store.qsize("jobs"), store.load("jobs")) == (2, 2)
        assert store.stats("jobs").by_worker_id == {}
        assert sorted(drain(store)) == ["delayed", "leased"]

    def test_each_state_expires(self, store: QueueStore, clock: FakeClock) -> None:
        upstream = put(store, "other")
        head = put(store, ordering_key="k")
        ids = {
            "ready": put(store, ttl=5),
            "delayed": put(store, ttl=5, delay=3),
            "longer": put(store, ttl=5, delay=50),
            "waiting": put(store, ttl=5, after=(upstream,)),
            "blocked": put(store, ttl=5, ordering_key="k"),
        }
        clock.advance(5)
        assert take(store).id == head
        assert {state_of(store, message_id) for message_id in ids.values()} == {"expired"}
        assert lease(store, limit=10) == []
        assert_sound(store, ["jobs", "other"])

    def test_a_lease_outlives_the_ttl_and_may_be_acked(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, ttl=5)
        message = take(store, timeout=30)
        clock.advance(10)
        assert lease(store) == []
        assert state_of(store, message.id) == "inflight"
        assert ack(store, message)

    def test_a_message_released_past_its_ttl_is_expired(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, ttl=5)
        message = take(store, timeout=30)
        clock.advance(5)
        assert release(store, message)
        assert state_of(store, message.id) == "expired"
        assert lease(store) == []
        assert_sound(store)

    def test_a_message_whose_lease_ends_past_its_ttl_is_expired(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, ttl=5)
        message = take(store, timeout=10)
        clock.advance(10)
        assert counts(store) == {"expired": 1}
        assert lease(store) == []
        assert state_of(store, message.id) == "expired"

    def test_exhausted_attempts_win_over_the_ttl(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, ttl=5)
        message = take(store, timeout=10, max_attempts=1)
        clock.advance(10)
        assert lease(store, max_attempts=1) == []
        assert state_of(store, message.id) == "dead"

    def test_a_message_released_beyond_its_ttl_expires_on_time(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, ttl=20)
        message = take(store)
        release(store, message, delay=60)
        clock.advance(20)
        assert lease(store) == []
        assert state_of(store, message.id) == "expired"

    def test_requeue_clears_the_ttl(self, store: QueueStore, clock: FakeClock) -> None:
        expired = put(store, ttl=5)
        clock.advance(5)
        assert lease(store) == []
        assert store.requeue("jobs", [expired]) == 1
        clock.advance(1000)
        message = take(store)
        assert (message.id, message.expires_at) == (expired, None)

    def test_requeue_brings_a_dead_or_cancelled_message_back_whatever_its_ttl(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        dead, cancelled = put(store, ttl=5), put(store, ttl=5)
        dead_letter(store, take(store))
        override(store, cancelled, "cancel")
        clock.advance(10)
        assert store.requeue("jobs", [dead, cancelled]) == 2
        assert [message.id for message in lease(store, limit=5)] == [dead, cancelled]
        assert_sound(store)

    def test_requeue_of_all_leaves_expired_and_cancelled_messages(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, ttl=5)
        override(store, put(store), "cancel")
        clock.advance(5)
        assert lease(store) == []
        assert store.requeue("jobs") == 0
        assert counts(store) == {"expired": 1, "cancelled": 1}

    def test_hundreds_of_messages_past_their_ttl_are_never_delivered(self, store: QueueStore, clock: FakeClock) -> None:
        put_many(store, (str(n) for n in range(1200)), ttl=5)
        clock.advance(5)
        for _ in range(5):
            assert lease(store) == []
        assert counts(store) == {"expired": 1200}
        assert_sound(store)

    def test_a_ready_message_is_found_behind_any_number_that_expired(self, store: QueueStore, clock: FakeClock) -> None:
        put_many(store, (str(n) for n in range(1200)), ttl=5)
        put(store, payload="delayed", delay=6)
        clock.advance(10)
        assert store.qsize("jobs") == 1
        assert payloads(lease(store)) == ["delayed"]

    def test_hundreds_of_expired_leases_all_come_back(self, store: QueueStore, clock: FakeClock) -> None:
        ids = put_many(store, (str(n) for n in range(1200)))
        assert len(lease(store, limit=1200, timeout=5)) == 1200
        clock.advance(5)
        assert store.qsize("jobs") == 1200
        found: list[str] = []
        while batch := lease(store, limit=400):
            found += [message.id for message in batch]
        assert sorted(found) == ids
        assert_sound(store)

    def test_a_bounded_put_sees_room_that_a_ttl_made(self, store: QueueStore, clock: FakeClock) -> None:
        put_limited(store, Limit(1), ttl=5)
        clock.advance(5)
        assert put_limited(store, Limit(1), payload="new").outcome == "stored"
        assert drain(store) == ["new"]
        assert_sound(store)

    def test_nothing_is_ready_when_all_that_was_ready_is_past_its_ttl(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store, ttl=5)
        clock.advance(7)
        stats = store.stats("jobs")
        assert (stats.ready, stats.oldest_ready_age_seconds) == (0, None)
