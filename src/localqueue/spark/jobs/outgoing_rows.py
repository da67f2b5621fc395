"""Rows of any table as the rows that a queue takes: a payload, and the options beside it.

A payload is JSON text, or a struct of which the sink makes it, so that a row is written as the sink writes any other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localqueue.spark import sail
from localqueue.spark.jobs.expectations import reasons
from localqueue.spark.options import Options
from localqueue.spark.place import opened
from localqueue.spark.sink import tallies
from localqueue.spark.sink.rowjson import check_columns, column_texts
from localqueue.spark.sink.tallies import Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """Which columns are options of the message. A text is the name of a column, anything else is the value itself."""

    value: str | None = None
    key: str | None = None
    ordering_key: str | None = None
    priority: int | str | None = None
    delay: float | str | None = None
    headers: Mapping[str, str] | str | None = None
    expect: Mapping[str, str] = field(default_factory=dict)


def text_as_messages(df: DataFrame, mapped: Mapped) -> DataFrame:
    """Lines of plain text: each is a JSON string."""
    from pyspark.sql import functions as f

    for name in ("value", "key", "ordering_key"):
        if getattr(mapped, name) is not None:
            raise ValueError(f"{name} can not be a column of plain text, which has none")
    packed = f.to_json(f.array("value"))
    return with_options(df, f.substring(packed, f.lit(2), f.length(packed) - 2), mapped, _column_of(df))


def rows_as_messages(df: DataFrame, mapped: Mapped) -> DataFrame:
    """Rows as objects of all their columns, NULL included, or what the column that `value` names holds."""
    from pyspark.sql import functions as f

    of = _column_of(df)
    if mapped.value is not None:
        return with_options(df, of(mapped.value), mapped, of)
    check_columns(df.schema)
    return with_options(df, f.struct(*(f.col(quoted(name)) for name in df.columns)), mapped, of)


def as_texts(messages: DataFrame) -> DataFrame:
    """The same with every payload as JSON text, as the sink would write it."""
    from pyspark.sql import types as t

    schema = messages.schema
    if isinstance(schema["value"].dataType, t.StringType):
        return messages
    place = schema.fieldNames().index("value")

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            texts = pa.array(column_texts("value", batch.column(place)), pa.string())
            yield batch.set_column(place, "value", texts)

    fields = [t.StructField("value", t.StringType()) if field.name == "value" else field for field in schema]
    return messages.mapInArrow(written, t.StructType(fields))


def put_rows(messages: DataFrame, place: Options, idempotency_key: str | None) -> Tally:
    """Write messages to a queue through its sink; what became of them."""
    name = uuid.uuid4().hex
    options = {"url": place.url, "namespace": place.namespace, "queue": place.need_queue(), "tally": name}
    if idempotency_key is not None:
        options["idempotencyKey"] = idempotency_key
    if sail.runs(messages.sparkSession):  # which refuses writes of parts that it has divided itself
        messages = messages.coalesce(1)
    messages.write.format("localqueue").options(**options).mode("append").save()
    with opened(place) as store:
        found = tallies.tally(store, name)
        if found is not None:
            tallies.forget(store, name)
    return found or Tally()


def _column_of(df: DataFrame) -> Callable[[str], Column]:
    from pyspark.sql import functions as f

    def of(name: str) -> Column:
        if name not in df.columns:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(df.columns)}")
        return f.col(quoted(name))

    return of


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def with_options(
    df: DataFrame,
    value: Column,
    mapped: Mapped,
    of: Callable[[str], Column],
    *,
    pairs_of: Callable[[str], Column] | None = None,
    ruled: DataFrame | None = None,
) -> DataFrame:
    """The payload with the options beside it; `of` has the column of a name. Rules are over `ruled`, or all columns."""
    from pyspark.sql import functions as f

    columns = [value.alias("value")]
    for name, given, kind in (
        ("dedupe_key", mapped.key, "string"),
        ("ordering_key", mapped.ordering_key, "string"),
        ("priority", mapped.priority, "int"),
        ("delay", mapped.delay, "double"),
    ):
        if given is not None:
            column = of(given) if isinstance(given, str) else f.lit(given)
            columns.append(column.cast(kind).alias(name))
    if isinstance(mapped.headers, str):
        columns.append((pairs_of or of)(mapped.headers).alias("headers"))
    elif mapped.headers:
        pairs = [f.lit(text) for pair in mapped.headers.items() for text in pair]
        columns.append(f.create_map(*pairs).alias("headers"))
    if mapped.expect:
        columns.append(reasons(df if ruled is None else ruled, mapped.expect).alias("rejected"))
    return df.select(*columns)
