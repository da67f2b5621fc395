"""The journal: every committed change of a message, in order, in the transaction of the change."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.replay import replay
from localqueue.contracts.steps import (
    Background,
    ack,
    dead_letter,
    lease,
    new,
    override,
    put,
    put_limited,
    put_many,
    release,
    take,
)
from localqueue.errors import LeaseLost, QueueFull
from localqueue.stores.port import Action, Changes, Edge, Lease, LeaseRequest, Limit, NewMessage, QueueStore, Settle

OpenStore = Callable[..., QueueStore]


def types(store: QueueStore, **options: Any) -> list[str]:
    return [event.type for event in store.events(**options)]


class JournalContract:
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
        for payload in ("", "é€", b"", b"\xff" * 20_000):
            store.commit(Changes(enqueue=[new(store, payload=payload)]))
        assert [event.payload for event in store.events()] == ["", "é€", b"", b"\xff" * 20_000]

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
        assert replay(store.events()).differences(store) == [] == store.scan("jobs")

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
        assert replay(store.events()).differences(store) == []

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
        assert replay(store.events()).differences(store) == []

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
        assert replay(store.events()).differences(store) == [] == store.scan("jobs")

    def test_cancelling_a_run_has_an_entry_for_each_message(self, store: QueueStore) -> None:
        store.enable_journal()
        first = put(store, run_id="r")
        put(store, "other", run_id="r", after=(first,))
        take(store)
        assert store.cancel_run("r") == 2
        assert sorted(event.queue for event in store.events() if event.type == "cancelled") == ["jobs", "other"]
        assert replay(store.events()).differences(store) == []

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
                assert replay(store.events()).differences(store) == []
        assert replay(store.events()).differences(store) == []
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
