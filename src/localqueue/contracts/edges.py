"""Dependencies met with other features, and edges that a handler adds while it acks."""

from __future__ import annotations

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    ack,
    assert_sound,
    counts,
    drain,
    lease,
    new,
    override,
    put,
    state_of,
    stored,
    take,
)
from localqueue.errors import CircularDependency, NotWaiting, UnknownMessage
from localqueue.stores.port import Changes, Edge, QueueStore, RecordWrite, Settle, StoredMessage


def _ack_of(message: StoredMessage) -> Settle:
    return Settle(message.queue, message.id, "ack", message.attempts)


class EdgeContract:
    def test_a_handler_that_fans_out_while_it_acks_does_not_free_the_join_early(self, store: QueueStore) -> None:
        split = put(store, payload="split")
        join = put(store, payload="join", after=(split,))
        message = take(store)
        parts = [new(store, payload=f"part{n}") for n in range(3)]
        store.commit(Changes(enqueue=parts, edges=[Edge(part.id, join) for part in parts], settle=[_ack_of(message)]))
        assert (state_of(store, join), stored(store, join).waiting_on) == ("waiting", 3)
        assert store.upstream("jobs", join) == [part.id for part in parts]
        assert drain(store) == ["part0", "part1", "part2", "join"]
        assert_sound(store)

    def test_an_edge_may_lead_to_a_waiting_message_of_the_same_commit(self, store: QueueStore) -> None:
        first, second = put(store, payload="first"), put(store, payload="second")
        join = new(store, payload="join", after=(first,))
        store.commit(Changes(enqueue=[join], edges=[Edge(second, join.id)]))
        assert stored(store, join.id).waiting_on == 2
        assert drain(store) == ["first", "second", "join"]

    def test_an_edge_that_is_there_already_counts_once(self, store: QueueStore) -> None:
        first = put(store)
        join = put(store, after=(first,))
        store.commit(Changes(edges=[Edge(first, join), Edge(first, join)]))
        assert stored(store, join).waiting_on == 1

    def test_an_edge_from_an_acked_message_does_not_hold(self, store: QueueStore) -> None:
        done = put(store)
        ack(store, take(store))
        first = put(store)
        join = put(store, after=(first,))
        store.commit(Changes(edges=[Edge(done, join)]))
        assert stored(store, join).waiting_on == 1

    def test_an_edge_that_closes_a_circle_rejects_the_commit(self, store: QueueStore) -> None:
        first = put(store)
        second = put(store, after=(first,))
        third = put(store, after=(second,))
        for dependent, upstream in ((second, third), (second, second)):
            with pytest.raises(CircularDependency):
                store.commit(Changes(enqueue=[new(store, "work")], edges=[Edge(upstream, dependent)]))
        assert store.qsize("work") == 0
        assert store.upstream("jobs", second) == [first]

    def test_an_edge_from_an_unknown_message_rejects_the_commit(self, store: QueueStore) -> None:
        first = put(store)
        join = put(store, after=(first,))
        with pytest.raises(UnknownMessage):
            store.commit(Changes(enqueue=[new(store, "other")], edges=[Edge("nope", join)]))
        assert store.scan("other") == []

    @pytest.mark.parametrize("target", ["ready", "inflight", "delayed", "dead", "acked", "unknown", "cancelled"])
    def test_an_edge_to_a_message_that_does_not_wait_rejects_the_whole_commit(
        self, store: QueueStore, target: str
    ) -> None:
        put(store, "work")
        message = take(store, "work")
        dependent = "f" * 32 if target == "unknown" else put(store, delay=9 if target == "delayed" else 0)
        if target == "inflight":
            take(store)
        elif target == "dead":
            override(store, dependent, "dead-letter")
        elif target == "acked":
            override(store, dependent, "ack")
        elif target == "cancelled":
            override(store, dependent, "cancel")
        part = new(store, "work")
        before = store.scan("jobs"), store.scan("work")
        with pytest.raises(NotWaiting):
            store.commit(
                Changes(
                    enqueue=[part],
                    edges=[Edge(part.id, dependent)],
                    settle=[_ack_of(message)],
                    records=[RecordWrite("result", "a", b"1")],
                )
            )
        assert (store.scan("jobs"), store.scan("work")) == before
        assert store.record("result", "a") is None
        assert_sound(store, ["jobs", "work"])

    def test_a_delay_runs_from_the_put_and_not_from_the_ack(self, store: QueueStore, clock: FakeClock) -> None:
        first = put(store, payload="first")
        late = put(store, payload="late", after=(first,), delay=10)
        past = put(store, payload="past", after=(first,), delay=2)
        clock.advance(4)
        ack(store, take(store))
        assert (state_of(store, past), state_of(store, late)) == ("ready", "delayed")
        assert take(store).id == past
        clock.advance(6)
        assert take(store).id == late

    def test_a_freed_message_goes_behind_those_that_were_ready_before(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        first = put(store, payload="first")
        put(store, payload="freed", after=(first,))
        clock.advance(1)
        message = take(store)
        put(store, payload="ready")
        clock.advance(1)
        ack(store, message)
        assert drain(store) == ["ready", "freed"]

    def test_a_waiting_message_expires_and_stays_so_when_its_upstream_is_acked(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        first = put(store)
        settled = put(store, after=(first,), ttl=5)
        unseen = put(store, "other", after=(first,), ttl=5)
        clock.advance(5)
        message = take(store)
        assert state_of(store, settled) == "expired"
        ack(store, message)
        assert lease(store) == lease(store, "other") == []
        assert state_of(store, settled) == state_of(store, unseen, "other") == "expired"
        assert_sound(store, ["jobs", "other"])

    def test_a_freed_message_takes_its_place_in_its_ordering_key(self, store: QueueStore) -> None:
        first = put(store, payload="first")
        put(store, payload="freed", after=(first,), ordering_key="k")
        put(store, payload="holder", ordering_key="k")
        put(store, payload="last", ordering_key="k")
        ack(store, take(store))
        assert counts(store) == {"ready": 1, "blocked": 2}
        assert drain(store) == ["holder", "freed", "last"]
        assert_sound(store)

    def test_a_waiting_message_does_not_hold_its_ordering_key(self, store: QueueStore) -> None:
        first = put(store, "other")
        put(store, payload="waiting", after=(first,), ordering_key="k")
        put(store, payload="free", ordering_key="k")
        assert take(store).payload == "free"

    def test_two_messages_of_a_key_freed_by_one_ack_come_one_after_the_other(self, store: QueueStore) -> None:
        first = put(store, "other")
        for value in "ab":
            put(store, payload=value, after=(first,), ordering_key="k")
        ack(store, take(store, "other"))
        assert counts(store) == {"ready": 1, "blocked": 1}
        assert drain(store) == ["a", "b"]

    def test_priority_decides_among_those_that_one_ack_frees(self, store: QueueStore) -> None:
        first = put(store, "other")
        for priority in (1, 5, 3):
            put(store, payload=str(priority), after=(first,), priority=priority)
        ack(store, take(store, "other"))
        assert drain(store) == ["5", "3", "1"]

    def test_a_duplicate_does_not_add_its_dependencies(self, store: QueueStore) -> None:
        kept = put(store, dedupe_key="d")
        blocker = put(store, "other")
        again = new(store, dedupe_key="d", after=(blocker,))
        assert store.commit(Changes(enqueue=[again])).enqueued[0].outcome == "duplicate"
        assert take(store).id == kept
        assert_sound(store, ["jobs", "other"])
