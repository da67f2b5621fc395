"""Order of delivery: by priority, then by the time a message became available, then by id; and per key, strictly."""

from __future__ import annotations

import random

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
    take,
)
from localqueue.stores.port import Limit, QueueStore, StoredMessage


class OrderingContract:
    def test_messages_come_in_the_order_they_were_put(self, live: QueueStore) -> None:
        for n in range(30):
            put(live, payload=str(n))
        assert drain(live) == [str(n) for n in range(30)]

    def test_messages_of_one_instant_come_in_the_order_of_their_ids(self, store: QueueStore) -> None:
        for n in range(20):
            put(store, payload=str(n))
        put_many(store, (str(n) for n in range(20, 60)))
        assert drain(store) == [str(n) for n in range(60)]

    def test_ids_ascend_and_messages_of_a_batch_keep_their_order(self, live: QueueStore) -> None:
        ids = live.mint(100) + live.mint(1) + live.mint(50)
        assert ids == sorted(set(ids))
        put_many(live, (str(n) for n in range(200)))
        assert payloads(lease(live, limit=200)) == [str(n) for n in range(200)]

    def test_priority_goes_first_on_a_real_clock(self, live: QueueStore) -> None:
        for priority in (1, 5, 3, 0, 9, 5):
            put(live, payload=f"{priority}", priority=priority)
        assert drain(live) == ["9", "5", "5", "3", "1", "0"]

    def test_priority_goes_first_on_a_frozen_clock_and_in_one_batch(self, store: QueueStore) -> None:
        for n, priority in enumerate((1, 5, 3, 0, 9, 5)):
            put(store, payload=f"{priority}-{n}", priority=priority)
        assert payloads(lease(store, limit=10)) == ["9-4", "5-1", "5-5", "3-2", "1-0", "0-3"]

    def test_a_released_message_goes_behind_those_that_were_available_before(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store, payload="a")
        clock.advance(1)
        put(store, payload="b")
        message = take(store)
        clock.advance(1)
        release(store, message)
        assert drain(store) == ["b", "a"]

    def test_an_expired_message_takes_its_place_by_the_time_its_lease_ended(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store, payload="a")
        take(store, timeout=10)
        clock.advance(5)
        put(store, payload="before")
        clock.advance(10)
        put(store, payload="after")
        assert drain(store) == ["before", "a", "after"]

    def test_delayed_messages_are_promoted_in_the_order_they_fall_due(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store, payload="third", delay=30)
        put(store, payload="first", delay=10)
        put(store, payload="second", delay=20)
        assert counts(store) == {"delayed": 3}
        assert lease(store) == []
        clock.advance(15)
        put(store, payload="between")
        clock.advance(15)
        assert drain(store) == ["first", "between", "second", "third"]

    def test_a_clock_that_jumps_forwards_frees_everything_once(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="leased")
        take(store, timeout=30)
        put(store, payload="delayed", delay=3600)
        clock.advance(10_000_000)
        assert drain(store) == ["leased", "delayed"]
        assert_sound(store)

    def test_a_clock_that_jumps_back_loses_nothing(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="ready")
        put(store, payload="leased", priority=1)
        held = take(store, timeout=30)
        clock.jump_back(3600)
        put(store, payload="delayed", delay=10)
        assert take(store).payload == "ready"
        assert lease(store) == []
        assert ack(store, held)
        clock.advance(10)
        assert take(store).payload == "delayed"
        assert store.stats("jobs").oldest_inflight_age_seconds == 0.0 or clock() < held.created_at
        clock.advance(7200)
        assert sorted(drain(store)) == ["delayed", "ready"]
        assert_sound(store)

    def test_a_ready_message_stays_ready_when_the_clock_jumps_back(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, delay=5)
        clock.advance(5)
        message = take(store)
        release(store, message)
        clock.jump_back(60)
        assert store.qsize("jobs") == 1
        assert take(store).id == message.id

    # per-key FIFO

    def test_messages_of_a_key_are_never_in_flight_together(self, store: QueueStore) -> None:
        for n in range(3):
            put(store, payload=f"a{n}", ordering_key="a")
            put(store, payload=f"b{n}", ordering_key="b")
        put(store, payload="free")
        assert counts(store) == {"ready": 3, "blocked": 4}
        assert payloads(lease(store, limit=10)) == ["a0", "b0", "free"]
        assert lease(store) == []

    def test_the_next_of_a_key_comes_when_the_one_before_is_acked(self, store: QueueStore) -> None:
        put_many(store, ["a0", "a1", "a2"], ordering_key="a")
        put_many(store, ["b0", "b1"], ordering_key="b")
        a, b = lease(store, limit=5)
        ack(store, a)
        assert payloads(lease(store, limit=5)) == ["a1"]
        ack(store, b)
        assert payloads(lease(store, limit=5)) == ["b1"]

    def test_keys_of_different_queues_do_not_meet(self, store: QueueStore) -> None:
        put(store, "one", ordering_key="k")
        put(store, "two", ordering_key="k")
        assert counts(store, "one") == counts(store, "two") == {"ready": 1}

    def test_order_of_a_key_is_kept_over_release_expiry_and_delay(self, store: QueueStore, clock: FakeClock) -> None:
        put_many(store, "abc", ordering_key="k")
        release(store, take(store), delay=10)
        assert lease(store) == []
        clock.advance(10)
        assert take(store, timeout=5).payload == "a"
        clock.advance(5)
        assert drain(store) == ["a", "b", "c"]

    def test_a_delayed_head_holds_its_key_back(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="a", ordering_key="k", delay=10)
        put(store, payload="b", ordering_key="k")
        assert counts(store) == {"delayed": 1, "blocked": 1}
        assert lease(store) == []
        clock.advance(10)
        assert drain(store) == ["a", "b"]

    def test_a_delayed_follower_keeps_its_delay_when_its_key_is_free(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="a", ordering_key="k")
        put(store, payload="b", ordering_key="k", delay=10)
        assert drain(store) == ["a"]
        assert counts(store) == {"delayed": 1}
        clock.advance(10)
        assert drain(store) == ["b"]

    def test_every_way_out_frees_the_key(self, store: QueueStore, clock: FakeClock) -> None:
        def leave_by_dead_letter(message: StoredMessage) -> None:
            assert dead_letter(store, message)

        def leave_by_cancel(message: StoredMessage) -> None:
            assert override(store, message.id, "cancel")

        def leave_by_operator_ack(message: StoredMessage) -> None:
            assert override(store, message.id, "ack")

        def leave_by_last_release(message: StoredMessage) -> None:
            assert release(store, message, max_attempts=1)

        def leave_by_last_expiry(message: StoredMessage) -> None:
            clock.advance(30)
            following = take(store, max_attempts=1)
            assert following.payload == "b"
            release(store, following)

        ways = (
            leave_by_dead_letter,
            leave_by_cancel,
            leave_by_operator_ack,
            leave_by_last_release,
            leave_by_last_expiry,
        )
        for way in ways:
            put_many(store, "abc", ordering_key="k")
            way(take(store))
            assert drain(store) == ["b", "c"], way.__name__
            assert_sound(store)

    def test_an_expired_head_frees_its_key(self, store: QueueStore, clock: FakeClock) -> None:
        head = put(store, payload="a", ordering_key="k", ttl=5)
        put(store, payload="b", ordering_key="k")
        clock.advance(5)
        assert take(store).payload == "b"
        assert state_of(store, head) == "expired"
        assert_sound(store)

    def test_a_whole_key_that_expires_together_is_counted_once(self, store: QueueStore, clock: FakeClock) -> None:
        put_many(store, "abcd", ordering_key="k", ttl=5)
        put(store, payload="e", ordering_key="k", ttl=6)
        put(store, payload="f", ordering_key="k")
        clock.advance(10)
        assert take(store).payload == "f"
        assert counts(store) == {"inflight": 1, "expired": 5}
        assert_sound(store)

    def test_a_dropped_head_frees_its_key(self, store: QueueStore) -> None:
        put(store, payload="a", ordering_key="k")
        put(store, payload="b", ordering_key="k")
        put_limited(store, Limit(2, "drop-oldest"), payload="c", ordering_key="k")
        assert_sound(store)
        assert drain(store) == ["b", "c"]

    def test_a_requeued_message_waits_its_turn_within_its_key(self, store: QueueStore) -> None:
        put_many(store, "abc", ordering_key="k")
        a = take(store)
        dead_letter(store, a)
        b = take(store)
        store.requeue("jobs", [a.id])
        assert state_of(store, a.id) == "blocked"
        ack(store, b)
        assert drain(store) == ["a", "c"]

    def test_random_work_on_keys_never_has_two_of_a_key_in_flight(self, store: QueueStore, clock: FakeClock) -> None:
        choose = random.Random(7)
        for n in range(60):
            put(store, payload=str(n), ordering_key=f"k{choose.randrange(5)}", delay=choose.choice((0, 0, 3)))
        held: list[StoredMessage] = []
        done: dict[str | None, list[int]] = {}
        for _ in range(2000):
            if not (counts(store).keys() - {"dead"}):
                break
            held = [m for m in held if m.leased_until is not None and m.leased_until > clock()]
            held += lease(store, limit=choose.randrange(1, 4), timeout=choose.choice((2, 5)))
            keys = [message.ordering_key for message in held]
            assert len(keys) == len(set(keys))
            if held:
                message = held.pop(choose.randrange(len(held)))
                if choose.random() < 0.6:
                    assert ack(store, message)
                    done.setdefault(message.ordering_key, []).append(int(message.payload))
                else:
                    release(store, message, delay=choose.choice((0, 1)))
            clock.advance(choose.choice((0, 0, 0.5, 1)))
        assert sum(len(order) for order in done.values()) == 60
        assert all(order == sorted(order) for order in done.values())
        assert_sound(store)
