"""Rows as JSON objects: what a payload looks like when a whole row is written.

Columns keep their names and order, NULL is null. Numbers stay numbers and structs, arrays and maps nest. What JSON has
no form for, and text can hold without loss, becomes text: decimals as their digits, dates, times and timestamps as ISO
(`2026-01-31T12:00:00+00:00`, a timestamp without a zone without one). Anything else is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from typing import TYPE_CHECKING, Any

from localqueue.errors import PayloadError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

_write = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_quote: Callable[[str], str] = json.encoder.encode_basestring


def check_columns(schema: StructType) -> None:
    """Refuse rows that can not be written as JSON, naming the column."""
    names = schema.fieldNames()
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"there are two columns {twice!r}: a JSON object has one value for a name; rename one of them")
    for field in schema.fields:
        _check(field.name, field.dataType)


def _check(where: str, kind: DataType) -> None:
    from pyspark.sql import types as t

    plain = (
        t.StringType, t.CharType, t.VarcharType, t.BooleanType, t.IntegralType, t.FractionalType, t.DateType,
        t.TimestampType, t.TimestampNTZType, t.NullType, t.TimeType,
    )  # fmt: skip
    if isinstance(kind, t.StructType):
        for field in kind.fields:
            _check(f"{where}.{field.name}", field.dataType)
    elif isinstance(kind, t.ArrayType):
        _check(f"{where}[]", kind.elementType)
    elif isinstance(kind, t.MapType):
        if not isinstance(kind.keyType, t.StringType):
            raise ValueError(
                f"column {where!r} is a map with keys of type {kind.keyType.simpleString()}; JSON has objects with "
                "string keys: use transform_keys(column, (k, v) -> cast(k AS STRING))"
            )
        _check(f"{where}[]", kind.valueType)
    elif isinstance(kind, t.BinaryType):
        raise ValueError(f"column {where!r} is binary, which JSON can not hold: write base64({where}) or drop it")
    elif not isinstance(kind, plain):
        raise ValueError(
            f"column {where!r} is of type {kind.simpleString()}, which JSON has not: cast it to a string, or drop it"
        )


def row_objects(batch: pa.RecordBatch) -> list[str]:
    """Each row as a JSON object, by columns: a row costs one formatting."""
    names = [_quote(name).replace("%", "%%") for name in batch.schema.names]
    form = "{" + ",".join(f"{name}:%s" for name in names) + "}"
    columns = [_texts(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return [form % row for row in zip(*columns, strict=True)]


def _texts(name: str, column: pa.Array) -> list[str]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ["null" if value is None else _quote(value) for value in column.to_pylist()]
    if pa.types.is_integer(kind):
        texts: list[str] = column.cast(pa.string()).fill_null("null").to_pylist()
        return texts
    plain = _plain(kind)
    values = column.to_pylist()
    try:
        return [_write(value if plain is None or value is None else plain(value)) for value in values]
    except ValueError as error:
        raise PayloadError(
            f"column {name!r} holds a value that JSON can not ({error}): NaN and infinities have no form there; "
            f"replace them, as with nanvl({name}, NULL)"
        ) from None


def _plain(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """How a Python value of this Arrow type becomes one of JSON; None where it is one already."""
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return lambda value: value.astimezone(UTC).isoformat()
    if pa.types.is_temporal(kind):
        return lambda value: value.isoformat()
    if pa.types.is_struct(kind):
        return _struct({field.name: _plain(field.type) for field in kind})
    if pa.types.is_map(kind):
        one = _plain(kind.item_type)
        return lambda pairs: {key: _nullable(one, value) for key, value in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = _plain(kind.value_type)
        return None if each is None else lambda values: [_nullable(each, value) for value in values]
    return None


def _struct(fields: dict[str, Callable[[Any], Any] | None]) -> Callable[[Any], Any] | None:
    if not any(fields.values()):
        return None
    return lambda value: {name: _nullable(plain, value[name]) for name, plain in fields.items()}


def _nullable(plain: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if plain is None or value is None else plain(value)
