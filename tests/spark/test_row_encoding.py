"""Rows written as JSON and read by their own schema: nothing is lost on the way, whoever writes them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from localqueue.errors import PayloadError
from localqueue.spark.columns import arrow_schema
from localqueue.spark.sink.layout import layout
from localqueue.spark.sink.rowjson import row_objects
from localqueue.spark.source.typed_payload import Typed
from localqueue.stores.port import StoredMessage

TEXT = t.StringType()

_values: dict[t.DataType, st.SearchStrategy[Any]] = {
    TEXT: st.text(max_size=6),
    t.BooleanType(): st.booleans(),
    t.ByteType(): st.integers(-128, 127),
    t.LongType(): st.integers(-(2**63), 2**63 - 1),
    t.DoubleType(): st.floats(),
    t.FloatType(): st.floats(width=32),
    t.DecimalType(38, 18): st.decimals(-(10**19), 10**19, places=18),
    t.DecimalType(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    t.BinaryType(): st.binary(max_size=6),
    t.DateType(): st.dates(),
    t.TimestampType(): st.datetimes(timezones=st.just(UTC)),
    t.TimestampNTZType(): st.datetimes(),
    t.TimeType(6): st.times(),
    t.DayTimeIntervalType(): st.timedeltas(timedelta(days=-(10**8)), timedelta(days=10**8)),
    t.NullType(): st.none(),
}


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Types with the values they may have: arrays, maps and structs of what is inside."""
    return (
        inner.map(lambda one: (t.ArrayType(one[0]), st.lists(st.none() | one[1], max_size=3)))
        | inner.map(
            lambda one: (t.MapType(TEXT, one[0]), st.dictionaries(st.text(max_size=2), st.none() | one[1], max_size=2))
        )
        | st.lists(inner, min_size=1, max_size=3).map(_struct)
    )


def _struct(kinds: list[Any]) -> tuple[t.StructType, st.SearchStrategy[Any]]:
    fields = [t.StructField(f'f{n} %s"é', kind) for n, (kind, _) in enumerate(kinds)]
    return t.StructType(fields), st.fixed_dictionaries(
        {field.name: st.none() | values for field, (_, values) in zip(fields, kinds, strict=True)}
    )


_kinds = st.recursive(st.sampled_from([*_values.items()]), _nested, max_leaves=5)


def read(schema: t.StructType, texts: list[str]) -> pa.RecordBatch:
    return Typed(schema).batch(
        [StoredMessage(f"{n:032x}", "jobs", "ready", text, None, 0, 0, 1.0, 1.0) for n, text in enumerate(texts)]
    )


def same(one: Any, other: Any) -> bool:
    """Equality for which NaN is itself, and zero has a sign."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (one == other and repr(one) == repr(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


@given(st.data())
def test_a_row_of_any_types_is_read_as_it_was_written(data: st.DataObject) -> None:
    schema, values = _struct(data.draw(st.lists(_kinds, min_size=1, max_size=4)))
    batch = pa.RecordBatch.from_pylist(data.draw(st.lists(values, min_size=1, max_size=3)), schema=arrow_schema(schema))
    assert same(read(schema, row_objects(batch)).to_pylist(), batch.to_pylist())


def variant(text: str) -> dict[str, bytes]:
    made = t.VariantVal.parseJson(text)
    return {"value": made.value, "metadata": made.metadata}


def test_a_variant_is_the_json_of_what_it_holds_wherever_it_is() -> None:
    texts = ['{"a":[1,2.5,null,true,"é"],"b":{}}', "12345678901234567890.25", '"x"']
    inner = t.StructType([t.StructField("v", t.VariantType())])
    kinds = [t.VariantType(), t.ArrayType(t.VariantType()), t.MapType(TEXT, t.VariantType()), inner]
    schema = t.StructType([t.StructField(name, kind) for name, kind in zip("abcd", kinds, strict=True)])
    rows: list[dict[str, Any]] = [
        {"a": variant(one), "b": [variant(one), None], "c": {"k": variant(one), "l": None}, "d": {"v": variant(one)}}
        for one in texts
    ]
    batch = pa.RecordBatch.from_pylist([*rows, {}], schema=arrow_schema(schema))
    written = row_objects(batch)
    assert (
        written[0] == f'{{"a":{texts[0]},"b":[{texts[0]},null],"c":{{"k":{texts[0]},"l":null}},"d":{{"v":{texts[0]}}}}}'
    )
    assert read(schema, written).equals(batch)


def test_the_forms_of_values_are_these() -> None:
    kinds: dict[str, t.DataType] = {
        "d": t.DecimalType(38, 10), "n": t.DoubleType(), "b": t.BinaryType(), "at": t.TimestampType(),
        "local": t.TimestampNTZType(), "o": t.TimeType(6), "i": t.DayTimeIntervalType(), "day": t.DateType(),
    }  # fmt: skip
    schema = t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])
    row = {
        "d": Decimal("1234567890123456789.0123456789"), "n": math.inf, "b": b"\x00\xff",
        "at": datetime(2026, 1, 31, 12, 0, 0, 1, UTC), "local": datetime(2026, 1, 31, 12), "o": time(1, 2, 3, 4),
        "i": -timedelta(seconds=1, microseconds=500_000), "day": date(1, 2, 3),
    }  # fmt: skip
    assert row_objects(pa.RecordBatch.from_pylist([row], schema=arrow_schema(schema))) == [
        '{"d":1234567890123456789.0123456789,"n":"Infinity","b":"AP8=","at":"2026-01-31T12:00:00.000001+00:00",'
        '"local":"2026-01-31T12:00:00","o":"01:02:03.000004","i":"PT-1.500000S","day":"0001-02-03"}'
    ]


@pytest.mark.parametrize(("kind", "value"), [(pa.date32(), 10**7), (pa.timestamp("us", "UTC"), 2**60)])
def test_a_moment_that_no_calendar_has_is_refused_with_its_column(kind: pa.DataType, value: int) -> None:
    column = pa.array([0, value], pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    with pytest.raises(PayloadError, match="column 'at' holds a value that can not be written"):
        row_objects(pa.record_batch({"at": column}))


def test_a_value_of_structs_arrays_or_maps_is_written_with_the_options_beside_it() -> None:
    inner = t.StructType([t.StructField("n", t.DoubleType())])
    for kind, value, text in (
        (inner, {"n": math.nan}, '{"n":"NaN"}'),
        (t.ArrayType(inner), [{"n": 1.0}], '[{"n":1.0}]'),
        (t.MapType(TEXT, TEXT), {"a": "b"}, '{"a":"b"}'),
        (t.VariantType(), variant("[1]"), "[1]"),
    ):
        schema = t.StructType([t.StructField("value", kind), t.StructField("priority", t.IntegerType())])
        batch = pa.RecordBatch.from_pylist([{"value": value, "priority": 3}], schema=arrow_schema(schema))
        assert layout(schema, "jobs").messages(batch).to_pydict() == {"value": [text], "priority": [3]}
    with pytest.raises(ValueError, match=r"column 'value.n' is of type interval year to month"):
        layout(
            t.StructType([t.StructField("value", t.StructType([t.StructField("n", t.YearMonthIntervalType())]))]), "q"
        )
