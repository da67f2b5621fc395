"""Putting messages from the driver, in order, no faster than asked for, and each once however often it is begun.

Messages go in slices. How far a job has come is a record that changes in the transaction that puts a slice, from the
version that was read: a job that was killed goes on behind its last slice, and of two at a time one is refused.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from localqueue.errors import RecordConflict
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.stores.port import QueueStore, RecordWrite

KIND = "spark-paced"
#: Messages in one transaction, and how many seconds' worth of them when there is a rate.
MOST = 5_000
SECONDS = 0.25

T = TypeVar("T")
Taken = TypeVar("Taken", bound=Sized)


@dataclass(frozen=True, kw_only=True)
class Way:
    """How far the job `key` has come: everything up to `through` is put; `last` is its end, fixed when it began."""

    key: str
    last: int
    through: int = 0
    done: bool = False
    version: int = 0

    def record(self, writer: str) -> RecordWrite:
        value = {"last": self.last, "through": self.through, "done": self.done, "writer": writer}
        return RecordWrite(KIND, self.key, json.dumps(value).encode(), self.version)


def way_of(store: QueueStore, key: str) -> Way | None:
    """How far the job has come, None when it has never begun."""
    found = _read(store, key)
    return None if found is None else found[0]


def _read(store: QueueStore, key: str) -> tuple[Way, str] | None:
    record = store.record(KIND, key)
    if record is None:
        return None
    value: dict[str, Any] = json.loads(record.value)
    way = Way(key=key, last=value["last"], through=value["through"], done=value["done"], version=record.version)
    return way, value["writer"]


def check_rate(rate: float | None) -> float | None:
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"rate must be messages a second above 0, not {rate!r}")
    return rate


def slice_of(rate: float | None) -> int:
    """How many messages go together at a rate."""
    return MOST if rate is None else max(1, min(MOST, round(rate * SECONDS)))


def slices(rows: Iterable[tuple[int, T]], rate: float | None) -> Iterator[tuple[int, list[T]]]:
    """Numbered rows in slices that fit the rate, each with the number of its last."""
    size = slice_of(rate)
    source = iter(rows)
    while taken := list(islice(source, size)):
        yield taken[-1][0], [row for _, row in taken]


def put_paced(
    store: QueueStore,
    way: Way,
    slices: Iterable[tuple[int, Taken]],
    put: Callable[[Taken | None, Sequence[RecordWrite]], int],
    *,
    rate: float | None = None,
    closing: Callable[[], Sequence[RecordWrite]] = tuple,
    progress: Progress = silent,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Put slices of rows, each with the number of its last, in ascending order of the numbers; how many were put.

    `put` commits a slice, or None for no rows, with the records and says how many of it were stored. `closing` gives
    what else is written when all is done.
    """
    writer = uuid.uuid4().hex
    begun, seen, stored, told_at = clock(), 0, 0, clock()

    def forward(way: Way, taken: Taken | None, records: Sequence[RecordWrite]) -> tuple[Way, int]:
        try:
            count = put(taken, [way.record(writer), *records])
            found = _read(store, way.key)
        except RecordConflict:
            found = None
        if found is None or found[1] != writer:
            raise RuntimeError(f"another run of {way.key!r} is going on: let it finish, then this has nothing to do")
        return found[0], count

    if way.version == 0:
        way, _ = forward(way, None, ())
    for through, taken in slices:
        wait = begun + seen / rate - clock() if rate is not None else 0.0
        if wait > 0:
            sleep(wait)
        way, count = forward(replace(way, through=through), taken, ())
        seen += len(taken)
        stored += count
        if clock() - told_at >= 5.0:
            told_at = clock()
            progress(f"put {seen} messages")
    forward(replace(way, done=True), None, closing())
    return stored
