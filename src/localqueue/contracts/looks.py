"""A store that was opened to look: it sees everything, makes nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts.harness import FakeClock, StoreHarness
from localqueue.contracts.picture import picture
from localqueue.contracts.steps import PATIENCE, Background, new, override, put, put_many, take
from localqueue.errors import QueueStoreMissingError, QueueStoreReadOnlyError
from localqueue.message import QueueStats
from localqueue.stores.port import Changes, Lease, LeaseRequest, Page, QueueStore, RecordWrite, Settle

OpenStore = Callable[..., QueueStore]

_QUEUES = ("jobs", "topic", "topic:a", "nobody's")


def whole(store: QueueStore) -> dict[str, Any]:
    """Everything that `fill` has made visible."""
    return picture(store, {}, queues=_QUEUES, runs=("r", "nobody's"), kinds=("k", "nobody's"), workers=("w", "v"))


def fill(store: QueueStore, clock: FakeClock) -> dict[str, str]:
    """A bit of everything; the ids of some messages."""
    store.enable_journal()
    upstream = put(store, payload="leased", run_id="r")
    take(store, leased_by="w")
    put_many(store, "abc", ordering_key="k")
    put(store, after=(upstream,), run_id="r", payload="waiting")
    put(store, delay=60, payload="delayed")
    put(store, ttl=1, payload=b"expires")
    dead = put(store, payload="dead")
    override(store, dead, "dead-letter", error={"type": "E", "message": "no"})
    store.subscribe("topic", "a")
    store.pause("jobs", worker="v")
    store.pause("topic")
    store.heartbeat("jobs", "w", leases=1)
    store.commit(Changes(records=[RecordWrite("k", "1", b"one"), RecordWrite("k", "2", b"two")]))
    clock.advance(5)
    return {"leased": upstream, "dead": dead}


_WRITES: dict[str, Callable[[QueueStore, dict[str, str]], object]] = {
    "put_one": lambda store, ids: store.put_one("jobs", "x", None),
    "put_one into a new queue": lambda store, ids: store.put_one("new", "x", None),
    "put_batch": lambda store, ids: store.put_batch("jobs", ["x", "y"], None),
    "put_pages": lambda store, ids: store.put_pages([Page(["x", "y"], "jobs", dedupe_key=["a", "b"])]),
    "commit of a put": lambda store, ids: store.commit(Changes(enqueue=[new(store, ordering_key="k")])),
    "commit of a settle": lambda store, ids: store.commit(Changes(settle=[Settle("jobs", ids["leased"], "ack", 1)])),
    "commit of a record": lambda store, ids: store.commit(Changes(records=[RecordWrite("k", "3", b"")])),
    "lease": lambda store, ids: store.lease(LeaseRequest("jobs", 1)),
    "lease of many": lambda store, ids: store.lease(LeaseRequest("jobs", 5)),
    "renew": lambda store, ids: store.renew([Lease("jobs", ids["leased"], 1)], timeout=9),
    "ack_one": lambda store, ids: store.ack_one("jobs", ids["leased"], 1),
    "subscribe": lambda store, ids: store.subscribe("topic", "b"),
    "unsubscribe": lambda store, ids: store.unsubscribe("topic", "a"),
    "requeue": lambda store, ids: store.requeue("jobs", [ids["dead"]]),
    "prune": lambda store, ids: store.prune("jobs", state="dead", older_than=0),
    "purge": lambda store, ids: store.purge("jobs"),
    "cancel_run": lambda store, ids: store.cancel_run("r"),
    "pause": lambda store, ids: store.pause("jobs"),
    "resume": lambda store, ids: store.resume("topic"),
    "compact": lambda store, ids: store.compact(),
    "heartbeat": lambda store, ids: store.heartbeat("jobs", "w"),
    "enable_journal": lambda store, ids: store.enable_journal(keep_events=1),
    "disable_journal": lambda store, ids: store.disable_journal(),
    "prune_events": lambda store, ids: store.prune_events(older_than=0),
}


class LookContract:
    """For a store whose `open` takes `read_only=True`."""

    def test_where_there_is_no_store_looking_says_so_and_makes_none(self, harness: StoreHarness) -> None:
        for _ in range(2):
            with pytest.raises(QueueStoreMissingError, match="there is no "):
                harness.open(read_only=True)

    def test_where_there_is_no_namespace_looking_says_so_and_makes_none(
        self, store: QueueStore, harness: StoreHarness
    ) -> None:
        put(store)
        for _ in range(2):
            with pytest.raises(QueueStoreMissingError, match=r"no namespace .*nobody"):
                harness.open(namespace="nobody", read_only=True)

    def test_everything_can_be_seen(self, store: QueueStore, open_store: OpenStore, clock: FakeClock) -> None:
        fill(store, clock)
        seen = whole(store)
        look = open_store(clock=clock, read_only=True)
        assert whole(look) == seen
        assert (look.namespace, look.url, look.now()) == (store.namespace, store.url, store.now())
        assert look.queues() == store.queues()
        assert look.runs() == store.runs()
        assert look.record("k", "1") == store.record("k", "1")
        assert look.splits("jobs", 2) == store.splits("jobs", 2)
        assert look.prune("jobs", state="dead", older_than=0, dry_run=True) == 1
        assert look.check().problems == ()

    def test_what_a_closed_store_left_can_be_seen(
        self, store: QueueStore, open_store: OpenStore, clock: FakeClock
    ) -> None:
        fill(store, clock)
        seen = whole(store)
        store.close()
        assert whole(open_store(clock=clock, read_only=True)) == seen

    def test_what_is_written_later_is_seen(self, store: QueueStore, open_store: OpenStore, clock: FakeClock) -> None:
        put(store)
        look = open_store(clock=clock, read_only=True)
        assert look.qsize("jobs") == 1
        put(store)
        put(store, "later")
        assert (look.qsize("jobs"), look.qsize("later"), look.queues()) == (2, 1, ["jobs", "later"])
        store.close()
        again = open_store(clock=clock)
        put(again)
        again.close()
        assert look.qsize("jobs") == 3

    def test_every_write_is_refused_and_changes_nothing(
        self, store: QueueStore, open_store: OpenStore, clock: FakeClock
    ) -> None:
        ids = fill(store, clock)
        seen, queues = whole(store), store.queues()
        look = open_store(clock=clock, read_only=True)
        for name, write in _WRITES.items():
            with pytest.raises(QueueStoreReadOnlyError, match="opened to look"):
                pytest.fail(f"{name} gave {write(look, ids)!r}")
            assert (whole(store), store.queues()) == (seen, queues), name

    def test_looking_at_a_queue_that_is_not_there_makes_none(
        self, store: QueueStore, open_store: OpenStore, clock: FakeClock
    ) -> None:
        put(store)
        for one in (open_store(clock=clock, read_only=True), store):
            assert one.stats("nobody's") == QueueStats()
            assert (one.qsize("nobody's"), one.load("nobody's"), one.scan("nobody's")) == (0, 0, [])
            assert one.get("nobody's", store.mint()[0]) is None
            assert not one.paused("nobody's")
            assert not one.paused("nobody's", worker="w")
            assert one.splits("nobody's", 3) == []
            assert one.upstream("nobody's", store.mint()[0]) == []
            assert one.subscriptions("nobody's").subscribers == ()
            assert one.prune("nobody's", state="dead", older_than=0, dry_run=True) == 0
            assert one.events(queue="nobody's") == []
            assert one.queues() == ["jobs"]

    def test_who_looks_can_wait_for_what_others_put(self, live: QueueStore, open_store: OpenStore) -> None:
        put(live, "other")
        look = open_store(read_only=True)
        with look.listen(["jobs"]) as waiter:
            assert not waiter.wait(0)
            background = Background()
            background.start(lambda: put(live))
            assert waiter.wait(PATIENCE)
            background.join()

    def test_who_looks_can_wait_for_a_record(self, live: QueueStore, open_store: OpenStore) -> None:
        put(live)
        look = open_store(read_only=True)
        with look.listen_records("k", ["a"]) as waiter:
            assert not waiter.wait(0)
            live.commit(Changes(records=[RecordWrite("k", "a", b"v", tell=True)]))
            assert waiter.wait(PATIENCE)

    def test_a_backup_can_be_made_of_what_is_looked_at(
        self, store: QueueStore, open_store: OpenStore, harness: StoreHarness, clock: FakeClock, tmp_path: Path
    ) -> None:
        fill(store, clock)
        open_store(clock=clock, read_only=True).backup(str(tmp_path / "copy"))
        copy = harness.open_copy(str(tmp_path / "copy"))
        try:
            assert copy.scan("jobs") == store.scan("jobs")
        finally:
            copy.close()
