"""Payloads read by the user's schema."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from localqueue.spark.options import OptionError
from localqueue.spark.source.typed_payload import CorruptRow, Typed, is_selection
from localqueue.stores.port import StoredMessage


def schema(**fields: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


def message(payload: str | bytes, number: int = 1, codec: str | None = None) -> StoredMessage:
    return StoredMessage(f"{number:032x}", "jobs", "ready", payload, codec, 0, 0, 1.0, 1.0)


def messages(*payloads: str | bytes) -> list[StoredMessage]:
    return [message(payload, number) for number, payload in enumerate(payloads)]


LONG, TEXT, DOUBLE = t.LongType(), t.StringType(), t.DoubleType()


def test_a_schema_of_known_columns_is_a_selection_and_any_other_names_the_payload() -> None:
    assert is_selection("messages", schema(id=TEXT, value=TEXT, codec=TEXT))
    assert not is_selection("messages", schema(id=LONG))
    assert not is_selection("messages", schema(id=TEXT, name=TEXT))
    assert not is_selection("messages", schema(_id=TEXT))


def test_fields_are_columns_beside_those_of_the_message() -> None:
    typed = Typed(schema(_id=TEXT, n=LONG, name=TEXT, _created_at=t.TimestampType()))
    rows = typed.batch(messages('{"n":1,"name":"a","more":[1,{"x":2}]}', '{"name":null}', "{}")).to_pylist()
    assert [(row["n"], row["name"]) for row in rows] == [(1, "a"), (None, None), (None, None)]
    assert rows[1]["_id"] == f"{1:032x}"
    assert rows[0]["_created_at"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


EVERYTHING = schema(
    b=t.BooleanType(),
    i=t.IntegerType(),
    f=t.FloatType(),
    d=t.DecimalType(10, 2),
    day=t.DateType(),
    at=t.TimestampType(),
    inner=schema(x=LONG, days=t.ArrayType(t.DateType())),
    many=t.ArrayType(schema(y=TEXT)),
)
WITH_MAP = t.StructType(
    [*EVERYTHING.fields, t.StructField("m", t.MapType(TEXT, LONG)), t.StructField("bin", t.BinaryType())]
)
VALUE = {
    "b": True,
    "i": -5,
    "f": 1.5,
    "d": 12.25,
    "day": "2026-01-31",
    "at": "2026-01-31T12:00:00+02:00",
    "inner": {"x": 1, "days": ["2026-01-01", None]},
    "many": [{"y": "z"}, None, {}],
    "m": {"k": 1, "l": None},
    "bin": "AP8=",
}
ROW = {
    "b": True,
    "i": -5,
    "f": 1.5,
    "d": Decimal("12.25"),
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 10, tzinfo=UTC),
    "inner": {"x": 1, "days": [date(2026, 1, 1), None]},
    "many": [{"y": "z"}, None, {"y": None}],
}


def test_nested_and_exact_types_are_read_from_json_by_blocks_and_by_rows() -> None:
    text = json.dumps(VALUE)
    (quick,) = Typed(EVERYTHING).batch([message(text)]).to_pylist()
    assert quick == ROW
    (slow,) = Typed(WITH_MAP).batch([message(text)]).to_pylist()
    assert slow == {**ROW, "m": [("k", 1), ("l", None)], "bin": b"\x00\xff"}


def test_a_time_without_a_zone_is_utc() -> None:
    (row,) = Typed(schema(at=t.TimestampType())).batch([message('{"at":"2026-01-31T12:00:00"}')]).to_pylist()
    assert row["at"] == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_a_whole_payload_is_a_variant_whatever_it_is() -> None:
    kinds = {"id": TEXT, "value": t.VariantType()}
    given = ['{"n":1,"list":[1,"a"]}', "[1]", "null", '"text"', "1.5"]
    selected = Typed(schema(**kinds)).batch(messages(*given)).to_pylist()
    assert [row["id"] for row in selected] == [f"{n:032x}" for n in range(len(given))]
    shown = [t.VariantVal(row["value"]["value"], row["value"]["metadata"]).toJson() for row in selected]
    assert shown == ['{"list":[1,"a"],"n":1}', *given[1:]]
    assert Typed(schema(_value=t.VariantType())).batch(messages(*given)).num_rows == len(given)


def test_a_whole_payload_stands_beside_its_fields_and_what_fits_neither_is_told() -> None:
    typed = Typed(schema(n=LONG, _value=t.VariantType(), _corrupt=TEXT))
    good, bad, odd = typed.batch([*messages('{"n":1}', "[1]"), message(b"x", 2, "pickle")]).to_pylist()
    assert good["n"] == 1 and t.VariantVal(**good["_value"]).toPython() == {"n": 1}
    assert (bad["n"], bad["_value"], bad["_corrupt"]) == (None, None, "[1]")
    assert odd["_value"] is None and "pickle" in odd["_corrupt"]
    with pytest.raises(OptionError, match="'_value' of the schema must be string or variant"):
        Typed(schema(_value=LONG))


def test_a_variant_beside_fields_of_the_payload_is_one_of_them() -> None:
    (row,) = Typed(schema(n=LONG, value=t.VariantType())).batch(messages('{"n":1,"value":[2]}')).to_pylist()
    assert t.VariantVal(**row["value"]).toPython() == [2]


MISFITS = [
    ('{"n":"1"}', "field 'n' is \"1\", not bigint"),
    ('{"n":1.5}', "field 'n' is"),
    ('{"n":99999999999999999999}', "field 'n' is"),
    ('{"name":5}', "field 'name' is 5, not a string"),
    ('{"name":"\\ud800"}', "field 'name' is"),
    ('{"x":NaN}', "it is not JSON"),
    ('{"x":1e400}', "field 'x' is"),
    ("null", "the payload is null, not an object"),
    ("[1]", "the payload is [1], not an object"),
    ('{"n":1} {"n":2}', "it is not JSON"),
    ('{"n":1} null', "it is not JSON"),
    ("", "it is not JSON"),
]


@pytest.mark.parametrize(("payload", "reason"), MISFITS)
def test_a_payload_that_does_not_fit_is_told_with_its_message(payload: str, reason: str) -> None:
    typed = Typed(schema(n=LONG, name=TEXT, x=DOUBLE))
    with pytest.raises(CorruptRow, match=f"message {1:032x} of queue 'jobs' does not fit") as caught:
        typed.batch([message('{"n":1}', 0), message(payload, 1)])
    assert reason in str(caught.value)
    assert reason in str(typed.fits(payload))
    assert typed.fits('{"n":1}') is None


def test_who_consumes_is_told_of_dead_letters_before_dropping() -> None:
    with pytest.raises(CorruptRow, match=r"'corruptRows' to dead-letter .*consumes.* drop .*lose.* '_corrupt string'"):
        Typed(schema(n=LONG)).batch(messages("[1]"))


def test_misfits_go_to_their_column_or_are_dropped_and_the_others_are_read() -> None:
    given = [
        message('{"n":0}', 0),
        *(message(text, n + 1) for n, (text, _) in enumerate(MISFITS)),
        message('{"n":9}', 99),
    ]
    fields = {"n": LONG, "name": TEXT, "x": DOUBLE}
    marked = Typed(schema(**fields, _corrupt=TEXT, _id=TEXT)).batch(given).to_pylist()
    assert [row["_corrupt"] for row in marked] == [None, *(text for text, _ in MISFITS), None]
    assert [row["n"] for row in marked] == [0, *(None for _ in MISFITS), 9]
    assert [row["_id"] for row in marked] == [one.id for one in given]
    for corrupt in ("drop", "dead-letter"):
        assert Typed(schema(**fields), corrupt).batch(given).column("n").to_pylist() == [0, 9]
    told = Typed(schema(**fields), "dead-letter").misfits(given)
    assert list(told) == sorted(one.id for one in given[1:-1])


def test_a_payload_of_another_codec_does_not_fit_and_message_pack_does() -> None:
    typed = Typed(schema(n=LONG, _corrupt=TEXT))
    packed, pickled = typed.batch([message(b"\x81\xa1n\x05", 0, "msgpack"), message(b"\x80", 1, "pickle")]).to_pylist()
    assert packed == {"n": 5, "_corrupt": None}
    assert pickled["n"] is None and "pickle" in pickled["_corrupt"]


def test_a_field_that_must_be_there_is_missed() -> None:
    needed = t.StructType([t.StructField("n", LONG, nullable=False)])
    assert "missing or null" in str(Typed(needed).fits("{}"))
    assert Typed(needed, "drop").batch(messages("{}", '{"n":1}')).to_pylist() == [{"n": 1}]


@pytest.mark.parametrize(
    ("fields", "corrupt", "said"),
    [
        ({"n": LONG}, "column", "add '_corrupt string'"),
        ({"_id": LONG}, None, "column '_id' of the schema must be string"),
        ({"n": LONG, "_corrupt": LONG}, None, "must be string"),
        ({"n": t.MapType(LONG, LONG)}, None, "map<string"),
        ({"n": t.YearMonthIntervalType()}, None, "can not be read as"),
    ],
)
def test_a_schema_that_can_not_be_read_is_refused(fields: dict[str, Any], corrupt: str | None, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Typed(schema(**fields), corrupt)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("nsxal"), inner, max_size=4),
    max_leaves=6,
)


@given(st.lists(_json, min_size=1, max_size=4))
def test_blocks_are_read_as_rows_are(values: list[Any]) -> None:
    fields = schema(n=LONG, s=TEXT, x=DOUBLE, a=t.ArrayType(LONG), l=schema(n=LONG, s=TEXT), _corrupt=TEXT)
    by_blocks, by_rows = Typed(fields), Typed(fields)
    by_rows._fast = None
    given = messages(*(json.dumps(value, ensure_ascii=False) for value in values))
    assert by_blocks.batch(given).equals(by_rows.batch(given))
