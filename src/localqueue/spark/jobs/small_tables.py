"""The small tables of a report, and the rows they are made of where those are few.

A session that has just been started pays for every query with seconds of Java that is not compiled yet, and for the
first read of a Python source with processes of its own. So few rows are read by this process, brought to it once they
are facts, and asked for all tables at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from localqueue.spark.jobs.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Up to so many rows one task is faster than several that have to exchange theirs.
SMALL = 50_000
_AT_ONCE = 3


def rows_here(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The rows that the data source reads with these options, read by this process instead of by tasks."""
    import pyarrow as pa

    from localqueue.spark.columns import arrow_schema
    from localqueue.spark.datasource import LocalQueueDataSource
    from localqueue.spark.source.batch import BatchReader

    # Not by ADBC: this process may have the same file open, and two SQLites in one process undo each other's locks.
    source = LocalQueueDataSource({**options, "engine": "python"})
    schema = source.schema()
    reader = BatchReader(source.parsed(), schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return as_one_part(spark, pa.Table.from_batches(batches, arrow_schema(schema)))


def at_hand(kept: DataFrame) -> DataFrame:
    """The same rows of a DataFrame that is persisted, and if they are few, as a table of its own.

    One partition needs no shuffle, and without their origin the rows make plans that are short to think about.
    """
    if kept.count() > SMALL:
        return kept
    return as_one_part(kept.sparkSession, kept.toArrow())


def as_one_part(spark: SparkSession, rows: pa.Table) -> DataFrame:
    from localqueue.spark.columns import struct_of

    if rows.num_rows == 0:  # PySpark looks for a type in the first piece of a column, and there is none
        return spark.createDataFrame([], struct_of(rows.schema))
    return spark.createDataFrame(rows).coalesce(1)


def computed(made: Mapping[str, Callable[[], DataFrame]], say: Progress) -> dict[str, pa.Table]:
    """Each table by its name, which `say` hears when its turn comes; some are computed at the same time."""

    def table_of(name: str) -> pa.Table:
        say(name.replace("_", " "))
        return made[name]().toArrow()

    with ThreadPoolExecutor(_AT_ONCE, "localqueue-tables") as pool:
        return dict(zip(made, pool.map(table_of, made), strict=True))
