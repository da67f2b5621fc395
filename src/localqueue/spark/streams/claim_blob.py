"""The messages of a claim as bytes: what is written when they are claimed, and read as often as Spark asks.

One chunk is one Arrow stream of the messages as the store handed them out. It is encoded column by column, since it is
the driver that does it, and compressed, since the store writes it in the transaction of the claim.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from localqueue.spark.source.rows import message_batch
from localqueue.spark.source.values import error_fields, header_pairs, micros
from localqueue.spark.streams.claim_lease import Held
from localqueue.stores.port import INFLIGHT, Payload, StoredMessage

#: A chunk is closed when its payloads reach this: it must fit into one value of any store, also uncompressed.
CHUNK_BYTES = 4_000_000

_FIELDS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "payload": pa.binary(),  # of a message whose payload is bytes
    "text": pa.string(),  # of a message whose payload is text
    "codec": pa.string(),
    "priority": pa.int64(),
    "attempts": pa.int64(),
    "created_at": pa.float64(),
    "available_at": pa.float64(),
    "leased_until": pa.float64(),
    "leased_by": pa.string(),
    "last_error": pa.string(),
    "failed_at": pa.float64(),
    "dedupe_key": pa.string(),
    "ordering_key": pa.string(),
    "expires_at": pa.float64(),
    "run_id": pa.string(),
    "headers": pa.string(),
    "forgiven": pa.int64(),
}
_SCHEMA = pa.schema([*_FIELDS.items(), ("head", pa.string())])  # of one that follows, the message it comes after
_PAYLOAD = attrgetter("payload")
_AT = {name: StoredMessage._fields.index(name) for name in _FIELDS if name != "text"}


def chunked(
    messages: Sequence[StoredMessage], rows: int, heads: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Sequence[StoredMessage]]:
    """The messages in order, in chunks of so many, each small enough for one value of the store.

    Those that follow another (see `heads`) stay in one chunk with it if they can: what one task reads is in order.
    """
    if not heads:
        for begin in range(0, len(messages), rows):
            part = messages[begin : begin + rows]
            light = sum(map(len, map(_PAYLOAD, part))) <= CHUNK_BYTES
            yield from (part,) if light else _weighed(part, rows, heads)
        return
    yield from _weighed(messages, rows, heads)


def _weighed(
    messages: Sequence[StoredMessage], rows: int, heads: Mapping[str, str]
) -> Iterator[Sequence[StoredMessage]]:
    begin = weight = 0
    for at, message in enumerate(messages):
        weight += len(message.payload)
        full = at - begin >= rows and message.id not in heads
        if at > begin and (full or weight > CHUNK_BYTES):
            yield messages[begin:at]
            begin, weight = at, len(message.payload)
    if begin < len(messages):
        yield messages[begin:]


def encode(messages: Sequence[StoredMessage], heads: Mapping[str, str] = MappingProxyType({})) -> bytes:
    columns: list[Sequence[Any]] = list(zip(*messages, strict=True))
    payloads: Sequence[Payload] = columns[_AT["payload"]]
    given = {name: columns[at] for name, at in _AT.items()}
    if {*map(type, payloads)} == {str}:
        given |= {"payload": [None] * len(messages), "text": payloads}
    else:
        given["payload"] = [None if isinstance(one, str) else one for one in payloads]
        given["text"] = [one if isinstance(one, str) else None for one in payloads]
    if {*map(type, given["last_error"])} != {type(None)}:
        given["last_error"] = [None if one is None else json.dumps(one, default=str) for one in given["last_error"]]
    columns_in_order = [_array(given[name], kind) for name, kind in _FIELDS.items()]
    follows = (
        pa.array([heads.get(one) for one in given["id"]], pa.string()) if heads else pa.nulls(len(messages), "string")
    )
    return _bytes(pa.record_batch([*columns_in_order, follows], schema=_SCHEMA))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Most columns of a claim have one value throughout, and that is found out much faster than they are converted."""
    if values.count(values[0]) < len(values):
        return pa.array(values, kind)
    return pa.nulls(len(values), kind) if values[0] is None else pa.repeat(pa.scalar(values[0], kind), len(values))


def _bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def columns_of(blob: bytes) -> pa.RecordBatch:
    """The chunk as columns: those of a stored message, with a payload that is text as `text`."""
    with pa.ipc.open_stream(blob) as stream:
        return stream.read_next_batch()


def held(blob: bytes) -> list[Held]:
    """How each message of a chunk is held."""
    batch = columns_of(blob)
    ids, tokens = batch.column("id").to_pylist(), batch.column("attempts").to_pylist()
    if "head" not in batch.schema.names or batch.column("head").null_count == batch.num_rows:
        return list(map(Held, ids, tokens))
    heads = batch.column("head").to_pylist()
    return [
        Held(one, token if head is None else None, head) for one, token, head in zip(ids, tokens, heads, strict=True)
    ]


def without(blob: bytes, ids: Set[str]) -> bytes:
    """The same chunk without these messages."""
    batch = columns_of(blob)
    return _bytes(batch.filter(pa.array([one not in ids for one in batch.column("id").to_pylist()], pa.bool_())))


def message_rows(blob: bytes, queue: str, schema: pa.Schema) -> pa.RecordBatch:
    """The messages of a chunk as rows of the view `messages`, as they were claimed."""
    batch = columns_of(blob)
    if batch.column("text").null_count or batch.column("codec").null_count < batch.num_rows:
        return message_batch(decode(blob, queue), schema)  # other payloads than JSON are read one by one
    return pa.RecordBatch.from_arrays([_column(batch, queue, field) for field in schema], schema=schema)


def _column(batch: pa.RecordBatch, queue: str, field: pa.Field) -> pa.Array:
    if field.name in ("queue", "state"):
        return pa.repeat(queue if field.name == "queue" else INFLIGHT, batch.num_rows).cast(field.type)
    column = batch.column({"value": "text", "payload": "text"}.get(field.name, field.name))
    make = {"headers": header_pairs, "last_error": error_fields}.get(field.name)
    if make is None:
        return _moments(column, field.type) if pa.types.is_timestamp(field.type) else column.cast(field.type)
    if column.null_count == len(column):
        return pa.nulls(len(column), field.type)
    return pa.array([make(one) for one in column.to_pylist()], field.type)


def _moments(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Seconds as microseconds, rounded as `micros` does."""
    most = pc.max(pc.abs(column)).as_py()
    if most is not None and not most < 1e11:  # a time that never comes
        return pa.array([micros(one) for one in column.to_pylist()], pa.int64()).cast(kind)
    return pc.floor(pc.add(pc.multiply(column, 1e6), 0.5)).cast(pa.int64()).cast(kind)


def decode(blob: bytes, queue: str) -> list[StoredMessage]:
    """The messages of a chunk as they were claimed, without their history."""
    batch = columns_of(blob)
    columns = {name: batch.column(name).to_pylist() for name in _FIELDS}
    columns["payload"] = [
        raw if text is None else text for raw, text in zip(columns["payload"], columns["text"], strict=True)
    ]
    columns["last_error"] = [None if one is None else json.loads(one) for one in columns["last_error"]]
    rows = batch.num_rows
    columns |= {"queue": [queue] * rows, "state": [INFLIGHT] * rows, "waiting_on": [0] * rows}
    columns |= {"history": [()] * rows, "record": [None] * rows}
    return list(map(StoredMessage._make, zip(*(columns[name] for name in StoredMessage._fields), strict=True)))
