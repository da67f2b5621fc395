"""Stores that persist: what was confirmed is there when the store is opened again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import ack, assert_sound, drain, lease, override, put, put_many, release, take
from localqueue.stores.port import Changes, QueueStore, RecordWrite

OpenStore = Callable[..., QueueStore]


class ReopenContract:
    @pytest.mark.parametrize("durability", ["process", "power"])
    def test_everything_is_there_after_reopening(
        self, open_store: OpenStore, clock: FakeClock, durability: str
    ) -> None:
        store = open_store(clock=clock, durability=durability)
        first = put(store, run_id="r", headers="{}")
        put(store, after=(first,))
        put_many(store, "ab", ordering_key="k")
        put(store, delay=60, ttl=90)
        override(store, put(store, dedupe_key="d"), "dead-letter")
        release(store, take(store, leased_by="w"), error={"message": "no"})
        take(store, timeout=60, leased_by="w")
        store.pause("other")
        store.pause("jobs", worker="lazy")
        store.subscribe("topic", "s")
        store.heartbeat("jobs", "w")
        store.commit(Changes(records=[RecordWrite("result", "a", b"1")]))

        def seen(of: QueueStore) -> object:
            return (
                of.scan("jobs"), of.stats("jobs"), of.run("r"), of.records("result"), of.subscriptions("topic"),
                of.paused("other"), of.queues(), of.run_messages("r"),
            )  # fmt: skip

        before = seen(store)
        store.close()
        again = open_store(clock=clock, durability=durability)
        assert seen(again) == before
        assert_sound(again)

    def test_a_lease_taken_before_is_good_after_reopening(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(clock=clock)
        put_many(store, "ab")
        kept, lost = lease(store, limit=2, timeout=10)
        store.close()
        store = open_store(clock=clock)
        assert lease(store) == []
        assert ack(store, kept)
        clock.advance(10)
        assert take(store).id == lost.id
        assert not ack(store, lost)

    def test_two_open_stores_see_each_others_work(self, open_store: OpenStore, clock: FakeClock) -> None:
        one, two = open_store(clock=clock), open_store(clock=clock)
        put(one, payload="a")
        message = take(two)
        assert lease(one) == []
        assert ack(one, message)
        assert not ack(two, message)
        put(two, "made-by-two", payload="b")
        assert one.queues() == two.queues() == ["jobs", "made-by-two"]
        assert drain(one, "made-by-two") == ["b"]
        assert_sound(two, ["jobs", "made-by-two"])

    def test_a_store_that_was_never_closed_lost_nothing(self, open_store: OpenStore, clock: FakeClock) -> None:
        abandoned = open_store(clock=clock)
        ids = put_many(abandoned, "abc")
        ack(abandoned, take(abandoned))
        again = open_store(clock=clock)
        assert [message.id for message in again.scan("jobs")] == ids[1:]
        assert_sound(again)

    def test_ids_of_an_earlier_life_are_known(self, open_store: OpenStore, clock: FakeClock) -> None:
        store = open_store(clock=clock)
        acked, pending = put_many(store, "ab")
        ack(store, take(store))
        store.close()
        store = open_store(clock=clock)
        dependent = put(store, payload="dependent", after=(acked, pending))
        assert store.upstream("jobs", dependent) == [pending]
        assert drain(store) == ["b", "dependent"]

    def test_an_unknown_durability_is_refused(self, open_store: OpenStore) -> None:
        with pytest.raises(ValueError, match="durability"):
            open_store(durability="hope")
