"""Records: small values that are written in the same transaction as messages, with versions to write by."""

from __future__ import annotations

import pytest

from localqueue.errors import RecordConflict
from localqueue.stores.port import Changes, QueueStore, RecordWrite, Settle
from localqueue.testing.harness import FakeClock
from localqueue.testing.steps import counts, new, put, take


def _write(store: QueueStore, key: str, value: bytes | None, expect: int | None = None, kind: str = "result") -> None:
    store.commit(Changes(records=[RecordWrite(kind, key, value, expect)]))


class RecordContract:
    def test_a_record_is_what_was_written_last(self, store: QueueStore, clock: FakeClock) -> None:
        assert store.record("result", "a") is None
        _write(store, "a", b"one")
        clock.advance(1)
        _write(store, "a", b"\x00two\xff")
        record = store.record("result", "a")
        assert record is not None
        assert record == ("result", "a", b"\x00two\xff", 2, clock())

    def test_none_deletes(self, store: QueueStore) -> None:
        _write(store, "a", b"one")
        _write(store, "a", None)
        _write(store, "never-there", None)
        assert store.record("result", "a") is None
        assert store.records("result") == []

    def test_an_empty_value_is_a_value(self, store: QueueStore) -> None:
        _write(store, "a", b"")
        record = store.record("result", "a")
        assert record is not None
        assert record.value == b""

    def test_kinds_are_apart(self, store: QueueStore) -> None:
        _write(store, "a", b"1", kind="one")
        _write(store, "a", b"2", kind="two")
        _write(store, "a", None, kind="one")
        assert store.record("one", "a") is None
        assert store.record("two", "a") is not None

    def test_records_are_listed_by_key_and_in_pages(self, store: QueueStore) -> None:
        for n in (3, 1, 4, 0, 2):
            _write(store, f"k{n}", str(n).encode())
        _write(store, "k9", b"other", kind="resul")
        assert [record.key for record in store.records("result")] == ["k0", "k1", "k2", "k3", "k4"]
        assert [record.key for record in store.records("result", limit=2)] == ["k0", "k1"]
        assert [record.key for record in store.records("result", after="k1", limit=2)] == ["k2", "k3"]

    @pytest.mark.parametrize(("expect", "fits"), [(None, True), (2, True), (0, False), (1, False), (3, False)])
    def test_a_write_goes_by_the_version_it_expects(self, store: QueueStore, expect: int | None, fits: bool) -> None:
        _write(store, "a", b"1")
        _write(store, "a", b"2")
        if fits:
            _write(store, "a", b"3", expect)
        else:
            with pytest.raises(RecordConflict):
                _write(store, "a", b"3", expect)
        record = store.record("result", "a")
        assert record is not None
        assert (record.value, record.version) == ((b"3", 3) if fits else (b"2", 2))

    def test_zero_expects_absence(self, store: QueueStore) -> None:
        _write(store, "a", b"1", expect=0)
        with pytest.raises(RecordConflict):
            _write(store, "a", b"2", expect=0)
        with pytest.raises(RecordConflict):
            _write(store, "b", b"2", expect=1)

    def test_a_conflict_rejects_the_whole_commit(self, store: QueueStore) -> None:
        put(store)
        message = take(store)
        _write(store, "a", b"1")
        with pytest.raises(RecordConflict):
            store.commit(
                Changes(
                    enqueue=[new(store, "other")],
                    settle=[Settle("jobs", message.id, "ack", message.attempts)],
                    records=[RecordWrite("result", "b", b"new"), RecordWrite("result", "a", b"2", 0)],
                )
            )
        assert counts(store) == {"inflight": 1}
        assert store.scan("other") == []
        assert store.record("result", "b") is None

    def test_a_commit_sees_its_own_earlier_writes(self, store: QueueStore) -> None:
        writes = [RecordWrite("result", "a", b"1", 0), RecordWrite("result", "a", b"2", 1)]
        store.commit(Changes(records=writes))
        record = store.record("result", "a")
        assert record is not None
        assert (record.value, record.version) == (b"2", 2)
