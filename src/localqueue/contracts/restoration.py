"""Messages that come with a past: they go on here as they would have gone on in the store they come from."""

from __future__ import annotations

from typing import Any

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
    put_many,
    release,
    state_of,
    stored,
    take,
)
from localqueue.errors import IdTaken, QueueFull, RunCancelled, UnknownMessage
from localqueue.stores.port import Changes, Limit, NewMessage, QueueStore, StoredMessage

_KEPT = (
    *("state", "payload", "codec", "priority", "attempts", "created_at", "available_at", "last_error", "failed_at"),
    *("dedupe_key", "ordering_key", "expires_at", "run_id", "headers", "history", "forgiven"),
)


def again(store: QueueStore, past: StoredMessage, queue: str = "there", **options: Any) -> NewMessage:
    """A message as it was, to be put into another queue."""
    how = {
        "codec": past.codec,
        "priority": past.priority,
        "dedupe_key": past.dedupe_key,
        "ordering_key": past.ordering_key,
        "headers": past.headers,
        "run_id": past.run_id,
        **options,
    }
    return NewMessage(store.mint()[0], queue, past.payload, past=past, **how)


def restore(store: QueueStore, past: StoredMessage, queue: str = "there", **options: Any) -> StoredMessage:
    message = again(store, past, queue, **options)
    (done,) = store.commit(Changes(enqueue=[message])).enqueued
    there = stored(store, message.id, queue)
    assert (done.outcome, done.state) == ("stored", there.state)
    return there


def kept(message: StoredMessage) -> dict[str, Any]:
    return {name: getattr(message, name) for name in _KEPT}


class RestoreContract:
    def test_a_message_keeps_its_times_and_everything_it_came_with(self, store: QueueStore, clock: FakeClock) -> None:
        how: dict[str, Any] = {"headers": '{"a":1}', "run_id": "r", "dedupe_key": "d", "ordering_key": "k"}
        past = stored(store, put(store, payload=b"\x00\xff", codec="raw", priority=-3, delay=5, ttl=500, **how))
        clock.advance(100)
        there = restore(store, past)
        assert there == past._replace(id=there.id, queue="there", state="ready")
        run = store.run("r")
        assert run is not None
        assert (run.total, run.delayed, run.ready) == (2, 1, 1)
        assert_sound(store, ["there"])

    def test_delay_and_ttl_of_the_message_are_not_looked_at(self, store: QueueStore) -> None:
        past = stored(store, put(store))
        there = restore(store, past, delay=60, ttl=1)
        assert (there.state, there.available_at, there.expires_at) == ("ready", past.available_at, None)

    def test_a_retried_message_keeps_its_attempts_and_history(self, store: QueueStore, clock: FakeClock) -> None:
        message_id = put(store)
        release(store, take(store, leased_by="w"), error={"type": "E", "message": "no"})
        clock.advance(1)
        take(store, leased_by="v", timeout=5)
        clock.advance(10)
        release(store, take(store), forgive=True)
        clock.advance(1)
        past = stored(store, message_id)
        there = restore(store, past)
        assert kept(there) == kept(past)
        assert [event["type"] for event in there.history] == [
            *("leased", "released", "leased", "lease_expired", "leased", "released"),
        ]

    def test_the_next_lease_goes_on_counting(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        release(store, take(store, leased_by="w"))
        there = restore(store, take(store))
        assert there.attempts == 2
        message = take(store, "there", max_attempts=3)
        assert (message.attempts, message.id) == (3, there.id)
        assert message == store.get("there", there.id)
        assert release(store, message, max_attempts=3)
        dead = stored(store, there.id, "there")
        assert dead.state == "dead"
        assert [event["attempt"] for event in dead.history] == [1, 1, 3, 3]
        assert_sound(store, ["jobs", "there"])

    def test_forgiven_attempts_stay_forgiven(self, store: QueueStore) -> None:
        message_id = put(store)
        for _ in range(3):
            release(store, take(store))
        override(store, message_id, "dead-letter")
        store.requeue("jobs", [message_id])
        there = restore(store, stored(store, message_id))
        assert (there.attempts, there.forgiven) == (3, 3)
        release(store, take(store, "there"), max_attempts=2)
        assert state_of(store, there.id, "there") == "ready"
        release(store, take(store, "there"), max_attempts=2)
        assert state_of(store, there.id, "there") == "dead"

    def test_a_lease_is_not_carried_over(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        past = stored(store, take(store, leased_by="w", timeout=60).id)
        there = restore(store, past)
        assert (there.state, there.attempts, there.leased_until, there.leased_by) == ("ready", 1, None, None)
        assert there.history == ()
        message = take(store, "there")
        assert message.attempts == 2
        assert not store.ack_one("there", there.id, 1)
        assert ack(store, message)
        assert_sound(store, ["jobs", "there"])

    def test_a_message_takes_its_place_by_priority_and_time(self, store: QueueStore, clock: FakeClock) -> None:
        early = stored(store, put(store, payload="early"))
        clock.advance(1)
        urgent = stored(store, put(store, payload="urgent", priority=1))
        later = stored(store, put(store, payload="later", delay=60))
        clock.advance(1)
        put(store, "there", payload="new")
        for past in (later, urgent, early):
            restore(store, past)
        assert counts(store, "there") == {"ready": 3, "delayed": 1}
        assert drain(store, "there") == ["urgent", "early", "new"]
        clock.advance(59)
        assert drain(store, "there") == ["later"]

    def test_messages_of_one_instant_keep_the_order_they_are_put_in(self, store: QueueStore) -> None:
        past = [stored(store, message_id) for message_id in put_many(store, "abc")]
        store.commit(Changes(enqueue=[again(store, one) for one in past]))
        assert drain(store, "there") == ["a", "b", "c"]

    @pytest.mark.parametrize("state", ["dead", "cancelled", "expired"])
    def test_a_message_that_left_delivery_is_stored_as_such(
        self, store: QueueStore, clock: FakeClock, state: str
    ) -> None:
        message_id = put(store, ttl=30 if state == "expired" else None, dedupe_key="d")
        message = take(store, leased_by="w", timeout=5)
        clock.advance(3)
        if state == "dead":
            dead_letter(store, message, error={"type": "E", "message": "broken"})
        elif state == "cancelled":
            override(store, message_id, "cancel")
        else:
            clock.advance(40)
            assert lease(store) == []
        past = stored(store, message_id)
        assert past.state == state
        clock.advance(1000)
        there = restore(store, past)
        assert there == past._replace(id=there.id, queue="there")
        assert counts(store, "there") == {state: 1}
        assert lease(store, "there") == []
        assert store.prune("there", state=state, older_than=1000.5) == 0
        assert store.prune("there", state=state, older_than=1000, dry_run=True) == 1
        assert store.requeue("there", [there.id]) == 1
        assert take(store, "there").attempts == 2
        assert_sound(store, ["jobs", "there"])

    def test_dead_letters_keep_their_order(self, store: QueueStore, clock: FakeClock) -> None:
        a, b, c = put_many(store, "abc")
        for message_id in (c, a, b):
            override(store, message_id, "dead-letter")
            clock.advance(10)
        store.commit(Changes(enqueue=[again(store, stored(store, one)) for one in (a, b, c)]))
        assert payloads(store.scan("there", state="dead")) == ["c", "a", "b"]
        assert payloads(store.scan("there")) == ["a", "b", "c"]

    def test_a_life_that_ended_on_the_way_is_over_now(self, store: QueueStore, clock: FakeClock) -> None:
        past = stored(store, put(store, ttl=10))
        clock.advance(20)
        there = restore(store, past)
        assert there.state == "expired"
        assert store.prune("there", state="expired", older_than=5) == 0
        assert store.prune("there", state="expired", older_than=0) == 1

    def test_the_dedupe_key_of_a_live_message_is_looked_up(self, store: QueueStore) -> None:
        past = stored(store, put(store, payload="past", dedupe_key="d"))
        holder = put(store, "there", payload="holder", dedupe_key="d")
        (done,) = store.commit(Changes(enqueue=[again(store, past)])).enqueued
        assert done.outcome == "duplicate"
        assert done.existing is not None
        assert done.existing.id == holder
        ack(store, take(store, "there"))
        restore(store, past)
        fresh = new(store, "there", dedupe_key="d")
        assert store.commit(Changes(enqueue=[fresh])).enqueued[0].outcome == "duplicate"

    def test_a_message_that_left_delivery_does_not_mind_its_dedupe_key(self, store: QueueStore) -> None:
        message_id = put(store, dedupe_key="d")
        override(store, message_id, "dead-letter")
        put(store, "there", dedupe_key="d")
        assert restore(store, stored(store, message_id)).state == "dead"
        assert counts(store, "there") == {"ready": 1, "dead": 1}
        assert_sound(store, ["jobs", "there"])

    def test_messages_of_one_key_wait_for_each_other(self, store: QueueStore) -> None:
        past = [stored(store, message_id) for message_id in put_many(store, "abc", ordering_key="k")]
        dead = put(store, "other", payload="dead", ordering_key="k")
        override(store, dead, "dead-letter", "other")
        restore(store, stored(store, dead, "other"))
        store.commit(Changes(enqueue=[again(store, one) for one in past]))
        assert counts(store, "there") == {"dead": 1, "ready": 1, "blocked": 2}
        assert drain(store, "there") == ["a", "b", "c"]
        assert_sound(store, ["there"])

    def test_dependencies_are_those_of_the_new_message(self, store: QueueStore) -> None:
        first = put(store, payload="first")
        second = put(store, payload="second", after=(first,))
        there = restore(store, stored(store, first))
        waiting = restore(store, stored(store, second), after=(there.id,))
        assert (waiting.state, waiting.waiting_on) == ("waiting", 1)
        assert store.upstream("there", waiting.id) == [there.id]
        assert drain(store, "there") == ["first", "second"]
        with pytest.raises(UnknownMessage):
            store.commit(Changes(enqueue=[again(store, stored(store, first), after=("f" * 32,))]))

    def test_a_message_that_was_cancelled_while_it_waited_still_waits_when_it_returns(self, store: QueueStore) -> None:
        first = put(store, payload="first")
        second = put(store, payload="second", after=(first,))
        override(store, second, "cancel")
        there = restore(store, stored(store, first))
        cancelled = restore(store, stored(store, second), after=(there.id,))
        assert (cancelled.state, cancelled.waiting_on) == ("cancelled", 1)
        assert store.requeue("there", [cancelled.id]) == 1
        assert state_of(store, cancelled.id, "there") == "waiting"
        assert drain(store, "there") == ["first", "second"]
        assert_sound(store, ["there"])

    def test_a_cancelled_run_takes_what_has_ended_and_nothing_else(self, store: QueueStore) -> None:
        live = stored(store, put(store, run_id="r"))
        store.cancel_run("r")
        cancelled = stored(store, live.id)
        with pytest.raises(RunCancelled):
            store.commit(Changes(enqueue=[again(store, live)]))
        assert restore(store, cancelled).run_id == "r"
        run = store.run("r")
        assert run is not None
        assert (run.total, run.cancelled) == (2, 2)

    def test_limits_apply_to_what_can_be_delivered(self, store: QueueStore) -> None:
        live, other = (stored(store, message_id) for message_id in put_many(store, "ab"))
        override(store, other.id, "dead-letter")
        limits = {"there": Limit(1)}
        store.commit(Changes(enqueue=[again(store, live)], limits=limits))
        with pytest.raises(QueueFull):
            store.commit(Changes(enqueue=[again(store, live)], limits=limits))
        (done,) = store.commit(Changes(enqueue=[again(store, stored(store, other.id))], limits=limits)).enqueued
        assert (done.outcome, done.state) == ("stored", "dead")
        assert counts(store, "there") == {"ready": 1, "dead": 1}

    def test_an_id_that_is_in_use_is_refused(self, store: QueueStore) -> None:
        message_id = put(store)
        release(store, take(store), error={"type": "E"})
        past = stored(store, message_id)
        for state in ("ready", "dead"):
            with pytest.raises(IdTaken):
                store.commit(Changes(enqueue=[again(store, past._replace(state=state))._replace(id=message_id)]))
        assert store.get("jobs", message_id) == past
        assert_sound(store, ["jobs", "there"])

    def test_messages_with_and_without_a_past_go_into_one_commit(self, store: QueueStore, clock: FakeClock) -> None:
        past = stored(store, put(store, payload="old"))
        clock.advance(5)
        batch = [new(store, "there", "new"), again(store, past)]
        assert [one.state for one in store.commit(Changes(enqueue=batch)).enqueued] == ["ready", "ready"]
        assert drain(store, "there") == ["old", "new"]

    def test_the_journal_tells_when_it_came_and_how_it_is(self, store: QueueStore, clock: FakeClock) -> None:
        live = put(store, payload="live")
        release(store, take(store), error={"type": "E"})
        dead = put(store, payload="dead")
        override(store, dead, "dead-letter", error={"type": "E"})
        past = [stored(store, live), stored(store, dead)]
        store.enable_journal()
        clock.advance(100)
        with store.observe() as transitions:
            restored = [restore(store, one) for one in past]
        assert transitions == []
        told = [(event.type, event.message_id, event.at) for event in store.events(queue="there")]
        now = clock()
        assert told == [
            ("enqueued", restored[0].id, now),
            ("enqueued", restored[1].id, now),
            ("dead_lettered", restored[1].id, now),
        ]
