"""Rows as JSON objects: the one form of a payload that is a whole row, whoever writes it.

Columns keep their names and order, NULL is null. Numbers stay numbers, decimals with all their digits, and structs,
arrays and maps nest. What JSON has no form for is text that holds it without loss: dates, times and timestamps are ISO
(`2026-01-31T12:00:00.000001+00:00`, a timestamp without a zone without one), an interval of days to seconds is an ISO
duration in seconds (`PT-1.5S`), binary is base64, and numbers that are none are `NaN`, `Infinity` and `-Infinity`. A
variant is the JSON of what it holds. Anything else is refused by name. A typed read (`source/fit`) with the schema of
the rows gives back what was written.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from localqueue.errors import PayloadError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

_quote: Callable[[str], str] = json.encoder.encode_basestring


def check_columns(schema: StructType, within: str = "") -> None:
    """Refuse rows that can not be written as JSON, naming the column."""
    names = schema.fieldNames()
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"there are two columns {within + twice!r}: a JSON object has one value for a name; rename one of them"
        )
    for field in schema.fields:
        check_column(within + field.name, field.dataType)


def check_column(where: str, kind: DataType) -> None:
    """The same of one column."""
    from pyspark.sql import types as t

    plain = (
        t.StringType, t.CharType, t.VarcharType, t.BooleanType, t.IntegralType, t.FractionalType, t.BinaryType,
        t.DateType, t.TimestampType, t.TimestampNTZType, t.TimeType, t.DayTimeIntervalType, t.VariantType, t.NullType,
    )  # fmt: skip
    if isinstance(kind, t.StructType):
        check_columns(kind, f"{where}.")
    elif isinstance(kind, t.ArrayType):
        check_column(f"{where}[]", kind.elementType)
    elif isinstance(kind, t.MapType):
        if not isinstance(kind.keyType, t.StringType):
            raise ValueError(
                f"column {where!r} is a map with keys of type {kind.keyType.simpleString()}; JSON has objects with "
                "string keys: use transform_keys(column, (k, v) -> cast(k AS STRING))"
            )
        check_column(f"{where}[]", kind.valueType)
    elif not isinstance(kind, plain):
        raise ValueError(
            f"column {where!r} is of type {kind.simpleString()}, which JSON has not: cast it to a string, or drop it"
        )


def row_objects(batch: pa.RecordBatch) -> list[str]:
    """Each row as a JSON object, by columns: a row costs one formatting."""
    names = [_quote(name).replace("%", "%%") for name in batch.schema.names]
    form = "{" + ",".join(f"{name}:%s" for name in names) + "}"
    columns = [column_texts(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return [form % row for row in zip(*columns, strict=True)]


def column_texts(name: str, column: pa.Array) -> list[str]:
    """The values of one column as JSON texts, or why one of them has none, naming the column."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ["null" if value is None else _quote(value) for value in column.to_pylist()]
    if pa.types.is_integer(kind):
        texts: list[str] = column.cast(pa.string()).fill_null("null").to_pylist()
        return texts
    try:
        values = column.to_pylist(maps_as_pydicts="strict")
        unpack = _unpacked(kind)
        return [json_text(value if unpack is None or value is None else unpack(value)) for value in values]
    except (ValueError, OverflowError) as error:
        raise PayloadError(
            f"column {name!r} holds a value that can not be written ({error}): dates and times are of the years 1 to "
            "9999; replace it, or cast the column to a string"
        ) from None


def json_text(value: Any) -> str:
    """The JSON of one value as Python has it."""
    return _TEXTS[type(value)](value)


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'"{NOT_FINITE[repr(value)]}"'


def _duration(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    whole, part = divmod(abs(micros), 1_000_000)
    return f'"PT{"-" if micros < 0 else ""}{whole}{f".{part:06d}" if part else ""}S"'


def _moment(value: datetime) -> str:
    return f'"{(value if value.tzinfo is None else value.astimezone(UTC)).isoformat()}"'


#: What a number that JSON has not is written as, and read from, by its name in Python.
NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: int.__repr__,
    float: _float,
    str: _quote,
    Decimal: lambda value: format(value, "f"),
    bytes: lambda value: f'"{b64encode(value).decode()}"',
    date: lambda value: f'"{value.isoformat()}"',
    time: lambda value: f'"{value.isoformat()}"',
    datetime: _moment,
    timedelta: _duration,
    list: lambda value: f"[{','.join(map(json_text, value))}]",
    dict: lambda value: "{" + ",".join(f"{_quote(name)}:{json_text(one)}" for name, one in value.items()) + "}",
}


def _unpacked(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """How the variants in a value of this Arrow type become what they hold; None where there are none."""
    import pyarrow as pa
    from pyspark.sql.types import VariantVal

    if pa.types.is_struct(kind):
        if any((field.metadata or {}).get(b"variant") for field in kind):
            return lambda value: VariantVal(value["value"], value["metadata"]).toPython()
        fields = {field.name: unpack for field in kind if (unpack := _unpacked(field.type)) is not None}
        return None if not fields else lambda value: value | {
            name: _nullable(unpack, value[name]) for name, unpack in fields.items()
        }  # fmt: skip
    if pa.types.is_map(kind):
        one = _unpacked(kind.item_type)
        return None if one is None else lambda value: {key: _nullable(one, item) for key, item in value.items()}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = _unpacked(kind.value_type)
        return None if each is None else lambda value: [_nullable(each, item) for item in value]
    return None


def _nullable(unpack: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else unpack(value)
