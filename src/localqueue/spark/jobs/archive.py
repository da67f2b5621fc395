"""`archive`: the journal into a table, run after run only what is new, each entry exactly once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from typing import TYPE_CHECKING

from localqueue.spark.jobs import delta_table, parquet_archive
from localqueue.spark.jobs.archive_layout import MARKER, Marker, archived_to, cover, disagreement, new_mark
from localqueue.spark.jobs.files import Folder, files_in, folder_at, reader_of
from localqueue.spark.jobs.journal_rows import (
    archived_schema,
    journal_rows,
    need_journal,
    place_of,
    reader,
    utc_date,
)
from localqueue.spark.jobs.known_names import need_queue
from localqueue.spark.jobs.lake_table import LakeTable, is_table, one_place
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.jobs.staged_files import known_format
from localqueue.spark.lineage import path_of, queue_of, told
from localqueue.spark.options import Options
from localqueue.spark.place import opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ARCHIVE_FORMATS = ("parquet", "delta")
_VIEWS = ("events", "messages", "dead")
#: The property of a table that says what it is an archive of.
NOTE = "localqueue.archive"


@dataclass(frozen=True, kw_only=True)
class ArchiveResult:
    """What one run of `archive` did: entries `first` to `last` are `rows` new rows at `path`, a folder or a table.

    `lost` numbers were gone from the journal before they could be archived. `merged` small pieces were made into
    larger ones, `pruned` entries removed from the journal.
    """

    path: str
    format: str
    rows: int = 0
    first: int = 0
    last: int = 0
    lost: int = 0
    merged: int = 0
    pruned: int = 0

    def __str__(self) -> str:
        if self.last:
            text = f"archived {self.rows} entries (seq {self.first} to {self.last}) to {self.path} as {self.format}"
        elif self.rows:
            text = f"wrote a snapshot of {self.rows} messages to {self.path} as {self.format}"
        else:
            text = f"nothing new for {self.path}"
        for count, what in (
            (self.lost, "entries were gone from the journal before they were archived"),
            (self.merged, "small pieces merged"),
            (self.pruned, "entries pruned from the journal"),
        ):
            text += f"; {count} {what}" if count else ""
        return text


@told(reads=queue_of, writes=path_of)
def archive(
    spark: SparkSession,
    *,
    url: str,
    path: str | PathLike[str] | None = None,
    table: str | None = None,
    queue: str | None = None,
    view: str = "events",
    format: str | None = None,
    partition_by: str | None = "date",
    compact_after: int = 24,
    namespace: str | None = None,
    prune: bool = False,
    older_than: float | None = None,
    progress: Progress | None = None,
) -> ArchiveResult:
    """Append to an archive what the journal has behind the last archived entry; of one queue or of all.

    Killed anywhere and run again, every entry is in the archive exactly once, also when two runs overlap. `format` is
    `parquet`, on any file system that Spark reaches, or `delta`, committed with delta-rs in a folder or on S3. A
    `table` of a catalog, in place of `path`, is written by Spark with the jars of `iceberg` or `delta`, whichever its
    catalog is of; read it with `spark.table`. Its small files are merged by what its format has for that, not here.
    Days are those of UTC. With more than `compact_after` small pieces they are merged. With `prune`, entries that are
    archived are removed from the journal, or those of them that are `older_than` seconds old.

    The views `dead` and `messages` are added as a snapshot, with the time in the column `taken_at`: each run adds one.
    """
    say = progress or silent
    one_place(path, table)
    if view not in _VIEWS:
        raise ValueError(f"view must be one of {', '.join(_VIEWS)}, not {view!r}")
    if partition_by not in (None, "date"):
        raise ValueError(f"partition_by must be 'date' or None, not {partition_by!r}")
    if compact_after < 1:
        raise ValueError(f"compact_after must be at least 1, not {compact_after}")
    if (prune or older_than is not None) and (queue is not None or view != "events"):
        raise ValueError("prune removes entries of all queues, so it needs an archive of all: leave out queue and view")
    place = place_of(url, namespace=namespace, queue=queue, view=view)
    target = _target(spark, path, table, format)
    format = target.format if isinstance(target, LakeTable) else format or "parquet"
    with opened(place, read_only=True) as store:
        marker = Marker(kind="journal" if view == "events" else "snapshots", format=format, view=view, store=store.url,
                        namespace=place.namespace, queue=queue, partition_by=partition_by,
                        layout=1 if isinstance(target, LakeTable) or target.renames else 2)  # fmt: skip
        span = store.journal_span()
        if view == "events":
            need_journal(store, span, place.namespace)
        need_queue(store, queue)
    if view != "events":
        taken = datetime.now(UTC)
        rows = _taken(spark, place, marker, taken)
        _claim(target, marker, rows.schema)
        return _snapshot(rows, target, marker, taken)
    _claim(target, marker, archived_schema(partition_by))
    result = _append(spark, place, target, marker, span, say)
    merged = 0
    if isinstance(target, LakeTable):
        pass  # its own service merges files
    elif format == "delta":
        merged = delta_table.tidy_delta(target, files=compact_after)
    else:
        merged = parquet_archive.merge_spans(spark, target, partition_by, after=compact_after, progress=say)
    pruned = 0
    if prune or older_than is not None:
        with opened(place) as store:
            pruned = store.prune_events(older_than=older_than or 0.0, through=reached(target, marker))
    return replace(result, merged=merged, pruned=pruned)


def _target(
    spark: SparkSession, path: str | PathLike[str] | None, table: str | None, format: str | None
) -> Folder | LakeTable:
    if table is not None:
        return LakeTable(spark, table, format)
    assert path is not None
    known_format(format or "parquet", ARCHIVE_FORMATS)
    folder = folder_at(spark, path)
    if format == "delta":
        delta_table.need_delta()
        delta_table.location_of(folder)
    return folder


def _claim(target: Folder | LakeTable, marker: Marker, schema: StructType) -> None:
    """Make the target an archive of this, or see that it is one; ValueError when it is anything else."""
    if not isinstance(target, LakeTable):
        claim(target, marker)
    elif not target.exists:
        target.create(schema, partition_by=marker.partition_by, notes={NOTE: marker.text(indent=None)})
    else:
        found = Marker.of(target.note(NOTE) or "")
        wrong = f"it has no property {NOTE}, so it is no archive: give another table"
        if found is None or (wrong := disagreement(found, marker, place="table", note=f"property {NOTE}") or ""):
            raise ValueError(f"{target.uri} can not take this archive: {wrong}")


def claim(folder: Folder, marker: Marker) -> None:
    """Make the folder an archive of this, or see that it is one; ValueError when it is anything else."""
    text = folder.read(MARKER)
    if text is None:
        others = [entry.name for entry in folder.entries() if not entry.name.startswith(".")]
        if others:
            raise ValueError(f"{folder.uri} is not an archive and not empty ({others[0]} is there): give another path")
        folder.write(MARKER, marker.text())
        return
    found = Marker.of(text)
    wrong = f"its {MARKER} is damaged" if found is None else disagreement(found, marker)
    if wrong is not None:
        raise ValueError(f"{folder.uri} can not take this archive: {wrong}")


def _append(
    spark: SparkSession,
    place: Options,
    target: Folder | LakeTable,
    marker: Marker,
    kept: tuple[int, int],
    say: Progress,
) -> ArchiveResult:
    done = reached(target, marker)
    oldest, last = kept
    if last < done:
        raise ValueError(
            f"{target.uri} goes up to entry {done} and the journal of {marker.store} only to {last}: it is another "
            f"journal, so give another {'table' if isinstance(target, LakeTable) else 'path'}"
        )
    nothing = ArchiveResult(path=target.uri, format=marker.format)
    if last == done:
        return nothing
    lost = max(0, min(oldest, last + 1) - done - 1) if done else 0
    if isinstance(target, LakeTable) and marker.queue is not None:
        lost = 0  # it goes as far as the last entry of its queue: what others had in between is not missing
    say(f"archiving entries {done + 1} to {last}")
    rows = _dated(journal_rows(spark, place, after=max(done, oldest - 1), last=last), marker.partition_by, "at")
    if isinstance(target, LakeTable):
        written = target.extend(rows, "seq", done, last, writer=_name(marker))
    elif marker.format == "delta":
        partition = [marker.partition_by] if marker.partition_by is not None else []
        transaction = delta_table.Transaction(_name(marker), last, after=done)
        written = delta_table.write_delta(rows, target, partition_by=partition, transaction=transaction).rows
    else:
        written = parquet_archive.add_span(rows, target, done + 1, last, marker.partition_by)
    return replace(nothing, rows=written, first=done + 1, last=last, lost=lost)


def reached(target: Folder | LakeTable, marker: Marker) -> int:
    """The number of the last entry that an archive has, 0 when it has none."""
    if isinstance(target, LakeTable):
        return target.last("seq")
    if marker.format == "delta":
        return delta_table.committed_version(target, _name(marker)) or 0
    return archived_to(parquet_archive.spans_in(target))


def _name(marker: Marker) -> str:
    return f"localqueue archive {marker.namespace} {marker.queue or '*'}"


def _dated(df: DataFrame, partition_by: str | None, column: str) -> DataFrame:
    return df if partition_by is None else df.withColumn(partition_by, utc_date(column))


def _taken(spark: SparkSession, place: Options, marker: Marker, taken: datetime) -> DataFrame:
    from pyspark.sql import functions as f

    rows = reader(spark, place).load().withColumn("taken_at", f.lit(taken))
    return _dated(rows, marker.partition_by, "taken_at")


def _snapshot(rows: DataFrame, target: Folder | LakeTable, marker: Marker, taken: datetime) -> ArchiveResult:
    partition = [marker.partition_by] if marker.partition_by is not None else []
    if isinstance(target, LakeTable):
        written = target.append(rows)
    elif marker.format == "delta":
        written = delta_table.write_delta(rows, target, partition_by=partition).rows
    else:
        written = parquet_archive.commit(rows, target, f"taken={taken:%Y-%m-%dT%H-%M-%S.%fZ}-{new_mark()}", partition)
    return ArchiveResult(path=target.uri, format=marker.format, rows=written)


def marker_at(folder: Folder) -> Marker:
    """What a folder is an archive of; ValueError when it is none."""
    text = folder.read(MARKER)
    marker = None if text is None else Marker.of(text)
    if marker is None:
        there = "has nothing" if not folder.entries() else f"has no {MARKER}"
        raise ValueError(f"{folder.uri} is not an archive, it {there}: give the path or table that archive wrote to")
    return marker


def archive_at(spark: SparkSession, place: str | PathLike[str]) -> tuple[Folder | LakeTable, Marker]:
    """The archive in a folder or, where there is none, in the table of that name; ValueError where neither is one."""
    folder = folder_at(spark, place)
    if folder.read(MARKER) is None and isinstance(place, str) and is_table(spark, place):
        table = LakeTable(spark, place)
        marker = Marker.of(table.note(NOTE) or "")
        if marker is None:
            raise ValueError(
                f"table {place} is not an archive, it has no property {NOTE}: give one that archive wrote to"
            )
        return table, marker
    return folder, marker_at(folder)


def read_archive(spark: SparkSession, path: str | PathLike[str]) -> DataFrame:
    """What `archive` has written to a path or table, each entry once, also after a crash amid a run or a merge."""
    return archived(spark, *archive_at(spark, path))


def archived(spark: SparkSession, target: Folder | LakeTable, marker: Marker) -> DataFrame:
    """What is in an archive that was found."""
    if isinstance(target, LakeTable):
        return spark.table(target.uri)
    if marker.format == "delta":
        return delta_table.read_delta(spark, target)
    if marker.kind == "journal":
        return parquet_archive.read_spans(spark, target, cover(parquet_archive.spans_in(target)), marker.partition_by)
    taken = [name for name in parquet_archive.committed(target) if name.startswith("taken=")]
    if not taken:
        raise ValueError(f"{target.uri} has no snapshot yet: run archive first")
    read = reader_of(spark, target, files_in(target, *taken)).option("basePath", target.uri)
    return read.parquet(*map(target.at, taken)).drop("taken")
