"""Putting what tasks have staged, or hold, into the queue: once, however often it is asked for.

A write that the store takes in one transaction is visible as a whole or not at all, and holds up everybody else while
it lasts. With `delivery=steps`, and always on Redis and MongoDB, more than a `Step` is put in several transactions,
each with its progress in the ledger: readers may see the beginning of such a batch before its end, but a driver that
dies in between is continued where it stopped, with the rows it had staged, by the next run of the same batch or of the
job with the same key. What a job without a key has put is taken back instead, see `open_writes`.

Either way the driver reads chunk after chunk while it puts them, and holds one at a time.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from localqueue.errors import (
    QueueFull,
    QueueStoreError,
    QueueStoreUnavailableError,
    RecordConflict,
    SubscriptionsChanged,
)
from localqueue.spark.record_family import records_under
from localqueue.spark.sink import ledger, open_writes
from localqueue.spark.sink.ledger import PART_KIND, Entry
from localqueue.spark.sink.message_pages import HeldRows, Pages, Rows, StagedRows
from localqueue.spark.sink.staged_rows import CHUNK_BYTES, CHUNK_ROWS, Chunk, StagedRowsGone, job_token, removals
from localqueue.spark.sink.staged_rows import KIND as STAGE_KIND
from localqueue.spark.sink.target import Target
from localqueue.stores.port import Changes, Put, QueueStore, RecordWrite

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

Piece = TypeVar("Piece")


class Step(NamedTuple):
    """How much goes into one transaction. A single chunk does in any case."""

    rows: int
    size: int


_SHORT = Step(CHUNK_ROWS, CHUNK_BYTES)
_ALWAYS_IN_STEPS = ("redis", "mongodb")
_ONE_WRITER = ("sqlite:", "lmdb:")
_LONG = 5.0  # seconds of a transaction after which others, who wait for 15 unless told, should not wait much longer


def step_of(backend: str, delivery: str) -> Step | None:
    """How much of a batch goes into one transaction; None when any does."""
    return _SHORT if delivery == "steps" or backend in _ALWAYS_IN_STEPS else None


class WrittenElsewhere(RuntimeError):
    """Another driver writes the same batch at the same time."""


def deliver_staged(
    store: QueueStore,
    *,
    key: str | None,
    batch: int,
    chunks: Sequence[Chunk],
    target: Target,
    step: Step | None,
    job: str | None = None,
) -> Put | None:
    """Put the staged chunks of a batch; None when the ledger has that batch already.

    Without a key there is nothing that could be asked for twice, and nobody who would finish what was begun: a write
    that fails amid its steps is undone. `job` is the token by which that is done where this driver can not do it.
    """
    if key is None:
        return _deliver_once(store, chunks, target, step, job or job_token())
    entry = ledger.read(store, key)
    if entry.has(batch):
        return None
    try:
        if entry.chunks is not None and entry.batch < batch:
            _deliver(store, entry, entry.batch, (), target, step)
            entry = ledger.read(store, key)
        return _deliver(store, entry, batch, chunks, target, step)
    except (RecordConflict, StagedRowsGone) as error:
        if ledger.read(store, key).has(batch):
            return None
        if isinstance(error, StagedRowsGone):
            raise
        raise WrittenElsewhere(_elsewhere(f"batch {batch} of {key!r}")) from error


def _deliver(
    store: QueueStore, entry: Entry, batch: int, chunks: Sequence[Chunk], target: Target, step: Step | None
) -> Put:
    resumed = entry.is_amid(batch)
    done = 0
    if resumed:
        assert entry.chunks is not None
        chunks, done = entry.chunks, entry.done
    # Of rows that were put before a death, nobody knows any more which were duplicates.
    found = Put(0.0, sum(chunk.rows for chunk in chunks[:done]))
    groups = list(_steps(chunks[done:], chunks[done:], step))
    all_rows = sum(chunk.rows for chunk in chunks)
    writer = uuid.uuid4().hex
    if len(groups) > 1 and not resumed:
        store.commit(Changes(records=[entry.amid(batch, chunks, 0, writer)]))
        entry = _own(store, entry.key, writer)
    receipts: list[tuple[str, str]] = []
    for number, group in enumerate(groups, 1):
        before = sum(chunk.rows for chunk in chunks[:done])
        done += len(group)
        last = number == len(groups)
        records = [entry.finished(batch) if last else entry.amid(batch, chunks, done, writer), *removals(group)]
        receipt = None
        if entry.is_once and last:
            records += [RecordWrite(*one, None) for one in receipts]
        elif entry.is_once:
            receipt = open_writes.receipt_of(entry, number)
            receipts.append(receipt)
        with _refusing(store, target, all_rows, before=before, kept=not entry.is_once):
            found = _sum(found, put(store, StagedRows(group), target, records, receipt=receipt))
        if not last:
            entry = _own(store, entry.key, writer)
    return found


def _deliver_once(store: QueueStore, chunks: Sequence[Chunk], target: Target, step: Step | None, job: str) -> Put:
    """Put the chunks of a write that has no key, all of them or, as far as nobody has taken them meanwhile, none."""
    open_writes.undo_dead(store, queue=target.queue)
    in_steps = len(list(_steps(chunks, chunks, step))) > 1
    key = ledger.for_once(job, target.queue)
    try:
        if in_steps:
            return _deliver(store, ledger.read(store, key), 0, chunks, target, step)
        rows = StagedRows(chunks)
        with _refusing(store, target, rows.count):
            return put(store, rows, target, removals(chunks))
    except Exception as error:
        try:
            done = _after_failure(store, key, chunks, error)
        except QueueStoreError:
            raise error from None  # what was put is found by the next write
        if done is None:
            raise
        return done


def _after_failure(store: QueueStore, key: str, chunks: Sequence[Chunk], error: Exception) -> Put | None:
    """Take back what was put of a write without a key; what became of it when it had only lost its last answer."""
    entry = ledger.read(store, key)
    if entry.version:
        open_writes.undo(store, entry)
    elif open_writes.was_undone(store, key):
        raise WrittenElsewhere(
            f"this write was silent for {open_writes.SILENT_FOR:.0f} seconds, and another one has taken back what it "
            "had put: run it again"
        ) from error
    elif isinstance(error, QueueStoreUnavailableError) and store.record(STAGE_KIND, chunks[-1].key) is None:
        rows = sum(chunk.rows for chunk in chunks)
        _log.warning("the answer to the commit of %d rows was lost; they are in the queue", rows)
        return Put(store.now(), rows)
    return None


def _own(store: QueueStore, key: str, writer: str) -> Entry:
    """The ledger as this writer has left it, for its version."""
    entry = ledger.read(store, key)
    if entry.writer != writer:
        raise RecordConflict(f"the ledger {key!r} was taken over")
    return entry


def deliver_part(
    store: QueueStore,
    *,
    key: str | None,
    batch: int,
    part: str,
    tables: Sequence[pa.Table],
    target: Target,
    step: Step | None,
) -> Put | None:
    """Put the rows of one partition at once; None when they are in the queue already.

    The record of the partition says how many of its rows were put, not that they were all: when what computes them
    fails, a task sees its input end as if that had been everything. So the partition must have the same rows in the
    same order when it is computed again, which then go on behind that number.
    """
    if key is not None and ledger.read(store, key).has(batch):
        return None
    total_rows = sum(table.num_rows for table in tables)
    version, done = _progress(store, part)
    fresh = Put(0.0, 0) if done < total_rows else None
    while done < total_rows:
        rest = list(_behind(tables, done))
        group = next(_steps(rest, [Step(table.num_rows, table.nbytes) for table in rest], step))
        rows = done + sum(table.num_rows for table in group)
        try:
            progress = RecordWrite(PART_KIND, part, json.dumps({"rows": rows}).encode(), version)
            with _refusing(store, target, total_rows, before=done):
                fresh = _sum(fresh or Put(0.0, 0), put(store, HeldRows(group), target, [progress]))
        except RecordConflict:
            before, (version, done) = done, _progress(store, part)
            if done <= before:
                raise
            continue  # a twin of this task was faster
        version, done = _progress(store, part) if rows < total_rows else (version, rows)
    return fresh


def _progress(store: QueueStore, part: str) -> tuple[int, int]:
    """The version of a partition's record and how many of its rows were put."""
    record = store.record(PART_KIND, part)
    return (0, 0) if record is None else (record.version, json.loads(record.value)["rows"])


def _behind(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    for table in tables:
        skipped = min(rows, table.num_rows)
        rows -= skipped
        if skipped < table.num_rows:
            yield table.slice(skipped)


def finish_parts(store: QueueStore, *, key: str | None, batch: int, family: str) -> None:
    """All partitions of a batch are in the queue: the ledger says so in their place."""
    parts = [one.key for one in records_under(store, PART_KIND, f"{family}:")]
    records = [RecordWrite(PART_KIND, part, None) for part in parts]
    if key is not None:
        entry = ledger.read(store, key)
        if not entry.has(batch):
            records.insert(0, entry.finished(batch))
    if records:
        try:
            store.commit(Changes(records=records))
        except RecordConflict as error:
            if key is None or not ledger.read(store, key).has(batch):
                raise WrittenElsewhere(_elsewhere(f"batch {batch} of {key!r}")) from error


def put(
    store: QueueStore,
    rows: Rows,
    target: Target,
    records: Sequence[RecordWrite],
    *,
    receipt: tuple[str, str] | None = None,
) -> Put:
    """Enqueue these rows and write the records, in one transaction; what became of the rows.

    A row whose dedupe key is held by a live message, or by a row before it, is a duplicate and is not stored.
    """
    while True:
        reach = target.as_of_now(store)
        pages = Pages(store, rows, reach)
        try:
            done = store.put_pages(
                pages, records=records, limits=reach.limits, topics=reach.topics, receipt=receipt
            )  # fmt: skip
        except SubscriptionsChanged:
            continue
        _tell_long(store, rows.count, time.monotonic() - pages.began)
        return done


def _tell_long(store: QueueStore, rows: int, seconds: float) -> None:
    """Say that others had to wait for long, and how they need not."""
    if seconds > _LONG and store.url.startswith(_ONE_WRITER):
        _log.warning(
            "the transaction of %d rows held up other writers of %s for %.0f s: with the option delivery=steps they "
            "wait for a part of it only, and see it grow", rows, store.url, seconds,
        )  # fmt: skip


@contextmanager
def _refusing(store: QueueStore, target: Target, rows: int, *, before: int = 0, kept: bool = True) -> Iterator[None]:
    """Say of a write of so many rows how many there would be room for; of those before, which are put, `kept` says
    whether they stay."""
    try:
        yield
    except QueueFull as error:
        raise target.refusal(store, error.queue, rows, before, kept=kept) from error


def total(puts: Iterable[Put]) -> Put | None:
    """What became of all of them; None when there is none."""
    found = list(puts)
    return reduce(_sum, found) if found else None


def _sum(one: Put, other: Put) -> Put:
    return Put(other.at, one.stored + other.stored, one.duplicates + other.duplicates, one.dropped + other.dropped)


def _steps(pieces: Sequence[Piece], weights: Sequence[Chunk | Step], step: Step | None) -> Iterator[list[Piece]]:
    """Neighbouring pieces, as many as fit into one transaction."""
    group: list[Piece] = []
    rows = size = 0
    for piece, weight in zip(pieces, weights, strict=True):
        rows, size = rows + weight.rows, size + weight.size
        if group and step is not None and (rows > step.rows or size > step.size):
            yield group
            group, rows, size = [], weight.rows, weight.size
        group.append(piece)
    if group:
        yield group


def _elsewhere(what: str) -> str:
    return f"{what} is being written by another driver too: stop one of them, and restart the other"
