"""Payloads as columns: the user's schema says which fields a payload has, and of which types.

Besides the fields of the payload a schema may name the message's own columns with an underscore before them (`_id`,
`_queue`, `_created_at`), and `_corrupt`, a string that receives a payload that does not fit; its other fields are NULL
then. `_value` may be a variant, which is the payload as a whole; and so may `value` be in a schema of nothing else than
the view's columns. What fits is said in `fit`. Arrow reads whole blocks by the same rules, and only where it
refuses a block are the rows of it read one by one.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql import types as t

from localqueue.spark.columns import arrow_schema, known_columns, spark_schema
from localqueue.spark.options import OptionError
from localqueue.spark.shape import CORRUPT
from localqueue.spark.source.fit import Fit, Misfit, fit_for, read_json
from localqueue.spark.source.rows import ENQUEUED, message_batch
from localqueue.spark.source.values import value_text
from localqueue.spark.source.zone import session_zone
from localqueue.stores.port import Payload, StoredMessage


class CorruptRow(ValueError):
    """A payload that does not fit the schema, where that is an error."""


def is_selection(view: str, schema: t.StructType) -> bool:
    """Whether the schema only selects columns of the view, as opposed to naming fields of the payload."""
    known = {field.name: field.dataType for field in spark_schema(known_columns(view))}
    return all(known.get(field.name) == field.dataType for field in schema)


def _own_columns(schema: t.StructType, known: Mapping[str, t.DataType]) -> dict[str, str]:
    """The columns of the schema that are the message's own, by what they are called there."""
    selected = {**known, "value": t.VariantType()}
    if all(selected.get(field.name) == field.dataType for field in schema):
        return {name: name for name in schema.names}
    return {name: name[1:] for name in schema.names if name.startswith("_") and name[1:] in known}


class Typed:
    """Turns messages, or their columns, into batches of the user's schema.

    `corrupt` is what happens to a payload that does not fit: `column`, `fail`, `drop`; `dead-letter` leaves the row out
    here, and `misfits` tells which messages those are.
    """

    def __init__(self, schema: t.StructType, corrupt: str | None = None, *, view: str = "messages") -> None:
        known = {field.name: field.dataType for field in spark_schema(known_columns(view))}
        if "value" not in known:
            raise OptionError(f"view {view!r} has no payload; its columns are {', '.join(known)}")
        marked = CORRUPT in schema.names
        self.corrupt = corrupt or ("column" if marked else "fail")
        if self.corrupt == "column" and not marked:
            raise OptionError(
                f"option 'corruptRows' is 'column' and the schema has no column for it: add '{CORRUPT} string', or use "
                "'fail' or 'drop'"
            )
        self.own = _own_columns(schema, known)
        self._whole: str | None = None
        for name, column in self.own.items():
            if column == "value" and isinstance(schema[name].dataType, t.VariantType):
                self._whole = name
            elif schema[name].dataType != known[column]:
                kinds = known[column].simpleString() + (" or variant" if column == "value" else "")
                raise OptionError(f"column {name!r} of the schema must be {kinds}")
        if marked and not isinstance(schema[CORRUPT].dataType, t.StringType):
            raise OptionError(f"column {CORRUPT!r} of the schema must be string")
        fields = [field for field in schema if field.name not in self.own and field.name != CORRUPT]
        if self.corrupt == "column" and any(not field.nullable for field in fields):
            raise OptionError("with corruptRows 'column' every field of the payload must be nullable")
        if self._whole is not None:
            fields.append(schema[self._whole])
        payload = t.StructType(fields)
        self._fit = self._fit_for(payload)  # tells of a type that Arrow has not either
        self.schema = arrow_schema(schema)
        self._type = pa.struct(list(arrow_schema(payload)))
        self._fast = _fast_schema(payload, zoned=False)
        self._fast_elsewhere = _fast_schema(payload, zoned=True)
        self._id = "id" if view != "events" else "message_id"
        wanted = {self._id, "queue", "value", "codec", *self.own.values(), *(["type"] if view == "events" else [])}
        self.source = arrow_schema(t.StructType([t.StructField(name, known[name]) for name in known if name in wanted]))

    def batch(self, messages: Sequence[StoredMessage]) -> pa.RecordBatch:
        """Messages as rows of the schema."""
        return self.batch_of(message_batch(messages, self.source))

    def batch_of(self, source: pa.RecordBatch) -> pa.RecordBatch:
        """The same from a batch with the columns of `source`."""
        parsed, misfits = self._parse(source)
        if misfits and self.corrupt == "fail":
            row, reason = min(misfits.items())
            message_id, queue = source.column(self._id)[row].as_py(), source.column("queue")[row].as_py()
            raise CorruptRow(
                f"message {message_id} of queue {queue!r} does not fit the schema: {reason}. Set option "
                "'corruptRows' to dead-letter where the stream consumes, which with drop would ack and lose the "
                f"message, else to drop; or add a column '{CORRUPT} string' to the schema"
            )
        columns = []
        for field in self.schema:
            if field.name in self.own and field.name != self._whole:
                columns.append(source.column(self.own[field.name]))
            elif field.name == CORRUPT:
                columns.append(self._marks(source, misfits))
            else:
                columns.append(parsed.field(self._type.get_field_index(field.name)))
        made = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if misfits and self.corrupt != "column":
            made = made.filter(pa.array([row not in misfits for row in range(made.num_rows)]))
        return made

    def misfits(self, messages: Sequence[StoredMessage]) -> dict[str, str]:
        """The ids of the messages that do not fit, each with the reason."""
        _, found = self._parse(message_batch(messages, self.source))
        return {messages[row].id: reason for row, reason in found.items()}

    def fits(self, payload: Payload, codec: str | None = None) -> str | None:
        """Why a payload does not fit; None when it does."""
        text = value_text(payload, codec)
        if text is None:
            return _unreadable(codec)
        try:
            self._fit(read_json(text))
        except Misfit as misfit:
            return str(misfit)
        return None

    def _fit_for(self, payload: t.StructType) -> Fit:
        """What makes a row of a payload, and of all of it where that is a column. Then it need not be an object."""
        whole = self._whole
        if whole is None:
            return fit_for(payload)
        fit_whole = fit_for(t.VariantType())
        fields = [field for field in payload if field.name != whole]
        fit_fields = fit_for(t.StructType(fields)) if fields else lambda value: {}
        return lambda value: {**fit_fields(value), whole: fit_whole(value)}

    def _parse(self, source: pa.RecordBatch) -> tuple[pa.StructArray, dict[int, str]]:
        """The payloads as structs, NULL where there is none that fits, and the rows that do not fit."""
        texts = source.column("value")
        misfits = {} if texts.null_count == 0 else self._without_text(source)
        quick = self._quick_rows(texts)
        if quick is not None and quick.null_count == 0 and pc.all(quick, min_count=0).as_py():
            whole = self._read_block(texts)
            if whole is not None:
                return whole, misfits
            quick = None
        rows: list[dict[str, Any] | None] = [None] * len(texts)
        fast = None
        if quick is not None:
            places = pc.indices_nonzero(pc.fill_null(quick, False))
            fast = self._read_block(texts.take(places)) if len(places) else None
        done = set() if fast is None else set(places.to_pylist())
        for row, text in enumerate(texts.to_pylist()):
            if text is None or row in done:
                continue
            try:
                rows[row] = self._fit(read_json(text))
            except Misfit as misfit:
                misfits[row] = str(misfit)
        slow = pa.array(rows, type=self._type)
        if fast is None:
            return _valid(slow), misfits
        order = list(range(len(texts)))
        for position, row in enumerate(places.to_pylist()):
            order[row] = len(texts) + position
        return _valid(pa.concat_arrays([slow, fast]).take(pa.array(order, pa.int64()))), misfits

    def _without_text(self, source: pa.RecordBatch) -> dict[int, str]:
        found = {}
        codecs = source.column("codec").to_pylist()
        kinds = source.column("type").to_pylist() if "type" in source.schema.names else None
        for row, text in enumerate(source.column("value").to_pylist()):
            if text is None and (kinds is None or kinds[row] == ENQUEUED):
                found[row] = _unreadable(codecs[row])
        return found

    def _quick_rows(self, texts: pa.Array) -> pa.Array | None:
        """The rows that Arrow may read: it crashes on a lone null, and takes NaN and infinities for numbers."""
        if self._fast is None:
            return None
        odd = pc.or_(pc.match_substring(texts, "NaN"), pc.match_substring(texts, "Inf"))
        return pc.and_not(pc.starts_with(texts, "{"), odd)

    def _read_block(self, texts: pa.Array) -> pa.StructArray | None:
        """All of these objects, or None when Arrow does not take each of them for exactly one that fits."""
        if len(texts) == 0:
            return pa.array([], type=self._type)
        schema = self._fast if session_zone() is UTC else self._fast_elsewhere
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")
        block = joined[0].as_buffer()
        try:
            table = pj.read_json(
                io.BytesIO(block),
                read_options=pj.ReadOptions(use_threads=False, block_size=block.size + 1),
                parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
            if table.num_rows != len(texts):
                return None
            columns = [_one_chunk(table.column(field.name)).cast(field.type) for field in self._type]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if not columns:
            return pa.array([{}] * len(texts), type=self._type)
        return pa.StructArray.from_arrays(columns, fields=list(self._type))

    def _marks(self, source: pa.RecordBatch, misfits: Mapping[int, str]) -> pa.Array:
        if not misfits or self.corrupt != "column":
            return pa.nulls(source.num_rows, pa.string())
        texts, codecs = source.column("value"), source.column("codec")
        marks: list[str | None] = [None] * source.num_rows
        for row in misfits:
            text = texts[row].as_py()
            marks[row] = f"<{_unreadable(codecs[row].as_py())}>" if text is None else text
        return pa.array(marks, pa.string())


def _unreadable(codec: str | None) -> str:
    return (
        "it is not UTF-8" if codec is None else f"its codec {codec!r} has no JSON, or its bytes are not of that codec"
    )


def _valid(parsed: pa.StructArray) -> pa.StructArray:
    """The same with the nulls of the structs in their fields, which is where they are looked for."""
    if parsed.null_count == 0:
        return parsed
    return pa.StructArray.from_arrays(parsed.flatten(), fields=[field.with_nullable(True) for field in parsed.type])


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _fast_schema(payload: t.StructType, *, zoned: bool) -> pa.Schema | None:
    """What Arrow's reader is told of the fields, or None when there are some that it reads otherwise, or not at all.

    It takes times without a zone for UTC. Where they are not, times are read as text, of which it makes moments only if
    they have zones.
    """
    if not _readable(payload):
        return None
    text = (lambda kind: pa.types.is_date(kind) or pa.types.is_timestamp(kind)) if zoned else pa.types.is_date
    return pa.schema([field.with_type(_as_text(field.type, text)) for field in arrow_schema(payload)])


_BY_ROWS = (
    t.MapType, t.BinaryType, t.TimestampNTZType, t.TimeType, t.DayTimeIntervalType, t.VariantType, t.NullType,
)  # fmt: skip


def _readable(kind: t.DataType) -> bool:
    if isinstance(kind, t.StructType):
        return all(field.nullable and _readable(field.dataType) for field in kind)
    if isinstance(kind, t.ArrayType):
        return kind.containsNull and _readable(kind.elementType)
    return not isinstance(kind, _BY_ROWS)


def _as_text(kind: pa.DataType, text: Callable[[pa.DataType], bool]) -> pa.DataType:
    if text(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_text(field.type, text)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_text(kind.value_type, text)))
    return kind
