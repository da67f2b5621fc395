"""`ingest`: files, tables and DataFrames into a queue, each exactly once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from localqueue.queue.setup import check_name
from localqueue.spark.jobs import outgoing_rows
from localqueue.spark.jobs.expectations import rejections, rules_of
from localqueue.spark.jobs.file_errors import files_named
from localqueue.spark.jobs.file_ledger import File, FileLedger
from localqueue.spark.jobs.ingest_source import Source, source_of
from localqueue.spark.jobs.journal_rows import place_of
from localqueue.spark.jobs.outgoing_rows import Mapped
from localqueue.spark.jobs.paced_puts import Way, check_rate, put_paced, slices, way_of
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.lineage import origin_of, queue_of, told
from localqueue.spark.options import Options
from localqueue.spark.place import opened
from localqueue.spark.sink import delivery, ledger
from localqueue.spark.sink.layout import layout
from localqueue.spark.sink.message_pages import HeldRows
from localqueue.spark.sink.tallies import Tally
from localqueue.spark.sink.target import Target
from localqueue.stores.port import QueueStore, RecordWrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, kw_only=True)
class IngestResult:
    """What `ingest` put: `rows` of the source, or none because it `was_there` already.

    Of a path, `files` says how many files these rows are of, and `known_files` how many were put before. `rejected`
    rows are dead letters; `failed` counts them by rule. `duplicates` are rows whose dedupe key was held by a live
    message or by a row before them: they are not put, and not among `rows`.
    """

    source: str
    queue: str
    rows: int
    was_there: bool = False
    idempotency_key: str | None = None
    files: int = 0
    known_files: int = 0
    rejected: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    duplicates: int = 0

    def __str__(self) -> str:
        if self.was_there:
            return f"{self.source} was put into queue {self.queue!r} before: nothing was put (again=True puts it again)"
        known = f" ({self.known_files} files were put before)" if self.known_files else ""
        of = f"{self.files} new files of {self.source}" if known else self.source
        by_rule = ", ".join(f"{name}: {count}" for name, count in self.failed.items() if count)
        rejected = f"; {self.rejected} rows became dead letters ({by_rule})" if self.rejected else ""
        twice = f"; {self.duplicates} rows were duplicates" if self.duplicates else ""
        return f"put {self.rows} rows of {of} into queue {self.queue!r}{known}{rejected}{twice}"


@told(reads=origin_of, writes=queue_of)
def ingest(
    spark: SparkSession,
    source: DataFrame | str | PathLike[str],
    *,
    url: str,
    queue: str,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    schema: StructType | str | None = None,
    value: str | None = None,
    key: str | None = None,
    ordering_key: str | None = None,
    priority: int | str | None = None,
    delay: float | str | None = None,
    headers: Mapping[str, str] | str | None = None,
    expect: Mapping[str, str] | None = None,
    namespace: str | None = None,
    idempotency_key: str | None = None,
    again: bool = False,
    rate: float | None = None,
    progress: Progress | None = None,
) -> IngestResult:
    """Put every row of a path, a table of the catalog, or a DataFrame into a queue as a JSON object.

    `format` is json (also jsonl), csv, parquet, orc, delta or text, by default as the files are named; `table` takes
    `source` for the name of a table. `options` are those of Spark's reader. Lines of JSON are put as they are, and with
    `multiLine` so are documents over many lines and the elements of an array; a `schema` of them is only a check. The
    columns of CSV are text: a `schema` gives them types, and what does not fit it exactly is an error. CSV is read by
    RFC 4180, with a header that all files share. `value` names the column that is the payload, as JSON text or as a
    struct, in place of the row. `key` (the dedupe key) and `ordering_key` name columns; so may `priority`, `delay`
    (seconds) and `headers`, or they are the same for all. Of JSON these are fields, which some row must have.

    `expect` has rules by name, SQL conditions over the columns of the source. A row for which one is not true becomes a
    dead letter with the names of the rules as its error, in the same transaction as the others are put. JSON has
    columns for them by `schema` or as Spark infers it, and is put as it is.

    All of it is visible at once, and each file is put once into a queue, by whatever path it is named: a call puts the
    files that were not put before, and refuses, naming it, one that was changed since. Files that are not complete by
    their names (`UNFINISHED`) are left for later. A Delta table and a table of the
    catalog count as one file. A DataFrame is put once under an `idempotency_key`; given for files, it is what counts
    and not they. `again` puts everything once more. With `rate`, the driver puts that many a second, slice
    after slice, and a call that was killed is continued by the next.
    """
    say = progress or silent
    check_name(queue)
    check_rate(rate)
    place = place_of(url, namespace=namespace, queue=queue)
    mapped = Mapped(
        value=value, key=key, ordering_key=ordering_key, priority=priority, delay=delay, headers=headers,
        expect=rules_of(expect),
    )  # fmt: skip
    with files_named():
        found = source_of(spark, source, format, dict(options or {}), schema)
    putting = _Putting(place, rate, say)
    say(f"putting {found.shown} into queue {queue!r}")
    with files_named(found.fault):
        if found.files and idempotency_key is None:
            return putting.files(found, mapped, again)
        return putting.whole(found, mapped, idempotency_key, again)


@dataclass(frozen=True)
class _Putting:
    """One call of `ingest`: where to, and how fast."""

    place: Options
    rate: float | None
    say: Progress

    def files(self, source: Source, mapped: Mapped, again: bool) -> IngestResult:
        """Put the files that were not put before, and first finish what a pace has begun."""
        queue = self.place.need_queue()
        with opened(self.place) as store:
            known = FileLedger(store, self.place)
            found = known.sort(() if again else source.files)
            fresh = list(source.files) if again else found.fresh
            result = IngestResult(source=source.shown, queue=queue, rows=0, known_files=found.known)
            jobs = [(job, files, source.messages(mapped, files)) for job, files in found.begun.items()]
            if fresh:
                job = f"ingest {uuid.uuid4().hex}"
                jobs.append((job, fresh, self._fresh(source, mapped, fresh)))
                known.take(fresh, job, again=again)
            for job, files, messages in jobs:
                result = self._put(messages, job, mapped.expect, result)
                known.conclude(files, job)
                result = replace(result, files=result.files + len(files), idempotency_key=job)
        return result if jobs else replace(result, was_there=True)

    def whole(self, source: Source, mapped: Mapped, key: str | None, again: bool) -> IngestResult:
        """Put everything, once for a key."""
        queue, job = self.place.need_queue(), key
        if job is not None and again:
            job = f"{job} again {uuid.uuid4().hex}"
        result = IngestResult(source=source.shown, queue=queue, rows=0, idempotency_key=job)
        if job is not None:
            with opened(self.place) as store:
                way = way_of(store, job)
                if ledger.read(store, ledger.for_job(job, queue)).has(0) or (way is not None and way.done):
                    return replace(result, was_there=True)
        return self._put(self._fresh(source, mapped), job, mapped.expect, result)

    def _fresh(self, source: Source, mapped: Mapped, files: Sequence[File] | None = None) -> DataFrame:
        """Messages of which nothing is put yet. A pace puts some before it comes to others, so all are looked at."""
        said = source.fault(files) if self.rate is not None else None
        if said is not None:
            raise ValueError(said)
        return source.messages(mapped, files)

    def _put(
        self, messages: DataFrame, job: str | None, rules: Mapping[str, str], result: IngestResult
    ) -> IngestResult:  # fmt: skip
        """Put these; the result with them."""
        rejected, failed = rejections(messages, rules) if rules else (0, {})
        done = self._rows(messages, job)
        return replace(
            result,
            rows=result.rows + done.stored - rejected,
            duplicates=result.duplicates + done.duplicates,
            rejected=result.rejected + rejected,
            failed={name: result.failed.get(name, 0) + count for name, count in failed.items()},
        )

    def _rows(self, messages: DataFrame, job: str | None) -> Tally:
        if job is None and self.rate is not None:
            job = f"ingest {uuid.uuid4().hex}"
        if job is not None:
            with opened(self.place) as store:
                begun = way_of(store, job) is not None
            if begun or self.rate is not None:
                return _paced(self.place, messages, job, self.rate, self.say)
        return outgoing_rows.put_rows(messages, self.place, job)


def _paced(
    place: Options, messages: DataFrame, job: str, rate: float | None, say: Progress
) -> Tally:  # fmt: skip
    """Put from the driver. The rows are sorted, so that a number of them is the same ones each time."""
    from pyspark.sql import functions as f

    messages = outgoing_rows.as_texts(messages)
    order = [f.to_json("headers") if name == "headers" else f.col(name) for name in messages.columns]
    queue = place.need_queue()
    with opened(place) as store:
        way = way_of(store, job) or Way(key=job, last=messages.count())
        putting = _Ingester(store, messages, queue)

        def closing() -> Sequence[RecordWrite]:
            return [ledger.read(store, ledger.for_job(job, queue)).finished(0)]

        stored = put_paced(
            store, way, slices(_numbered(messages.orderBy(*order), way.through), rate), putting.put,
            rate=rate, closing=closing, progress=say,
        )  # fmt: skip
        return Tally(stored=stored, duplicates=putting.duplicates)


def _numbered(messages: DataFrame, behind: int) -> Iterator[tuple[int, Any]]:
    for number, row in enumerate(messages.toLocalIterator(prefetchPartitions=True), 1):
        if number > behind:
            yield number, row


class _Ingester:
    """Rows of messages into the queue, checked as the sink checks them."""

    def __init__(self, store: QueueStore, messages: DataFrame, queue: str) -> None:
        from localqueue.spark.columns import arrow_schema

        self._store = store
        self._queue = queue
        self.duplicates = 0
        self._layout = layout(messages.schema, queue)
        self._schema = arrow_schema(messages.schema)

    def put(self, rows: Sequence[Any] | None, records: Sequence[RecordWrite]) -> int:
        import pyarrow as pa

        rows = rows or ()
        given = [row.asDict() for row in rows]
        batch = pa.RecordBatch.from_pylist(given, schema=self._schema)
        table = pa.Table.from_batches([self._layout.messages(batch)]) if rows else None
        held = HeldRows([] if table is None else [table])
        done = delivery.put(self._store, held, Target(queue=self._queue), records)
        self.duplicates += done.duplicates
        return done.stored
