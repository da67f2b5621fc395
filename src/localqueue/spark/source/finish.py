"""From the raw columns of a store's tables to the columns that Spark shows, a batch at a time.

Whatever is the same for all rows, or the same text in many of them, is done once: ids are computed from keys by arrays,
headers and errors are parsed once for each distinct text, payloads that are JSON already are not looked at. A raw
column that was not fetched is one that is NULL in every row.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from localqueue.events.journal import JOURNAL_CODES, JOURNAL_TYPES
from localqueue.spark.columns import PUT_OPTIONS
from localqueue.spark.source.rows import ENQUEUED
from localqueue.spark.source.values import error_fields, header_pairs, micros, value_text
from localqueue.stores.port import INFLIGHT, STATES

_CALM = 9e9  # seconds; no time before the year 2255 needs a second look


@dataclass(frozen=True, kw_only=True)
class Names:
    """What a namespace has for its numbers: the secret of its ids, the names of its queues."""

    secret: int
    queues: Mapping[int, str]
    hexed: bool = False  # the texts among the options of a journal entry are hexadecimal digits
    leases: Sequence[tuple[int, int, float, str | None]] = field(default=())  # key, token, until, by; ascending


def finish(raw: pa.RecordBatch, schema: pa.Schema, names: Names) -> pa.RecordBatch:
    """Messages: the columns of the schema, made of a batch that has the raw ones they are made of."""
    raw = _leased(raw, names.leases) if names.leases else raw
    return pa.RecordBatch.from_arrays([_made(raw, one, names) for one in schema], schema=schema)


def finish_events(raw: pa.RecordBatch, schema: pa.Schema, names: Names) -> pa.RecordBatch:
    """The same for entries of the journal, which have the options of an enqueued message in one text."""
    wanted = [one for one in schema if one.name in PUT_OPTIONS]
    options = _option_columns(raw, wanted, names) if wanted else {}
    columns = [options[one.name] if one.name in options else _made(raw, one, names) for one in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def ids_of(keys: pa.Array, secret: int) -> pa.Array:
    """The ids of message keys, as `localqueue.ids` makes them."""
    count = len(keys)
    key = keys.to_numpy(zero_copy_only=False).astype(np.uint64)
    pairs = np.empty((count, 2), dtype=">u8")
    pairs[:, 0] = key
    pairs[:, 1] = key * np.uint64(secret % (1 << 64))  # wraps around, as it should
    offsets = np.arange(0, 32 * (count + 1), 32, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(binascii.hexlify(pairs.tobytes())))


def moments(seconds: pa.Array, kind: pa.DataType) -> pa.Array:
    """Seconds since 1970 as timestamps, NULL where there are none."""
    values = (pc.fill_null(seconds, 0.0) if seconds.null_count else seconds).to_numpy(zero_copy_only=False)
    if not (np.abs(values) < _CALM).all():
        return pa.array([micros(value) for value in seconds.to_pylist()], type=kind)
    whole = np.floor(values * 1e6 + 0.5).astype(np.int64)
    mask = pc.is_null(seconds).to_numpy(zero_copy_only=False) if seconds.null_count else None
    return pa.array(whole, type=pa.int64(), mask=mask).view(kind)


def _leased(raw: pa.RecordBatch, leases: Sequence[tuple[int, int, float, str | None]]) -> pa.RecordBatch:
    """The batch with what its messages have from their leases."""
    held = np.array([lease[0] for lease in leases])
    keys = raw.column("key").to_numpy(zero_copy_only=False)
    places = np.minimum(np.searchsorted(held, keys), len(held) - 1)
    leased = held[places] == keys
    found = pa.array(places, mask=~leased)
    columns = {name: raw.column(name) for name in raw.schema.names}
    if "state" in columns:
        columns["state"] = pc.if_else(pa.array(leased), STATES.index(INFLIGHT), columns["state"])
    tokens = pa.array([lease[1] for lease in leases], pa.int64()).take(found)
    if "attempts" in columns:
        columns["attempts"] = pc.coalesce(tokens, columns["attempts"])
    columns["leased_until"] = pa.array([lease[2] for lease in leases], pa.float64()).take(found)
    columns["leased_by"] = pa.array([lease[3] for lease in leases], pa.string()).take(found)
    return pa.RecordBatch.from_pydict(columns)


def _made(raw: pa.RecordBatch, one: pa.Field, names: Names) -> pa.Array:
    make = _MAKE.get(one.name)
    if make is not None:
        return make(raw, one, names)
    column = _column(raw, one.name)
    if column is None:
        return pa.nulls(raw.num_rows, one.type)
    if pa.types.is_timestamp(one.type):
        return moments(column, one.type)
    return column if column.type == one.type else column.cast(one.type)


def _column(raw: pa.RecordBatch, name: str) -> pa.Array | None:
    """A raw column that has values at all."""
    place = raw.schema.get_field_index(name)
    if place < 0:
        return None
    column = raw.column(place)
    return None if column.null_count == len(column) else column


def _text(raw: pa.RecordBatch, name: str) -> pa.Array | None:
    column = _column(raw, name)
    return column if column is None or column.type == pa.string() else column.cast(pa.string())


def _ids(raw: pa.RecordBatch, one: pa.Field, names: Names) -> pa.Array:
    return ids_of(raw.column("key"), names.secret)


def _queues(raw: pa.RecordBatch, one: pa.Field, names: Names) -> pa.Array:
    known = sorted(names.queues)
    if len(known) == 1:
        return pa.repeat(names.queues[known[0]], raw.num_rows)
    places = np.searchsorted(np.array(known), raw.column("queue").to_numpy(zero_copy_only=False))
    return pa.array([names.queues[number] for number in known], pa.string()).take(pa.array(places))


def _states(raw: pa.RecordBatch, one: pa.Field, names: Names) -> pa.Array:
    return pa.array(STATES, pa.string()).take(raw.column("state"))


def _types(raw: pa.RecordBatch, one: pa.Field, names: Names) -> pa.Array:
    return pa.array(("", *JOURNAL_TYPES), pa.string()).take(raw.column("type"))


def _available(raw: pa.RecordBatch, one: pa.Field, names: Names) -> pa.Array:
    later, created = _column(raw, "available_at"), raw.column("created_at")
    return moments(created if later is None else pc.coalesce(later, created), one.type)


def _values(raw: pa.RecordBatch, one: pa.Field, names: Names) -> pa.Array:
    payloads, codecs = raw.column("payload"), _text(raw, "codec")
    if codecs is None:
        try:
            return payloads.cast(pa.string())
        except pa.ArrowInvalid:
            codecs = pa.nulls(raw.num_rows, pa.string())
    pairs = zip(payloads.to_pylist(), codecs.to_pylist(), strict=True)
    return pa.array([value_text(payload, codec) for payload, codec in pairs], type=pa.string())


def _headers(raw: pa.RecordBatch, one: pa.Field, names: Names) -> pa.Array:
    return _parsed(_text(raw, "headers"), header_pairs, one.type, raw.num_rows)


def _errors(raw: pa.RecordBatch, one: pa.Field, names: Names) -> pa.Array:
    return _parsed(_text(raw, one.name), error_fields, one.type, raw.num_rows)


def _parsed(texts: pa.Array | None, parse: Callable[[Any], Any], kind: pa.DataType, rows: int) -> pa.Array:
    """Each text parsed, the same ones once."""
    if texts is None:
        return pa.nulls(rows, kind)
    encoded = texts.dictionary_encode()
    return pa.array([parse(text) for text in encoded.dictionary.to_pylist()], type=kind).take(encoded.indices)


def _option_columns(raw: pa.RecordBatch, wanted: list[pa.Field], names: Names) -> dict[str, pa.Array]:
    texts = _text(raw, "options")
    encoded = None if texts is None else texts.dictionary_encode()
    given = [] if encoded is None else [_options(text, names.hexed) for text in encoded.dictionary.to_pylist()]
    made = {}
    for one in wanted:
        if encoded is None:
            values = pa.nulls(raw.num_rows, one.type)
        else:
            found = [options.get(one.name) for options in given]
            found = [header_pairs(value) for value in found] if one.name == "headers" else found
            values = pa.array(found, type=one.type).take(encoded.indices)
        if one.name == "priority":
            enqueued = pc.equal(raw.column("type"), JOURNAL_CODES[ENQUEUED])
            values = pc.if_else(enqueued, pc.fill_null(values, 0), pa.scalar(None, one.type))
        made[one.name] = values
    return made


def _options(text: str, hexed: bool) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    if hexed:
        for name in PUT_OPTIONS:
            if isinstance(found.get(name), str):
                found[name] = bytes.fromhex(found[name]).decode()
    if isinstance(found.get("headers"), str):
        found["headers"] = json.loads(found["headers"])
    if found.get("ttl") is not None:
        found["ttl"] = max(round(found["ttl"], 6), 0.0)  # a message that was moved may have outlived it
    return found


_MAKE: dict[str, Callable[[pa.RecordBatch, pa.Field, Names], pa.Array]] = {
    "id": _ids,
    "message_id": _ids,
    "queue": _queues,
    "state": _states,
    "type": _types,
    "value": _values,
    "headers": _headers,
    "last_error": _errors,
    "error": _errors,
    "available_at": _available,
}
