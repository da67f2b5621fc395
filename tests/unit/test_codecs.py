"""A payload comes back equal and of the same shape, or is refused with the place and a way out."""

from __future__ import annotations

import sys
from collections import OrderedDict, namedtuple
from datetime import date
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localqueue.errors import PayloadError, QueueError
from localqueue.policies import JSON_CODEC, BytesCodec, JsonCodec, MsgpackCodec, PickleCodec

Point = namedtuple("Point", "x y")


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


def any_text() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text(), inner, max_size=4),
    max_leaves=12,
)
msgpack_scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)
msgpack_values = st.recursive(
    msgpack_scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(msgpack_scalars, inner, max_size=4),
    max_leaves=12,
)
messy_values = st.recursive(
    json_values
    | st.floats()
    | st.binary()
    | st.just(Colour.RED)
    | st.just(Size.SMALL)
    | st.text(st.sampled_from("a\ud83d\ude00\ud800")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=2) | st.integers() | st.booleans(), inner, max_size=3)
    ),
    max_leaves=8,
)


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value)


@given(json_values)
def test_json_returns_what_it_was_given(value: Any) -> None:
    text = JSON_CODEC.encode(value)
    back = JSON_CODEC.decode(text)
    assert back == value
    assert shape(back) == shape(value)
    assert JSON_CODEC.decode(text.encode()) == value


@given(messy_values)
def test_json_refuses_what_would_come_back_changed(value: Any) -> None:
    try:
        text = JSON_CODEC.encode(value)
    except PayloadError as error:
        assert str(error).startswith("queue values must be JSON-serializable: ")
    else:
        text.encode()
        assert JSON_CODEC.decode(text) == value


def circular() -> Any:
    value: dict[str, Any] = {"a": []}
    value["a"].append(value)
    return value


def deep() -> Any:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (float("nan"), "NaN at $"),
        ({"x": [1.0, float("inf")]}, "inf at $.x[1]"),
        ({"items": [1, 2, (3,)]}, "a tuple at $.items[2] would come back as a list; convert it"),
        ([Point(1, 2)], "a Point at $[0] would come back as a list"),
        ({"x": {1: "a"}}, "key 1 (int) at $.x would come back as '1'"),
        ({True: 1}, "key True (bool) at $ would come back as 'true'"),
        ({None: 1}, "key None (NoneType) at $ would come back as 'null'"),
        ({(1, 2): 1}, "key (1, 2) (tuple) at $ is not supported"),
        ({10**5000: 1}, "digits"),
        ({"x" * 1000: {1}}, "a set at $['xxxxxxxxxxxx...xxxxx"),
        ({"a b": {1, 2}}, "a set at $['a b']; convert it with sorted"),
        ({"raw": b"x"}, "bytes at $.raw; encode it as text, or pass codec=BytesCodec()"),
        ([date(2024, 1, 1)], "date at $[0]; convert it to a plain value"),
        ([10**5000], "an integer at $[0] has more than the interpreter's limit of"),
        (circular(), "circular reference at $.a[0]"),
        (deep(), "it is nested too deeply"),
        ("\ud83d\ude00", "a split surrogate pair in $ would come back as one character"),
    ],
)
def test_json_says_what_it_found_and_where(value: Any, found: str) -> None:
    with pytest.raises(PayloadError) as caught:
        JSON_CODEC.encode(value)
    assert found in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, QueueError)


def test_json_names_another_codec_as_the_way_out() -> None:
    with pytest.raises(PayloadError, match=r"list\(\.\.\.\), or pass codec=PickleCodec"):
        JSON_CODEC.encode((1, 2))


@pytest.mark.parametrize("value", [Colour.RED, Size.SMALL, OrderedDict(a=1), {Colour.RED: [1]}])
def test_json_stores_a_subclass_as_the_plain_value_it_equals(value: Any) -> None:
    back = JSON_CODEC.decode(JSON_CODEC.encode([value]))[0]
    assert back == value
    assert type(back) in (str, int, dict)


@pytest.mark.parametrize("value", [True, 1, 1.0, 0, False, -0.0, 10**4000, 1e308, 5e-324])
def test_json_keeps_numbers_of_one_value_apart(value: Any) -> None:
    back = JSON_CODEC.decode(JSON_CODEC.encode({"n": value}))["n"]
    assert (type(back), repr(back)) == (type(value), repr(value))


def test_json_is_compact_and_keeps_text_readable() -> None:
    assert JSON_CODEC.encode({"name": "Zoë", "n": [1, 2]}) == '{"name":"Zoë","n":[1,2]}'


def test_json_escapes_a_lone_surrogate_so_that_the_text_can_be_stored() -> None:
    text = JSON_CODEC.encode(["\ud800", "ë"])
    assert text.isascii()
    assert JSON_CODEC.decode(text) == ["\ud800", "ë"]


@pytest.mark.parametrize("payload", ["", "{", "1 2", b"\xff", "[" * 200_000])
def test_json_that_can_not_be_read_is_a_payload_error(payload: str | bytes) -> None:
    with pytest.raises(PayloadError, match="not valid JSON"):
        JSON_CODEC.decode(payload)


def test_json_reads_text_with_white_space_around_it() -> None:
    assert JSON_CODEC.decode(' {"a": 1}\n') == {"a": 1}


def test_json_works_without_the_accelerated_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    from localqueue.policies import codec

    monkeypatch.setattr("json.encoder.c_make_encoder", None)
    monkeypatch.setattr(codec, "_to_text", codec.json_writer(ensure_ascii=False))
    assert JSON_CODEC.encode({"name": "Zoë"}) == '{"name":"Zoë"}'
    with pytest.raises(PayloadError, match="circular reference"):
        JSON_CODEC.encode(circular())


@given(msgpack_values)
def test_msgpack_returns_what_it_was_given(value: Any) -> None:
    pytest.importorskip("msgpack")
    back = MsgpackCodec().decode(MsgpackCodec().encode(value))
    assert back == value
    assert shape(back) == shape(value)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ((1, 2), "a tuple at $ would come back as a list"),
        ([2**64], "an integer at $[0] does not fit 64 bits"),
        ([bytearray(b"x")], "bytearray at $[0]; convert it with bytes"),
        ([memoryview(b"x")], "memoryview at $[0]"),
        ([Colour.RED], "Colour at $[0]"),
        (OrderedDict(a=1), "OrderedDict at $"),
        ([float("nan")], "NaN at $[0]"),
        ("\ud800", "a lone surrogate in $"),
        ({(1,): 1}, "key (1,) (tuple) at $ is not supported"),
        (circular(), "circular reference at $.a[0]"),
    ],
)
def test_msgpack_refuses_what_would_come_back_changed(value: Any, found: str) -> None:
    pytest.importorskip("msgpack")
    with pytest.raises(PayloadError) as caught:
        MsgpackCodec().encode(value)
    assert str(caught.value).startswith("queue values must be msgpack-serializable: ")
    assert found in str(caught.value)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x93\x01", b"\x01\x02", "text"])
def test_msgpack_that_can_not_be_read_is_a_payload_error(payload: str | bytes) -> None:
    pytest.importorskip("msgpack")
    with pytest.raises(PayloadError):
        MsgpackCodec().decode(payload)


def test_missing_msgpack_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(RuntimeError, match=r'pip install "localqueue\[msgpack\]"'):
        MsgpackCodec().encode(1)


@pytest.mark.parametrize("trusted", [False, None, 1, "yes"])
def test_pickle_demands_that_writers_are_trusted(trusted: Any) -> None:
    with pytest.raises(ValueError, match="runs code chosen by whoever wrote the payload"):
        PickleCodec(trusted=trusted)


def test_pickle_carries_python_objects() -> None:
    codec = PickleCodec(trusted=True)
    value = {"when": date(2024, 1, 1), "pair": (1, 2), "p": Point(1, 2)}
    assert codec.decode(codec.encode(value)) == value


def test_pickle_failures_are_payload_errors() -> None:
    codec = PickleCodec(trusted=True)
    with pytest.raises(PayloadError, match="must be picklable"):
        codec.encode(lambda: None)
    for payload in (b"", b"junk", "text"):
        with pytest.raises(PayloadError):
            codec.decode(payload)


def test_bytes_are_stored_as_they_are() -> None:
    assert BytesCodec().decode(BytesCodec().encode(b"\x00\xff")) == b"\x00\xff"


@pytest.mark.parametrize("value", ["text", bytearray(b"x"), memoryview(b"x"), 1, None])
def test_bytes_accept_nothing_but_bytes(value: Any) -> None:
    with pytest.raises(PayloadError, match="must be bytes"):
        BytesCodec().encode(value)


def test_a_codec_prints_its_name() -> None:
    assert JsonCodec().as_dict() == {"name": "json"}
    assert MsgpackCodec().as_dict() == {"name": "msgpack"}
    assert PickleCodec(trusted=True).as_dict() == {"trusted": True, "name": "pickle"}
    assert BytesCodec().as_dict() == {"name": "bytes"}
    assert JsonCodec() == JSON_CODEC
