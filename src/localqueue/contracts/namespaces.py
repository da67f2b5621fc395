"""Namespaces: nothing of one is seen, changed, counted, woken or paused from another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import MOMENT, ack, drain, lease, new, override, put, take
from localqueue.errors import NotWaiting, UnknownMessage
from localqueue.message import QueueStats
from localqueue.stores.port import (
    Action,
    Changes,
    Edge,
    Lease,
    LeaseRequest,
    Limit,
    QueueStore,
    RecordWrite,
    Subscriptions,
)


class NamespaceContract:
    @pytest.fixture
    def theirs(self, open_store: Callable[..., QueueStore], clock: FakeClock) -> QueueStore:
        """Another namespace on the same data."""
        return open_store(namespace="theirs", clock=clock)

    def test_a_store_knows_its_namespace(self, store: QueueStore, theirs: QueueStore) -> None:
        assert (store.namespace, theirs.namespace) == ("default", "theirs")

    def test_nothing_of_another_namespace_is_visible(self, store: QueueStore, theirs: QueueStore) -> None:
        first = put(store, run_id="r", dedupe_key="d", ordering_key="k")
        waiting = put(store, after=(first,), run_id="r")
        take(store, leased_by="w")
        put(store)
        override(store, put(store), "dead-letter")
        store.heartbeat("jobs", "w")
        store.pause("jobs")
        store.subscribe("jobs", "s")
        store.commit(Changes(records=[RecordWrite("result", "a", b"1")]))
        assert theirs.get("jobs", first) is None
        assert theirs.qsize("jobs") == theirs.load("jobs") == 0
        assert theirs.stats("jobs") == QueueStats()
        assert theirs.scan("jobs") == theirs.scan("jobs", state="dead") == []
        assert theirs.queues() == []
        assert theirs.splits("jobs", 2) == theirs.runs() == []
        assert theirs.run("r") is None
        assert theirs.run_messages("r") == []
        assert theirs.upstream("jobs", waiting) == []
        assert theirs.record("result", "a") is None
        assert theirs.records("result") == []
        assert theirs.subscriptions("jobs") == Subscriptions(0, ())
        assert not theirs.paused("jobs")

    def test_nothing_of_another_namespace_can_be_changed(self, store: QueueStore, theirs: QueueStore) -> None:
        first = put(store, run_id="r")
        waiting = put(store, after=(first,), run_id="r")
        held = take(store, timeout=60, leased_by="w")
        dead = put(store, run_id="r")
        override(store, dead, "dead-letter")
        store.subscribe("jobs", "s")
        store.commit(Changes(records=[RecordWrite("result", "a", b"1")]))

        def seen() -> object:
            return (
                store.scan("jobs"),
                store.stats("jobs"),
                store.run("r"),
                store.records("result"),
                store.subscriptions("jobs"),
            )

        before = seen()
        actions: tuple[Action, ...] = ("ack", "release", "dead-letter", "cancel")
        for action in actions:
            assert not override(theirs, held.id, action)
        assert not ack(theirs, held)
        assert not theirs.ack_one("jobs", held.id, held.attempts)
        assert theirs.renew([Lease("jobs", held.id, held.attempts)], timeout=1) == [None]
        assert theirs.lease(LeaseRequest("jobs", 10)) == []
        assert theirs.commit(Changes(lease=LeaseRequest("jobs", 10, consume=True))).leased == []
        assert theirs.requeue("jobs", [dead]) == theirs.requeue("jobs") == 0
        assert theirs.prune("jobs", state="dead", older_than=0) == theirs.purge("jobs") == 0
        assert theirs.cancel_run("r") == 0
        theirs.pause("jobs")
        theirs.heartbeat("jobs", "w")
        theirs.subscribe("jobs", "t")
        assert not theirs.unsubscribe("jobs", "s")
        theirs.commit(Changes(records=[RecordWrite("result", "a", None), RecordWrite("result", "b", b"2", 0)]))
        with pytest.raises(UnknownMessage):
            put(theirs, after=(first,))
        mine = put(theirs)
        with pytest.raises(NotWaiting):
            theirs.commit(Changes(edges=[Edge(mine, waiting)]))
        assert seen() == before
        assert ack(store, held)
        assert take(store).id == waiting

    def test_keys_limits_and_runs_of_two_namespaces_do_not_meet(self, store: QueueStore, theirs: QueueStore) -> None:
        put(store, dedupe_key="d", ordering_key="k", run_id="r")
        store.cancel_run("r")
        put(store, dedupe_key="d", ordering_key="k")
        batch = [new(theirs, dedupe_key="d", ordering_key="k", run_id="r")]
        done = theirs.commit(Changes(enqueue=batch, limits={"jobs": Limit(1)}, topics={"jobs": 0}))
        assert (done.enqueued[0].outcome, done.enqueued[0].state) == ("stored", "ready")
        assert theirs.qsize("jobs") == store.qsize("jobs") == 1

    def test_a_paused_queue_of_another_namespace_does_not_pause_mine(
        self, store: QueueStore, theirs: QueueStore
    ) -> None:
        put(store, payload="mine")
        put(theirs, payload="theirs")
        theirs.pause("jobs")
        assert drain(store) == ["mine"]
        assert lease(theirs) == []

    def test_a_paused_worker_of_another_namespace_does_not_pause_mine(
        self, store: QueueStore, theirs: QueueStore
    ) -> None:
        put(store)
        put(theirs)
        theirs.pause("jobs", worker="w")
        assert not store.paused("jobs", worker="w")
        assert store.stats("jobs").paused_workers == ()
        take(store, leased_by="w")
        assert lease(theirs, leased_by="w") == []
        store.resume("jobs", worker="w")
        assert theirs.paused("jobs", worker="w")

    def test_a_put_in_another_namespace_wakes_nobody_here(self, store: QueueStore, theirs: QueueStore) -> None:
        put(store, "full")
        put(store, "run", run_id="r")
        with (
            store.listen(["jobs"]) as ready,
            store.listen_capacity({"full": 1}) as room,
            store.listen_run("r") as run,
            store.listen_records("k", ["a"]) as record,
        ):
            put(theirs)
            theirs.commit(Changes(records=[RecordWrite("k", "a", b"theirs", tell=True)]))
            put(theirs, "full", run_id="r")
            drain(theirs, "full")
            assert not ready.wait(MOMENT)
            assert not room.wait(MOMENT)
            assert not run.wait(MOMENT)
            assert not record.wait(MOMENT)

    def test_purging_here_leaves_the_same_queue_there(self, store: QueueStore, theirs: QueueStore) -> None:
        put(store)
        put(theirs)
        assert store.purge("jobs") == 1
        assert theirs.qsize("jobs") == 1
        assert store.check().ok
        assert theirs.check().ok
