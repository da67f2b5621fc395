"""Whether a JSON value fits a Spark type, and what it is then: strict, one value at a time.

Numbers do not become text nor text numbers; whole numbers must be in range; a missing field is NULL where that is
allowed. Dates and times are ISO text (a time without a zone is of the session's, see `zone`), an interval is an ISO
duration in seconds, binary is base64, a decimal is a number or its text, NaN and infinities are text of that name, a
map is an object, a variant is anything. So what `sink/rowjson` writes is read as it was.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from pyspark.sql import types as t

from localqueue.spark.options import OptionError
from localqueue.spark.sink.rowjson import NOT_FINITE, json_text
from localqueue.spark.source.zone import moment

Fit = Callable[[Any], Any]

_WIDE = Context(prec=80)
_WHOLE: dict[type[t.DataType], int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
_FLOATS = {text: float(name) for name, text in NOT_FINITE.items()}
_SECONDS = re.compile(r"PT(-?)([0-9]+)(?:\.([0-9]{1,6}))?S").fullmatch


class Misfit(ValueError):
    """A value that does not fit; the message says where and why."""


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text, with its fractions exact; Misfit when it is none."""
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Misfit(f"it is not JSON: {error}") from None


def fit_for(kind: t.DataType, path: str = "") -> Fit:
    """The function that turns a JSON value into what Arrow takes for this type, or raises Misfit."""
    if isinstance(kind, t.StructType):
        return _struct(kind, path)
    if isinstance(kind, t.ArrayType):
        return _array(kind, path)
    if isinstance(kind, t.MapType):
        return _map(kind, path)
    if isinstance(kind, t.DecimalType):
        return _decimal(kind, path)
    whole = _WHOLE.get(type(kind))
    if whole is not None:
        return _integer(whole, kind, path)
    for known, make in _PLAIN.items():
        if type(kind) is known:
            return make(path)
    raise OptionError(
        f"column {path!r} has type {kind.simpleString()}, which a payload can not be read as: use string, numbers, "
        "decimal, boolean, binary, date, time, timestamp, interval day to second, variant, struct, array or map"
    )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _misfit(path: str, expected: str, value: Any) -> Misfit:
    shown = json.dumps(value, default=str)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    where = f"field {path!r}" if path else "the payload"
    return Misfit(f"{where} is {shown}, not {expected}")


def _struct(kind: t.StructType, path: str) -> Fit:
    inner = [
        (field.name, field.nullable, fit_for(field.dataType, f"{path}.{field.name}" if path else field.name))
        for field in kind.fields
    ]

    def fit(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _misfit(path, "an object", value)
        row = {}
        for name, nullable, fit_field in inner:
            item = value.get(name)
            if item is None and not nullable:
                raise Misfit(f"field {f'{path}.{name}' if path else name!r} is missing or null, and must not be")
            row[name] = None if item is None else fit_field(item)
        return row

    return fit


def _array(kind: t.ArrayType, path: str) -> Fit:
    fit_element = fit_for(kind.elementType, f"{path}[]")

    def fit(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _misfit(path, "an array", value)
        if not kind.containsNull and None in value:
            raise Misfit(f"field {path!r} has a null element, and must not")
        return [None if item is None else fit_element(item) for item in value]

    return fit


def _map(kind: t.MapType, path: str) -> Fit:
    if not isinstance(kind.keyType, t.StringType):
        raise OptionError(
            f"column {path!r} is a map whose keys are no strings: JSON has no others, use map<string, ...>"
        )
    fit_key, fit_value = fit_for(kind.keyType, path), fit_for(kind.valueType, f"{path}{{}}")

    def fit(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _misfit(path, "an object", value)
        if not kind.valueContainsNull and None in value.values():
            raise Misfit(f"field {path!r} has a null value, and must not")
        return [(fit_key(key), None if item is None else fit_value(item)) for key, item in value.items()]

    return fit


def _integer(bits: int, kind: t.DataType, path: str) -> Fit:
    most = 1 << (bits - 1)

    def fit(value: Any) -> int:
        if type(value) is not int or not -most <= value < most:
            raise _misfit(path, kind.simpleString(), value)
        return value

    return fit


def _decimal(kind: t.DecimalType, path: str) -> Fit:
    unit = Decimal(1).scaleb(-kind.scale)
    most = Decimal(10) ** (kind.precision - kind.scale)

    def fit(value: Any) -> Decimal:
        try:
            if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
                raise InvalidOperation
            number = Decimal(value)
            exact = number.quantize(unit, context=_WIDE)
            if exact == number and abs(number) < most:
                return exact
        except InvalidOperation:
            pass
        raise _misfit(path, kind.simpleString(), value)

    return fit


def _double(path: str) -> Fit:
    def fit(value: Any) -> float:
        if type(value) is str and value in _FLOATS:
            return _FLOATS[value]
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise _misfit(path, "a number", value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise _misfit(path, "within the range of a double", value)
        return number

    return fit


def _variant(path: str) -> Fit:
    def fit(value: Any) -> dict[str, bytes]:
        try:
            made = t.VariantVal.parseJson(json_text(value))
        except Exception as error:  # whatever the builder of Spark finds too large
            raise _misfit(path, f"a variant ({error})", value) from None
        return {"value": made.value, "metadata": made.metadata}

    return fit


def _exactly(python: type, expected: str) -> Callable[[str], Fit]:
    def make(path: str) -> Fit:
        def fit(value: Any) -> Any:
            if type(value) is not python:
                raise _misfit(path, expected, value)
            return value

        return fit

    return make


def _from_text(expected: str, read: Callable[[str], Any]) -> Callable[[str], Fit]:
    def make(path: str) -> Fit:
        def fit(value: Any) -> Any:
            if type(value) is str:
                try:
                    return read(value)
                except (ValueError, OverflowError):
                    pass
            raise _misfit(path, expected, value)

        return fit

    return make


def _unicode(text: str) -> str:
    text.encode()  # half a surrogate pair is no text
    return text


def _local(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError("it has a zone")
    return moment


def _duration(text: str) -> timedelta:
    found = _SECONDS(text)
    if found is None:
        raise ValueError("it is no duration in seconds")
    sign, whole, part = found.groups()
    length = timedelta(seconds=int(whole), microseconds=int((part or "0").ljust(6, "0")))
    return -length if sign else length


def _clock(text: str) -> time:
    moment = time.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError("it has a zone")
    return moment


_PLAIN: dict[type[t.DataType], Callable[[str], Fit]] = {
    t.StringType: _from_text("a string of Unicode", _unicode),
    t.BooleanType: _exactly(bool, "true or false"),
    t.DoubleType: _double,
    t.FloatType: _double,
    t.BinaryType: _from_text("base64 text", lambda text: base64.b64decode(text, validate=True)),
    t.DateType: _from_text("an ISO date such as 2026-01-31", date.fromisoformat),
    t.TimestampType: _from_text("an ISO time such as 2026-01-31T12:00:00Z", moment),
    t.TimestampNTZType: _from_text("an ISO time without a zone", _local),
    t.TimeType: _from_text("an ISO time of day such as 12:00:00", _clock),
    t.DayTimeIntervalType: _from_text("an ISO duration in seconds such as PT1.5S", _duration),
    t.VariantType: _variant,
    t.NullType: _exactly(type(None), "null"),
}
