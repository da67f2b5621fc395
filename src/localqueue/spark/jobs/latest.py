"""The latest value of every key of a topic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from localqueue.spark.jobs.known_names import UnknownName

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

#: Keys that a message has beside its payload.
MESSAGE_KEYS = ("ordering_key", "dedupe_key", "message_id", "id")
#: What orders the messages of a topic: the number in the journal, or the id, which ascends too.
_ORDERS = ("seq", "id")
_STEP = re.compile(r"[^.\[\]'$*]+")


def json_path(key: str) -> str:
    """A field of the payload, `user.id` or `$.user.id`, as Spark spells it."""
    return "$" + "".join(f"['{step}']" for step in _steps(key))


def _steps(key: str) -> list[str]:
    steps = key.removeprefix("$.").split(".")
    if not all(_STEP.fullmatch(step) for step in steps):
        raise ValueError(
            f"key must be {', '.join(MESSAGE_KEYS[:2])} or a field of the payload such as user.id, not {key!r}"
        )
    return steps


def key_column(df: DataFrame, key: str) -> Column:
    """The key of each row as text, NULL where it has none."""
    from pyspark.sql import functions as f

    if key in MESSAGE_KEYS and key in df.columns:
        return f.col(key)
    if "value" not in df.columns:
        raise ValueError(f"there is no column 'value' to take the key {key!r} from; there are {', '.join(df.columns)}")
    return f.get_json_object("value", json_path(key))


def need_key(df: DataFrame, key: str, schema: StructType | None = None) -> None:
    """UnknownName when neither a message nor the schema of the payload has the key; without both, nobody can tell."""
    if schema is not None and _has_field(schema, key):
        return
    rows = messages_of(df)
    if not rows.where(key_column(rows, key).isNotNull()).isEmpty() or (schema is None and rows.isEmpty()):
        return
    nor = "" if schema is None else f", nor has the schema ({', '.join(schema.names)})"
    fields = rows.selectExpr("json_object_keys(value) AS fields").where("fields is not null").first()
    one = f"; one has {', '.join(sorted(fields[0]))}" if fields is not None else ""
    raise UnknownName(
        f"no message has the key {key!r}{nor}{one}: "
        "give ordering_key, dedupe_key or a field of the value such as user.id"
    )


def _has_field(schema: StructType, key: str) -> bool:
    from pyspark.sql.types import StructType

    found: DataType | None = schema
    for step in _steps(key):
        if isinstance(found, StructType):  # what else there is holds fields that no schema names
            found = next((field.dataType for field in found if field.name == step), None)
    return found is not None


def order_of(df: DataFrame) -> str:
    found = next((name for name in _ORDERS if name in df.columns), None)
    if found is None:
        raise ValueError(f"there is no column {' or '.join(_ORDERS)} that tells which value of a key is the latest")
    return found


def is_tombstone(df: DataFrame) -> Column:
    """Whether a payload is null: the key is gone. One that is not JSON has no `value` either, but a codec."""
    from pyspark.sql import functions as f

    missing = f.col("value").isNull()
    if "codec" in df.columns:
        missing = missing & f.col("codec").isNull()
    return missing | (f.coalesce(f.trim("value"), f.lit("")) == "null")


def messages_of(df: DataFrame) -> DataFrame:
    """Only what was put, of rows that may be any entry of a journal."""
    return df.where("type = 'enqueued'") if "type" in df.columns else df


def latest_per_key(df: DataFrame, key: str) -> DataFrame:
    """One row a key, the last that was put, with the key in the column `key`; rows without a key are left out."""
    from pyspark.sql import functions as f

    order = order_of(df)
    keyed = messages_of(df).withColumn("key", key_column(df, key)).where("key is not null")
    others = [name for name in keyed.columns if name != "key"]
    last = keyed.groupBy("key").agg(f.max_by(f.struct(*others), order).alias("last"))
    return last.select("key", *(f.col(f"last.{name}").alias(name) for name in others))
