"""An archive of the journal in Parquet: increments that are there by a rename, and the merging of small ones.

That needs a file system where a rename is one step: a disk, NFS, HDFS. On a plain object store a folder is copied file
by file, and a reader, or a crash, in the middle of that sees a part of an increment: use Delta in a mounted folder, or
an object store with a directory service, instead.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from localqueue.spark.jobs.archive_layout import Part, Span, cover, merges, span_name, span_of, superseded
from localqueue.spark.jobs.files import Folder, files_in, reader_of, size_of
from localqueue.spark.jobs.journal_rows import archived_schema
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.jobs.staged_files import stage, sweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: About how large spans are made by merging them.
TARGET_BYTES = 128 << 20


def spans_in(folder: Folder, *, sizes: bool = False) -> list[Span]:
    """The spans that are there, also those that others have taken the place of."""
    found = [span_of(entry.name) for entry in folder.entries() if entry.is_folder]
    spans = [span for span in found if span is not None]
    return [span._replace(size=size_of(folder, span.name)) for span in spans] if sizes else spans


def add_span(df: DataFrame, folder: Folder, first: int, last: int, partition_by: str | None) -> int:
    """Write entries as the span of that range; how many they are."""
    staged = stage(df, folder, () if partition_by is None else (partition_by,))
    folder.rename(staged.name, span_name(first, last, uuid.uuid4().hex[:8]))
    return staged.rows


def read_spans(spark: SparkSession, folder: Folder, parts: Sequence[Part], partition_by: str | None) -> DataFrame:
    """The entries of these parts, each once."""
    schema = archived_schema(partition_by)
    whole = [part.span.name for part in parts if part.whole]
    found = [_read(spark, folder, whole, partition_by)] if whole else []
    for part in parts:
        if not part.whole:
            found.append(_read(spark, folder, [part.span.name], partition_by).where(f"seq > {part.after}"))
    if not found:
        return spark.createDataFrame([], schema)
    return reduce(lambda left, right: left.unionByName(right), found)


def _read(spark: SparkSession, folder: Folder, names: Sequence[str], partition_by: str | None) -> DataFrame:
    schema = archived_schema(partition_by)
    read = reader_of(spark, folder, files_in(folder, *names)).schema(schema).option("basePath", folder.uri)
    return read.parquet(*(folder.at(name) for name in names)).select(*schema.fieldNames())


def merge_spans(
    spark: SparkSession,
    folder: Folder,
    partition_by: str | None,
    *,
    after: int,
    target: int = TARGET_BYTES,
    progress: Progress = silent,
) -> int:
    """Merge small spans when there are more than `after` to be read; how many were merged.

    Whatever others have taken the place of is removed first, so a merge that was interrupted is finished here. A query
    that is reading the spans which are removed fails and has to be started again.
    """
    sweep(folder)
    for span in superseded(spans_in(folder)):
        folder.remove(span.name)
    parts = cover(spans_in(folder, sizes=True))
    merged = 0
    for group in merges(parts, target) if len(parts) > after else []:
        first, last = group[0].span.first, group[-1].span.last
        progress(f"merging {len(group)} spans, entries {first} to {last}")
        rows = read_spans(spark, folder, group, partition_by)
        # One file a day and span: a merge is there to make few large files of many small ones.
        add_span(rows.repartition(1) if partition_by is None else rows.repartition(partition_by), folder, first, last,
                 partition_by)  # fmt: skip
        for part in group:
            folder.remove(part.span.name)
        merged += len(group)
    return merged
