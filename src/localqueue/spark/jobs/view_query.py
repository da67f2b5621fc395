"""The rows that a view is made of: what was put, with the fields of the payload, and the result of a query over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from localqueue.spark.columns import EVENTS, spark_schema
from localqueue.spark.jobs.arguments import first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: The columns of the rows that a view is made of; with a schema, the fields of the payload follow.
COLUMNS = (
    "seq", "at", "queue", "message_id", "value", "headers", "priority", "dedupe_key", "ordering_key",
)  # fmt: skip


def check_query(spark: SparkSession, sql: str, schema: StructType | str | None) -> None:
    """ValueError when a text is not a query over messages."""
    nothing = spark.createDataFrame([], spark_schema({name: EVENTS[name] for name in COLUMNS}))
    with queried(typed(nothing, schema), sql):
        pass


def typed(rows: DataFrame, schema: StructType | str | None) -> DataFrame:
    """The fields of the payload as columns; one that has the name of a column takes its place."""
    from pyspark.sql import functions as f

    if schema is None:
        return rows
    parsed = rows.withColumn("_payload", f.from_json("value", schema))
    fields = parsed.select("_payload.*").columns
    kept = [name for name in rows.columns if name not in fields]
    return parsed.select(*kept, "_payload.*")


@contextmanager
def queried(rows: DataFrame, sql: str) -> Iterator[DataFrame]:
    """The result of the query. Spark Connect looks for the view when the result is used, so it is there until then."""
    from pyspark.errors import AnalysisException, ParseException

    rows.createOrReplaceTempView("messages")
    try:
        try:
            found = rows.sparkSession.sql(sql)
            found.schema  # noqa: B018
        except (AnalysisException, ParseException) as error:
            raise ValueError(
                f"sql {sql!r} is not a query over messages ({', '.join(rows.columns)}): {first_line(error)}"
            ) from None
        yield found
    finally:
        rows.sparkSession.catalog.dropTempView("messages")
