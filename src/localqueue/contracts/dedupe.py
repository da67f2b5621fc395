"""Dedupe keys: one live message for a key, in whatever state, and a new one as soon as that left delivery."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    Background,
    ack,
    assert_sound,
    counts,
    dead_letter,
    lease,
    new,
    override,
    put,
    state_of,
    stored,
    take,
)
from localqueue.errors import DedupeKeyInUse
from localqueue.stores.port import Changes, Enqueued, NewMessage, QueueStore


def _ready(store: QueueStore, clock: FakeClock) -> str:
    return put(store, payload="first", dedupe_key="d")


def _delayed(store: QueueStore, clock: FakeClock) -> str:
    return put(store, payload="first", dedupe_key="d", delay=60)


def _inflight(store: QueueStore, clock: FakeClock) -> str:
    message_id = _ready(store, clock)
    take(store)
    return message_id


def _waiting(store: QueueStore, clock: FakeClock) -> str:
    return put(store, payload="first", dedupe_key="d", after=(put(store, "other"),))


def _blocked(store: QueueStore, clock: FakeClock) -> str:
    put(store, ordering_key="k")
    return put(store, payload="first", dedupe_key="d", ordering_key="k")


def _again(store: QueueStore, queue: str = "jobs", **options: object) -> Enqueued:
    message = new(store, queue, "second", dedupe_key="d", **options)
    return store.commit(Changes(enqueue=[message])).enqueued[0]


class DedupeContract:
    @pytest.mark.parametrize("live_state", [_ready, _delayed, _inflight, _waiting, _blocked])
    def test_a_live_message_holds_its_key(
        self, store: QueueStore, clock: FakeClock, live_state: Callable[[QueueStore, FakeClock], str]
    ) -> None:
        first = live_state(store, clock)
        before = stored(store, first), store.stats("jobs")
        done = _again(store, delay=5, priority=7)
        assert done.outcome == "duplicate"
        assert done.existing == before[0]
        assert (stored(store, first), store.stats("jobs")) == before

    def test_a_message_whose_lease_expired_holds_its_key(self, store: QueueStore, clock: FakeClock) -> None:
        first = _inflight(store, clock)
        clock.advance(60)
        done = _again(store)
        assert done.outcome == "duplicate"
        assert done.existing == stored(store, first)
        assert [message.payload for message in lease(store, limit=5)] == ["first"]

    @pytest.mark.parametrize("leave", ["ack", "dead-letter", "cancel", "purge", "consume"])
    def test_a_message_that_left_delivery_frees_its_key(self, store: QueueStore, leave: str) -> None:
        first = put(store, dedupe_key="d")
        if leave == "purge":
            store.purge("jobs")
        elif leave == "consume":
            lease(store, consume=True)
        else:
            override(store, first, leave)  # type: ignore[arg-type]
        assert _again(store).outcome == "stored"
        assert _again(store).outcome == "duplicate"
        assert_sound(store)

    def test_an_expired_message_frees_its_key(self, store: QueueStore, clock: FakeClock) -> None:
        first = put(store, dedupe_key="d", ttl=5)
        clock.advance(5)
        assert lease(store) == []
        assert state_of(store, first) == "expired"
        assert _again(store).outcome == "stored"

    def test_a_message_past_its_ttl_frees_its_key_before_anyone_looked(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store, payload="first", dedupe_key="d", ttl=5)
        clock.advance(5)
        assert _again(store).outcome == "stored"
        assert take(store).payload == "second"
        assert_sound(store)

    def test_exhausted_attempts_free_the_key(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, dedupe_key="d")
        take(store, max_attempts=1)
        clock.advance(30)
        assert lease(store, max_attempts=1) == []
        assert _again(store).outcome == "stored"

    def test_a_release_keeps_the_key(self, store: QueueStore) -> None:
        put(store, dedupe_key="d")
        override(store, take(store).id, "release", delay=10)
        assert _again(store).outcome == "duplicate"

    def test_keys_belong_to_their_queue(self, store: QueueStore) -> None:
        put(store, dedupe_key="d")
        assert _again(store, "other").outcome == "stored"
        assert counts(store) == counts(store, "other") == {"ready": 1}

    def test_a_batch_dedupes_against_itself(self, store: QueueStore) -> None:
        ids = store.mint(3)
        batch = [NewMessage(i, "jobs", p, dedupe_key=k) for i, p, k in zip(ids, "abc", "xyx", strict=True)]
        done = store.commit(Changes(enqueue=batch)).enqueued
        assert [one.outcome for one in done] == ["stored", "stored", "duplicate"]
        assert done[2].existing == stored(store, ids[0])
        assert counts(store) == {"ready": 2}

    def test_requeue_by_id_refuses_while_another_message_has_the_key(self, store: QueueStore) -> None:
        first = put(store, dedupe_key="d")
        other = put(store)
        for message in lease(store, limit=2):
            dead_letter(store, message)
        put(store, dedupe_key="d")
        with pytest.raises(DedupeKeyInUse):
            store.requeue("jobs", [other, first])
        assert counts(store) == {"ready": 1, "dead": 2}
        ack(store, take(store))
        assert store.requeue("jobs", [other, first]) == 2
        assert_sound(store)

    def test_requeue_of_all_leaves_those_whose_key_is_taken(self, store: QueueStore) -> None:
        ids = []
        for _ in range(2):
            ids.append(put(store, dedupe_key="d"))
            dead_letter(store, take(store))
        assert store.requeue("jobs") == 1
        assert [state_of(store, message_id) for message_id in ids] == ["ready", "dead"]
        assert store.requeue("jobs") == 0
        assert_sound(store)

    def test_a_requeued_message_holds_its_key_again(self, store: QueueStore) -> None:
        put(store, dedupe_key="d")
        dead_letter(store, take(store))
        store.requeue("jobs")
        assert _again(store).outcome == "duplicate"

    def test_threads_that_put_one_key_store_one_message(self, live: QueueStore) -> None:
        outcomes: list[str] = []

        def produce() -> None:
            outcomes.extend(_again(live).outcome for _ in range(10))

        threads = Background()
        for _ in range(8):
            threads.start(produce)
        threads.join()
        assert (outcomes.count("stored"), outcomes.count("duplicate")) == (1, 79)
        assert_sound(live)
