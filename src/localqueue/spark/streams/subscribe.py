"""The stream that follows the journal: it reads what was put, or every change, and touches nothing.

The offset is the number of the last entry that was read. Entries are numbered in the order of the commits and never
change, so any range of them is the same each time it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from localqueue.spark.columns import arrow_schema
from localqueue.spark.options import OptionError, Options
from localqueue.spark.place import opened
from localqueue.spark.source.plan import EntriesLost
from localqueue.spark.source.rows import enqueued_batch, event_batch
from localqueue.spark.source.typed_payload import Typed, is_selection
from localqueue.spark.streams.follower import Follower
from localqueue.spark.streams.older_spark import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from localqueue.events.journal import JournalEvent
    from localqueue.stores.port import QueueStore

_PARTS = 4
_PART_ENTRIES = 5_000
_PAGE = 4_000


class JournalRange(InputPartition):
    """The entries behind `after` up to `until`, which one task reads."""

    def __init__(self, after: int, until: int) -> None:
        super().__init__((after, until))
        self.after = after
        self.until = until


class SubscribeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the journal of one queue, or of all. Making one has no effect: the first offset opens the store."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.view not in ("messages", "events"):
            raise OptionError(
                f"option 'view' is {options.view!r}: a stream is of messages (a row for each that is put) or of events "
                "(a row for each change)"
            )
        if options.corrupt == "dead-letter":
            raise OptionError(
                "option 'corruptRows' is 'dead-letter': mode 'subscribe' touches no message, use mode 'consume', or "
                "column, fail or drop"
            )
        self._options = options
        selects = is_selection(options.view, schema)
        self._typed = None if selects else Typed(schema, options.corrupt, view=options.view)
        self._schema = arrow_schema(schema)
        self._follower: Follower | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"seq": self._driver().initial()}

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return {"seq": self._driver().latest(start["seq"], most)}

    def prepareForTriggerAvailableNow(self) -> None:
        self._driver().pin()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return {**self._driver().report(), **self._options.place}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start["seq"] >= end["seq"]:
            return []
        after = min(self._driver().first_to_read(start["seq"]), end["seq"])
        return ranges(after, end["seq"], self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, JournalRange)
        if self._typed is None:
            yield from read_range(self._options, partition, self._schema)
            return
        for batch in read_range(self._options, partition, self._typed.source):
            yield self._typed.batch_of(batch)

    def stop(self) -> None:
        if self._follower is not None:
            self._follower.close()
            self._follower = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_follower": None}

    def _driver(self) -> Follower:
        if self._follower is None:
            self._follower = Follower(self._options)
        return self._follower


def ranges(after: int, until: int, options: Options) -> list[JournalRange]:
    """The entries between in about equal parts: as many as the options say, else few that are worth a task."""
    count = until - after
    parts = options.num_partitions or max(options.min_partitions or 1, min(_PARTS, count // _PART_ENTRIES))
    parts = min(parts, count)
    ends = [after + count * part // parts for part in range(parts + 1)] if parts else []
    return [JournalRange(low, high) for low, high in pairwise(ends)]


def read_range(options: Options, part: JournalRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a range, in the columns of the schema; EntriesLost when some of it was pruned meanwhile."""
    make = enqueued_batch if options.view == "messages" else event_batch
    with opened(options, read_only=True) as store:
        for entries in _pages(store, part, options.queue):
            yield make(entries, schema)
        if options.fail_on_data_loss and store.journal_span()[0] > part.after + 1:
            raise EntriesLost(
                f"entries from {part.after + 1} on were pruned from the journal at {store.url} before their task read "
                'them: let it keep more, or set option("failOnDataLoss", "false")'
            )


def _pages(store: QueueStore, part: JournalRange, queue: str | None) -> Iterator[list[JournalEvent]]:
    after = part.after
    while after < part.until:
        page = store.events(after, min(_PAGE, part.until - after), queue)
        wanted = [one for one in page if one.seq <= part.until]
        if wanted:
            yield wanted
        if len(wanted) < len(page) or not page:
            return
        after = page[-1].seq
