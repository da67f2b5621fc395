"""Rows of a DataFrame as messages, checked as the queue's own `put` checks them, before anything is stored.

A `value` column holds the payload: JSON text, stored as it is written, or a struct, array, map or variant, of which
`rowjson` makes it. `headers`, `priority`, `delay`, `dedupe_key`, `ordering_key`, `run_id` and `queue` beside it are the
message's own; any other column beside it is refused, for nobody
could tell whether it or those are meant. Without a `value` column the whole row is the payload, as a JSON object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from localqueue.errors import PayloadError
from localqueue.queue.drafts import encode_headers
from localqueue.queue.setup import check_name
from localqueue.spark.options import OptionError
from localqueue.spark.sink.rowjson import check_column, check_columns, column_texts, row_objects

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

#: The columns of a message beside its value, with the type that each must have.
OPTION_COLUMNS = {
    "queue": "string",
    "headers": "map<string,string>",
    "priority": "int",
    "delay": "double",
    "dedupe_key": "string",
    "ordering_key": "string",
    "run_id": "string",
    "rejected": "string",
}
_LARGEST_PRIORITY = 2**31 - 1
_SHOWN = 120


@dataclass(frozen=True)
class Layout:
    """How the rows of one schema become messages. Made by `layout`; a plain object that travels to the tasks."""

    options: tuple[str, ...] | None  # the option columns beside `value`, or None: the row is the payload
    has_queue: bool  # whether the writer names a queue
    is_text: bool = True  # whether `value` is JSON text already
    unwritten: tuple[str, ...] = ()  # columns of a table that only the store fills: NULL in every row

    def messages(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as checked columns of messages: `value`, and those options that any of these rows has.

        `headers` is JSON text here. What is as if it were not given, such as a delay of 0, is NULL.
        """
        import pyarrow as pa

        for name in self.unwritten:
            if batch.column(name).null_count < batch.num_rows:
                raise ValueError(f"column {name!r} is filled by the store and can not be written: leave it NULL")
        batch = batch.drop_columns(list(self.unwritten)) if self.unwritten else batch
        if self.options is None:
            return pa.record_batch({"value": pa.array(row_objects(batch), pa.large_string())})
        columns = {"value": self._values(batch.column("value"))}
        for name in self.options:
            column = batch.column(name)
            if name == "queue" and not self.has_queue and column.null_count:
                raise ValueError("column 'queue' is NULL and there is no option 'queue' to take its place: set either")
            if column.null_count < len(column):
                column = _CHECKS[name](name, column)
            if column.null_count < len(column):
                columns[name] = column
        return pa.record_batch(columns)

    def _values(self, column: pa.Array) -> pa.Array:
        import pyarrow as pa

        if self.is_text:
            check_json(column.to_pylist())
            return column
        return pa.array(column_texts("value", column), pa.large_string())


def layout(schema: StructType, queue: str | None, unwritten: tuple[str, ...] = ()) -> Layout:
    """How to write rows of this schema, or why that can not be. `unwritten` are columns that must be NULL."""
    if unwritten:
        written = type(schema)([field for field in schema if field.name not in unwritten])
        return replace(layout(written, queue), unwritten=unwritten)
    names = schema.fieldNames()
    if queue is not None:
        check_name(queue)
    if "value" not in names:
        _check_case(names)
        check_columns(schema)
        _need_queue(queue, False)
        return Layout(None, True)
    _check_names(names)
    for field in schema.fields:
        _check_type(field.name, field.dataType)
    options = tuple(name for name in names if name != "value")
    if "queue" not in options:
        _need_queue(queue, True)
    return Layout(options, queue is not None, not _is_nested(schema["value"].dataType))


def _check_case(names: Sequence[str]) -> None:
    """Refuse rows that are a message with its options but for the case of their names, which is nothing in SQL."""
    meant = [name.lower() for name in names]
    if "value" in meant and {"value", *OPTION_COLUMNS}.issuperset(meant):
        wrong = [name for name in names if name != name.lower()]
        raise ValueError(
            f"{', '.join(wrong)}: the column of a payload and those of its options are in small letters. Rename them "
            "(value, priority, ...), or use struct(*) AS value to have the whole row written as a JSON object"
        )


def _check_names(names: Sequence[str]) -> None:
    """Refuse what is neither the value nor an option of it."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"there are two columns {twice!r}: rename one of them")
    strange = [name for name in names if name != "value" and name not in OPTION_COLUMNS]
    if strange:
        several = len(strange) > 1
        raise ValueError(
            f"beside the column 'value', which is the payload, {'are columns' if several else 'is a column'} that "
            f"{'are' if several else 'is'} no option of a message: {', '.join(strange)}. Drop or rename "
            f"{'them' if several else 'it'} (there are {', '.join(OPTION_COLUMNS)}), or rename 'value' to have the "
            "whole row written as a JSON object"
        )


def _need_queue(queue: str | None, has_value: bool) -> None:
    if queue is None:
        other = " or give each row a string column 'queue' beside 'value'" if has_value else ""
        raise OptionError(f'option \'queue\' is missing: name the queue, .option("queue", "jobs"){other}')


def _is_nested(kind: DataType) -> bool:
    from pyspark.sql import types as t

    return isinstance(kind, t.StructType | t.ArrayType | t.MapType | t.VariantType)


def _check_type(name: str, kind: DataType) -> None:
    from pyspark.sql import types as t

    if name == "value" and _is_nested(kind):
        return check_column(name, kind)
    if name == "priority":
        fits = isinstance(kind, t.IntegralType)
    elif name == "delay":
        fits = isinstance(kind, t.NumericType)
    elif name == "headers":
        fits = (
            isinstance(kind, t.MapType)
            and isinstance(kind.keyType, t.StringType)
            and isinstance(kind.valueType, t.StringType)
        )
    else:
        fits = isinstance(kind, t.StringType | t.CharType | t.VarcharType)
    if fits or (isinstance(kind, t.NullType) and name != "value"):
        return
    if name == "value":
        raise ValueError(
            f"column 'value' is of type {kind.simpleString()}; it must be a string of JSON text, or a struct, "
            "array, map or variant: give the column another name to have the row written as a JSON object"
        )
    right = OPTION_COLUMNS[name] + (" (seconds)" if name == "delay" else "")
    raise ValueError(f"column {name!r} is of type {kind.simpleString()}; it must be {right}: cast it, or rename it")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# What json.loads calls, without its ceremony.
_scan: Callable[[str, int], tuple[Any, int]]
_scan = json.JSONDecoder(parse_constant=_refuse_constant).scan_once  # type: ignore[attr-defined]


#: Reads over a text without building its value. What it accepts the scanner above does too, but for numbers of more
#: digits than Python converts. It refuses single halves of surrogate pairs, which the scanner accepts.
_skim = msgspec.json.Decoder(type=msgspec.Raw).decode
_MOST_DIGITS = 4300
_long_number = re.compile(rf"[0-9]{{{_MOST_DIGITS + 1}}}").search


def check_json(texts: Iterable[str | None]) -> None:
    """Refuse a text that the queue's JSON codec could not read back, or would not have written: NaN and infinities."""
    for text in texts:
        try:
            if text is not None:
                _skim(text)
                if len(text) <= _MOST_DIGITS or _long_number(text) is None:
                    continue
        except (ValueError, RecursionError):
            pass
        _check_closely(text)


def _check_closely(text: str | None) -> None:
    """One that is refused, unless only the quick look could not tell."""
    if text is None:
        raise PayloadError("column 'value' is NULL: write JSON text, which for nothing is the text null")
    bare = text.strip(" \t\r\n")
    try:
        end = _scan(bare, 0)[1]
        if end == len(bare):
            return
        reason = f"more text after its end at character {end}"
    except StopIteration as error:
        reason = f"no value at character {error.value}"
    except RecursionError:
        reason = "nested too deeply"
    except ValueError as error:
        reason = str(error)
    raise PayloadError(
        f"column 'value' is not JSON ({reason}): {_shortened(text)}; "
        "write text with to_json(...), and a plain string in double quotes"
    )


def _shortened(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}... ({len(text)} characters)"


def _queues(name: str, column: pa.Array) -> pa.Array:
    for queue in column.unique().to_pylist():
        if queue is not None:
            check_name(queue)
    return column


def _keys(name: str, column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    if pc.any(pc.equal(column, "")).as_py():
        raise ValueError(f"column {name!r} is empty in a row: it can not be; write NULL for a message without one")
    return column


def _priorities(name: str, column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.cast(pa.int64())
    ends = pc.min_max(column).as_py()
    for value in (ends["min"], ends["max"]):
        if value is not None and not 0 <= value <= _LARGEST_PRIORITY:
            raise ValueError(f"column 'priority' is {value} in a row: it must be from 0 to {_LARGEST_PRIORITY}")
    return _absent_if_zero(column)


def _delays(name: str, column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.cast(pa.float64())
    wrong = column.filter(pc.invert(pc.and_(pc.is_finite(column), pc.greater_equal(column, 0.0))))
    if len(wrong):
        raise ValueError(f"column 'delay' is {wrong[0].as_py()!r} in a row: it must be finite seconds from 0")
    return _absent_if_zero(column)


def _headers(name: str, column: pa.Array) -> pa.Array:
    import pyarrow as pa

    texts: list[str | None] = []
    for pairs in column.to_pylist():
        headers: dict[str, Any] | None = None if pairs is None else dict(pairs)
        without = next((key for key, value in (headers or {}).items() if value is None), None)
        if without is not None:
            raise ValueError(f"column 'headers' has no value for {without!r} in a row: headers map strings to strings")
        texts.append(encode_headers(headers))
    return pa.array(texts, pa.string())


def _absent_if_zero(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.equal(column, pa.scalar(0, column.type)), pa.scalar(None, column.type), column)


_CHECKS = {
    "queue": _queues,
    "headers": _headers,
    "priority": _priorities,
    "delay": _delays,
    "dedupe_key": _keys,
    "ordering_key": _keys,
    "run_id": _keys,
    "rejected": _keys,
}
