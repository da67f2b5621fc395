"""Rows as messages: which columns mean what, and what is refused before anything is stored."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from localqueue.errors import PayloadError
from localqueue.spark.options import OptionError
from localqueue.spark.sink.layout import check_json, layout

TEXT = t.StringType()
HEADERS = t.MapType(TEXT, TEXT)


def schema(**columns: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in columns.items()])


def messages(kinds: dict[str, t.DataType], rows: list[dict[str, Any]], queue: str | None = "jobs") -> Any:
    """What becomes of rows of this schema, by columns."""
    spark_schema = schema(**kinds)
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(spark_schema, timezone="UTC"))
    return layout(spark_schema, queue).messages(batch).to_pydict()


def objects(kinds: dict[str, t.DataType], *rows: dict[str, Any]) -> list[Any]:
    return [json.loads(text) for text in messages(kinds, list(rows))["value"]]


def test_a_value_column_is_the_payload_as_it_is_written() -> None:
    texts = ['{"a": 1}', " [1,2]\n", '"text"', "null", "1.5", '"\\ud800"', '"é"']
    assert messages({"value": TEXT}, [{"value": text} for text in texts]) == {"value": texts}


@pytest.mark.parametrize(
    "text", ["", "  ", "nul", "{'a': 1}", '{"a": 1', '{"a": 1} x', "[1,]", "NaN", '{"a": -Infinity}', '"a\nb"', "1 2"]
)
def test_text_that_is_not_json_is_refused_and_shown(text: str) -> None:
    with pytest.raises(PayloadError, match="column 'value' is not JSON") as refused:
        check_json(['{"a": 1}', text, "1"])
    assert repr(text) in str(refused.value)


def test_a_long_text_is_shown_shortened() -> None:
    with pytest.raises(PayloadError, match=r"\(5001 characters\)") as refused:
        check_json(["{" + "x" * 5000])
    assert len(str(refused.value)) < 500


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(PayloadError, match="nested too deeply"):
        check_json(["[" * 200_000 + "]" * 200_000])


def refuse(constant: str) -> None:
    raise ValueError(constant)


@given(st.data())
def test_texts_are_judged_as_the_codec_of_the_queue_does(data: st.DataObject) -> None:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner))
    text = json.dumps(data.draw(values), ensure_ascii=data.draw(st.booleans()))
    at = data.draw(st.integers(0, len(text)))
    wrong = st.sampled_from(
        ["", "\\", '"', ",", "]", "}", "\x00", "\x7f", "\\u12", "0", "-", ".", "e", " ", "\n", "\xa0"]
    )
    text = text[:at] + data.draw(wrong) + text[at + data.draw(st.integers(0, 2)) :]
    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        with pytest.raises(PayloadError):
            check_json([text])
    else:
        check_json([text])


def test_a_number_that_python_can_not_convert_is_refused_but_not_digits_in_text() -> None:
    with pytest.raises(PayloadError, match="not JSON"):
        check_json(["9" * 4301])
    check_json(["9" * 4300, '"' + "9" * 4301 + '"'])


def test_a_value_that_is_null_is_refused() -> None:
    with pytest.raises(PayloadError, match="column 'value' is NULL"):
        messages({"value": TEXT}, [{"value": "1"}, {"value": None}])


ALL_OPTIONS = {
    "value": TEXT,
    "queue": TEXT,
    "headers": HEADERS,
    "priority": t.IntegerType(),
    "delay": t.DoubleType(),
    "dedupe_key": TEXT,
    "ordering_key": TEXT,
    "run_id": TEXT,
}


def test_the_columns_beside_a_value_are_the_options_of_the_message() -> None:
    row = {
        "value": "1",
        "queue": "other",
        "headers": {"a": "1", "b": "é"},
        "priority": 5,
        "delay": 1.5,
        "dedupe_key": "d",
        "ordering_key": "o",
        "run_id": "r",
    }
    made = messages(ALL_OPTIONS, [row, {"value": "2"}])
    assert made["headers"] == ['{"a":"1","b":"\\u00e9"}', None]
    assert {name: values for name, values in made.items() if name != "headers"} == {
        name: [value, "2" if name == "value" else None] for name, value in row.items() if name != "headers"
    }


def test_options_that_no_row_has_are_left_out() -> None:
    rows = [{"value": "1", "priority": 0, "delay": 0.0, "headers": {}}, {"value": "2"}]
    assert messages(ALL_OPTIONS, rows) == {"value": ["1", "2"]}


def test_a_column_of_nothing_but_null_is_an_option_that_no_row_has() -> None:
    assert messages({"value": TEXT, "dedupe_key": t.NullType()}, [{"value": "1"}]) == {"value": ["1"]}


@pytest.mark.parametrize("kind", [t.LongType(), t.ShortType(), t.ByteType()])
def test_any_whole_number_can_be_a_priority(kind: t.DataType) -> None:
    assert messages({"value": TEXT, "priority": kind}, [{"value": "1", "priority": 7}])["priority"] == [7]


@pytest.mark.parametrize(
    ("kind", "delay"), [(t.IntegerType(), 2), (t.FloatType(), 2.0), (t.DecimalType(3, 1), Decimal("2.0"))]
)
def test_any_number_can_be_a_delay(kind: t.DataType, delay: Any) -> None:
    assert messages({"value": TEXT, "delay": kind}, [{"value": "1", "delay": delay}])["delay"] == [2.0]


@pytest.mark.parametrize(
    ("column", "kind", "right"),
    [
        ("headers", t.MapType(TEXT, t.IntegerType()), r"map<string,int>; it must be map<string,string>"),
        ("headers", TEXT, r"string; it must be map<string,string>"),
        ("priority", t.DoubleType(), r"double; it must be int"),
        ("priority", TEXT, r"string; it must be int"),
        ("delay", TEXT, r"string; it must be double \(seconds\)"),
        ("delay", t.TimestampType(), r"timestamp; it must be double \(seconds\)"),
        ("dedupe_key", t.LongType(), r"bigint; it must be string"),
        ("ordering_key", t.LongType(), r"bigint; it must be string"),
        ("run_id", t.BinaryType(), r"binary; it must be string"),
        ("queue", t.LongType(), r"bigint; it must be string"),
    ],
)
def test_an_option_column_of_the_wrong_type_is_refused_with_the_right_one(
    column: str, kind: t.DataType, right: str
) -> None:
    with pytest.raises(ValueError, match=f"column '{column}' is of type {right}"):
        layout(schema(value=TEXT, **{column: kind}), "jobs")


def test_a_value_column_that_is_not_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r"column 'value' is of type bigint; it must be a string of JSON text"):
        layout(schema(value=t.LongType()), "jobs")


@pytest.mark.parametrize(
    ("column", "wrong", "said"),
    [
        ("priority", -1, "column 'priority' is -1"),
        ("priority", 2**31, "column 'priority' is 2147483648"),
        ("delay", -0.5, "column 'delay' is -0.5"),
        ("delay", float("nan"), "column 'delay' is nan"),
        ("delay", float("inf"), "column 'delay' is inf"),
        ("dedupe_key", "", "column 'dedupe_key' is empty"),
        ("ordering_key", "", "column 'ordering_key' is empty"),
        ("run_id", "", "column 'run_id' is empty"),
        ("headers", {"a": None}, "column 'headers' has no value for 'a'"),
        ("queue", "a:b", "queue name cannot contain ':'"),
        ("queue", "", "queue name cannot be empty"),
    ],
)
def test_an_option_that_put_would_refuse_is_refused(column: str, wrong: Any, said: str) -> None:
    kinds = {**ALL_OPTIONS, "priority": t.LongType()}
    with pytest.raises(ValueError, match=said):
        messages(kinds, [{"value": "1"}, {"value": "2", column: wrong}])


def test_a_queue_is_needed_unless_each_row_names_one() -> None:
    with pytest.raises(OptionError, match="option 'queue' is missing"):
        layout(schema(value=TEXT), None)
    with pytest.raises(OptionError, match="option 'queue' is missing"):
        layout(schema(a=TEXT, queue=TEXT), None)
    with pytest.raises(ValueError, match="queue name cannot contain ':'"):
        layout(schema(value=TEXT), "a:b")
    kinds: dict[str, t.DataType] = {"value": TEXT, "queue": TEXT}
    assert messages(kinds, [{"value": "1", "queue": "a"}], queue=None)["queue"] == ["a"]
    with pytest.raises(ValueError, match="column 'queue' is NULL"):
        messages(kinds, [{"value": "1", "queue": "a"}, {"value": "1"}], queue=None)


def test_without_a_value_column_the_row_is_the_payload() -> None:
    rows = [{"id": 1, "priority": 9, "100%": 'a"b\\\né'}, {"id": None}]
    made = objects({"id": t.LongType(), "priority": t.IntegerType(), "100%": TEXT}, *rows)
    assert made == [rows[0], {"id": None, "priority": None, "100%": None}]


def test_a_column_beside_the_value_that_is_no_option_is_refused_by_name_with_the_way_out() -> None:
    kinds = {"value": TEXT, "priority": t.IntegerType(), "dedupe_key": TEXT, "state": TEXT, "attempts": t.LongType()}
    with pytest.raises(ValueError, match=r"no option of a message: state, attempts\. Drop or rename them") as refused:
        layout(schema(**kinds), "jobs")
    assert "or rename 'value' to have the whole row written" in str(refused.value)
    with pytest.raises(ValueError, match="no option of a message: n"):
        layout(schema(value=t.LongType(), n=TEXT), "jobs")
    with pytest.raises(ValueError, match="there are two columns 'value'"):
        layout(t.StructType([t.StructField("value", TEXT), t.StructField("value", TEXT)]), "jobs")


def test_options_in_capital_letters_are_not_taken_for_a_payload() -> None:
    kinds: dict[str, t.DataType] = {"VALUE": TEXT, "Priority": t.IntegerType(), "dedupe_key": TEXT}
    with pytest.raises(ValueError, match=r"^VALUE, Priority: .* in small letters"):
        layout(schema(**kinds), "jobs")
    assert layout(schema(**kinds, city=TEXT), "jobs").options is None  # a row that happens to have such a name


def test_a_row_keeps_what_json_can_hold_and_writes_the_rest_as_text() -> None:
    inner = t.StructType([t.StructField("at", t.TimestampType()), t.StructField("n", t.IntegerType())])
    kinds: dict[str, t.DataType] = {
        "flag": t.BooleanType(),
        "small": t.ByteType(),
        "real": t.DoubleType(),
        "price": t.DecimalType(20, 10),
        "day": t.DateType(),
        "at": t.TimestampType(),
        "local": t.TimestampNTZType(),
        "inner": inner,
        "list": t.ArrayType(t.DecimalType(5, 2)),
        "structs": t.ArrayType(inner),
        "map": t.MapType(TEXT, t.DateType()),
        "plain": t.MapType(TEXT, t.ArrayType(t.LongType())),
    }
    moment, local = datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC), datetime(2026, 1, 31, 12)
    row = {
        "flag": True,
        "small": -1,
        "real": 0.1,
        "price": Decimal("0E-10"),
        "day": date(2026, 1, 31),
        "at": moment,
        "local": local,
        "inner": {"at": moment, "n": 1},
        "list": [Decimal("1.50"), None],
        "structs": [{"at": None, "n": None}, None],
        "map": {"a": date(2026, 1, 31), "b": None},
        "plain": {"k": [1, 2]},
    }
    assert objects(kinds, row, {}) == [
        {
            "flag": True,
            "small": -1,
            "real": 0.1,
            "price": 0.0,
            "day": "2026-01-31",
            "at": "2026-01-31T12:00:00.250000+00:00",
            "local": "2026-01-31T12:00:00",
            "inner": {"at": "2026-01-31T12:00:00.250000+00:00", "n": 1},
            "list": [1.5, None],
            "structs": [{"at": None, "n": None}, None],
            "map": {"a": "2026-01-31", "b": None},
            "plain": {"k": [1, 2]},
        },
        dict.fromkeys(kinds),
    ]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (t.YearMonthIntervalType(), r"column 'a' is of type interval year to month"),
        (t.ArrayType(t.YearMonthIntervalType()), r"column 'a\[\]' is of type interval"),
        (t.StructType([t.StructField("b", t.CalendarIntervalType())]), r"column 'a\.b' is of type interval"),
        (t.MapType(TEXT, t.YearMonthIntervalType()), r"column 'a\[\]' is of type interval"),
        (t.MapType(t.IntegerType(), TEXT), r"column 'a' is a map with keys of type int"),
        (t.StructType([t.StructField("b", TEXT), t.StructField("b", TEXT)]), r"two columns 'a\.b'"),
    ],
)
def test_a_column_that_json_can_not_hold_is_refused_by_name(kind: t.DataType, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        layout(schema(a=kind), "jobs")


def test_two_columns_of_one_name_are_refused() -> None:
    twice = t.StructType([t.StructField("a", TEXT), t.StructField("a", TEXT)])
    with pytest.raises(ValueError, match="there are two columns 'a'"):
        layout(twice, "jobs")
