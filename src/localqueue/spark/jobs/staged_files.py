"""Writing a table in steps: Spark's tasks write files aside, the driver gives them their names when all are there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from localqueue.spark.jobs.archive_layout import ABANDONED, WRITING
from localqueue.spark.jobs.row_count import RowCount

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from localqueue.spark.jobs.files import Folder

#: Formats of files that a job writes. Delta needs the extra.
FORMATS = ("parquet", "delta", "json", "csv")

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


class Staged(NamedTuple):
    """Files that were written aside, and how many rows are in them."""

    name: str
    rows: int


def known_format(format: str, allowed: Sequence[str] = FORMATS) -> str:
    if format not in allowed:
        raise ValueError(f"format must be one of {', '.join(allowed)}, not {format!r}")
    return format


@contextmanager
def plain_timestamps(spark: SparkSession) -> Iterator[None]:
    """Parquet with times that every reader knows, and that have statistics, in place of Spark's old 96-bit ones."""
    before = spark.conf.get(_TIMESTAMPS)
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(_TIMESTAMPS, before or "INT96")


def stage(df: DataFrame, folder: Folder, partition_by: Sequence[str] = ()) -> Staged:
    """Write a DataFrame as Parquet below `_writing`; nothing is left there when it fails."""
    return write_files(df, folder, f"{WRITING}/{int(time.time())}-{uuid.uuid4().hex}", partition_by)


def write_files(df: DataFrame, folder: Folder, name: str, partition_by: Sequence[str] = ()) -> Staged:
    """Write a DataFrame as Parquet under a name that nothing has; nothing is left there when it fails."""
    counted = RowCount(df)
    writer = counted.rows.write
    try:
        with plain_timestamps(df.sparkSession):
            (writer.partitionBy(*partition_by) if partition_by else writer).parquet(folder.at(name))
    except BaseException:
        folder.remove(name)
        raise
    return Staged(name, counted.number())


def sweep(folder: Folder, *, now: float | None = None) -> int:
    """Remove what writers left behind that died more than a day ago; how many."""
    swept = 0
    for entry in folder.entries(WRITING):
        begun = entry.name.partition("-")[0]
        if begun.isdigit() and int(begun) < (now or time.time()) - ABANDONED:
            folder.remove(f"{WRITING}/{entry.name}")
            swept += 1
    return swept
