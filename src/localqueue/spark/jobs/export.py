"""`export`: what a store holds now, as files, once."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from localqueue.spark.columns import VIEWS
from localqueue.spark.jobs.arguments import where_sql
from localqueue.spark.jobs.journal_rows import place_of, reader
from localqueue.spark.jobs.known_names import need_queue
from localqueue.spark.jobs.progress import Progress
from localqueue.spark.jobs.table_files import target_of, write_target
from localqueue.spark.lineage import path_of, queue_of, told
from localqueue.spark.place import opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """What `export` wrote."""

    path: str
    format: str
    view: str
    rows: int

    def __str__(self) -> str:
        return f"wrote {self.rows} rows of {self.view} to {self.path} as {self.format}"


@told(reads=queue_of, writes=path_of)
def export(
    spark: SparkSession,
    *,
    url: str,
    path: str | PathLike[str] | None = None,
    table: str | None = None,
    queue: str | None = None,
    view: str = "messages",
    format: str | None = None,
    mode: str = "error",
    where: str | None = None,
    namespace: str | None = None,
    progress: Progress | None = None,
) -> ExportResult:
    """Write a view (`messages`, `dead`, `events`, `runs`, `stats`) to a path as `parquet`, `delta`, `json` or `csv`, or
    to a `table` of a catalog, which Spark writes with the jars of `iceberg` or `delta`.

    `mode` is `error` when it must be new, `append` or `overwrite`; run again with `append`, it appends again: for
    that there is `archive`. CSV is RFC 4180, with headers and errors as JSON text. `where` is an SQL condition over the
    columns.
    """
    target = target_of(spark, path, table, format)
    if view not in VIEWS:
        raise ValueError(f"view must be one of {', '.join(VIEWS)}, not {view!r}")
    place = place_of(url, namespace=namespace, queue=queue, view=view)
    with opened(place, read_only=True) as store:
        need_queue(store, queue)
    if progress is not None:
        progress(f"exporting {view}" + (f" of queue {queue!r}" if queue else ""))
    rows = reader(spark, place).load()
    if where is not None:
        rows = where_sql(rows, where)
    written = write_target(rows, target, mode=mode)
    return ExportResult(path=written.uri, format=target.format, view=view, rows=written.rows)
