"""The journal: every committed change of a message, in order, in the transaction of the change."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import LeaseLost, QueueFull
from localqueue.stores.port import Action, Changes, Edge, Lease, LeaseRequest, Limit, NewMessage, QueueStore, Settle
from localqueue.testing.harness import FakeClock, StoreHarness
from localqueue.testing.replay import held, replay
from localqueue.testing.steps import (
    PATIENCE,
    Background,
    ack,
    dead_letter,
    drain,
    lease,
    new,
    override,
    put,
    put_limited,
    put_many,
    release,
    take,
)

OpenStore = Callable[..., QueueStore]


def types(store: QueueStore, **options: Any) -> list[str]:
    return [event.type for event in store.events(**options)]


class JournalContract:
    def test_a_store_keeps_no_journal_until_it_is_asked_to(self, store: QueueStore) -> None:
        put(store)
        drain(store)
        assert not store.journal_enabled()
        assert store.events() == []
        store.enable_journal()
        assert store.journal_enabled()
        assert store.events() == []

    def test_a_life_from_put_to_ack(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal()
        begin = clock()
        message_id, _ = store.put_one("jobs", b"\x00raw", "bytes")
        clock.advance(1)
        message = take(store, leased_by="w")
        clock.advance(1)
        store.renew([Lease("jobs", message_id, message.attempts)], timeout=60)
        clock.advance(1)
        assert store.ack_one("jobs", message_id, message.attempts)
        put_, leased, renewed, acked = store.events()
        assert [event.seq for event in (put_, leased, renewed, acked)] == [1, 2, 3, 4]
        assert {event.message_id for event in store.events()} == {message_id}
        assert {event.queue for event in store.events()} == {"jobs"}
        assert (put_.type, put_.at, put_.payload, put_.codec) == ("enqueued", begin, b"\x00raw", "bytes")
        assert (leased.type, leased.at, leased.attempt, leased.worker) == ("leased", begin + 1, 1, "w")
        assert (renewed.type, renewed.at, renewed.attempt, renewed.worker) == ("renewed", begin + 2, 1, "w")
        assert (acked.type, acked.at, acked.attempt, acked.worker) == ("acked", begin + 3, 1, "w")
        assert leased.payload is renewed.payload is acked.payload is None

    def test_payloads_are_kept_as_they_were_put(self, store: QueueStore) -> None:
        store.enable_journal()
        for payload in ("", "é\ud800", b"", b"\xff" * 20_000):
            store.commit(Changes(enqueue=[new(store, payload=payload)]))
        assert [event.payload for event in store.events()] == ["", "é\ud800", b"", b"\xff" * 20_000]

    def test_batches_have_an_entry_for_each_message(self, store: QueueStore) -> None:
        store.enable_journal()
        ids, _ = store.put_batch("jobs", ["a", "b", "c"], None)
        put_many(store, "de")
        messages = lease(store, limit=3, leased_by="w")
        settles = [Settle("jobs", message.id, "ack", message.attempts) for message in messages]
        store.commit(Changes(settle=settles))
        assert len(lease(store, limit=5, consume=True)) == 2
        assert types(store) == ["enqueued"] * 5 + ["leased"] * 3 + ["acked"] * 3 + ["leased"] * 2 + ["acked"] * 2
        assert [event.message_id for event in store.events()[:3]] == list(ids)
        assert replay(store.events()) == held(store) == {}

    def test_a_settle_tells_its_error_and_what_became_of_the_message(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal()
        message_id = put(store)
        release(store, take(store, leased_by="w"), error={"message": "first"})
        clock.advance(1)
        release(store, take(store), error={"message": "second"}, max_attempts=2)
        released, dead = (event for event in store.events() if event.error)
        assert (released.type, released.attempt, released.worker) == ("released", 1, "w")
        assert released.error == {"message": "first"}
        assert (dead.type, dead.attempt, dead.at) == ("dead_lettered", 2, clock())
        assert dead.error == {"message": "second"}
        store.requeue("jobs")
        dead_letter(store, take(store))
        store.requeue("jobs", [message_id])
        override(store, message_id, "cancel")
        assert types(store)[5:] == ["requeued", "leased", "dead_lettered", "requeued", "cancelled"]
        assert replay(store.events()) == held(store)

    def test_what_happens_by_itself_is_journalled_by_whoever_finds_it(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        store.enable_journal()
        poisoned = put(store, payload="poison", priority=1)
        take(store, timeout=10, max_attempts=1, leased_by="w")
        unlucky = put(store, payload="unlucky", priority=1)
        take(store, timeout=10)
        stale = put(store, payload="stale", ttl=5)
        clock.advance(20)
        assert take(store).id == unlucky
        ends: dict[str, list[str]] = {}
        for event in store.events():
            ends.setdefault(event.message_id, []).append(event.type)
        assert ends[poisoned] == ["enqueued", "leased", "lease_expired", "dead_lettered"]
        assert ends[unlucky] == ["enqueued", "leased", "lease_expired", "leased"]
        assert ends[stale] == ["enqueued", "expired"]
        (dead,) = (event for event in store.events() if event.type == "dead_lettered")
        assert dead.error is not None and dead.error["type"] == "AttemptsExhausted"
        (expired,) = (e for e in store.events() if e.type == "lease_expired" and e.message_id == poisoned)
        assert (expired.worker, expired.at) == ("w", clock())

    def test_a_message_that_outlived_its_time_expires_wherever_it_lands(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        store.enable_journal()
        at_once = put(store, ttl=0)
        put(store, "other", ttl=5)
        late = take(store, "other")
        upstream = put(store)
        waiting = put(store, "waiters", ttl=5, after=(upstream,))
        first = put(store, "keyed", ordering_key="k")
        behind = put(store, "keyed", ordering_key="k", ttl=5)
        clock.advance(10)
        release(store, late)
        override(store, upstream, "ack")
        override(store, first, "dead-letter", queue="keyed")
        expired = [event.message_id for event in store.events() if event.type == "expired"]
        assert expired == [at_once, late.id, waiting, behind]
        assert replay(store.events()) == held(store)

    def test_removals_say_that_they_are_no_acks(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal()
        override(store, put(store), "dead-letter")
        clock.advance(5)
        assert store.prune("jobs", state="dead", older_than=1) == 1
        put_limited(store, Limit(1, "drop-oldest"))
        put_limited(store, Limit(1, "drop-oldest"))
        assert put_limited(store, Limit(1, "drop-newest")).outcome == "dropped"
        put(store)
        take(store)
        assert store.purge("jobs") == 2
        gone = ["pruned", "dropped", "purged", "purged"]
        assert [kind for kind in types(store) if kind not in ("enqueued", "leased", "dead_lettered")] == gone
        assert {event.at for event in store.events() if event.type == "purged"} == {clock()}
        assert replay(store.events()) == held(store) == {}

    def test_cancelling_a_run_has_an_entry_for_each_message(self, store: QueueStore) -> None:
        store.enable_journal()
        first = put(store, run_id="r")
        put(store, "other", run_id="r", after=(first,))
        take(store)
        assert store.cancel_run("r") == 2
        assert sorted(event.queue for event in store.events() if event.type == "cancelled") == ["jobs", "other"]
        assert replay(store.events()) == held(store)

    def test_a_refused_commit_leaves_no_entry(self, store: QueueStore) -> None:
        store.enable_journal()
        put(store)
        stale = take(store)._replace(attempts=7)
        before = store.events()
        with pytest.raises(LeaseLost):
            store.commit(
                Changes(enqueue=[new(store)], settle=[Settle("jobs", stale.id, "ack", stale.attempts)], strict=True)
            )
        with pytest.raises(QueueFull):
            store.commit(Changes(enqueue=[new(store), new(store)], limits={"jobs": Limit(1)}))
        assert not ack(store, stale)
        assert not store.ack_one("jobs", stale.id, stale.attempts)
        assert store.renew([Lease("jobs", stale.id, stale.attempts)], timeout=5) == [None]
        assert store.events() == before

    def test_one_commit_is_journalled_in_the_order_it_is_applied(self, store: QueueStore) -> None:
        store.enable_journal()
        put(store)
        message = take(store)
        first, second = store.mint(2)
        store.commit(
            Changes(
                enqueue=[NewMessage(first, "next", "a"), NewMessage(second, "next", "b", after=(first,))],
                edges=[Edge(first, second)],
                settle=[Settle("jobs", message.id, "ack", message.attempts)],
                lease=LeaseRequest("next"),
            )
        )
        assert types(store)[2:] == ["enqueued", "enqueued", "acked", "leased"]
        assert [event.attempt for event in store.events()][4:] == [1, 1]

    def test_the_journal_is_read_in_pages_and_by_queue(self, store: QueueStore) -> None:
        store.enable_journal()
        for n in range(6):
            put(store, "even" if n % 2 == 0 else "odd", payload=str(n))
        assert [event.payload for event in store.events(after=2, limit=3)] == ["2", "3", "4"]
        assert [event.payload for event in store.events(queue="odd")] == ["1", "3", "5"]
        assert [event.payload for event in store.events(2, 1, "odd")] == ["3"]
        assert store.events(after=6) == store.events(limit=0) == store.events(queue="unknown") == []

    def test_each_namespace_has_its_own_switch_and_sees_its_own_entries(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        one, two, three = (open_store(namespace=name, clock=clock) for name in ("one", "two", "three"))
        one.enable_journal()
        two.enable_journal()
        for store in (one, two, three, one):
            put(store)
            drain(store)
        assert (one.journal_enabled(), two.journal_enabled(), three.journal_enabled()) == (True, True, False)
        assert types(one) == ["enqueued", "leased", "acked"] * 2
        assert types(two) == ["enqueued", "leased", "acked"]
        assert [event.seq for event in one.events()] == [1, 2, 3, 4, 5, 6]
        assert [event.seq for event in two.events()] == [1, 2, 3]
        assert three.events() == []
        two.disable_journal()
        assert one.prune_events(older_than=0) == 6
        put(one)
        put(two)
        assert types(one) == ["enqueued"]
        assert len(two.events()) == 3

    def test_a_journal_that_is_switched_off_stays_readable_and_goes_on_later(self, store: QueueStore) -> None:
        store.enable_journal()
        put(store)
        store.disable_journal()
        store.disable_journal()
        assert not store.journal_enabled()
        put(store)
        assert types(store) == ["enqueued"]
        store.enable_journal()
        store.enable_journal()
        put(store)
        assert [event.seq for event in store.events()] == [1, 2]

    def test_numbers_of_pruned_entries_are_not_used_again(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal()
        put_many(store, "abc")
        clock.advance(10)
        put(store, payload="d")
        assert store.prune_events(older_than=11) == 0
        assert store.prune_events(older_than=10) == 3
        assert [event.seq for event in store.events()] == [4]
        clock.jump_back(60)
        put(store, payload="e")
        clock.advance(55)
        assert store.prune_events(older_than=0) == 1
        assert [event.seq for event in store.events()] == [4]
        clock.advance(5)
        assert store.prune_events(older_than=0) == 1
        put(store, payload="f")
        assert [(event.seq, event.payload) for event in store.events()] == [(6, "f")]

    def test_a_journal_keeps_about_as_many_entries_as_it_should(self, store: QueueStore) -> None:
        store.enable_journal(keep_events=100)
        for n in range(60):
            put_many(store, (str(n * 10 + m) for m in range(10)))
        events = store.events()
        assert 100 <= len(events) <= 300
        assert [event.payload for event in events[-100:]] == [str(n) for n in range(500, 600)]
        assert [event.seq for event in events] == list(range(601 - len(events), 601))

    def test_a_journal_lets_go_of_what_is_too_old(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal(keep_seconds=60)
        put_many(store, "x" * 200)
        clock.advance(59)
        put_many(store, "y" * 200)
        assert len(store.events()) == 400
        clock.advance(2)
        for _ in range(3):
            put_many(store, "z" * 100)
        assert {event.payload for event in store.events()} == {"y", "z"}
        store.enable_journal()
        clock.advance(1000)
        put_many(store, "w" * 300)
        assert len(store.events()) == 800

    @pytest.mark.parametrize("retention", [{"keep_seconds": 0}, {"keep_seconds": -1.0}, {"keep_events": 0}])
    def test_a_journal_that_could_keep_nothing_is_refused(self, store: QueueStore, retention: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="leave it out"):
            store.enable_journal(**retention)
        assert not store.journal_enabled()

    def test_a_backup_holds_the_journal_and_goes_on_with_it(
        self, store: QueueStore, harness: StoreHarness, tmp_path: Path
    ) -> None:
        store.enable_journal()
        put_many(store, "ab")
        ack(store, take(store))
        store.backup(str(tmp_path / "copy"))
        copy = harness.open_copy(str(tmp_path / "copy"))
        try:
            assert copy.events() == store.events()
            drain(copy)
            assert types(copy)[-2:] == ["leased", "acked"]
            assert copy.check().problems == ()
        finally:
            copy.close()

    def test_threads_share_one_order(self, live: QueueStore) -> None:
        live.enable_journal()
        threads = Background()
        for name in "abcd":
            threads.start(lambda name: [live.put_one(name, str(n), None) for n in range(25)], name)
        threads.join()
        events = live.events()
        assert [event.seq for event in events] == list(range(1, 101))
        for name in "abcd":
            assert [event.payload for event in live.events(queue=name)] == [str(n) for n in range(25)]

    @pytest.mark.parametrize("seed", range(3))
    def test_replaying_the_journal_of_a_random_workload_gives_what_the_store_holds(
        self, store: QueueStore, clock: FakeClock, seed: int
    ) -> None:
        store.enable_journal()
        chance = random.Random(seed)
        leased: list[Any] = []
        for step in range(250):
            _random_step(store, clock, chance, leased)
            if step % 25 == 0:
                assert replay(store.events()) == held(store)
        assert replay(store.events()) == held(store)
        assert store.check().problems == ()


def _random_step(store: QueueStore, clock: FakeClock, chance: random.Random, leased: list[Any]) -> None:
    queue = chance.choice(("one", "two"))
    match chance.randrange(10):
        case 0 | 1 | 2:
            options: dict[str, Any] = {}
            for name, values in _OPTIONS.items():
                if chance.random() < 0.3:
                    options[name] = chance.choice(values)
            limits = {queue: Limit(3, "drop-oldest")} if chance.random() < 0.2 else {}
            store.commit(Changes(enqueue=[new(store, queue, **options)], limits=limits))
        case 3 | 4:
            leased += lease(store, queue, chance.randrange(1, 4), timeout=chance.choice((3, 30)), max_attempts=2)
        case 5 | 6 if leased:
            message = leased.pop(chance.randrange(len(leased)))
            action = chance.choice(_ACTIONS)
            one = Settle(message.queue, message.id, action, message.attempts, chance.choice((0.0, 2.0)), None, 2)
            store.commit(Changes(settle=[one], strict=False))
        case 7:
            clock.advance(chance.choice((1, 3, 10)))
        case 8:
            store.requeue(queue)
        case 9 if chance.random() < 0.2:
            store.prune(queue, state=chance.choice(("dead", "expired")), older_than=chance.choice((0, 5)))


_ACTIONS: tuple[Action, ...] = ("ack", "ack", "release", "dead-letter", "cancel")
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "delay": (2.0, 5.0),
    "ttl": (2.0, 8.0),
    "ordering_key": ("k", "l"),
    "priority": (0, 5),
}


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


def _work_elsewhere(store: QueueStore) -> None:
    put(store, payload="elsewhere")
    drain(store)


class SharedJournalContract:
    """The switch is in the store: whoever changes a message writes the journal."""

    def test_a_store_that_was_open_before_obeys_the_switch(self, open_store: OpenStore) -> None:
        here, there = open_store(), open_store()
        put(there)
        drain(there)
        here.enable_journal()
        assert there.journal_enabled()
        put(there)
        drain(there)
        assert types(here) == ["enqueued", "leased", "acked"]
        there.disable_journal()
        put(here)
        assert len(here.events()) == len(there.events()) == 3

    def test_the_journal_survives_reopening(self, open_store: OpenStore) -> None:
        first = open_store()
        first.enable_journal()
        put(first)
        first.close()
        second = open_store()
        assert second.journal_enabled()
        drain(second)
        assert types(second) == ["enqueued", "leased", "acked"]

    @pytest.mark.multiprocess
    def test_another_process_writes_the_same_journal(self, harness: StoreHarness, open_store: OpenStore) -> None:
        store = open_store()
        store.enable_journal()
        put(store, payload="here")
        process = harness.in_process(_work_elsewhere)
        process.join(PATIENCE)
        assert process.exitcode == 0
        assert types(store) == ["enqueued", "enqueued", "leased", "acked", "leased", "acked"]
        assert [event.seq for event in store.events()] == [1, 2, 3, 4, 5, 6]
        assert replay(store.events()) == held(store) == {}
