"""Which part of a read each task does. What is planned is pinned: a queue that grows does not make the read longer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from localqueue.spark.options import OptionError, Options
from localqueue.spark.source.filters import Wanted
from localqueue.stores.port import QueueStore

ROWS_OF_A_PART = 250_000
FEWEST, MOST = 2, 64
_GRAIN = 4  # pieces for each part when several queues are put together


class EntriesLost(RuntimeError):
    """Journal entries that were asked for are gone: its retention, or somebody, has removed them."""

    @classmethod
    def between(cls, first: int, end: int) -> EntriesLost:
        return cls(
            f"the journal's entries from {first} to {end - 1} were pruned before they were read: keep more of it, or "
            "set failOnDataLoss to false to read what is left"
        )


@dataclass(frozen=True)
class Range:
    """The messages of some queues behind one id, up to and with another."""

    queues: tuple[str, ...]
    after: str | None
    until: str


@dataclass(frozen=True)
class Messages(InputPartition):
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class Entries(InputPartition):
    """Journal entries above one number up to and with another; `whole` when it is an error that some are gone."""

    queues: tuple[str, ...] | None
    after: int
    until: int
    whole: bool = False


@dataclass(frozen=True)
class Queues(InputPartition):
    names: tuple[str, ...]


@dataclass(frozen=True)
class Runs(InputPartition):
    """The runs behind one id, up to and with another; or, with `ids`, those alone."""

    after: str = ""
    until: str | None = None
    ids: tuple[str, ...] | None = None


def plan(store: QueueStore, options: Options, wanted: Wanted, *, tables: bool) -> list[InputPartition]:
    """The parts of a read; with `tables` one range may be of many queues."""
    if options.view == "runs":
        return list(_runs(store, options, wanted))
    queues = _queues(store, options, wanted)
    if options.view == "stats":
        return [Queues(queues)]
    if options.view == "events":
        named = options.queue is not None or wanted.queues is not None
        return list(_entries(store.journal_span(), options, wanted, queues if named else None))
    return list(_messages(store, options, queues, wanted.states, tables=tables))


def parts_for(rows: int, options: Options) -> int:
    """How many parts: as many as were asked for, else one for every so many rows."""
    if options.num_partitions is not None:
        return options.num_partitions
    parts = min(max(-(-rows // ROWS_OF_A_PART), FEWEST), MOST)
    return max(parts, options.min_partitions or 1)


def _runs(store: QueueStore, options: Options, wanted: Wanted) -> list[Runs]:
    """One part, unless more are asked for: nobody counts runs, so to cut them evenly is to list them first."""
    if wanted.runs is not None:
        return [Runs(ids=tuple(sorted(wanted.runs)))] if wanted.runs else []
    parts = options.num_partitions or options.min_partitions or 1
    if parts == 1:
        return [Runs()]
    from localqueue.spark.source.runs import run_ids

    ids = list(run_ids(store, declared=wanted.declared))
    ends = [ids[len(ids) * n // parts - 1] for n in range(1, parts) if len(ids) * n // parts]
    bounds = ["", *dict.fromkeys(ends)]
    return [Runs(low, high) for low, high in zip(bounds, [*bounds[1:], None], strict=True)]


def _queues(store: QueueStore, options: Options, wanted: Wanted) -> tuple[str, ...]:
    names = store.queues() if options.queue is None else [options.queue]
    return tuple(name for name in names if wanted.queues is None or name in wanted.queues)


def _messages(
    store: QueueStore, options: Options, queues: Sequence[str], states: frozenset[str] | None, *, tables: bool
) -> list[Messages]:
    counted = {}
    for queue in queues:
        stats = store.stats(queue)
        rows = stats.total if states is None else sum(getattr(stats, state) for state in states)
        if stats.total:
            counted[queue] = rows
    total = sum(counted.values())
    parts = parts_for(total, options)
    grain = parts if len(counted) < 2 else parts * _GRAIN
    ends = {
        queue: found
        for queue, rows in counted.items()
        if (found := store.splits(queue, max(1, math.ceil(grain * rows / total) if total else 1)))
    }
    if not ends:
        return []
    if tables:
        return _across(ends, parts)
    ranges = [
        (Range((queue,), after, until), counted[queue] / len(found))
        for queue, found in ends.items()
        for after, until in zip((None, *found), found, strict=False)
    ]
    return _gathered(ranges, parts)


def _across(ends: dict[str, list[str]], parts: int) -> list[Messages]:
    """Ranges over all the queues at once: their messages lie mixed in one table, in the order of their ids."""
    points = sorted(point for found in ends.values() for point in found)
    parts = min(parts, len(points))
    chosen = sorted({points[len(points) * n // parts - 1] for n in range(1, parts + 1)})
    queues = tuple(ends)
    return [Messages((Range(queues, after, until),)) for after, until in zip((None, *chosen), chosen, strict=False)]


def _gathered(ranges: list[tuple[Range, float]], parts: int) -> list[Messages]:
    """About equal parts of ranges that stay in their order."""
    share = sum(rows for _, rows in ranges) / parts
    found: list[list[Range]] = [[]]
    filled = 0.0
    for one, rows in ranges:
        if found[-1] and filled >= share * len(found) and len(found) < parts:
            found.append([])
        found[-1].append(one)
        filled += rows
    return [Messages(tuple(part)) for part in found]


def _entries(span: tuple[int, int], options: Options, wanted: Wanted, queues: tuple[str, ...] | None) -> list[Entries]:
    first, last = span
    whole = options.fail_on_data_loss and isinstance(options.starting, int)
    after = start_of(span, options)
    until = last if isinstance(options.ending, str) else min(options.ending, last)
    if wanted.after is not None and wanted.after > after:
        after = wanted.after
    if wanted.until is not None:
        until = min(until, wanted.until)
    after = max(after, first - 1)
    rows = until - after
    if rows <= 0:
        return []
    parts = min(parts_for(rows, options), rows)
    bounds = [after + rows * n // parts for n in range(parts + 1)]
    return [Entries(queues, low, high, whole) for low, high in pairwise(bounds)]


def start_of(span: tuple[int, int], options: Options) -> int:
    """The number that the wanted entries are behind; OptionError when some of them are gone or not yet written."""
    first, last = span
    if options.starting == "earliest":
        return first - 1
    if isinstance(options.starting, str):
        return last
    if options.fail_on_data_loss and options.starting < first - 1:
        raise OptionError(
            f"option 'startingOffsets' is {options.starting}, and the journal keeps entries from {first} on: some were "
            "pruned. Start from 'earliest', or set failOnDataLoss to false to read what is left"
        )
    if options.fail_on_data_loss and options.starting > last:
        raise OptionError(
            f"option 'startingOffsets' is {options.starting}, and the last entry of the journal is {last}: it is an "
            "offset of another store. Start from 'earliest', or set failOnDataLoss to false"
        )
    return options.starting
