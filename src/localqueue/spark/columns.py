"""The columns of every view, as Spark and as Arrow types.

One table for the planner, the readers and the documentation. Names and order are the public schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ERROR = "struct<type: string, module: string, message: string>"
HEADERS = "map<string, string>"

#: One row a message, as the store holds it now.
MESSAGES: dict[str, str] = {
    "id": "string",
    "queue": "string",
    "state": "string",
    "value": "string",
    "headers": HEADERS,
    "attempts": "int",
    "priority": "int",
    "dedupe_key": "string",
    "ordering_key": "string",
    "run_id": "string",
    "created_at": "timestamp",
    "available_at": "timestamp",
    "leased_until": "timestamp",
    "leased_by": "string",
    "last_error": ERROR,
    "failed_at": "timestamp",
}

#: Columns of a message that are there for the asking (`columns`, a schema) and not by default: the payload as it was
#: stored, and the codec that wrote it (NULL is JSON). `value` is NULL where that is neither JSON nor MessagePack.
RAW: dict[str, str] = {"payload": "binary", "codec": "string"}

#: One row an entry of the journal. `value` and what follows it are those of an `enqueued` message.
EVENTS: dict[str, str] = {
    "seq": "bigint",
    "at": "timestamp",
    "type": "string",
    "queue": "string",
    "message_id": "string",
    "attempt": "int",
    "worker": "string",
    "error": ERROR,
    "value": "string",
    "headers": HEADERS,
    "priority": "int",
    "dedupe_key": "string",
    "ordering_key": "string",
    "run_id": "string",
    "delay": "double",
    "ttl": "double",
}

#: Columns of an entry that the journal keeps together, as the options of the put.
PUT_OPTIONS = ("headers", "priority", "dedupe_key", "ordering_key", "run_id", "delay", "ttl")

#: What the messages of a run are counted by; NULL when the store counts them no more.
RUN_COUNTS: dict[str, str] = {
    "state": "string",
    "total": "bigint",
    "done": "bigint",
    "ready": "bigint",
    "delayed": "bigint",
    "inflight": "bigint",
    "waiting": "bigint",
    "blocked": "bigint",
    "dead": "bigint",
    "expired": "bigint",
    "cancelled": "bigint",
}

#: One row a recorded step of a run, and one row a run that has none. From `workflow` on, columns are those of runs of
#: workflows, and NULL in others; from `step` on, those of the step.
RUNS: dict[str, str] = {
    "run_id": "string",
    **RUN_COUNTS,
    "workflow": "string",
    "version": "int",
    "queue": "string",
    "run_state": "string",
    "paused": "boolean",
    "parent": "string",
    "created_at": "timestamp",
    "run_finished_at": "timestamp",
    "step": "string",
    "kind": "string",
    "item": "int",
    "step_state": "string",
    "attempts": "int",
    "started_at": "timestamp",
    "finished_at": "timestamp",
    "seconds": "double",
    "worker": "string",
    "error": ERROR,
    "child": "string",
}

STATS: dict[str, str] = {
    "queue": "string",
    "ready": "bigint",
    "delayed": "bigint",
    "inflight": "bigint",
    "waiting": "bigint",
    "blocked": "bigint",
    "dead": "bigint",
    "expired": "bigint",
    "cancelled": "bigint",
    "dropped": "bigint",
    "total": "bigint",
    "oldest_ready_age_seconds": "double",
    "oldest_inflight_age_seconds": "double",
    "paused": "boolean",
}

VIEWS: dict[str, dict[str, str]] = {
    "messages": MESSAGES,
    "dead": MESSAGES,
    "events": EVENTS,
    "runs": RUNS,
    "stats": STATS,
}


def known_columns(view: str) -> dict[str, str]:
    """Every column a view can give, also those that are only there for the asking."""
    if view in ("messages", "dead"):
        return {**MESSAGES, **RAW}
    return {**EVENTS, **RAW} if view == "events" else VIEWS[view]


def spark_schema(columns: dict[str, str]) -> StructType:
    from pyspark.sql import types as t  # a schema written as text can only be parsed where there is a session

    text = t.StringType()
    kinds: dict[str, t.DataType] = {
        "string": text,
        "int": t.IntegerType(),
        "bigint": t.LongType(),
        "double": t.DoubleType(),
        "boolean": t.BooleanType(),
        "binary": t.BinaryType(),
        "timestamp": t.TimestampType(),
        HEADERS: t.MapType(text, text),
        ERROR: t.StructType([t.StructField(name, text) for name in ("type", "module", "message")]),
    }
    return t.StructType([t.StructField(name, kinds[kind]) for name, kind in columns.items()])


def struct_of(schema: StructType | pa.Schema) -> StructType:
    """The schema as Spark's own: Sail hands over that of Arrow."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    return schema if isinstance(schema, StructType) else from_arrow_schema(schema)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of a reader with this Spark schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # PySpark 4.1, whose timestamps are always those of UTC
        return to_arrow_schema(schema)
