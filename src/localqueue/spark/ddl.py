"""A schema written as text, read without a session: `order_id long, lines array<struct<sku: string, n: int>>`.

Spark reads such a text in Java, which the process that plans a Python data source has not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from pyspark.sql import types as t

from localqueue.spark.options import OptionError

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\W]\w*|[<>(),:])", re.DOTALL)

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch

_PLAIN: dict[str, Callable[[], t.DataType]] = {
    "string": t.StringType, "boolean": t.BooleanType, "binary": t.BinaryType, "date": t.DateType,
    "byte": t.ByteType, "tinyint": t.ByteType, "short": t.ShortType, "smallint": t.ShortType,
    "int": t.IntegerType, "integer": t.IntegerType, "long": t.LongType, "bigint": t.LongType,
    "float": t.FloatType, "real": t.FloatType, "double": t.DoubleType, "variant": t.VariantType,
    "timestamp": t.TimestampType, "timestamp_ltz": t.TimestampType, "timestamp_ntz": t.TimestampNTZType,
}  # fmt: skip


def parse_ddl(text: str) -> t.StructType:
    """The columns that a text names as those of CREATE TABLE are named; OptionError where it is none."""
    return _Reader(text).columns()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                self._refuse(text[at:].strip()[:20])
            self._tokens.append(found[1])
            at = found.end()
        self._at = 0

    def columns(self) -> t.StructType:
        fields = self._fields(end="")
        names = [field.name for field in fields]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise OptionError(f"option 'schema' names column {twice!r} twice: {self._text!r}")
        return fields

    def _fields(self, end: str) -> t.StructType:
        fields = []
        while True:
            name = self._next()
            if not name or not (name[0] == "`" or name[0].isalpha() or name[0] == "_"):
                self._refuse(name)
            if self._peek() == ":":
                self._next()
            kind, nullable = self._kind(), True
            if self._peek().lower() == "not":
                self._next()
                self._need("null")
                nullable = False
            if self._peek().lower() == "comment":
                self._next()
                self._next()
            fields.append(t.StructField(name[1:-1].replace("``", "`") if name[0] == "`" else name, kind, nullable))
            if self._peek() != ",":
                self._need(end)
                return t.StructType(fields)
            self._next()

    def _kind(self) -> t.DataType:
        word = self._next().lower()
        if word in _PLAIN:
            return _PLAIN[word]()
        if word == "array":
            self._need("<")
            element = self._kind()
            self._need(">")
            return t.ArrayType(element)
        if word == "map":
            self._need("<")
            key = self._kind()
            self._need(",")
            value = self._kind()
            self._need(">")
            return t.MapType(key, value)
        if word == "struct":
            self._need("<")
            return self._fields(end=">")
        if word in ("decimal", "numeric", "dec"):
            return self._decimal()
        self._refuse(word)

    def _decimal(self) -> t.DataType:
        if self._peek() != "(":
            return t.DecimalType(10, 0)
        self._next()
        precision, scale = self._number(), 0
        if self._peek() == ",":
            self._next()
            scale = self._number()
        self._need(")")
        if not 1 <= precision <= 38 or scale > precision:
            self._refuse(f"decimal({precision}, {scale})")
        return t.DecimalType(precision, scale)

    def _number(self) -> int:
        word = self._next()
        if not (word.isascii() and word.isdigit()):
            self._refuse(word)
        return int(word[:9])

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _need(self, word: str) -> None:
        found = self._next()
        if found.lower() != word:
            self._refuse(found)

    def _refuse(self, word: str) -> NoReturn:
        what = f"{word!r} is not understood" if word else "it ends too early"
        raise OptionError(
            f"option 'schema': {what} in {self._text!r}; write columns as in order_id long, lines array<struct<n: int>>"
        )


def ddl_of(schema: t.StructType) -> str:
    """The schema as text, which `parse_ddl` and Spark read as the same."""
    return ", ".join(f"{_named(field.name)} {_spelled(field.dataType)}{_needed(field)}" for field in schema)


def _spelled(kind: t.DataType) -> str:
    if isinstance(kind, t.StructType):
        return f"struct<{', '.join(f'{_named(one.name)}: {_spelled(one.dataType)}{_needed(one)}' for one in kind)}>"
    if isinstance(kind, t.ArrayType):
        return f"array<{_spelled(kind.elementType)}>"
    if isinstance(kind, t.MapType):
        return f"map<{_spelled(kind.keyType)}, {_spelled(kind.valueType)}>"
    return kind.simpleString()


def _named(name: str) -> str:
    return name if _PLAIN_NAME(name) else f"`{name.replace('`', '``')}`"


def _needed(field: t.StructField) -> str:
    return "" if field.nullable else " not null"
