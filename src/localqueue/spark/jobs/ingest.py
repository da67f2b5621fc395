"""`ingest`: files, tables and DataFrames into a queue, each exactly once."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from localqueue.queue.setup import check_name
from localqueue.spark.jobs import outgoing_rows
from localqueue.spark.jobs.file_errors import files_named
from localqueue.spark.jobs.files import folder_at
from localqueue.spark.jobs.journal_rows import place_of
from localqueue.spark.jobs.outgoing_rows import Mapped
from localqueue.spark.jobs.paced_puts import Way, check_rate, put_paced, way_of
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.jobs.table_files import CSV_IN, find_format, read_table
from localqueue.spark.options import Options
from localqueue.spark.place import opened
from localqueue.spark.sink import delivery, ledger
from localqueue.spark.sink.layout import layout
from localqueue.stores.port import QueueStore, RecordWrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, kw_only=True)
class IngestResult:
    """What `ingest` put: `rows` of the source, or none because it `was_there` already."""

    source: str
    queue: str
    rows: int
    was_there: bool = False
    idempotency_key: str | None = None

    def __str__(self) -> str:
        if self.was_there:
            return f"{self.source} was put into queue {self.queue!r} before: nothing was put (again=True puts it again)"
        return f"put {self.rows} rows of {self.source} into queue {self.queue!r}"


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
    namespace: str | None = None,
    idempotency_key: str | None = None,
    again: bool = False,
    rate: float | None = None,
    progress: Progress | None = None,
) -> IngestResult:
    """Put every row of a path, a table of the catalog, or a DataFrame into a queue as a JSON object.

    `format` is json (also jsonl), csv, parquet, orc, delta or text, by default as the files are named; `table` takes
    `source` for the name of a table. `options` are those of Spark's reader. Lines of JSON are put as they are, and the
    columns of CSV are text: a `schema` gives them types, and what does not fit it is an error. CSV is read by RFC 4180,
    with a header that all files share. `value` names the column that is the payload, as JSON text or as a struct, in
    place of the row. `key` (the dedupe key) and `ordering_key` name columns; so may `priority`, `delay` (seconds) and
    `headers`, or they are the same for all.

    All of it is visible at once and put once: the same call again puts nothing, as long as no file was changed, added
    or removed. That is known by `idempotency_key`, by default made of the path, its files, their times and the queue;
    a DataFrame and a table without files have none by default. `again` puts everything once more. With `rate`, the
    driver puts that many a second, slice after slice, and a call that was killed is continued by the next.
    """
    say = progress or silent
    check_name(queue)
    check_rate(rate)
    place = place_of(url, namespace=namespace, queue=queue)
    mapped = Mapped(
        value=value, key=key, ordering_key=ordering_key, priority=priority, delay=delay, headers=headers
    )  # fmt: skip
    name, rows, messages = _messages(spark, source, format, dict(options or {}), schema, mapped)
    job = idempotency_key or (_derived(spark, name, rows, queue) if name is not None else None)
    if again and job is not None:
        job = f"{job} again {uuid.uuid4().hex}"
    shown = name or "the DataFrame"
    if rate is not None and job is None:
        job = f"ingest {uuid.uuid4().hex}"
    nothing = IngestResult(source=shown, queue=queue, rows=0, idempotency_key=job)
    way = None
    if job is not None:
        with opened(place) as store:
            way = way_of(store, job)
            if ledger.read(store, ledger.for_job(job, queue)).has(0) or (way is not None and way.done):
                return replace(nothing, was_there=True)
    say(f"putting {shown} into queue {queue!r}")
    with files_named():
        if job is not None and (rate is not None or way is not None):
            return replace(nothing, rows=_paced(place, messages, job, rate, say))
        return replace(nothing, rows=outgoing_rows.put_rows(messages, place, job))


def _messages(
    spark: SparkSession,
    source: DataFrame | str | PathLike[str],
    format: str | None,
    options: dict[str, str],
    schema: StructType | str | None,
    mapped: Mapped,
) -> tuple[str | None, DataFrame, DataFrame]:
    """The name of the source, its rows, and the same as messages."""
    if not isinstance(source, str | PathLike):
        if format is not None or options or schema is not None:
            raise ValueError("format, options and schema are for files: a DataFrame has been read already")
        return None, source, outgoing_rows.rows_as_messages(source, mapped)
    name = fspath(source)
    if format != "table":
        format = find_format(spark, name, format)
    if schema is not None and format not in ("csv", "json"):
        raise ValueError(f"schema is for csv and json: {format} has types of its own")
    if format == "table":
        if not spark.catalog.tableExists(name):
            raise ValueError(f"there is no table {name!r} in the catalog")
        rows = spark.table(name)
        return name, rows, outgoing_rows.rows_as_messages(rows, mapped)
    if format == "json" and not options and schema is None:
        rows = read_table(spark, name, "text")
        return name, rows, outgoing_rows.lines_as_messages(rows.select("value"), mapped)
    if schema is not None:
        options = {"mode": "FAILFAST", **options}
    if format == "csv":
        tabs = {"sep": "\t"} if ".tsv" in name.lower() else {}
        options = {**CSV_IN, **tabs, **options}
    rows = read_table(spark, name, format, options, schema)
    as_messages = outgoing_rows.text_as_messages if format == "text" else outgoing_rows.rows_as_messages
    return name, rows, as_messages(rows, mapped)


def _derived(spark: SparkSession, name: str, rows: DataFrame, queue: str) -> str | None:
    """A key that changes with the files of a source; None when it has no files."""
    files = sorted(rows.inputFiles())
    if not files:
        return None
    known: dict[str, dict[str, Any]] = {}
    told = []
    for file in files:
        parent, _, own = file.rpartition("/")
        if parent not in known:
            known[parent] = {entry.name: entry for entry in folder_at(spark, unquote(parent)).entries()}
        entry = known[parent].get(unquote(own))
        told.append([file, entry and entry.size, entry and entry.modified])
    return f"ingest {hashlib.sha256(json.dumps([name, queue, told]).encode()).hexdigest()[:32]}"


def _paced(
    place: Options, messages: DataFrame, job: str, rate: float | None, say: Progress
) -> int:  # fmt: skip
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

        return put_paced(
            store, way, _numbered(messages.orderBy(*order), way.through), putting.put,
            rate=rate, closing=closing, progress=say,
        )  # fmt: skip


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
        self._layout = layout(messages.schema, queue)
        self._schema = arrow_schema(messages.schema)

    def put(self, rows: Sequence[Any], records: Sequence[RecordWrite]) -> int:
        import pyarrow as pa

        given = [row.asDict() for row in rows]
        batch = pa.RecordBatch.from_pylist(given, schema=self._schema)
        table = pa.Table.from_batches([self._layout.messages(batch)]) if rows else None
        delivery.put(self._store, [] if table is None else [table], self._queue, records)
        return len(rows)
