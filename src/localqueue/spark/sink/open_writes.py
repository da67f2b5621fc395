"""Writes of jobs without a key that are put in several transactions, and are taken back when one of these fails.

Nobody can finish such a write: the job that is run again is another job, with rows of its own. So while it is under way
the store has its entry of the ledger and, of each transaction, a receipt that says where its messages are; the last
transaction removes both. Whoever finds an entry whose driver is dead removes the messages that are still there and not
in somebody's hands, then the entry, and marks the job as aborted. What consumers have taken meanwhile has happened.

A driver shows that it lives by changing the entry with each transaction. A later write into the same queue waits until
that of an earlier one is certain, so that what is run again after a death is not there twice.
"""

from __future__ import annotations

import logging
import uuid

from localqueue.errors import RecordConflict
from localqueue.spark.record_family import records_under
from localqueue.spark.sink import ledger
from localqueue.spark.sink.ledger import Entry
from localqueue.spark.sink.staged_rows import ABORTED_KIND, removals
from localqueue.stores.port import INFLIGHT, Changes, QueueStore, Record, RecordWrite, Settle
from localqueue.stores.receipts import Placed, read_receipt

_log = logging.getLogger(__name__)

RECEIPT_KIND = "spark-sink-receipt"
#: After how many seconds without a sign of life a driver amid a write counts as dead.
SILENT_FOR = 60.0
_PAGE = 500


def receipt_of(entry: Entry, number: int) -> tuple[str, str]:
    """The name of the receipt of one transaction."""
    return RECEIPT_KIND, f"{entry.key}:{number:06d}"


def undo_dead(store: QueueStore, *, queue: str | None = None) -> None:
    """Take back what drivers have left that died amid a write. Those into `queue` are waited for until it is known."""
    for record in records_under(store, ledger.KIND, ledger.ONCE):
        ours = queue is not None and record.key.startswith(ledger.for_once("", queue))
        if _silence_left(store, record) <= 0 or (ours and _is_dead(store, record)):
            undo(store, ledger.entry_of(record))


def undo(store: QueueStore, entry: Entry) -> None:
    """Take back what was put of a write, unless somebody else does, or it has come to its end."""
    chunks = entry.chunks or ()
    try:
        store.commit(Changes(records=[entry.amid(entry.batch, chunks, entry.done, uuid.uuid4().hex)]))
    except RecordConflict:
        return
    entry = ledger.read(store, entry.key)  # its driver, should it live, is refused from here on
    receipts = list(records_under(store, RECEIPT_KIND, f"{entry.key}:"))
    removed = sum(_remove(store, place) for one in receipts for place in read_receipt(one.value))
    mark = RecordWrite(ABORTED_KIND, ledger.job_of(entry.key), b"")
    gone = [RecordWrite(RECEIPT_KIND, one.key, None) for one in receipts]
    store.commit(Changes(records=[mark, entry.finished(entry.batch), *gone, *removals(chunks)]))
    _log.warning("a write without an idempotencyKey failed amid its steps: %d messages were taken back", removed)


def was_undone(store: QueueStore, key: str) -> bool:
    """Whether what was put of a write was taken back, not long ago."""
    return store.record(ABORTED_KIND, ledger.job_of(key)) is not None


def _remove(store: QueueStore, place: Placed) -> int:
    removed, after = 0, place.after
    while page := store.scan(place.queue, after=after, until=place.until, limit=_PAGE):
        after = page[-1].id
        settles = [Settle(place.queue, one.id, "ack") for one in page if one.state != INFLIGHT]
        removed += sum(store.commit(Changes(settle=settles, strict=False)).settled) if settles else 0
    return removed


def _silence_left(store: QueueStore, record: Record) -> float:
    """In how many seconds its driver counts as dead, if it does nothing until then."""
    return record.updated_at + SILENT_FOR - store.now()


def _is_dead(store: QueueStore, record: Record) -> bool:
    """Wait until it is known."""
    with store.listen_records(record.kind, [record.key]) as waiter:
        while True:
            now = store.record(record.kind, record.key)
            if now is None or now.version != record.version:
                return False
            left = _silence_left(store, record)
            if left <= 0:
                return True
            waiter.wait(left)
