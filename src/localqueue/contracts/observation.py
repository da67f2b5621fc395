"""Observing: what a call did to messages beside what it was asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    Background,
    lease,
    override,
    put,
    put_limited,
    put_many,
    release,
    take,
)
from localqueue.errors import LeaseLost
from localqueue.stores.port import Changes, Limit, QueueStore, Settle

OpenStore = Callable[..., QueueStore]


class ObserveContract:
    def test_observing_shows_what_the_result_of_a_call_does_not(self, store: QueueStore, clock: FakeClock) -> None:
        message_id = put(store)
        with store.observe() as seen:
            message = take(store, leased_by="w")
            release(store, message, error={"message": "no"}, max_attempts=1)
        (dead,) = seen
        assert (dead.type, dead.queue, dead.id, dead.attempt) == ("dead_lettered", "jobs", message_id, 1)
        assert (dead.at, dead.leased_by, dead.leased_at) == (clock(), "w", clock())
        assert dead.error == {"message": "no"}

    def test_observing_shows_timers_that_a_claim_settles(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="lost")
        take(store, timeout=5, max_attempts=1, leased_by="w")
        put(store, payload="stale", ttl=3)
        clock.advance(10)
        with store.observe() as seen:
            assert lease(store) == []
        assert sorted(one.type for one in seen) == ["dead_lettered", "expired", "lease_expired"]
        (lost,) = (one for one in seen if one.type == "lease_expired")
        assert lost.leased_by == "w"

    def test_observing_shows_removals_and_returns(self, store: QueueStore) -> None:
        message_id = put(store)
        with store.observe() as seen:
            override(store, message_id, "dead-letter")
            store.requeue("jobs")
            override(store, message_id, "cancel")
            store.prune("jobs", state="cancelled", older_than=0)
            put_limited(store, Limit(1, "drop-oldest"))
            put_limited(store, Limit(1, "drop-oldest"))
            store.purge("jobs")
            put(store, ttl=0)
        assert [one.type for one in seen] == [
            *("dead_lettered", "requeued", "cancelled", "pruned", "dropped", "purged", "expired"),
        ]

    def test_observing_shows_only_calls_of_this_thread_and_only_what_was_committed(self, store: QueueStore) -> None:
        first, second = put_many(store, "ab")
        with store.observe() as outer:
            with store.observe() as inner:
                override(store, first, "dead-letter")
            threads = Background()
            threads.start(override, store, second, "dead-letter")
            threads.join()
            with pytest.raises(LeaseLost):
                store.commit(
                    Changes(settle=[Settle("jobs", first, "cancel"), Settle("jobs", second, "ack", 9)], strict=True)
                )
        assert [one.id for one in inner] == [first]
        assert outer == []
        override(store, put(store), "cancel")
        assert outer == [] and len(inner) == 1
