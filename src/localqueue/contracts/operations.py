"""What an operator does: requeue, prune, purge, pause, scan; and the ends of a store's life."""

from __future__ import annotations

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
    state_of,
    stored,
    take,
)
from localqueue.errors import IdTaken, QueueStoreClosedError
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, QueueStore, Settle


def _three_dead(store: QueueStore, clock: FakeClock) -> list[str]:
    """Three dead letters that died in the order c, a, b, ten seconds apart."""
    a, b, c = put_many(store, "abc")
    for message_id in (c, a, b):
        override(store, message_id, "dead-letter")
        clock.advance(10)
    return [c, a, b]


class OperationsContract:
    def test_dead_letters_are_listed_by_the_time_they_died(self, store: QueueStore, clock: FakeClock) -> None:
        _three_dead(store, clock)
        assert payloads(store.scan("jobs", state="dead")) == ["c", "a", "b"]
        assert payloads(store.scan("jobs", state="dead", limit=2)) == ["c", "a"]
        assert payloads(store.scan("jobs", state="dead", limit=0)) == []
        assert payloads(store.scan("jobs")) == ["a", "b", "c"]

    def test_dead_letters_of_one_instant_are_listed_by_id(self, store: QueueStore) -> None:
        ids = put_many(store, "abcd")
        for message_id in reversed(ids):
            override(store, message_id, "dead-letter")
        assert payloads(store.scan("jobs", state="dead")) == ["a", "b", "c", "d"]

    def test_a_scan_is_read_in_pages(self, store: QueueStore, clock: FakeClock) -> None:
        ids = put_many(store, "abcdefg")
        for message_id in (ids[4], ids[1], ids[6]):
            override(store, message_id, "cancel")
            clock.advance(1)
        for state, expected in ((None, "abcdefg"), ("ready", "acdf"), ("cancelled", "ebg")):
            seen: list[str] = []
            after = None
            while page := store.scan("jobs", state=state, after=after, limit=2):
                assert len(page) <= 2
                seen += payloads(page)
                after = page[-1].id
            assert "".join(seen) == expected

    def test_requeue_brings_dead_letters_back_in_the_order_they_died(self, store: QueueStore, clock: FakeClock) -> None:
        _three_dead(store, clock)
        assert store.requeue("jobs") == 3
        assert sorted(drain(store)) == ["a", "b", "c"]
        assert store.requeue("jobs") == 0

    def test_requeue_brings_back_what_died_before_the_clock_was_set_back(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        _three_dead(store, clock)
        clock.jump_back(25)
        assert store.requeue("jobs") == 3
        assert counts(store) == {"ready": 3}
        assert_sound(store)

    def test_requeue_by_id_takes_only_those(self, store: QueueStore, clock: FakeClock) -> None:
        c, a, b = _three_dead(store, clock)
        live = put(store)
        assert store.requeue("jobs", [a, a, live, b[:-1] + "x"]) == 1
        assert (state_of(store, a), state_of(store, b), state_of(store, c)) == ("ready", "dead", "dead")
        assert store.requeue("jobs", []) == 0
        assert store.requeue("other", [b]) == 0
        assert_sound(store)

    def test_requeue_with_a_delay(self, store: QueueStore, clock: FakeClock) -> None:
        _three_dead(store, clock)
        assert store.requeue("jobs", delay=30) == 3
        assert counts(store) == {"delayed": 3}
        clock.advance(30)
        assert len(lease(store, limit=5)) == 3

    def test_prune_removes_what_died_long_enough_ago(self, store: QueueStore, clock: FakeClock) -> None:
        _three_dead(store, clock)
        cancelled = put(store)
        override(store, cancelled, "cancel")
        assert store.prune("jobs", state="dead", older_than=30.5) == 0
        assert store.prune("jobs", state="dead", older_than=20, dry_run=True) == 2
        assert len(store.scan("jobs", state="dead")) == 3
        assert store.prune("jobs", state="dead", older_than=20) == 2
        assert payloads(store.scan("jobs", state="dead")) == ["b"]
        assert counts(store) == {"dead": 1, "cancelled": 1}
        assert store.prune("jobs", state="cancelled", older_than=0) == 1
        assert store.prune("jobs", state="expired", older_than=0) == 0
        assert_sound(store)

    @pytest.mark.slow
    def test_what_concerns_thousands_of_messages_reaches_all_of_them(self, store: QueueStore) -> None:
        ids, count = store.mint(5_500), 5_500
        new = [NewMessage(one, "jobs", "x", dedupe_key=one, run_id="r") for one in ids]
        for start in range(0, count, 2_000):
            store.commit(Changes(enqueue=new[start : start + 2_000]))
            dead = [Settle("jobs", one, "dead-letter") for one in ids[start : start + 2_000]]
            store.commit(Changes(settle=dead))
        holder = put(store, dedupe_key=ids[1])
        assert store.requeue("jobs") == count - 1
        assert [message.id for message in store.scan("jobs", state="dead")] == [ids[1]]
        assert store.cancel_run("r") == count - 1
        assert store.prune("jobs", state="cancelled", older_than=0, dry_run=True) == count - 1
        assert store.prune("jobs", state="cancelled", older_than=0) == count - 1
        assert [message.id for message in store.scan("jobs", state="ready")] == [holder]
        assert_sound(store)
        store.put_batch("jobs", ["x"] * count, None)
        assert store.purge("jobs") == count + 2
        assert counts(store) == {}
        assert_sound(store)

    def test_prune_and_purge_of_an_unknown_queue_remove_nothing(self, store: QueueStore) -> None:
        assert store.prune("unknown", state="dead", older_than=0) == 0
        assert store.purge("unknown") == 0
        assert store.requeue("unknown") == 0

    def test_what_is_still_in_delivery_can_not_be_pruned(self, store: QueueStore) -> None:
        put(store)
        with pytest.raises(ValueError, match="'ready'"):
            store.prune("jobs", state="ready", older_than=0)
        assert counts(store) == {"ready": 1}

    def test_purge_removes_every_message_with_its_keys_and_workers(self, store: QueueStore) -> None:
        upstream = put(store, "other")
        put(store, dedupe_key="d", ordering_key="k")
        held = take(store, leased_by="w")
        put(store, ordering_key="k")
        put(store, delay=60)
        put(store, after=(upstream,))
        put(store, delay=60, ttl=50)
        put(store, after=(upstream,), ttl=50)
        put(store, ordering_key="k", ttl=50)
        put(store, ttl=0)
        for action in ("dead-letter", "cancel"):
            override(store, put(store), action)
        store.heartbeat("jobs", "w")
        assert store.purge("jobs") == 10
        assert store.scan("jobs") == []
        stats = store.stats("jobs")
        assert (stats.total, stats.leases_by_worker_id, stats.last_seen_by_worker_id) == (0, {}, {})
        assert not ack(store, held)
        assert counts(store, "other") == {"ready": 1}
        put(store, payload="new", dedupe_key="d", ordering_key="k")
        assert take(store).payload == "new"
        ack(store, take(store, "other"))
        assert_sound(store, ["jobs", "other"])

    def test_a_paused_queue_delivers_nothing_and_accepts_everything(self, store: QueueStore, clock: FakeClock) -> None:
        put_many(store, "ab")
        held = take(store, timeout=1000)
        store.pause("jobs")
        store.pause("jobs")
        assert store.paused("jobs")
        assert store.stats("jobs").paused
        put(store, payload="c", delay=5)
        clock.advance(5)
        assert lease(store, limit=5) == []
        assert store.commit(Changes(lease=LeaseRequest("jobs"))).leased == []
        assert ack(store, held)
        put(store, "other")
        take(store, "other")
        store.resume("jobs")
        assert not store.paused("jobs")
        assert drain(store) == ["b", "c"]

    def test_a_queue_can_be_paused_before_it_is_used(self, store: QueueStore) -> None:
        assert not store.paused("jobs")
        store.pause("jobs")
        put(store)
        assert lease(store) == []
        store.resume("jobs")
        take(store)

    def test_a_paused_worker_gets_nothing_and_others_do(self, store: QueueStore) -> None:
        put_many(store, "abcde")
        held = take(store, leased_by="w", counted=False)
        store.pause("jobs", worker="w")
        store.pause("jobs", worker="w")
        assert store.paused("jobs", worker="w")
        assert not store.paused("jobs")
        assert not store.paused("jobs", worker="v")
        for counted in (True, False):
            for limit in (1, 3):
                assert lease(store, limit=limit, leased_by="w", counted=counted) == []
        assert lease(store, leased_by="w", consume=True) == []
        request = LeaseRequest("jobs", leased_by="w")
        assert store.commit(Changes(lease=request)).leased == []
        done = Settle("jobs", held.id, "ack", held.attempts)
        exchanged = store.commit(Changes(settle=[done], lease=request._replace(counted=False)))
        assert (exchanged.settled, exchanged.leased) == ([True], [])
        assert take(store, leased_by="v").payload == "b"
        assert take(store, leased_by="v", counted=False).payload == "c"
        assert take(store).payload == "d"
        put(store, "other")
        take(store, "other", leased_by="w")
        store.resume("jobs", worker="w")
        assert not store.paused("jobs", worker="w")
        assert take(store, leased_by="w").payload == "e"
        assert_sound(store, ["jobs", "other"])

    def test_a_worker_can_be_paused_before_it_is_known(self, store: QueueStore) -> None:
        store.resume("jobs", worker="w")
        assert not store.paused("jobs", worker="w")
        store.pause("jobs", worker="w")
        put(store)
        assert lease(store, leased_by="w") == []
        store.heartbeat("jobs", "w")
        assert lease(store, leased_by="w") == []
        store.resume("jobs", worker="w")
        take(store, leased_by="w")

    def test_the_pause_of_a_queue_and_of_a_worker_are_two_things(self, store: QueueStore) -> None:
        put(store)
        store.pause("jobs")
        assert not store.paused("jobs", worker="w")
        store.pause("jobs", worker="w")
        store.resume("jobs")
        assert store.paused("jobs", worker="w")
        assert lease(store, leased_by="w") == []
        store.pause("jobs")
        store.resume("jobs", worker="w")
        assert lease(store, leased_by="w") == []
        store.resume("jobs")
        take(store, leased_by="w")

    def test_stats_name_the_paused_workers_in_order(self, store: QueueStore) -> None:
        for worker in ("w2", "w1", "w3"):
            store.pause("jobs", worker=worker)
        store.resume("jobs", worker="w3")
        stats = store.stats("jobs")
        assert stats.paused_workers == ("w1", "w2")
        assert (stats.paused, stats.leases_by_worker_id, stats.last_seen_by_worker_id) == (False, {}, {})

    def test_a_purge_keeps_the_pause_of_a_worker(self, store: QueueStore) -> None:
        put(store)
        take(store, leased_by="w")
        store.heartbeat("jobs", "w", leases=2)
        store.pause("jobs", worker="w")
        store.purge("jobs")
        stats = store.stats("jobs")
        assert (stats.leases_by_worker_id, stats.last_seen_by_worker_id) == ({}, {})
        assert store.paused("jobs", worker="w")
        put(store)
        assert lease(store, leased_by="w") == []
        take(store, leased_by="v")

    def test_an_id_that_is_in_use_is_not_used_again(self, store: QueueStore) -> None:
        taken = put(store, payload="first")
        for queue in ("jobs", "other"):
            for options in ({}, {"dedupe_key": "d"}, {"delay": 5}):
                with pytest.raises(IdTaken):
                    store.commit(Changes(enqueue=[NewMessage(taken, queue, "second", **options)]))
            with pytest.raises(IdTaken):
                store.commit(Changes(enqueue=[new(store, queue), NewMessage(taken, queue, "second")]))
        (twice,) = store.mint()
        with pytest.raises(IdTaken):
            store.commit(Changes(enqueue=[NewMessage(twice, "jobs", "a"), NewMessage(twice, "jobs", "b")]))
        assert payloads(store.scan("jobs")) == ["first"]
        assert store.scan("other") == []
        assert stored(store, taken).dedupe_key is None
        assert_sound(store, ["jobs", "other"])

    def test_queues_are_listed_by_name(self, store: QueueStore) -> None:
        for name in ("b", "a", "c.d"):
            put(store, name)
        assert store.queues() == ["a", "b", "c.d"]
        drain(store, "a")
        assert "b" in store.queues()

    def test_a_store_says_where_it_is_and_what_time_it_is(self, store: QueueStore, clock: FakeClock) -> None:
        assert store.now() == clock()
        assert store.namespace == "default"
        assert "://" in store.url

    def test_a_closed_store_says_so(self, store: QueueStore) -> None:
        message_id = put(store)
        message = take(store)
        waiter = store.listen(["jobs"])
        store.close()
        store.close()
        calls = (
            lambda: put(store),
            lambda: put(store, dedupe_key="d"),
            lambda: lease(store),
            lambda: ack(store, message),
            lambda: store.put_one("jobs", "x", None),
            lambda: store.ack_one("jobs", message_id, 1),
            lambda: dead_letter(store, message),
            lambda: store.renew([], timeout=1),
            lambda: store.get("jobs", message_id),
            lambda: store.qsize("jobs"),
            lambda: store.stats("jobs"),
            lambda: store.scan("jobs"),
            lambda: store.queues(),
            lambda: store.run("r"),
            lambda: store.record("a", "b"),
            lambda: store.requeue("jobs"),
            lambda: store.purge("jobs"),
            lambda: store.pause("jobs"),
            lambda: store.pause("jobs", worker="w"),
            lambda: store.paused("jobs", worker="w"),
            lambda: store.cancel_run("r"),
            lambda: store.check(),
            lambda: store.listen(["jobs"]).wait(0),
            lambda: store.listen_capacity({"jobs": 1}).wait(0),
            lambda: store.listen_run("r").wait(0),
            lambda: store.listen_records("a", ["b"]).wait(0),
            lambda: waiter.wait(0),
        )
        for call in calls:
            with pytest.raises(QueueStoreClosedError):
                call()
