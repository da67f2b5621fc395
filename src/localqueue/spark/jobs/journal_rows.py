"""The journal as the rows that an archive keeps, and a replay reads: every entry with all it takes to put it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localqueue.spark.columns import EVENTS, RAW
from localqueue.spark.options import Options, parse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

    from localqueue.stores.port import QueueStore

#: The columns of an archived entry. `payload` and `codec` are NULL for JSON, where `value` is what was stored.
ARCHIVED: dict[str, str] = {**EVENTS, **RAW}


def place_of(url: str, *, namespace: str | None = None, queue: str | None = None, view: str = "messages") -> Options:
    """The store that a job works on, checked as the data source checks it."""
    given = {"url": url, "namespace": namespace, "queue": queue, "view": view}
    return parse({name: value for name, value in given.items() if value is not None})


def need_journal(store: QueueStore, span: tuple[int, int], namespace: str, otherwise: str = "") -> None:
    """ValueError, with the way to switch it on, when a journal is off and has nothing."""
    first, last = span
    if last < first and not store.journal_enabled():
        raise ValueError(
            f"the journal of {store.url}, namespace {namespace!r}, is off and empty: switch it on with "
            f"`localqueue queue journal --enable` or store.enable_journal(){otherwise}"
        )


def reader(spark: SparkSession, place: Options) -> DataFrameReader:
    """A reader of what `place` names."""
    found = spark.read.format("localqueue").option("url", place.url).option("namespace", place.namespace)
    if place.queue is not None:
        found = found.option("queue", place.queue)
    return found.option("view", place.view)


def journal_rows(spark: SparkSession, place: Options, *, after: int, last: int) -> DataFrame:
    """The entries behind `after` up to `last`, of one queue or of all."""
    from pyspark.sql import functions as f

    rows = (
        reader(spark, place)
        .option("view", "events")
        .option("columns", ",".join(ARCHIVED))
        .option("startingOffsets", f'{{"seq": {after}}}')
        .option("endingOffsets", f'{{"seq": {last}}}')
        .load()
        .where((f.col("seq") > after) & (f.col("seq") <= last))
    )
    return rows.withColumn("payload", f.when(f.col("codec").isNotNull(), f.col("payload")))


def archived_schema(partition_by: str | None = None) -> StructType:
    from pyspark.sql import types as t

    from localqueue.spark.columns import spark_schema

    schema = spark_schema(ARCHIVED)
    return schema.add(t.StructField(partition_by, t.DateType())) if partition_by is not None else schema


def utc_date(column: str) -> Column:
    """The day of a time in UTC, whatever the time zone of the session is."""
    from pyspark.sql import functions as f

    return f.expr(f"date_from_unix_date(cast(floor(unix_micros({column}) / 86400000000) as int))")
