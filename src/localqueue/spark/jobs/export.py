"""`export`: what a store holds now, as files, once."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from localqueue.spark.columns import VIEWS
from localqueue.spark.jobs.arguments import where_sql
from localqueue.spark.jobs.journal_rows import place_of, reader
from localqueue.spark.jobs.progress import Progress
from localqueue.spark.jobs.staged_files import known_format
from localqueue.spark.jobs.table_files import write_table
from localqueue.spark.lineage import path_of, queue_of, told

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
    path: str | PathLike[str],
    queue: str | None = None,
    view: str = "messages",
    format: str = "parquet",
    mode: str = "error",
    where: str | None = None,
    namespace: str | None = None,
    progress: Progress | None = None,
) -> ExportResult:
    """Write a view (`messages`, `dead`, `events`, `runs`, `stats`) to a path as `parquet`, `delta`, `json` or `csv`.

    `mode` is `error` when the path must be new, `append` or `overwrite`; run again with `append`, it appends again: for
    that there is `archive`. CSV is RFC 4180, with headers and errors as JSON text. `where` is an SQL condition over the
    columns.
    """
    known_format(format)
    if view not in VIEWS:
        raise ValueError(f"view must be one of {', '.join(VIEWS)}, not {view!r}")
    place = place_of(url, namespace=namespace, queue=queue, view=view)
    if progress is not None:
        progress(f"exporting {view}" + (f" of queue {queue!r}" if queue else ""))
    rows = reader(spark, place).load()
    if where is not None:
        rows = where_sql(rows, where)
    written = write_table(rows, path, format=format, mode=mode)
    return ExportResult(path=written.uri, format=format, view=view, rows=written.rows)
