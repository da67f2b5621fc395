"""A schema from a sample of payloads: the narrowest types that each of them fits, as `fit` reads them.

Whole numbers are bigint, beyond that decimal(38,0); with fractions among them, or `"NaN"` and infinities as the sink
writes them, double. Text is string, unless times are asked for and all of it is one kind of them. Objects are structs,
or maps where their names are too many to be columns; arrays have the one type of their elements. What is of several
kinds is variant, and what was null or empty in the whole sample is string, as in Spark's own JSON.

`_corrupt` is always the last column. It receives what fits no schema, or not this one, and it tells a schema of the
payload from a selection of the message's own columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as t

from localqueue.spark.columns import known_columns
from localqueue.spark.shape import CORRUPT
from localqueue.spark.sink.rowjson import NOT_FINITE
from localqueue.spark.source.fit import Misfit, fit_for, read_json

#: An object with more names than this is a map: its names are data.
MOST_NAMES = 100
_DEEPEST = 20
_NO_DEEPER = 100
_MOST_WHOLE, _MOST_DECIMAL = 2**63, 10**38
_TIMES = (
    (t.DateType(), re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)),
    (t.TimestampNTZType(), re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII)),
    (t.TimestampType(), re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)),
)


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """A schema, of how many payloads it is, how many of these can be typed, and the fields that can not be columns."""

    schema: t.StructType
    sampled: int
    typed: int
    left_out: tuple[str, ...]


def infer(texts: Iterable[str | None], *, times: bool = False, view: str = "messages") -> Inferred | None:
    """The schema of payloads, given as JSON text (None is one that has none); None when no payload is an object."""
    seen, sampled, typed = _Seen(times), 0, 0
    for text in texts:
        sampled += 1
        try:
            value = None if text is None else read_json(text)
        except Misfit:
            continue
        if isinstance(value, dict) and _can_be_held(value):
            typed += 1
            seen.see(value)
    if not typed:
        return None
    own = {CORRUPT, *(f"_{name}" for name in known_columns(view))}
    left_out: list[str] = []
    fields = list(seen.columns("", left_out, own))
    schema = t.StructType([*fields, t.StructField(CORRUPT, t.StringType())])
    return Inferred(schema=schema, sampled=sampled, typed=typed, left_out=tuple(left_out))


class _Seen:
    """What the values at one place of the payloads were."""

    def __init__(self, times: bool) -> None:
        self.kinds: set[str] = set()
        self.fields: dict[str, _Seen] = {}
        self.elements: _Seen | None = None
        self.times = times
        self.moments: set[t.DataType | None] = set()

    def see(self, value: Any, depth: int = 0) -> None:
        kind = _kind(value) if depth < _DEEPEST or not isinstance(value, dict | list) else "deep"
        if kind is not None:
            self.kinds.add(kind)
        if kind == "object":
            for name, item in value.items():
                self.fields.setdefault(name, _Seen(self.times)).see(item, depth + 1)
        elif kind == "array":
            self.elements = self.elements or _Seen(self.times)
            for item in value:
                self.elements.see(item, depth + 1)
        elif kind == "string" and self.times:
            self.moments.add(_moment(value))

    def columns(self, path: str, left_out: list[str], reserved: Iterable[str] = ()) -> Iterator[t.StructField]:
        """The fields of an object. Spark tells no columns apart that differ in case only."""
        taken = {"", *reserved}
        for name, field in self.fields.items():
            if name in taken or name.lower() in taken:
                left_out.append(f"{path}{name}")
                continue
            taken.add(name.lower())
            yield t.StructField(name, field.kind(f"{path}{name}.", left_out))

    def kind(self, path: str, left_out: list[str]) -> t.DataType:
        if not self.kinds:
            return t.StringType()
        if self.kinds <= {"bigint", "decimal"}:
            return t.DecimalType(38, 0) if "decimal" in self.kinds else t.LongType()
        if self.kinds <= {"bigint", "decimal", "double", "not finite"} and self.kinds != {"not finite"}:
            return t.DoubleType()
        if self.kinds <= {"string", "not finite"}:
            return self._text()
        if self.kinds == {"boolean"}:
            return t.BooleanType()
        if self.kinds == {"array"} and self.elements is not None:
            return t.ArrayType(self.elements.kind(f"{path[:-1]}[].", left_out))
        if self.kinds == {"object"}:
            return self._object(path, left_out)
        return t.VariantType()

    def _text(self) -> t.DataType:
        (only,) = self.moments if len(self.moments) == 1 and self.kinds == {"string"} else (None,)
        return only or t.StringType()

    def _object(self, path: str, left_out: list[str]) -> t.DataType:
        if len(self.fields) <= MOST_NAMES:
            inner: list[str] = []
            fields = list(self.columns(path, inner))
            if fields:
                left_out += inner
                return t.StructType(fields)
        values = _Seen(self.times)
        for field in self.fields.values():
            values.add(field)
        return t.MapType(t.StringType(), values.kind(f"{path[:-1]}{{}}.", left_out))

    def add(self, other: _Seen) -> None:
        """All that another place has seen."""
        self.kinds |= other.kinds
        self.moments |= other.moments
        for name, field in other.fields.items():
            self.fields.setdefault(name, _Seen(self.times)).add(field)
        if other.elements is not None:
            self.elements = self.elements or _Seen(self.times)
            self.elements.add(other.elements)


def _kind(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return (
            "bigint" if -_MOST_WHOLE <= value < _MOST_WHOLE else "decimal" if abs(value) < _MOST_DECIMAL else "double"
        )
    if isinstance(value, str):
        return "not finite" if value in NOT_FINITE.values() else "string"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "double"


def _moment(text: str) -> t.DataType | None:
    for kind, form in _TIMES:
        if form.fullmatch(text):
            try:
                fit_for(kind)(text)
            except Misfit:
                return None
            return kind
    return None


def _can_be_held(value: Any, depth: int = 0) -> bool:
    """Whether some type holds it: half a surrogate pair is no text, there are numbers that no double reaches, and what
    is nested without end is no variant."""
    if isinstance(value, dict):
        return depth < _NO_DEEPER and all(_can_be_held(name) and _can_be_held(value[name], depth + 1) for name in value)
    if isinstance(value, list):
        return depth < _NO_DEEPER and all(_can_be_held(item, depth + 1) for item in value)
    if value is None or isinstance(value, bool):
        return True
    try:
        fit_for(t.StringType() if isinstance(value, str) else t.DoubleType())(value)
    except Misfit:
        return False
    return True
