"""What the tasks of a write leave in the store for its commit: rows that nobody sees until then.

A task cuts its messages into chunks, Arrow IPC of a few megabytes, and stores each as a record. The key begins with the
token of the write and goes on with the task attempt, so the chunks of attempts that came to nothing are never named by
a commit. They are found by the token and swept: after the commit, when a write is aborted, at the next commit of the
same query, and those of jobs that died a day later. Spark aborts a job while others of its tasks may still run; a mark
keeps these from staging anything that nobody would sweep.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from localqueue.errors import RecordConflict
from localqueue.spark.record_family import records_under
from localqueue.stores.port import Changes, QueueStore, RecordWrite

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "spark-stage"
#: The mark of a batch job that was aborted, under its token.
ABORTED_KIND = "spark-stage-aborted"

#: How large a chunk may be: small enough for a document of MongoDB, large enough to be worth a round trip.
CHUNK_BYTES = 4 << 20
#: How many messages it may have: what a store that takes a large batch in several transactions takes in one.
CHUNK_ROWS = 20_000
#: After how many seconds the chunks of a job count as left behind.
ABANDONED = 86_400.0
#: What the tokens of batch jobs begin with.
JOBS = "job:"


class Chunk(NamedTuple):
    """The name of a record with staged rows, how many they are, and how many bytes when they are not packed."""

    key: str
    rows: int
    size: int


class JobAborted(RuntimeError):
    """A task of a job that Spark has aborted tries to stage rows."""


class StagedRowsGone(RuntimeError):
    """Rows that a commit names are not in the store any more."""


def job_token() -> str:
    """A token for one batch job; those of later jobs sort behind it."""
    return f"{JOBS}{time.time_ns() // 1_000_000:012x}-{secrets.token_hex(6)}"


def keyed_family(ledger_key: str) -> str:
    """What the tokens of all runs of a job with an idempotency key begin with."""
    return f"keyed:{blake2b(ledger_key.encode(), digest_size=16).hexdigest()}"


def batch_token(query: str, batch: int) -> str:
    """The token of a micro-batch, whichever run of the query writes it."""
    return f"{query}:{batch:012d}"


def stage(store: QueueStore, token: str, batches: Iterable[pa.RecordBatch], *, job: str | None = None) -> list[Chunk]:
    """Store the messages of one task attempt, unless its job was aborted; what its commit message has to name."""
    attempt = uuid.uuid4().hex
    running = [] if job is None else [RecordWrite(ABORTED_KIND, job, None, 0)]
    chunks = []
    for number, part in enumerate(cut(batches)):
        chunk = Chunk(f"{token}:{attempt}:{number:05d}", part.num_rows, part.nbytes)
        try:
            store.commit(Changes(records=[RecordWrite(KIND, chunk.key, pack(part)), *running]))
        except RecordConflict as error:
            raise JobAborted("the job of this task was aborted: its rows are not wanted any more") from error
        chunks.append(chunk)
    return chunks


def abort(store: QueueStore, token: str, *, job: str | None = None, keep: Collection[str] = ()) -> None:
    """Remove what the tasks of a write have staged and, of a job, refuse what they have yet to stage."""
    if job is not None:
        store.commit(Changes(records=[RecordWrite(ABORTED_KIND, job, b"")]))
    sweep(store, token, keep=keep)


def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in order, in tables of at most about `CHUNK_BYTES` and `CHUNK_ROWS`; none is empty."""
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        for piece in _pieces(batch):
            if held and (size + piece.nbytes > CHUNK_BYTES or rows + piece.num_rows > CHUNK_ROWS):
                yield _table(held)
                held, size, rows = [], 0, 0
            held.append(piece)
            size += piece.nbytes
            rows += piece.num_rows
    if held:
        yield _table(held)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows > 1 and (batch.nbytes > CHUNK_BYTES or batch.num_rows > CHUNK_ROWS):
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Batches that may lack a column that others have: rows without that option."""
    import pyarrow as pa

    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="default")


def pack(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def fetch(store: QueueStore, chunk: Chunk) -> pa.Table:
    """The rows of a chunk, or `StagedRowsGone`."""
    import pyarrow as pa

    record = store.record(KIND, chunk.key)
    if record is None:
        raise StagedRowsGone(
            f"the staged rows {chunk.key!r} are gone: another driver has committed or aborted this write; "
            "run one query a checkpoint, and one job an idempotencyKey, at a time"
        )
    return pa.ipc.open_stream(record.value).read_all()


def removals(chunks: Iterable[Chunk]) -> list[RecordWrite]:
    return [RecordWrite(KIND, chunk.key, None) for chunk in chunks]


def sweep(store: QueueStore, prefix: str, *, keep: Collection[str] = ()) -> int:
    """Remove the chunks whose token begins with this, but those to keep; how many there were."""
    swept = 0
    for one in records_under(store, KIND, f"{prefix}:", page=1):
        if one.key not in keep:
            store.commit(Changes(records=[RecordWrite(KIND, one.key, None)]))
            swept += 1
    return swept


def sweep_abandoned(store: QueueStore) -> int:
    """Remove what batch jobs that did not commit have left, a day ago or longer: chunks, and the marks of aborts."""
    swept = 0
    for kind in (KIND, ABORTED_KIND):
        for one in records_under(store, kind, JOBS, page=1):
            if one.updated_at > store.now() - ABANDONED:
                break
            store.commit(Changes(records=[RecordWrite(kind, one.key, None)]))
            swept += 1
    return swept
