"""Entries of the journal as pages of new messages: by columns all the way, since a row of Spark's own costs the driver
more than its message."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from localqueue.queue.drafts import encode_headers
from localqueue.stores.port import Page

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_COLUMNS = ("seq", "queue", "value", "payload", "codec", "headers", "priority", "dedupe_key", "ordering_key")
_CHUNK_BYTES = 8 << 20


def replayable(entries: DataFrame, size: int) -> Iterator[pa.RecordBatch]:
    """The entries in the order of their numbers, up to `size` at a time, with what it takes to put them again."""
    import pyarrow as pa

    chunks = entries.select(*_COLUMNS).orderBy("seq").mapInArrow(_packed, "chunk binary")
    for (chunk,) in chunks.toLocalIterator(prefetchPartitions=True):
        for batch in pa.ipc.open_stream(chunk):
            for start in range(0, len(batch), size):
                yield batch.slice(start, size)


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches as rows that hold a part of one each, as Arrow writes it."""
    import pyarrow as pa

    for batch in batches:
        rows = max(1, len(batch) * _CHUNK_BYTES // max(1, batch.nbytes))
        for start in range(0, len(batch), rows):
            part = batch.slice(start, rows)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_batch(part)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["chunk"])


def journal_pages(entries: pa.RecordBatch, queue: str | None) -> Iterator[Page]:
    """Entries as messages of `queue`, or of the one each came from, but for those without a payload."""
    import pyarrow.compute as pc

    codecs = entries["codec"]
    if codecs.null_count == len(entries):  # JSON, as nearly always
        yield from _page(entries.filter(pc.is_valid(entries["value"])), "value", None, queue)
        return
    start = 0
    for codec, same in groupby(codecs.to_pylist()):
        count = sum(1 for _ in same)
        part, start = entries.slice(start, count), start + count
        column = "value" if codec is None else "payload"
        yield from _page(part.filter(pc.is_valid(part[column])), column, codec, queue)


def _page(entries: pa.RecordBatch, column: str, codec: str | None, queue: str | None) -> Iterator[Page]:
    def of(name: str) -> list[Any] | None:
        values = entries[name]
        return None if values.null_count == len(values) else values.to_pylist()

    if len(entries) == 0:
        return
    priority, headers = of("priority"), of("headers")
    yield Page(
        entries[column].to_pylist(),
        queue or entries["queue"].to_pylist(),
        codec,
        priority=None if priority is None else [one or 0 for one in priority],
        dedupe_key=of("dedupe_key"),
        ordering_key=of("ordering_key"),
        headers=None if headers is None else [encode_headers(dict(one)) if one else None for one in headers],
    )
