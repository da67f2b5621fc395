"""Arguments that jobs share: conditions in SQL, and moments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def where_sql(df: DataFrame, where: str) -> DataFrame:
    """The rows for which an SQL condition holds; ValueError when it is none over these columns."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        found = df.where(where)
        found.select("*").schema  # noqa: B018 -- on Spark Connect only this has it analysed, once and not from memory
    except (AnalysisException, ParseException) as error:
        raise ValueError(
            f"where {where!r} is not a condition over the columns {', '.join(df.columns)}: {first_line(error)}"
        ) from None
    return found


def known_schema(schema: StructType | str) -> StructType:
    """The columns that a schema names; ValueError when it is none."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema
    try:
        found = StructType.fromDDL(schema)
    except PySparkException as error:
        raise ValueError(
            f"schema {schema!r} is not a list of columns with types, such as 'id long, name string': "
            f"{first_line(error)}"
        ) from None
    assert isinstance(found, StructType)
    return found


def first_line(error: Exception) -> str:
    """What an error of Spark says before it shows the plan."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else str(error)


def moment(name: str, value: datetime | str | float | None) -> datetime | None:
    """A time with its zone: a datetime, an ISO text, or seconds since 1970."""
    if value is None:
        return None
    found: object = value
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
        if isinstance(found, datetime) and found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError, OSError):  # no time, or one that no calendar has
        pass
    raise ValueError(
        f"{name} must be a time with its zone, such as 2026-01-31T12:00:00+00:00, or seconds since 1970, not {value!r}"
    )
