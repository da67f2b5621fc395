"""Batches of plain messages: one commit, with records in it if there are any."""

from __future__ import annotations

import threading

import pytest

from localqueue.contracts.harness import FakeClock, StoreHarness
from localqueue.contracts.steps import PATIENCE, Background, assert_sound, counts, drain, payloads, put
from localqueue.errors import RecordConflict
from localqueue.stores.port import Changes, QueueStore, RecordWrite


class BatchContract:
    def test_a_batch_is_stored_in_order_under_ascending_ids(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, payload="before")
        ids, at = store.put_batch("jobs", ["a", b"\x00b", "c"], "raw")
        assert at == clock()
        assert list(ids) == sorted(ids)
        stored = store.scan("jobs")[1:]
        assert [message.id for message in stored] == list(ids)
        assert payloads(stored) == ["a", b"\x00b", "c"]
        assert {(message.codec, message.created_at, message.state) for message in stored} == {("raw", at, "ready")}
        assert drain(store) == ["before", "a", b"\x00b", "c"]

    def test_a_batch_brings_its_records(self, store: QueueStore, clock: FakeClock) -> None:
        store.commit(Changes(records=[RecordWrite("sink", "old", b"1")]))
        old = store.record("sink", "old")
        assert old is not None
        clock.advance(1)
        ids, at = store.put_batch(
            "jobs",
            ["a", "b"],
            None,
            records=[
                RecordWrite("sink", "new", b"\x00\xff", 0),
                RecordWrite("sink", "old", None, old.version),
                RecordWrite("sink", "any", b"2"),
            ],
        )
        assert [message.id for message in store.scan("jobs")] == list(ids)
        assert [(one.key, one.value, one.updated_at) for one in store.records("sink")] == [
            ("any", b"2", at),
            ("new", b"\x00\xff", at),
        ]
        assert_sound(store)

    @pytest.mark.parametrize("size", [1, 3, 500])
    def test_a_record_in_another_version_refuses_the_whole_batch(self, store: QueueStore, size: int) -> None:
        batch = [str(n) for n in range(size)]
        store.put_batch("jobs", batch, None, records=[RecordWrite("sink", "done", b"1", 0)])
        writes = [RecordWrite("sink", "other", b"2"), RecordWrite("sink", "done", b"2", 0)]
        with pytest.raises(RecordConflict, match="done"):
            store.put_batch("jobs", batch, None, records=writes)
        assert counts(store) == {"ready": size}
        assert store.record("sink", "other") is None
        done = store.record("sink", "done")
        assert done is not None
        assert done.value == b"1"
        store.put_batch("jobs", ["last"], None, records=[RecordWrite("sink", "done", b"2", done.version)])
        assert counts(store) == {"ready": size + 1}
        assert_sound(store)

    def test_a_refused_batch_leaves_no_entry_in_the_journal(self, store: QueueStore) -> None:
        store.enable_journal()
        store.put_batch("jobs", ["a", "b"], None, records=[RecordWrite("sink", "done", b"1", 0)])
        with pytest.raises(RecordConflict):
            store.put_batch("jobs", ["c"], None, records=[RecordWrite("sink", "done", b"1", 0)])
        assert [(event.type, event.payload) for event in store.events()] == [("enqueued", "a"), ("enqueued", "b")]

    def test_an_empty_batch_writes_its_records(self, store: QueueStore, clock: FakeClock) -> None:
        ids, at = store.put_batch("jobs", [], None, records=[RecordWrite("sink", "done", b"1", 0)])
        assert (list(ids), at) == ([], clock())
        assert store.record("sink", "done") is not None
        with pytest.raises(RecordConflict):
            store.put_batch("jobs", [], None, records=[RecordWrite("sink", "done", b"1", 0)])
        assert list(store.put_batch("jobs", [], None)[0]) == []
        assert store.scan("jobs") == []

    def test_of_many_threads_with_one_batch_one_puts_it(self, live: QueueStore) -> None:
        for size in (1, 300):
            go = threading.Barrier(4)
            outcomes: list[str] = []

            def sink(name: str, size: int, go: threading.Barrier, outcomes: list[str]) -> None:
                go.wait(PATIENCE)
                try:
                    live.put_batch(
                        f"jobs-{size}", [name] * size, None, records=[RecordWrite("sink", str(size), name.encode(), 0)]
                    )
                    outcomes.append(name)
                except RecordConflict:
                    outcomes.append("refused")

            threads = Background()
            for name in "abcd":
                threads.start(sink, name, size, go, outcomes)
            threads.join()
            assert outcomes.count("refused") == 3
            record = live.record("sink", str(size))
            assert record is not None
            assert payloads(live.scan(f"jobs-{size}")) == [record.value.decode()] * size
            assert_sound(live, [f"jobs-{size}"])

    @pytest.mark.slow
    def test_a_large_batch_and_its_record_are_one_commit(self, live: QueueStore, harness: StoreHarness) -> None:
        many = [f'{{"n": {n}}}' for n in range(harness.batch)]
        ids, _ = live.put_batch("jobs", many, None, records=[RecordWrite("sink", "done", b"1", 0)])
        assert len(ids) == live.qsize("jobs") == len(many)
        with pytest.raises(RecordConflict):
            live.put_batch("jobs", many, None, records=[RecordWrite("sink", "done", b"1", 0)])
        assert live.qsize("jobs") == len(many)
        assert payloads(live.scan("jobs", limit=2)) == many[:2]
        assert payloads(live.scan("jobs", after=ids[-2])) == many[-1:]
