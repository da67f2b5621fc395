"""Dependencies: a message waits until all it comes after are acked, and the last of those acks frees it."""

from __future__ import annotations

import time

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    ack,
    assert_sound,
    counts,
    dead_letter,
    drain,
    lease,
    new,
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
from localqueue.errors import UnknownMessage
from localqueue.stores.port import Changes, Limit, NewMessage, QueueStore
from localqueue.stores.rules import REMEMBERED


class DependencyContract:
    def test_a_message_waits_for_the_one_it_comes_after(self, store: QueueStore) -> None:
        first = put(store, payload="first")
        second = put(store, payload="second", after=(first,))
        assert (state_of(store, second), stored(store, second).waiting_on) == ("waiting", 1)
        assert store.upstream("jobs", second) == [first]
        message = take(store)
        assert lease(store) == []
        assert ack(store, message)
        assert (state_of(store, second), stored(store, second).waiting_on) == ("ready", 0)
        assert store.upstream("jobs", second) == []
        assert drain(store) == ["second"]

    def test_a_chain_runs_in_order(self, store: QueueStore) -> None:
        previous: tuple[str, ...] = ()
        for n in range(10):
            previous = (put(store, payload=str(n), after=previous, priority=n),)
        assert counts(store) == {"ready": 1, "waiting": 9}
        assert drain(store) == [str(n) for n in range(10)]

    def test_a_diamond_in_one_batch(self, store: QueueStore) -> None:
        top, left, right, bottom = store.mint(4)
        store.commit(
            Changes(
                enqueue=[
                    NewMessage(top, "jobs", "top"),
                    NewMessage(left, "jobs", "left", after=(top,)),
                    NewMessage(right, "jobs", "right", after=(top,)),
                    NewMessage(bottom, "jobs", "bottom", after=(left, right)),
                ]
            )
        )
        assert counts(store) == {"ready": 1, "waiting": 3}
        ack(store, take(store))
        one, two = lease(store, limit=5)
        assert sorted(payloads([one, two])) == ["left", "right"]
        ack(store, two)
        assert lease(store) == []
        assert store.upstream("jobs", bottom) == [one.id]
        ack(store, one)
        assert drain(store) == ["bottom"]

    def test_a_fan_in_of_a_thousand(self, store: QueueStore) -> None:
        ids = put_many(store, (str(n) for n in range(1000)))
        join = put(store, "joins", after=tuple(ids))
        assert stored(store, join, "joins").waiting_on == 1000
        assert store.upstream("joins", join) == ids
        for message in lease(store, limit=999):
            assert ack(store, message)
        assert (stored(store, join, "joins").waiting_on, lease(store, "joins")) == (1, [])
        ack(store, take(store))
        assert take(store, "joins").id == join
        assert_sound(store, ["jobs", "joins"])

    def test_a_fan_out_of_a_thousand(self, store: QueueStore) -> None:
        root = put(store)
        put_many(store, (str(n) for n in range(1000)), "leaves", after=(root,))
        assert counts(store, "leaves") == {"waiting": 1000}
        ack(store, take(store))
        assert counts(store, "leaves") == {"ready": 1000}
        assert payloads(lease(store, "leaves", limit=1000)) == [str(n) for n in range(1000)]
        assert_sound(store, ["jobs", "leaves"])

    def test_an_upstream_that_is_already_acked_does_not_hold(self, store: QueueStore) -> None:
        done = put(store)
        ack(store, take(store))
        assert state_of(store, put(store, after=(done,))) == "ready"
        pending = put(store)
        both = put(store, after=(done, pending))
        assert (state_of(store, both), stored(store, both).waiting_on) == ("waiting", 1)

    def test_an_upstream_that_was_consumed_at_most_once_does_not_hold(self, store: QueueStore) -> None:
        done = put(store)
        lease(store, consume=True)
        assert state_of(store, put(store, after=(done,))) == "ready"

    @pytest.mark.parametrize("unknown", ["", "nope", "0" * 32, "f" * 32, "\x00", "'; --"])
    def test_an_upstream_that_never_existed_is_refused(self, store: QueueStore, unknown: str) -> None:
        known = put(store)
        with pytest.raises(UnknownMessage):
            put(store, payload="dependent", after=(known, unknown))
        assert [message.id for message in store.scan("jobs")] == [known]
        assert_sound(store)

    def test_an_upstream_that_was_purged_or_pruned_is_refused(self, store: QueueStore, clock: FakeClock) -> None:
        purged = put(store)
        store.purge("jobs")
        pruned = put(store)
        dead_letter(store, take(store))
        assert store.prune("jobs", state="dead", older_than=0) == 1
        for gone in (purged, pruned):
            with pytest.raises(UnknownMessage):
                put(store, "later", after=(gone,))
        assert store.scan("later") == []

    def test_an_upstream_that_was_dropped_is_refused(self, store: QueueStore) -> None:
        dropped = put(store)
        store.commit(Changes(enqueue=[new(store)], limits={"jobs": Limit(1, "drop-oldest")}))
        with pytest.raises(UnknownMessage):
            put(store, "later", after=(dropped,))

    def test_nothing_comes_after_a_message_of_the_same_commit_that_was_dropped(self, store: QueueStore) -> None:
        put(store)
        refused = new(store)
        later = new(store, "later", after=(refused.id,))
        with pytest.raises(UnknownMessage):
            store.commit(Changes(enqueue=[refused, later], limits={"jobs": Limit(1, "drop-newest")}))
        assert store.scan("later") == []
        assert store.stats("jobs").dropped == 0

    def test_what_comes_after_a_duplicate_of_the_same_commit_does_not_run_early(self, store: QueueStore) -> None:
        first = put(store, dedupe_key="d")
        duplicate = new(store, dedupe_key="d")
        later = new(store, "later", after=(duplicate.id,))
        try:
            store.commit(Changes(enqueue=[duplicate, later]))
        except UnknownMessage:
            assert store.scan("later") == []
        else:
            assert store.upstream("later", later.id) == [first]
            assert state_of(store, later.id, "later") == "waiting"

    def test_a_message_of_the_commit_may_be_named_before_it_comes(self, store: QueueStore) -> None:
        """Or the commit is refused; what must not happen is that the dependent runs early."""
        early, late = store.mint(2)
        batch = [NewMessage(early, "jobs", "dependent", after=(late,)), NewMessage(late, "jobs", "upstream")]
        try:
            store.commit(Changes(enqueue=batch))
        except UnknownMessage:
            assert store.scan("jobs") == []
        else:
            assert drain(store) == ["upstream", "dependent"]

    def test_a_message_can_not_come_after_itself(self, store: QueueStore) -> None:
        (own,) = store.mint()
        with pytest.raises(ValueError, match=own):
            store.commit(Changes(enqueue=[NewMessage(own, "jobs", "x", after=(own,))]))
        assert store.scan("jobs") == []

    def test_messages_of_a_commit_can_not_wait_for_each_other_in_a_circle(self, store: QueueStore) -> None:
        a, b = store.mint(2)
        with pytest.raises(ValueError, match=r"[0-9a-f]{32}"):
            store.commit(
                Changes(enqueue=[NewMessage(a, "jobs", "a", after=(b,)), NewMessage(b, "jobs", "b", after=(a,))])
            )
        assert store.scan("jobs") == []

    def test_an_upstream_named_twice_counts_once(self, store: QueueStore) -> None:
        first = put(store)
        second = put(store, payload="second", after=(first, first))
        assert stored(store, second).waiting_on == 1
        ack(store, take(store))
        assert drain(store) == ["second"]

    def test_a_dead_upstream_leaves_its_dependents_waiting_until_it_is_requeued_and_acked(
        self, store: QueueStore
    ) -> None:
        first = put(store)
        second = put(store, after=(first,))
        dead_letter(store, take(store))
        assert lease(store) == []
        assert state_of(store, second) == "waiting"
        assert store.upstream("jobs", second) == [first]
        store.requeue("jobs")
        ack(store, take(store))
        assert take(store).id == second

    def test_a_cancelled_or_expired_upstream_leaves_its_dependents_waiting_visibly(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        cancelled, expired = put(store), put(store, ttl=5)
        second = put(store, after=(cancelled, expired))
        override(store, cancelled, "cancel")
        clock.advance(5)
        assert lease(store) == []
        assert counts(store) == {"waiting": 1, "cancelled": 1, "expired": 1}
        assert store.upstream("jobs", second) == [cancelled, expired]

    def test_a_purged_upstream_leaves_its_dependents_waiting_visibly(self, store: QueueStore) -> None:
        first = put(store)
        second = put(store, "later", after=(first,))
        store.purge("jobs")
        assert lease(store, "later") == []
        assert store.upstream("later", second) == [first]
        assert_sound(store, ["jobs", "later"])

    def test_a_released_upstream_still_holds(self, store: QueueStore) -> None:
        first = put(store)
        second = put(store, after=(first,))
        release(store, take(store))
        assert state_of(store, second) == "waiting"
        ack(store, take(store))
        assert state_of(store, second) == "ready"

    def test_an_operators_ack_of_the_upstream_frees(self, store: QueueStore) -> None:
        dead, ready = put(store), put(store)
        second = put(store, after=(dead, ready))
        dead_letter(store, take(store))
        assert override(store, dead, "ack")
        assert override(store, ready, "ack")
        assert state_of(store, second) == "ready"
        assert_sound(store)

    def test_an_operators_ack_of_a_waiting_message_counts_as_done(self, store: QueueStore) -> None:
        first = put(store, payload="first")
        second = put(store, payload="second", after=(first,))
        put(store, payload="third", after=(second,))
        assert override(store, second, "ack")
        assert counts(store) == {"ready": 2}
        assert drain(store) == ["first", "third"]
        assert_sound(store)

    def test_a_waiting_message_can_be_cancelled_and_requeued_to_wait_again(self, store: QueueStore) -> None:
        first = put(store)
        second = put(store, after=(first,))
        override(store, second, "cancel")
        store.requeue("jobs", [second])
        assert (state_of(store, second), store.upstream("jobs", second)) == ("waiting", [first])
        override(store, second, "cancel")
        ack(store, take(store))
        assert state_of(store, second) == "cancelled"
        store.requeue("jobs", [second])
        assert take(store).id == second
        assert_sound(store)

    def test_dependencies_cross_queues(self, store: QueueStore) -> None:
        first = put(store, "one")
        second = put(store, "two", after=(first,))
        put(store, "three", after=(first, second))
        ack(store, take(store, "one"))
        assert lease(store, "three") == []
        ack(store, take(store, "two"))
        take(store, "three")

    def test_nothing_comes_after_a_message_that_was_dropped_when_it_was_put(self, store: QueueStore) -> None:
        put_limited(store, Limit(1, "drop-newest"))
        dropped = new(store)
        (done,) = store.commit(Changes(enqueue=[dropped], limits={"jobs": Limit(1, "drop-newest")})).enqueued
        assert done.outcome == "dropped"
        with pytest.raises(UnknownMessage, match="removed without being acked"):
            put(store, "later", after=(dropped.id,))
        assert store.scan("later") == []
        assert_sound(store, ["jobs", "later"])

    def test_what_is_gone_for_long_is_neither_taken_for_acked_nor_kept_in_mind(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        clock.advance(time.time() - clock())
        acked, kept = put(store), put(store, "kept")
        assert ack(store, take(store))
        put(store, "later", after=(acked,))
        clock.advance(REMEMBERED + 60)
        with pytest.raises(UnknownMessage, match="nobody knows whether it was acked or removed"):
            put(store, "later", after=(acked,))
        put(store, "later", after=(kept,))
        assert len(store.scan("later")) == 2
        assert_sound(store, ["jobs", "later", "kept"])
