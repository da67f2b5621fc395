"""The ledger's records, and writing them in the commit that settles a message."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import pytest

from localqueue.contracts.steps import counts, put, take
from localqueue.errors import LeaseLost, PayloadError, RecordConflict
from localqueue.idempotency import IdempotencyRecord, QueueIdempotencyStore
from localqueue.retry import QueueAttemptStore, RetryRecord
from localqueue.stores.port import Changes, Record, Settle
from localqueue.stores.sqlite import MemoryQueueStore

DONE = IdempotencyRecord("succeeded", 1.0, 2.0, "inline", {"result": 3})


@pytest.fixture
def queue_store() -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore() as store:
        yield store


def test_a_record_is_a_frozen_value_in_the_documented_order() -> None:
    names = [field.name for field in dataclasses.fields(IdempotencyRecord)]
    assert names == ["status", "first_seen_at", "completed_at", "result_key", "metadata"]
    record = IdempotencyRecord("pending", 1.0)
    assert (record.completed_at, record.result_key, record.metadata) == (None, None, {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.status = "failed"  # type: ignore[misc]


def test_a_pending_record_was_first_seen_now() -> None:
    before = time.time()
    record = IdempotencyRecord.pending(metadata={"owner": "me"})
    assert record.status == "pending"
    assert before <= record.first_seen_at <= time.time()
    assert record.metadata == {"owner": "me"}
    assert IdempotencyRecord.pending(first_seen_at=5.0).first_seen_at == 5.0


def test_metadata_that_json_can_not_hold_is_refused_and_nothing_is_changed(queue_store: MemoryQueueStore) -> None:
    ledger = QueueIdempotencyStore(queue_store)
    ledger.save("a", DONE)
    with pytest.raises(PayloadError, match=r"idempotency records must be JSON-serializable: .*metadata"):
        ledger.save("a", dataclasses.replace(DONE, metadata={"result": {1, 2}}))
    assert ledger.load("a") == DONE


def test_a_record_and_an_ack_are_one_commit(queue_store: MemoryQueueStore) -> None:
    ledger = QueueIdempotencyStore(queue_store)
    put(queue_store)
    message = take(queue_store)
    pending = IdempotencyRecord("pending", 1.0, metadata={"owner": "me", "until": 60.0})
    assert ledger.begin("a", pending, now=1.0) is None
    found, version = ledger.versioned("a")
    assert found == pending
    stale = Settle("jobs", message.id, "ack", message.attempts + 1)
    with pytest.raises(LeaseLost):
        queue_store.commit(Changes(settle=[stale], records=[ledger.write("a", DONE, expect=version)]))
    assert ledger.load("a") == pending
    ack = Settle("jobs", message.id, "ack", message.attempts)
    queue_store.commit(Changes(settle=[ack], records=[ledger.write("a", DONE, expect=version)]))
    assert ledger.load("a") == DONE
    assert counts(queue_store) == {}


def test_a_write_goes_by_the_version_it_expects(queue_store: MemoryQueueStore) -> None:
    ledger = QueueIdempotencyStore(queue_store)
    assert ledger.versioned("a") == (None, 0)
    queue_store.commit(Changes(records=[ledger.write("a", DONE, expect=0)]))
    with pytest.raises(RecordConflict):
        queue_store.commit(Changes(records=[ledger.write("a", DONE, expect=0)]))
    version = ledger.versioned("a")[1]
    queue_store.commit(Changes(records=[ledger.write("a", None, expect=version)]))
    assert ledger.load("a") is None
    ledger.save("b", DONE)
    queue_store.commit(Changes(records=[ledger.erase("b")]))
    assert ledger.load("b") is None


def test_ledger_and_attempts_of_one_queue_store_are_apart(queue_store: MemoryQueueStore) -> None:
    ledger, attempts = QueueIdempotencyStore(queue_store), QueueAttemptStore(queue_store)
    ledger.save("a", DONE)
    attempts.save("a", RetryRecord(1, 5.0, True))
    assert attempts.prune_exhausted(older_than=0, now=5.0) == 1
    assert ledger.load("a") == DONE


def test_closing_a_ledger_leaves_the_queue_store_open(queue_store: MemoryQueueStore) -> None:
    with QueueIdempotencyStore(queue_store) as ledger:
        ledger.save("a", DONE)
    assert QueueIdempotencyStore(queue_store).load("a") == DONE


def test_pruning_leaves_a_record_that_changed_meanwhile() -> None:
    class Busy(MemoryQueueStore):
        def records(self, kind: str, *, after: str = "", limit: int | None = None) -> list[Record]:
            page = super().records(kind, after=after, limit=limit)
            if not after:
                QueueIdempotencyStore(self).save("b", IdempotencyRecord("pending", 3.0))
            return page

    with Busy() as queue_store:
        ledger = QueueIdempotencyStore(queue_store)
        for key in "abc":
            ledger.save(key, DONE)
        assert ledger.prune_completed(older_than=0, now=2.0) == 2
        assert [ledger.load(key) for key in "abc"] == [None, IdempotencyRecord("pending", 3.0), None]


def test_pruning_goes_through_all_pages(queue_store: MemoryQueueStore) -> None:
    ledger = QueueIdempotencyStore(queue_store)
    writes = [ledger.write(f"k{n:04}", DONE) for n in range(1203)]
    queue_store.commit(Changes(records=writes))
    ledger.save("kept", IdempotencyRecord("pending", 1.0))
    assert ledger.count_completed_older_than(older_than=0, now=2.0) == 1203
    assert ledger.prune_completed(older_than=0, now=2.0) == 1203
    assert ledger.load("kept") is not None
