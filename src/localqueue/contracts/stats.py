"""Counts: each field of `stats`, reads that change nothing, and counts that agree with the messages."""

from __future__ import annotations

import contextlib
import random
import threading

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import (
    Background,
    assert_sound,
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
from localqueue.errors import QueueError
from localqueue.message import QueueStats
from localqueue.stores.port import STATES, Changes, LeaseRequest, Limit, QueueStore, Settle, StoredMessage
from localqueue.stores.rules import KNOWN, NAMES


class StatsContract:
    def test_a_queue_that_nobody_used_is_empty(self, store: QueueStore) -> None:
        assert store.stats("jobs") == QueueStats()
        assert (store.qsize("jobs"), store.load("jobs"), store.scan("jobs")) == (0, 0, [])
        assert store.queues() == []

    def test_leases_that_were_not_counted_are_told_with_a_heartbeat(self, store: QueueStore, clock: FakeClock) -> None:
        put_many(store, "abc")
        one = LeaseRequest("jobs", leased_by="w", counted=False)
        assert len(store.lease(one)) == 1
        assert len(store.lease(one._replace(limit=2))) == 2
        assert store.stats("jobs").by_worker_id == {"w": 3}
        assert store.stats("jobs").leases_by_worker_id == {}
        store.heartbeat("jobs", "w", leases=3)
        assert store.stats("jobs").leases_by_worker_id == {"w": 3}
        assert store.stats("jobs").last_seen_by_worker_id == {"w": clock()}

    def test_every_field_of_stats(self, store: QueueStore, clock: FakeClock) -> None:
        start = clock()
        upstream = put(store, "other")
        put_many(store, "abc", priority=9)
        first = take(store, timeout=1000, leased_by="w1")
        clock.advance(2)
        take(store, timeout=1000, leased_by="w2")
        clock.advance(2)
        take(store, timeout=1000, leased_by="w2")
        put(store)
        put(store, delay=100)
        put(store, after=(upstream,))
        put_many(store, "ab", ordering_key="k")
        override(store, put(store), "dead-letter")
        override(store, put(store), "cancel")
        put(store, ttl=0)
        put_limited(store, Limit(1, "drop-newest"))
        store.heartbeat("jobs", "w3")
        clock.advance(4)
        store.heartbeat("jobs", "w1")
        store.pause("jobs")
        assert store.stats("jobs") == QueueStats(
            ready=2,
            delayed=1,
            inflight=3,
            dead=1,
            total=11,
            by_worker_id={"w1": 1, "w2": 2},
            leases_by_worker_id={"w1": 1, "w2": 2},
            last_seen_by_worker_id={"w1": start + 8, "w3": start + 4},
            oldest_ready_age_seconds=4.0,
            oldest_inflight_age_seconds=8.0,
            average_inflight_age_seconds=6.0,
            waiting=1,
            blocked=1,
            expired=1,
            cancelled=1,
            dropped=1,
            paused=True,
        )
        assert release(store, first)
        assert store.stats("jobs").by_worker_id == {"w2": 2}
        assert store.stats("jobs").leases_by_worker_id == {"w1": 1, "w2": 2}

    def test_the_oldest_ready_message_is_the_longest_available_of_any_priority(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        assert store.stats("jobs").oldest_ready_age_seconds is None
        put(store, delay=4)
        put(store, priority=1)
        clock.advance(3)
        put(store, priority=5)
        assert store.stats("jobs").oldest_ready_age_seconds == 3.0
        take(store)
        take(store)
        assert store.stats("jobs").oldest_ready_age_seconds is None
        clock.advance(3)
        assert store.stats("jobs").oldest_ready_age_seconds == 2.0

    def test_ages_are_never_negative(self, store: QueueStore, clock: FakeClock) -> None:
        put_many(store, "ab")
        take(store)
        clock.jump_back(100)
        stats = store.stats("jobs")
        assert stats.oldest_ready_age_seconds == stats.oldest_inflight_age_seconds == 0.0
        assert stats.average_inflight_age_seconds == 0.0

    def test_reads_change_nothing(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="ttl", ttl=5)
        put(store, payload="delayed", delay=5, run_id="r")
        put(store, payload="leased", priority=1)
        held = take(store, timeout=5, leased_by="w")
        clock.advance(6)
        scanned = store.scan("jobs")
        for _ in range(2):
            store.stats("jobs")
            store.qsize("jobs")
            store.load("jobs")
            store.run("r")
            store.run_messages("r")
            store.get("jobs", held.id)
            store.upstream("jobs", held.id)
            store.record("a", "b")
            store.check()
            store.listen(["jobs"]).close()
            assert store.prune("jobs", state="dead", older_than=0, dry_run=True) == 0
            assert store.scan("jobs") == scanned
        clock.jump_back(3)
        assert release(store, held)

    def test_counts_agree_with_a_scan_after_random_work(self, store: QueueStore, clock: FakeClock) -> None:
        choose = random.Random(42)
        queues = ("one", "two", "three")
        ids: list[str] = [put(store, "one")]
        held: list[StoredMessage] = []
        for n in range(600):
            queue = choose.choice(queues)
            act = choose.randrange(8)
            if act <= 2:
                message = new(
                    store,
                    queue,
                    delay=choose.choice((0, 0, 5)),
                    ttl=choose.choice((None, None, 3, 8)),
                    ordering_key=choose.choice((None, "k", "l")),
                    dedupe_key=choose.choice((None, None, "d")),
                    run_id=choose.choice((None, "r", f"r{n % 4}")),
                    priority=choose.randrange(3),
                    after=tuple(choose.sample(ids, choose.choice((0, 0, 0, 1)))),
                )
                limits = {queue: choose.choice((Limit(4), Limit(3, "drop-oldest"), Limit(0)))}
                with contextlib.suppress(QueueError):
                    store.commit(Changes(enqueue=[message], limits=limits))
                    ids.append(message.id)
            elif act <= 4:
                held += lease(store, queue, limit=2, timeout=4, max_attempts=2)
            elif act == 5 and held:
                message_held = held.pop(choose.randrange(len(held)))
                action = choose.choice(("ack", "ack", "release", "dead-letter", "cancel"))
                one = Settle(message_held.queue, message_held.id, action, message_held.attempts)  # type: ignore[arg-type]
                store.commit(Changes(settle=[one], strict=False))
            elif act == 6:
                clock.advance(choose.choice((0, 1, 2, -1)))
            elif n % 40 == 7:
                choose.choice((store.purge, store.requeue, store.pause, store.resume))(queue)
            elif n % 90 == 15:
                store.cancel_run(f"r{n % 4}")
        clock.advance(1000)
        for queue in queues:
            store.resume(queue)
            while lease(store, queue, limit=100, timeout=10_000):
                pass
        assert_sound(store, queues)
        for run_id in ("r", "r0", "r1", "r2", "r3"):
            run = store.run(run_id)
            if run is not None:
                found = [message.state for message in store.run_messages(run_id)]
                assert {state: getattr(run, state) for state in STATES} == {s: found.count(s) for s in STATES}

    @pytest.mark.slow
    def test_a_check_finds_nothing_wrong_while_threads_work(self, live: QueueStore) -> None:
        checked, done = threading.Event(), threading.Event()

        def work() -> None:
            try:
                rounds = 0
                while rounds < 15 or not checked.is_set():
                    put_many(live, (str(n) for n in range(20)), ordering_key="k")
                    for n in range(20):
                        put(live, payload=str(n))
                    drain(live)
                    rounds += 1
            finally:
                done.set()

        threads = Background()
        threads.start(work)
        while not done.is_set():
            assert live.check().problems == ()
            checked.set()
        threads.join()

    def test_names_that_never_send_a_heartbeat_are_forgotten_when_there_are_many(self, store: QueueStore) -> None:
        put_many(store, ["x"] * (NAMES + 2))
        store.heartbeat("jobs", "seen")
        for name in ("seen", *(f"name {n}" for n in range(NAMES))):
            take(store, leased_by=name)
        assert len(store.stats("jobs").leases_by_worker_id) == 1 + NAMES
        take(store, leased_by="one more")
        stats = store.stats("jobs")
        assert stats.leases_by_worker_id == {"seen": 1, "one more": 1}
        assert len(stats.by_worker_id) == NAMES + 2
        assert_sound(store)

    def test_a_worker_that_was_not_seen_for_long_is_forgotten_when_another_one_comes(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        for worker in ("gone", "paused", "here"):
            store.heartbeat("jobs", worker, leases=2)
        store.heartbeat("other", "gone")
        store.pause("jobs", worker="paused")
        clock.advance(KNOWN / 2)
        store.heartbeat("jobs", "here")
        clock.advance(KNOWN / 2 + 1)
        store.heartbeat("jobs", "new")
        stats = store.stats("jobs")
        assert {"here", "new"} <= stats.last_seen_by_worker_id.keys()
        assert "gone" not in stats.last_seen_by_worker_id | stats.leases_by_worker_id
        assert store.paused("jobs", worker="paused")
        assert "gone" in store.stats("other").last_seen_by_worker_id
        assert_sound(store, ["jobs", "other"])
