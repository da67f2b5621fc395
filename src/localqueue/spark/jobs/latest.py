"""The latest value of every key of a topic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Keys that a message has beside its payload.
MESSAGE_KEYS = ("ordering_key", "dedupe_key", "message_id", "id")
#: What orders the messages of a topic: the number in the journal, or the id, which ascends too.
_ORDERS = ("seq", "id")
_STEP = re.compile(r"[^.\[\]'$*]+")


def json_path(key: str) -> str:
    """A field of the payload, `user.id` or `$.user.id`, as Spark spells it."""
    steps = key.removeprefix("$.").split(".")
    if not all(_STEP.fullmatch(step) for step in steps):
        raise ValueError(
            f"key must be {', '.join(MESSAGE_KEYS[:2])} or a field of the payload such as user.id, not {key!r}"
        )
    return "$" + "".join(f"['{step}']" for step in steps)


def key_column(df: DataFrame, key: str) -> Column:
    """The key of each row as text, NULL where it has none."""
    from pyspark.sql import functions as f

    if key in MESSAGE_KEYS and key in df.columns:
        return f.col(key)
    if "value" not in df.columns:
        raise ValueError(f"there is no column 'value' to take the key {key!r} from; there are {', '.join(df.columns)}")
    return f.get_json_object("value", json_path(key))


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
