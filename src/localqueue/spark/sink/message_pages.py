"""Checked columns of messages, as Arrow has them, as the pages that a store takes: one chunk after the other, so that
a driver holds as little of a large batch as of a small one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from localqueue.spark.sink.staged_rows import Chunk, fetch
from localqueue.spark.sink.target import Reach
from localqueue.stores.port import DEAD, Page, QueueStore, StoredMessage

if TYPE_CHECKING:
    import pyarrow as pa

#: Values of options that are stored as NULL and mean these.
_USUAL = {"delay": 0.0, "priority": 0}


class Rows(Protocol):
    """Rows to put, as often as they are asked for."""

    @property
    def count(self) -> int: ...
    def tables(self, store: QueueStore) -> Iterator[pa.Table]: ...


@dataclass(frozen=True)
class StagedRows:
    """Those of staged chunks, each fetched when it is its turn."""

    chunks: Sequence[Chunk]

    @property
    def count(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def tables(self, store: QueueStore) -> Iterator[pa.Table]:
        for chunk in self.chunks:
            yield fetch(store, chunk)


@dataclass(frozen=True)
class HeldRows:
    """Those that are at hand."""

    held: Sequence[pa.Table]

    @property
    def count(self) -> int:
        return sum(table.num_rows for table in self.held)

    def tables(self, store: QueueStore) -> Iterator[pa.Table]:
        yield from self.held


@dataclass
class Pages:
    """The rows as pages, for each queue that they reach. A store asks for them when it has begun its transaction."""

    store: QueueStore
    rows: Rows
    reach: Reach
    began: float = field(default=math.inf, init=False)  # when they were asked for, by the monotonic clock

    def __iter__(self) -> Iterator[Page]:
        self.began = time.monotonic()
        for table in self.rows.tables(self.store):
            for page in pages_of(table, self.reach.target.queue, self.store.now):
                yield from self.reach.copies(page)


def pages_of(table: pa.Table, queue: str | None, now: Any) -> Iterator[Page]:
    """The rows of a table, and behind them those that are rejected: dead letters from the beginning, which nobody
    waits for and which hold no key."""
    if "rejected" not in table.column_names:
        yield _page(table, queue)
        return
    import pyarrow.compute as pc

    rejected = table.column("rejected")
    yield _page(table.filter(pc.is_null(rejected)), queue)
    dead = table.filter(pc.is_valid(rejected))
    reasons, at = dead.column("rejected").to_pylist(), now()
    yield _page(dead, queue)._replace(past=[_dead(reason, at) for reason in reasons])


def _page(table: pa.Table, queue: str | None) -> Page:
    def of(name: str) -> list[Any] | None:
        if name not in table.column_names or table.column(name).null_count == len(table):
            return None
        values: list[Any] = table.column(name).to_pylist()
        usual = _USUAL.get(name)
        return values if usual is None else [usual if value is None else value for value in values]

    names = of("queue")
    return Page(
        table.column("value").to_pylist(),
        _queues(names, queue),
        None,
        of("delay"), of("priority"), of("dedupe_key"), of("ordering_key"), of("headers"), of("run_id"),
    )  # fmt: skip


def _queues(names: list[str | None] | None, queue: str | None) -> str | list[str]:
    """The queue of all rows, or that of each."""
    found = {name or queue or "" for name in names or (queue,)}
    return found.pop() if len(found) == 1 else [name or queue or "" for name in names or ()]


def _dead(why: str, now: float) -> StoredMessage:
    return StoredMessage(
        "", "", DEAD, "", None, 0, 0, now, now, last_error=expectation_failed(why), failed_at=now
    )  # fmt: skip


def expectation_failed(rules: str) -> dict[str, Any]:
    """The error of a dead letter that has failed these rules."""
    return {"type": "ExpectationFailed", "module": "localqueue.spark", "message": rules}
