"""Leases: who holds a message, for how long, and what becomes of it when the lease ends."""

from __future__ import annotations

from typing import Any

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    ack,
    assert_sound,
    counts,
    drain,
    lease,
    override,
    payloads,
    put,
    put_many,
    release,
    state_of,
    stored,
    take,
)
from localqueue.errors import LeaseLost
from localqueue.stores.port import Changes, Lease, LeaseRequest, QueueStore, Settle


class LeaseContract:
    def test_a_lease_carries_the_message_and_says_who_holds_it_until_when(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store, payload="hello", headers='{"a":"b"}', codec="raw", dedupe_key="d", run_id="r", ordering_key="o")
        message = take(store, timeout=12.5, leased_by="worker-1")
        assert message == stored(store, message.id)
        assert (message.queue, message.state, message.payload, message.codec) == ("jobs", "inflight", "hello", "raw")
        assert (message.headers, message.dedupe_key, message.run_id) == ('{"a":"b"}', "d", "r")
        assert (message.attempts, message.leased_by, message.ordering_key) == (1, "worker-1", "o")
        assert message.leased_until == clock() + 12.5
        assert message.created_at == message.available_at == clock()

    def test_a_leased_message_is_not_handed_out_again(self, store: QueueStore) -> None:
        put(store)
        take(store)
        assert lease(store) == []
        assert counts(store) == {"inflight": 1}

    def test_an_empty_or_unknown_queue_has_nothing_to_lease(self, store: QueueStore) -> None:
        assert lease(store, "nobody-knows-me") == []
        assert store.queues() == []
        put(store)
        drain(store)
        assert lease(store, limit=10) == []

    def test_a_batch_lease_takes_no_more_than_there_is_and_no_more_than_asked(self, store: QueueStore) -> None:
        put_many(store, "abcde")
        assert payloads(lease(store, limit=3)) == ["a", "b", "c"]
        assert payloads(lease(store, limit=10)) == ["d", "e"]
        assert counts(store) == {"inflight": 5}

    def test_a_message_given_back_unseen_keeps_its_place_and_its_tries(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put_many(store, "abcde")
        first, *unseen = lease(store, limit=4)
        clock.advance(5)
        for message in unseen:
            assert release(store, message, forgive=True)
        assert counts(store) == {"ready": 4, "inflight": 1}
        again = lease(store, limit=10)
        assert payloads(again) == ["b", "c", "d", "e"]
        assert [(message.attempts, message.forgiven) for message in again] == [(2, 1), (2, 1), (2, 1), (1, 0)]
        assert [message.available_at for message in again] == [first.available_at] * 4
        assert_sound(store)

    def test_giving_back_unseen_is_fenced_like_any_settle(self, store: QueueStore) -> None:
        put(store)
        stale = take(store)
        release(store, stale)
        current = take(store)
        assert not release(store, stale, forgive=True)
        assert stored(store, current.id) == current

    def test_giving_back_unseen_never_uses_up_the_attempts(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        for _ in range(5):
            assert release(store, take(store, max_attempts=1), forgive=True, max_attempts=1)
        assert counts(store) == {"ready": 1}
        last = take(store, max_attempts=1, timeout=10.0)
        assert (last.attempts, last.forgiven) == (6, 5)
        clock.advance(10)
        assert lease(store, max_attempts=1) == []
        assert state_of(store, last.id) == "dead"

    def test_giving_back_unseen_keeps_the_head_of_an_ordering_key(self, store: QueueStore) -> None:
        put_many(store, "ab", ordering_key="k")
        release(store, take(store), forgive=True)
        assert drain(store) == ["a", "b"]

    @pytest.mark.parametrize("options", [{}, {"ordering_key": "k"}, {"run_id": "r"}], ids=["plain", "key", "run"])
    @pytest.mark.parametrize("claims", [False, True], ids=["alone", "claiming"])
    def test_a_message_can_be_given_back_unseen_and_put_off_in_one_commit(
        self, store: QueueStore, clock: FakeClock, options: dict[str, Any], claims: bool
    ) -> None:
        put(store, payload="first", **options)
        put(store, "other")
        for n in range(1, 4):
            message = take(store, max_attempts=1)
            assert (message.attempts, message.forgiven) == (n, n - 1)
            unseen = Settle("jobs", message.id, "release", message.attempts, forgive=True, max_attempts=1)
            later = Settle("jobs", message.id, "release", None, delay=30.0)
            request = LeaseRequest("jobs", max_attempts=1) if claims else None
            done = store.commit(Changes(settle=[unseen, later], lease=request, strict=True))
            assert (done.settled, done.leased) == ([True, True], [])
            found = stored(store, message.id)
            assert (found.state, found.available_at) == ("delayed", store.now() + 30)
            assert lease(store) == []
            clock.advance(30)
        last = take(store, max_attempts=1, timeout=10.0)
        clock.advance(10)
        assert lease(store, max_attempts=1) == []
        assert state_of(store, last.id) == "dead"
        assert_sound(store)

    def test_a_message_that_is_put_off_with_its_lease_lost_is_left_alone(self, store: QueueStore) -> None:
        put(store)
        stale = take(store)
        release(store, stale)
        current = take(store)
        unseen = Settle("jobs", stale.id, "release", stale.attempts, forgive=True)
        later = Settle("jobs", stale.id, "release", None, delay=30.0)
        with pytest.raises(LeaseLost):
            store.commit(Changes(settle=[unseen, later], strict=True))
        assert stored(store, current.id) == current

    def test_a_message_that_was_put_off_can_be_made_ready(self, store: QueueStore) -> None:
        put(store, delay=60.0, payload="off")
        put(store, payload="ready")
        message = stored(store, store.scan("jobs", state="delayed")[0].id)
        assert override(store, message.id, "release", delay=0.0)
        assert counts(store) == {"ready": 2}
        assert stored(store, message.id).available_at == store.now()
        assert sorted(drain(store)) == ["off", "ready"]
        assert_sound(store)

    def test_each_delivery_has_its_own_token(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        tokens = []
        for _ in range(3):
            message = take(store)
            tokens.append(message.attempts)
            release(store, message)
        for _ in range(3):
            tokens.append(take(store, timeout=1).attempts)
            clock.advance(1)
        assert tokens == [1, 2, 3, 4, 5, 6]

    def test_a_lease_is_held_until_its_timeout_and_not_longer(self, store: QueueStore, clock: FakeClock) -> None:
        first = put(store)
        take(store, timeout=10)
        clock.advance(9.75)
        assert lease(store) == []
        clock.advance(0.25)
        again = take(store, leased_by="b")
        assert (again.id, again.attempts, again.leased_by) == (first, 2, "b")

    def test_renew_keeps_a_lease_past_its_first_timeout(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        message = take(store, timeout=10)
        clock.advance(8)
        held = Lease("jobs", message.id, message.attempts)
        assert store.renew([held], timeout=10) == [clock() + 10]
        assert stored(store, message.id).leased_until == clock() + 10
        clock.advance(9)
        assert lease(store) == []
        assert ack(store, message)

    def test_renew_can_shorten_a_lease(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        message = take(store, timeout=1000)
        store.renew([Lease("jobs", message.id, message.attempts)], timeout=2)
        clock.advance(2)
        assert take(store).id == message.id

    def test_renew_answers_for_each_lease_on_its_own(self, store: QueueStore, clock: FakeClock) -> None:
        put_many(store, "abc")
        put(store, "other")
        a, b, c = lease(store, limit=3)
        other = take(store, "other")
        ack(store, b)
        wanted = [Lease(m.queue, m.id, m.attempts) for m in (a, b, c, other)]
        wanted.append(Lease("jobs", a.id, 7))
        until = clock() + 60
        assert store.renew(wanted, timeout=60) == [until, None, until, until, None]
        assert store.renew([], timeout=60) == []

    def test_a_message_whose_consumers_keep_dying_becomes_a_dead_letter(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store)
        for attempt in (1, 2, 3):
            assert take(store, timeout=5, max_attempts=3).attempts == attempt
            clock.advance(5)
        assert lease(store, max_attempts=3) == []
        (dead,) = store.scan("jobs", state="dead")
        assert dead.attempts == 3
        assert (dead.leased_until, dead.leased_by, dead.failed_at) == (None, None, clock())
        assert dead.last_error is not None
        assert dead.last_error["type"] == "AttemptsExhausted"
        assert_sound(store)

    def test_a_requeued_message_may_be_lost_by_its_consumers_as_often_as_a_new_one(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store)
        for _ in range(2):
            for _ in range(2):
                take(store, timeout=5, max_attempts=2)
                clock.advance(5)
            assert lease(store, max_attempts=2) == []
            assert store.requeue("jobs") == 1

    def test_consume_delivers_at_most_once(self, store: QueueStore, clock: FakeClock) -> None:
        put_many(store, "abc", run_id="r")
        taken = lease(store, limit=2, consume=True, leased_by="w")
        assert payloads(taken) == ["a", "b"]
        for message in taken:
            assert not ack(store, message)
            assert not release(store, message)
        clock.advance(1000)
        assert drain(store) == ["c"]
        run = store.run("r")
        assert run is not None
        assert (run.total, run.done, run.state) == (3, 3, "succeeded")
        assert store.stats("jobs").leases_by_worker_id == {"w": 2}
        assert_sound(store)

    def test_consume_frees_the_key_the_dedupe_key_and_what_waited(self, store: QueueStore) -> None:
        first = put(store, payload="first", ordering_key="k", dedupe_key="d")
        put(store, payload="second", ordering_key="k")
        put(store, "later", after=(first,))
        assert payloads(lease(store, consume=True)) == ["first"]
        assert take(store).payload == "second"
        assert counts(store, "later") == {"ready": 1}
        put(store, dedupe_key="d")
        assert_sound(store, ["jobs", "later"])

    def test_settling_one_and_leasing_the_next_is_one_commit(self, store: QueueStore) -> None:
        put_many(store, "abc")
        message = take(store)
        seen = [message.payload]
        for _ in range(3):
            one = Settle("jobs", message.id, "ack", message.attempts)
            done = store.commit(Changes(settle=[one], lease=LeaseRequest("jobs", leased_by="w")))
            assert done.settled == [True]
            seen += payloads(done.leased)
            if done.leased:
                (message,) = done.leased
        assert seen == ["a", "b", "c"]
        assert store.scan("jobs") == []

    def test_a_rejected_settle_leases_nothing(self, store: QueueStore) -> None:
        put_many(store, "ab")
        message = take(store)
        stale: dict[str, Any] = {"token": message.attempts + 1}
        with pytest.raises(Exception, match="no longer leased"):
            store.commit(
                Changes(settle=[Settle("jobs", message.id, "ack", **stale)], lease=LeaseRequest("jobs", leased_by="w"))
            )
        assert counts(store) == {"ready": 1, "inflight": 1}
        assert store.stats("jobs").leases_by_worker_id == {}
        assert state_of(store, message.id) == "inflight"
