"""Which messages of a broker a claim has: by what they are known when they are delivered again.

Beside each chunk of a claim stands a record under the same key, written in the same commit: the name of each message,
and, where the broker's leases are no part of a connection, the receipt that settles it. It outlives the chunk, since a
message may come again after its claim was settled. A name is what the broker knows the message by, with a digest of
what was sent and when: a topic that was made anew counts from nought again, and a sender may use a `message_id` twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from localqueue.brokers.port import Delivery


class Origin(NamedTuple):
    """One message of a claim, by its id and token there. `error` is JSON, of one that is to become a dead letter."""

    id: str
    token: int
    name: str
    receipt: str | None = None
    error: str | None = None


_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("token", pa.int64()),
        ("name", pa.string()),
        ("receipt", pa.string()),
        ("error", pa.string()),
    ]
)


def name_of(delivery: Delivery) -> str | None:
    """The name of a message, the same at each delivery; None where the broker has none for it."""
    if delivery.origin is None:
        return None
    content = hashlib.blake2b(delivery.body, digest_size=8, person=b"origin")
    content.update(repr(delivery.sent_at).encode())
    return f"{delivery.origin}:{content.hexdigest()}"


def encode(origins: Sequence[Origin]) -> bytes:
    columns = list(zip(*origins, strict=True)) or [()] * len(_SCHEMA)
    batch = pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def decode(value: bytes) -> list[Origin]:
    with pa.ipc.open_stream(value) as stream:
        columns: Iterable[list[object]] = [column.to_pylist() for column in stream.read_next_batch().columns]
    return [Origin._make(row) for row in zip(*columns, strict=True)]
