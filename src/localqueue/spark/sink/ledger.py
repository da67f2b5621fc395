"""What a sink has written already: one record a query or a keyed job, changed in the transaction that puts the rows.

`{"batch": 7}` says that everything up to batch 7 is in the queue. `"chunks"` with it says that batch 7 is being put in
several transactions, which chunks it consists of, and how many of them are done: whoever finds this finishes those,
whatever it has staged itself. Every change names the version it has read, so of two drivers one is refused.

A job without a key has such a record only while it is put in several transactions, and nobody finishes it: see
`open_writes`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from localqueue.spark.sink.staged_rows import JOBS, Chunk
from localqueue.stores.port import QueueStore, Record, RecordWrite

KIND = "spark-sink"
#: What the keys of jobs without a key of their own begin with.
ONCE = "once:"
#: Records of `delivery=direct`: how many rows of a partition are in the queue.
PART_KIND = "spark-sink-part"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The record of one sink, with the version to expect when it is changed; 0 when there is none."""

    key: str
    version: int
    batch: int = -1
    chunks: tuple[Chunk, ...] | None = None
    done: int = 0
    writer: str | None = None

    @property
    def is_once(self) -> bool:
        """Whether there is nothing to remember of it when it is done."""
        return self.key.startswith(ONCE)

    def has(self, batch: int) -> bool:
        """Whether this batch is in the queue as a whole."""
        return batch < self.batch or (batch == self.batch and self.chunks is None)

    def is_amid(self, batch: int) -> bool:
        return batch == self.batch and self.chunks is not None

    def finished(self, batch: int) -> RecordWrite:
        if self.is_once:
            return RecordWrite(KIND, self.key, None, self.version)
        return self._change({"batch": batch})

    def amid(self, batch: int, chunks: Sequence[Chunk], done: int, writer: str) -> RecordWrite:
        return self._change({"batch": batch, "chunks": [list(one) for one in chunks], "done": done, "writer": writer})

    def _change(self, value: dict[str, object]) -> RecordWrite:
        return RecordWrite(KIND, self.key, json.dumps(value).encode(), self.version)


def read(store: QueueStore, key: str) -> Entry:
    record = store.record(KIND, key)
    return Entry(key=key, version=0) if record is None else entry_of(record)


def entry_of(record: Record) -> Entry:
    value = json.loads(record.value)
    chunks = value.get("chunks")
    return Entry(
        key=record.key,
        version=record.version,
        batch=value["batch"],
        chunks=None if chunks is None else tuple(Chunk(*one) for one in chunks),
        done=value.get("done", 0),
        writer=value.get("writer"),
    )


def for_query(query: str, queue: str | None) -> str:
    return f"{query}:{queue or '*'}"


def for_job(idempotency_key: str, queue: str | None) -> str:
    return f"job:{idempotency_key}:{queue or '*'}"


def for_once(job: str, queue: str | None) -> str:
    """Of a job that has no key, by its token."""
    return f"{ONCE}{queue or '*'}:{job}"


def job_of(once: str) -> str:
    """The token in such a key."""
    return f"{JOBS}{once.rpartition(f':{JOBS}')[2]}"
