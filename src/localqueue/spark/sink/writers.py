"""Writing a DataFrame, or a stream of them, to a queue.

Tasks stage their rows where nobody sees them and the driver's commit puts them in one transaction with a ledger entry,
so a write is visible as a whole and only once: by (query id, batch id) for a stream, by the option `idempotencyKey` for
a batch job. A batch job without that key is atomic, but run again when it has succeeded it writes again. The driver
holds a chunk of the batch in memory at a time. What Redis and MongoDB do differently is in `delivery`.

With `delivery=direct` each task puts its own rows as soon as it has them all. That is faster, rows are visible
partition by partition and stay when the rest of the write fails, and exactly once holds only while a partition holds
the same rows in the same order when it is computed again.

The capacity of a queue and its subscribers are options, see `target`, and are kept as `put` keeps them. The other
policies of a `PersistentQueue` are not known here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from localqueue.spark.options import Options
from localqueue.spark.place import opened
from localqueue.spark.shape import own_columns
from localqueue.spark.sink import ledger, open_writes, staged_rows, tallies
from localqueue.spark.sink.delivery import deliver_part, deliver_staged, finish_parts, step_of, total
from localqueue.spark.sink.layout import OPTION_COLUMNS, layout
from localqueue.spark.sink.staged_rows import Chunk
from localqueue.spark.sink.target import target_of
from localqueue.stores.port import Put, QueueStore

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

#: Spark's own names for what a task belongs to; not a public interface.
QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"


@dataclass(frozen=True, kw_only=True)
class Written(WriterCommitMessage):
    """What one task tells the driver: the chunks it has staged, or the rows it has put, and of which query."""

    query: str | None = None
    rows: int = 0
    chunks: tuple[Chunk, ...] = ()
    put: Put | None = None


@dataclass(frozen=True, kw_only=True)
class _Write:
    """The names of one write. `family` begins the names of all its runs, `token` those of this run, `part` those of
    its partitions; `job` is the token of a batch job, which has only one run."""

    key: str | None
    batch: int
    family: str
    token: str
    part: str
    job: str | None = None


class _Sink:
    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.layout = layout(schema, options.queue, own_columns(options, schema, frozenset({"value", *OPTION_COLUMNS})))
        self.target = target_of(options, routed="queue" in (self.layout.options or ()))
        self.step = step_of(options.backend, options.delivery)

    @property
    def direct(self) -> bool:
        return self.options.delivery == "direct"

    def write_task(self, iterator: Iterator[pa.RecordBatch], write: _Write, query: str | None) -> Written:
        batches = map(self.layout.messages, iterator)
        if self.direct:
            return self._put_partition(list(staged_rows.cut(batches)), write, query)
        first = next(batches, None)
        if first is None:
            return Written(query=query)

        def all_of_them() -> Iterator[pa.RecordBatch]:
            yield first
            yield from batches

        with opened(self.options) as store:
            chunks = staged_rows.stage(store, write.token, all_of_them(), job=write.job)
        return Written(query=query, chunks=tuple(chunks), rows=sum(chunk.rows for chunk in chunks))

    def _put_partition(self, tables: list[pa.Table], write: _Write, query: str | None) -> Written:
        put = None
        if tables:
            context = TaskContext.get()
            part = f"{write.part}:{0 if context is None else context.partitionId():06d}"
            with opened(self.options) as store:
                put = deliver_part(
                    store, key=write.key, batch=write.batch, part=part, tables=tables, target=self.target,
                    step=self.step,
                )  # fmt: skip
        return Written(query=query, rows=sum(table.num_rows for table in tables), put=put)

    def commit_write(self, messages: Sequence[Written], write: _Write) -> None:
        chunks = [chunk for message in messages for chunk in message.chunks]
        may_be_amid = self.step is not None and write.key is not None and not self.direct
        if not any(message.rows for message in messages) and not may_be_amid:
            return
        with opened(self.options) as store:
            if self.direct:
                finish_parts(store, key=write.key, batch=write.batch, family=write.family)
                self._tell(store, write, total([message.put for message in messages if message.put is not None]))
                return
            if not chunks and not ledger.read(store, write.key or "").is_amid(write.batch):
                return
            put = deliver_staged(
                store, key=write.key, batch=write.batch, chunks=chunks, target=self.target, step=self.step,
                job=write.job,
            )  # fmt: skip
            self._tell(store, write, put)
            staged_rows.sweep(store, write.family)
            staged_rows.sweep_abandoned(store)
            open_writes.undo_dead(store)

    def _tell(self, store: QueueStore, write: _Write, put: Put | None) -> None:
        """Say what became of the rows."""
        if put is None:
            _log.warning("batch %s of %r is in the queue already: nothing was written", write.batch, write.key)
        else:
            level = logging.WARNING if put.dropped else logging.INFO
            said = "%d messages were stored in %r, %d rows were duplicates, %d were dropped by a full queue"
            _log.log(level, said, put.stored, self.options.queue, put.duplicates, put.dropped)
        if self.options.tally is not None:
            tallies.keep(store, self.options.tally, put)

    def abort_write(self, write: _Write) -> None:
        with opened(self.options) as store:
            if self.direct:
                if write.key is None:
                    finish_parts(store, key=None, batch=write.batch, family=write.family)
                return
            begun = ledger.read(store, write.key or ledger.for_once(write.job or "", self.target.queue))
            if begun.is_once and begun.version:
                open_writes.undo(store, begun)
            kept = () if begun.is_once else begun.chunks or ()
            staged_rows.abort(store, write.token, job=write.job, keep={chunk.key for chunk in kept})


class BatchSink(_Sink, DataSourceArrowWriter):
    """`df.write.format("localqueue")`. Made once a job, in the driver; tasks and commit get copies of it."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        token = staged_rows.job_token()
        self.names = _Write(key=None, batch=0, family=token, token=token, part=token, job=token)
        if options.idempotency_key is not None:
            key = ledger.for_job(options.idempotency_key, options.queue)
            family = staged_rows.keyed_family(key)
            self.names = _Write(
                key=key, batch=0, family=family, token=f"{family}:{token}", part=f"{family}:part", job=token
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self.write_task(iterator, self.names, None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.commit_write(_written(messages), self.names)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.abort_write(self.names)


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """`df.writeStream.format("localqueue")`. A batch that Spark runs again, for whatever reason, is written once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        query, batch = this_batch()
        return self.write_task(iterator, self._names(query, batch), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = _written(messages)
        if written and written[0].query is not None:
            self.commit_write(written, self._names(written[0].query, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Of a batch of which no task has got through, the next commit of the query sweeps what was staged."""
        written = _written(messages)
        if written and written[0].query is not None:
            self.abort_write(self._names(written[0].query, batchId))

    def _names(self, query: str, batch: int) -> _Write:
        key = ledger.for_query(query, self.options.queue)
        token = staged_rows.batch_token(query, batch)
        return _Write(key=key, batch=batch, family=query, token=token, part=token)


def this_batch() -> tuple[str, int]:
    """The query and the batch that the running task belongs to."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    batch = None if context is None else context.getLocalProperty(BATCH_PROPERTY)
    if query is None or batch is None:
        raise RuntimeError(
            f"this version of Spark does not tell a task its query ({QUERY_PROPERTY}) and batch ({BATCH_PROPERTY}), "
            'without which a batch could be written twice: use foreachBatch with option("idempotencyKey", ...)'
        )
    return query, int(batch)


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]
