"""Records: small values that are written in the same transaction as messages, with versions to write by."""

from __future__ import annotations

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import counts, new, put, take
from localqueue.errors import RecordConflict
from localqueue.stores.port import Changes, LeaseRequest, QueueStore, Record, RecordWrite, Settle


def _write(store: QueueStore, key: str, value: bytes | None, expect: int | None = None, kind: str = "result") -> None:
    store.commit(Changes(records=[RecordWrite(kind, key, value, expect)]))


def _read(store: QueueStore, key: str) -> Record:
    found = store.record("result", key)
    assert found is not None
    return found


class RecordContract:
    def test_a_lease_brings_the_ledger_record_of_its_dedupe_key(self, store: QueueStore) -> None:
        put(store, dedupe_key="a")
        put(store, dedupe_key="b")
        put(store)
        store.commit(Changes(records=[RecordWrite("seen", "jobs:a", b"1"), RecordWrite("other", "jobs:b", b"2")]))
        leased = store.lease(LeaseRequest("jobs", 3, ledger="seen"))
        assert [message.record and message.record.value for message in leased] == [b"1", None, None]

        put(store, dedupe_key="c")
        store.commit(Changes(records=[RecordWrite("seen", "jobs:c", b"3")]))
        first = Settle("jobs", leased[0].id, "ack", leased[0].attempts)
        (last,) = store.commit(Changes(settle=(first,), lease=LeaseRequest("jobs", ledger="seen"))).leased
        assert last.record == store.record("seen", "jobs:c")

    def test_a_record_is_what_was_written_last(self, store: QueueStore, clock: FakeClock) -> None:
        assert store.record("result", "a") is None
        _write(store, "a", b"one")
        clock.advance(1)
        _write(store, "a", b"\x00two\xff")
        record = _read(store, "a")
        assert (record.kind, record.key, record.value, record.updated_at) == ("result", "a", b"\x00two\xff", clock())

    def test_none_deletes(self, store: QueueStore) -> None:
        _write(store, "a", b"one")
        _write(store, "a", None)
        _write(store, "never-there", None)
        assert store.record("result", "a") is None
        assert store.records("result") == []

    def test_a_commit_can_depend_on_a_record_that_must_be_absent(self, store: QueueStore) -> None:
        both = [RecordWrite("result", "a", b"1"), RecordWrite("result", "stop", None, 0)]
        store.commit(Changes(records=both))
        _write(store, "a", None)
        _write(store, "stop", b"")
        with pytest.raises(RecordConflict):
            store.commit(Changes(records=both))
        assert [record.key for record in store.records("result")] == ["stop"]

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

    def test_a_write_goes_by_the_version_it_expects(self, store: QueueStore) -> None:
        _write(store, "a", b"1")
        first = _read(store, "a").version
        _write(store, "a", b"2")
        second = _read(store, "a").version
        for stale in (0, first, second + 1, -1):
            with pytest.raises(RecordConflict):
                _write(store, "a", b"3", expect=stale)
            assert _read(store, "a").value == b"2"
        _write(store, "a", b"3", expect=second)
        assert _read(store, "a").value == b"3"
        with pytest.raises(RecordConflict):
            _write(store, "a", None, expect=second)
        _write(store, "a", None, expect=_read(store, "a").version)
        assert store.record("result", "a") is None

    def test_a_version_never_comes_back(self, store: QueueStore) -> None:
        versions = set()
        for n in range(6):
            _write(store, "a", b"same")
            versions.add(_read(store, "a").version)
            if n % 2:
                _write(store, "a", None)
        assert len(versions) == 6
        assert 0 not in versions

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
        writes = [RecordWrite("result", "a", b"1", 0), RecordWrite("result", "a", b"2")]
        store.commit(Changes(records=writes))
        assert _read(store, "a").value == b"2"
        with pytest.raises(RecordConflict):
            store.commit(Changes(records=[RecordWrite("result", "b", b"1"), RecordWrite("result", "b", b"2", 0)]))
        assert store.record("result", "b") is None
