"""Settling: all of a commit or nothing, what a worker may do and what an operator may, what history remembers."""

from __future__ import annotations

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    ack,
    assert_sound,
    counts,
    dead_letter,
    lease,
    new,
    override,
    put,
    put_many,
    release,
    state_of,
    stored,
    take,
)
from localqueue.errors import LeaseLost
from localqueue.stores.port import (
    HISTORY_LIMIT,
    Changes,
    LeaseRequest,
    QueueStore,
    RecordWrite,
    Settle,
    StoredMessage,
)

ERROR = {"type": "ValueError", "module": "builtins", "message": "no"}


def _acks(*messages: StoredMessage) -> list[Settle]:
    return [Settle(m.queue, m.id, "ack", m.attempts) for m in messages]


class SettlingContract:
    def test_a_strict_commit_with_one_stale_lease_is_rejected_whole(self, store: QueueStore) -> None:
        put_many(store, "abc")
        good, stale, last = lease(store, limit=3)
        ack(store, stale)
        before = store.stats("jobs"), store.scan("jobs")
        with pytest.raises(LeaseLost) as caught:
            store.commit(
                Changes(
                    enqueue=[new(store), new(store, "elsewhere")],
                    settle=_acks(good, stale, last),
                    records=[RecordWrite("result", "a", b"1")],
                )
            )
        assert (caught.value.queue, caught.value.message_id, caught.value.token) == ("jobs", stale.id, 1)
        assert (store.stats("jobs"), store.scan("jobs")) == before
        assert store.scan("elsewhere") == []
        assert store.record("result", "a") is None
        assert ack(store, good)

    def test_without_strict_what_is_current_is_applied_and_the_rest_reported(self, store: QueueStore) -> None:
        put_many(store, "abc")
        good, stale, last = lease(store, limit=3)
        ack(store, stale)
        follow_up = new(store)
        done = store.commit(Changes(enqueue=[follow_up], settle=_acks(good, stale, last), strict=False))
        assert done.settled == [True, False, True]
        assert [message.id for message in store.scan("jobs")] == [follow_up.id]

    def test_a_strict_commit_applies_every_kind_of_change(self, store: QueueStore) -> None:
        put_many(store, "abcd")
        a, b, c, d = lease(store, limit=4)
        done = store.commit(
            Changes(
                enqueue=[new(store, payload="next")],
                settle=[
                    Settle("jobs", a.id, "ack", 1),
                    Settle("jobs", b.id, "release", 1, delay=5),
                    Settle("jobs", c.id, "dead-letter", 1, error=ERROR),
                    Settle("jobs", d.id, "cancel", 1),
                ],
                records=[RecordWrite("result", "a", b"1")],
                lease=LeaseRequest("jobs"),
            )
        )
        assert done.settled == [True] * 4
        assert [message.payload for message in done.leased] == ["next"]
        assert counts(store) == {"inflight": 1, "delayed": 1, "dead": 1, "cancelled": 1}
        assert store.record("result", "a") is not None
        assert_sound(store)

    def test_a_batch_of_acks_sets_free_what_each_of_them_would(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="retried", priority=1)
        release(store, take(store, timeout=60), error=ERROR)
        retried = take(store, timeout=60)
        ids = put_many(store, "ab", run_id="r")
        put_many(store, "kl", ordering_key="k")
        elsewhere = put(store, "elsewhere", run_id="r")
        join = put(store, "joins", after=(*ids, elsewhere))
        held = [retried, *lease(store, limit=10), take(store, "elsewhere")]
        assert [message.attempts for message in held] == [2, 1, 1, 1, 1]
        assert store.commit(Changes(settle=_acks(*held))).settled == [True] * 5
        assert counts(store) == {"ready": 1}
        assert take(store).payload == "l"
        assert take(store, "joins").id == join
        run = store.run("r")
        assert run is not None
        assert (run.done, run.state) == (3, "succeeded")
        assert_sound(store, ["jobs", "elsewhere", "joins"])

    def test_the_same_lease_settled_twice_in_a_commit_is_stale_the_second_time(self, store: QueueStore) -> None:
        put(store)
        message = take(store)
        with pytest.raises(LeaseLost):
            store.commit(Changes(settle=_acks(message, message)))
        assert counts(store) == {"inflight": 1}
        assert store.commit(Changes(settle=_acks(message, message), strict=False)).settled == [True, False]

    def test_put_one_is_a_commit_of_one_plain_message(self, store: QueueStore, clock: FakeClock) -> None:
        for queue in ("jobs", "jobs", "other"):
            message_id, at = store.put_one(queue, "hello", None)
            message = stored(store, message_id, queue)
            assert at == clock() == message.created_at == message.available_at
            assert (message.state, message.payload, message.codec, message.attempts) == ("ready", "hello", None, 0)
        raw, _ = store.put_one("jobs", b"\x00\xff", "raw")
        assert (stored(store, raw).payload, stored(store, raw).codec) == (b"\x00\xff", "raw")
        assert counts(store) == {"ready": 3}
        assert_sound(store, ["jobs", "other"])

    def test_ack_one_is_a_fenced_ack(self, store: QueueStore, clock: FakeClock) -> None:
        first, _ = store.put_one("jobs", "first", None)
        put(store, "later", after=(first,))
        assert not store.ack_one("jobs", first, 0)
        stale = take(store, timeout=5)
        clock.advance(5)
        message = take(store)
        assert not store.ack_one("jobs", first, stale.attempts)
        assert not store.ack_one("other", first, message.attempts)
        assert not store.ack_one("jobs", "0" * 32, 1)
        assert counts(store) == {"inflight": 1}
        assert store.ack_one("jobs", first, message.attempts)
        assert not store.ack_one("jobs", first, message.attempts)
        assert (counts(store), counts(store, "later")) == ({}, {"ready": 1})
        assert_sound(store, ["jobs", "later"])

    def test_an_empty_commit_changes_nothing(self, store: QueueStore) -> None:
        done = store.commit(Changes())
        assert (done.enqueued, done.settled, done.leased) == ([], [], [])

    def test_dead_cancelled_and_acked_are_final_for_workers_and_operators(self, store: QueueStore) -> None:
        dead, cancelled = put_many(store, "ab")
        override(store, dead, "dead-letter", error=ERROR)
        override(store, cancelled, "cancel")
        before = store.scan("jobs")
        for message_id in (dead, cancelled):
            for action in ("release", "dead-letter", "cancel"):
                assert not override(store, message_id, action)
        assert store.scan("jobs") == before

    def test_an_operator_settles_any_message_without_a_token(self, store: QueueStore) -> None:
        ready, inflight, delayed = put_many(store, "ab")[0], "", put(store, delay=50)
        inflight = put(store, priority=9)
        assert take(store).id == inflight
        assert override(store, inflight, "ack")
        assert override(store, ready, "dead-letter")
        assert override(store, delayed, "ack")
        assert override(store, ready, "ack")
        assert counts(store) == {"ready": 1}
        assert_sound(store)

    def test_an_operator_can_not_release_what_is_waiting_or_blocked(self, store: QueueStore) -> None:
        head = put(store, ordering_key="k")
        blocked = put(store, ordering_key="k")
        waiting = put(store, after=(head,))
        assert not override(store, blocked, "release")
        assert not override(store, waiting, "release")
        assert counts(store) == {"ready": 1, "blocked": 1, "waiting": 1}

    def test_a_release_returns_the_message_at_once_or_after_its_delay(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        put(store)
        message = take(store)
        assert release(store, message)
        released = stored(store, message.id)
        assert (released.state, released.leased_until, released.leased_by) == ("ready", None, None)
        message = take(store)
        clock.advance(1)
        assert release(store, message, delay=5)
        assert (state_of(store, message.id), stored(store, message.id).available_at) == ("delayed", clock() + 5)
        clock.advance(4.5)
        assert lease(store) == []
        clock.advance(0.5)
        assert take(store).id == message.id

    def test_an_error_is_remembered_until_a_newer_one(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        release(store, take(store), error=ERROR)
        failed_at = clock()
        clock.advance(3)
        message = take(store)
        assert (message.last_error, message.failed_at) == (ERROR, failed_at)
        release(store, message)
        assert (stored(store, message.id).last_error, stored(store, message.id).failed_at) == (ERROR, failed_at)
        newer = {"type": None, "module": None, "message": "worse"}
        dead_letter(store, take(store), error=newer)
        dead = stored(store, message.id)
        assert (dead.state, dead.last_error, dead.failed_at) == ("dead", newer, clock())

    def test_a_release_after_the_last_attempt_is_a_dead_letter(self, store: QueueStore) -> None:
        put(store)
        for _ in range(2):
            assert release(store, take(store), max_attempts=3)
            assert counts(store) == {"ready": 1}
        message = take(store)
        assert release(store, message, max_attempts=3)
        dead = stored(store, message.id)
        assert dead.state == "dead"
        assert dead.last_error is not None
        assert dead.last_error["type"] == "AttemptsExhausted"
        assert dead.history[-1]["type"] == "dead_lettered"

    def test_the_error_of_the_last_attempt_is_kept_when_there_is_one(self, store: QueueStore) -> None:
        put(store)
        message = take(store)
        assert release(store, message, max_attempts=1, error=ERROR)
        dead = stored(store, message.id)
        assert (dead.state, dead.last_error) == ("dead", ERROR)

    def test_a_requeued_message_has_a_fresh_attempt_budget(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        for round_of in range(3):
            for attempt in (1, 2):
                message = take(store, max_attempts=2, timeout=5)
                assert message.attempts == 2 * round_of + attempt
                if attempt == 1:
                    release(store, message, max_attempts=2)
            clock.advance(5)
            assert lease(store, max_attempts=2) == []
            assert state_of(store, message.id) == "dead"
            assert store.requeue("jobs") == 1

    def test_history_has_the_documented_shape(self, store: QueueStore, clock: FakeClock) -> None:
        put(store)
        first = clock()
        message = take(store, timeout=10, leased_by="a")
        assert message.history == ({"type": "leased", "at": first, "attempt": 1, "leased_by": "a"},)
        clock.advance(10)
        second = clock()
        message = take(store, timeout=10)
        expected = [
            {"type": "leased", "at": first, "attempt": 1, "leased_by": "a"},
            {"type": "lease_expired", "at": second, "attempt": 1, "leased_by": "a"},
            {"type": "leased", "at": second, "attempt": 2},
        ]
        assert list(message.history) == list(stored(store, message.id).history) == expected
        clock.advance(1)
        release(store, message, error=ERROR)
        expected.append({"type": "released", "at": clock(), "attempt": 2, "last_error": ERROR})
        message = take(store, leased_by="b")
        expected.append({"type": "leased", "at": clock(), "attempt": 3, "leased_by": "b"})
        clock.advance(1)
        dead_letter(store, message)
        expected.append({"type": "dead_lettered", "at": clock(), "attempt": 3, "last_error": ERROR})
        clock.advance(1)
        store.requeue("jobs", [message.id])
        expected.append({"type": "requeued", "at": clock(), "attempt": 3})
        assert list(stored(store, message.id).history) == expected
        assert list(take(store).history) == [*expected, {"type": "leased", "at": clock(), "attempt": 4}]

    def test_history_from_before_the_first_delivery_is_kept(self, store: QueueStore, clock: FakeClock) -> None:
        message_id = put(store)
        override(store, message_id, "dead-letter", error=ERROR)
        store.requeue("jobs", [message_id])
        message = take(store)
        assert [event["type"] for event in message.history] == ["dead_lettered", "requeued", "leased"]
        assert message == stored(store, message_id)

    def test_history_keeps_the_last_attempts_and_never_grows(self, store: QueueStore) -> None:
        put(store)
        lengths = []
        for attempt in range(1, 3 * HISTORY_LIMIT):
            message = take(store, leased_by="w")
            assert message.history[-1]["attempt"] == attempt
            lengths.append(len(message.history))
            release(store, message, error={"message": str(attempt)})
        assert max(lengths) == 2 * HISTORY_LIMIT + 1
        history = stored(store, message.id).history
        assert len(history) == 2 * HISTORY_LIMIT
        assert [event["attempt"] for event in history[-4:]] == [attempt - 1, attempt - 1, attempt, attempt]
        assert [event["type"] for event in history[-4:]] == ["leased", "released"] * 2
