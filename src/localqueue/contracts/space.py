"""Compacting: space is given back, and nothing that can be seen changes."""

from __future__ import annotations

import threading

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.looks import fill, whole
from localqueue.contracts.steps import PATIENCE, Background, ack, assert_sound, drain, put, put_many, take
from localqueue.errors import QueueStoreClosedError
from localqueue.stores.port import QueueStore


class SpaceContract:
    def test_compacting_changes_nothing_that_can_be_seen(self, store: QueueStore, clock: FakeClock) -> None:
        ids = fill(store, clock)
        seen = whole(store)
        before, after = store.compact()
        assert whole(store) == seen
        assert (before is None) == (after is None)
        assert store.check().problems == ()
        assert store.ack_one("jobs", ids["leased"], 1)
        put(store, payload="later")
        assert drain(store) == ["a", "b", "c", "waiting", "later"]

    def test_a_store_that_was_emptied_is_not_larger_when_it_was_compacted(self, store: QueueStore) -> None:
        put_many(store, ["x" * 1000] * 500)
        store.purge("jobs")
        before, after = store.compact()
        assert before is None or after is None or after <= before
        put(store, payload="later")
        assert drain(store) == ["later"]
        assert_sound(store)

    def test_a_store_is_compacted_while_threads_use_it(self, live: QueueStore) -> None:
        confirmed: list[str] = []
        enough, stop = threading.Event(), threading.Event()

        def work() -> None:
            while not stop.is_set():
                confirmed.append(put(live))
                put(live, "acked")
                ack(live, take(live, "acked"))
                if len(confirmed) >= 30:
                    enough.set()

        threads = Background()
        threads.start(work)
        try:
            for _ in range(2):
                live.compact()
                assert enough.wait(PATIENCE)
                enough.clear()
        finally:
            stop.set()
            threads.join()
        assert [message.id for message in live.scan("jobs")] == confirmed
        assert live.load("acked") == 0
        assert_sound(live)

    def test_a_closed_store_is_not_compacted(self, live: QueueStore) -> None:
        live.close()
        with pytest.raises(QueueStoreClosedError):
            live.compact()
