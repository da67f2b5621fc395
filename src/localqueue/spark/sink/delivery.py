"""Putting what tasks have staged, or hold, into the queue: once, however often it is asked for.

A write that the store takes in one transaction is visible as a whole or not at all, and holds up everybody else while
it lasts. With `delivery=steps`, and always on Redis and MongoDB, more than a `Step` is put in several transactions,
each with its progress in the ledger: readers may see the beginning of such a batch before its end, but a driver that
dies in between is continued where it stopped, with the rows it had staged, by the next run of the same batch or of the
job with the same key.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from localqueue.errors import IdTaken, RecordConflict
from localqueue.spark.sink import ledger
from localqueue.spark.sink.ledger import PART_KIND, Entry
from localqueue.spark.sink.staged_rows import CHUNK_BYTES, CHUNK_ROWS, Chunk, StagedRowsGone, fetch, removals
from localqueue.stores.port import DEAD, Changes, NewMessage, QueueStore, RecordWrite, StoredMessage

if TYPE_CHECKING:
    import pyarrow as pa

Piece = TypeVar("Piece")


class Step(NamedTuple):
    """How much goes into one transaction. A single chunk does in any case."""

    rows: int
    size: int


_SHORT = Step(CHUNK_ROWS, CHUNK_BYTES)
_ALWAYS_IN_STEPS = ("redis", "mongodb")
_PAGE = 500


def step_of(backend: str, delivery: str) -> Step | None:
    """How much of a batch goes into one transaction; None when any does."""
    return _SHORT if delivery == "steps" or backend in _ALWAYS_IN_STEPS else None


class WrittenElsewhere(RuntimeError):
    """Another driver writes the same batch at the same time."""


def deliver_staged(
    store: QueueStore, *, key: str | None, batch: int, chunks: Sequence[Chunk], queue: str | None, step: Step | None
) -> bool:
    """Put the staged chunks of a batch; False when the ledger has that batch already.

    Without a key there is no ledger, and nothing that could be asked for twice.
    """
    if key is None:
        for group in _steps(chunks, chunks, step):
            put(store, fetch(store, group), queue, removals(group))
        return True
    entry = ledger.read(store, key)
    if entry.has(batch):
        return False
    try:
        if entry.chunks is not None and entry.batch < batch:
            _deliver(store, entry, entry.batch, (), queue, step)
            entry = ledger.read(store, key)
        _deliver(store, entry, batch, chunks, queue, step)
    except (RecordConflict, StagedRowsGone) as error:
        if ledger.read(store, key).has(batch):
            return False
        if isinstance(error, StagedRowsGone):
            raise
        raise WrittenElsewhere(_elsewhere(f"batch {batch} of {key!r}")) from error
    return True


def _deliver(
    store: QueueStore, entry: Entry, batch: int, chunks: Sequence[Chunk], queue: str | None, step: Step | None
) -> None:
    resumed = entry.is_amid(batch)
    done = 0
    if resumed:
        assert entry.chunks is not None
        chunks, done = entry.chunks, entry.done
    groups = list(_steps(chunks[done:], chunks[done:], step))
    writer = uuid.uuid4().hex
    if len(groups) > 1 and not resumed:
        store.commit(Changes(records=[entry.amid(batch, chunks, 0, writer)]))
        entry = _own(store, entry.key, writer)
    for number, group in enumerate(groups, 1):
        done += len(group)
        last = number == len(groups)
        change = entry.finished(batch) if last else entry.amid(batch, chunks, done, writer)
        put(store, fetch(store, group), queue, [change, *removals(group)])
        if not last:
            entry = _own(store, entry.key, writer)


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
    queue: str | None,
    step: Step | None,
) -> bool:
    """Put the rows of one partition at once; False when they are in the queue already.

    The record of the partition says how many of its rows were put, not that they were all: when what computes them
    fails, a task sees its input end as if that had been everything. So the partition must have the same rows in the
    same order when it is computed again, which then go on behind that number.
    """
    if key is not None and ledger.read(store, key).has(batch):
        return False
    total = sum(table.num_rows for table in tables)
    version, done = _progress(store, part)
    fresh = bool(done < total)
    while done < total:
        rest = list(_behind(tables, done))
        group = next(_steps(rest, [Step(table.num_rows, table.nbytes) for table in rest], step))
        rows = done + sum(table.num_rows for table in group)
        try:
            put(store, group, queue, [RecordWrite(PART_KIND, part, json.dumps({"rows": rows}).encode(), version)])
        except RecordConflict:
            before, (version, done) = done, _progress(store, part)
            if done <= before:
                raise
            continue  # a twin of this task was faster
        version, done = _progress(store, part) if rows < total else (version, rows)
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
    parts = [one.key for one in _parts(store, f"{family}:")]
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


def _parts(store: QueueStore, prefix: str) -> Iterator[Any]:
    after = prefix
    while page := store.records(PART_KIND, after=after, limit=_PAGE):
        for record in page:
            if not record.key.startswith(prefix):
                return
            yield record
        after = page[-1].key


def put(store: QueueStore, tables: Sequence[pa.Table], queue: str | None, records: Sequence[RecordWrite]) -> None:
    """Enqueue the rows of these tables and write the records, in one transaction.

    A row whose dedupe key is held by a live message, or by a row before it, is a duplicate and is not stored.
    """
    only = _only_queue(tables, queue)
    if only is not None:
        payloads = [value for table in tables for value in table.column("value").to_pylist()]
        store.put_batch(only, payloads, None, records=records)
        return
    while True:
        try:
            store.commit(Changes(enqueue=list(_messages(store, tables, queue)), records=records))
            return
        except IdTaken:
            continue


def _only_queue(tables: Sequence[pa.Table], queue: str | None) -> str | None:
    """The queue of all these rows, when none of them has any other option."""
    names: set[str | None] = set()
    for table in tables:
        if not set(table.column_names) <= {"value", "queue"}:
            return None
        if "queue" in table.column_names:
            names.update(name or queue for name in table.column("queue").unique().to_pylist())
        else:
            names.add(queue)
    return names.pop() if len(names) == 1 else None


def _messages(store: QueueStore, tables: Sequence[pa.Table], queue: str | None) -> Iterator[NewMessage]:
    ids = iter(store.mint(sum(table.num_rows for table in tables)))
    now = store.now()
    for table in tables:
        rows = table.num_rows

        def values(name: str, usual: Any = None, table: pa.Table = table, rows: int = rows) -> list[Any]:
            if name not in table.column_names:
                return [usual] * rows
            return [usual if value is None else value for value in table.column(name).to_pylist()]

        for row in zip(
            values("value"), values("queue", queue), values("delay", 0.0), values("priority", 0), values("dedupe_key"),
            values("ordering_key"), values("headers"), values("run_id"), values("rejected"), strict=True,
        ):  # fmt: skip
            payload, name, delay, priority, dedupe_key, ordering_key, headers, run_id, rejected = row
            message = NewMessage(
                next(ids), name, payload, None, delay, priority, dedupe_key, ordering_key, None, headers, run_id
            )
            yield message if rejected is None else _dead(message, rejected, now)


def _dead(message: NewMessage, why: str, now: float) -> NewMessage:
    """The same as a dead letter from the beginning."""
    past = StoredMessage(
        message.id, message.queue, DEAD, message.payload, None, message.priority, 0, now, now,
        last_error=expectation_failed(why), failed_at=now,
    )  # fmt: skip
    return message._replace(past=past)


def expectation_failed(rules: str) -> dict[str, Any]:
    """The error of a dead letter that has failed these rules."""
    return {"type": "ExpectationFailed", "module": "localqueue.spark", "message": rules}


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
