"""An archive of the journal in Parquet: increments that are there in one step, and the merging of small ones.

On a disk that step is a rename; anywhere else it is a small file that says so, as `archive_layout` describes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from localqueue.spark.jobs.archive_layout import (
    COMMITS,
    MARKER,
    Marker,
    Part,
    Span,
    cover,
    is_abandoned,
    merges,
    new_mark,
    span_name,
    span_of,
    superseded,
)
from localqueue.spark.jobs.files import Folder, files_in, reader_of, size_of
from localqueue.spark.jobs.journal_rows import archived_schema
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.jobs.staged_files import stage, sweep, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: About how large spans are made by merging them.
TARGET_BYTES = 128 << 20


def spans_in(folder: Folder, *, sizes: bool = False) -> list[Span]:
    """The spans that are there, also those that others have taken the place of."""
    found = [span_of(name) for name in committed(folder)]
    spans = [span for span in found if span is not None]
    return [span._replace(size=size_of(folder, span.name)) for span in spans] if sizes else spans


def add_span(df: DataFrame, folder: Folder, first: int, last: int, partition_by: str | None) -> int:
    """Write entries as the span of that range; how many they are."""
    return commit(df, folder, span_name(first, last, new_mark()), () if partition_by is None else (partition_by,))


def committed(folder: Folder) -> list[str]:
    """The names of the folders that count."""
    if is_renamed(folder):
        return [entry.name for entry in folder.entries() if entry.is_folder and not entry.name.startswith("_")]
    return [entry.name for entry in folder.entries(COMMITS) if not entry.name.startswith("_")]


def commit(df: DataFrame, folder: Folder, name: str, partition_by: Sequence[str] = ()) -> int:
    """Write rows under a name that nothing has, there as a whole or not at all; how many they are."""
    if is_renamed(folder):
        staged = stage(df, folder, partition_by)
        folder.rename(staged.name, name)
        return staged.rows
    written = write_files(df, folder, name, partition_by)
    folder.write(f"{COMMITS}/{name}", json.dumps({"rows": written.rows}))
    return written.rows


def withdraw(folder: Folder, name: str) -> None:
    """Remove what was committed. Whoever is reading it fails and has to begin again."""
    folder.remove(f"{COMMITS}/{name}")
    folder.remove(name)


def is_renamed(folder: Folder) -> bool:
    """Whether an archive has layout 1, as its marker says."""
    marker = Marker.of(folder.read(MARKER) or "")
    return folder.renames if marker is None else marker.layout == 1


def sweep_spans(folder: Folder) -> None:
    """Remove what writers left behind that died long ago."""
    sweep(folder)
    if not is_renamed(folder):
        there = set(committed(folder))
        for entry in folder.entries():
            if entry.is_folder and entry.name not in there and is_abandoned(entry.name):
                folder.remove(entry.name)


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
    sweep_spans(folder)
    for span in superseded(spans_in(folder)):
        withdraw(folder, span.name)
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
            withdraw(folder, part.span.name)
        merged += len(group)
    return merged
