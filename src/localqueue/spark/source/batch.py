"""The batch source: a queue, its dead letters, the journal, the runs and the counts as tables.

The upper end of a read is the newest message, or the last journal entry, at the time Spark plans it; what is put later
is not in it. The queue may be changed while it is read: a message that is acked meanwhile may be missing, one that
moves on is shown in one of the states it had. Each row is as it was at some moment during the read and never torn; the
rows of one task are of one moment where the store has tables, and of one moment for each page where it has none.

A read takes no message and holds no lock. On SQLite it keeps the write-ahead log from being cut back while it lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from localqueue.spark.columns import arrow_schema, known_columns
from localqueue.spark.options import OptionError, Options
from localqueue.spark.place import opened
from localqueue.spark.source.connections import engine_of
from localqueue.spark.source.filters import Wanted, take
from localqueue.spark.source.plan import Entries, Messages, Queues, Runs, plan
from localqueue.spark.source.scan import scan_events, scan_messages, scan_runs, scan_stats
from localqueue.spark.source.selection import read_events, read_messages
from localqueue.spark.source.typed_payload import Typed, is_selection
from localqueue.stores.port import DEAD

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads one view. Spark makes it in its planner, gives it filters, asks for parts, and sends it to the tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        _require_sense(options)
        self.options = options
        self.schema = schema
        self.engine = engine_of(options)
        self.wanted = Wanted(states=frozenset({DEAD}) if options.view == "dead" else None)
        self.selects = is_selection(options.view, schema)
        if not self.selects:
            self._typed()  # what is wrong with the schema is said now

    def take(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read less by these filters; those that are left for Spark."""
        known = known_columns(self.options.view)
        columns = {name: name for name in known} if self.selects else self._typed().own
        self.wanted, rest = take(filters, self.options.view, columns, tables=self.engine != "scan", so_far=self.wanted)
        return rest

    def partitions(self) -> list[InputPartition]:
        with opened(self.options, read_only=True) as store:
            return plan(store, self.options, self.wanted, tables=self.engine != "scan")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self.selects:
            yield from self._rows(partition, arrow_schema(self.schema))
            return
        typed = self._typed()
        for batch in self._rows(partition, typed.source):
            made = typed.batch_of(batch)
            if made.num_rows:
                yield made

    def _typed(self) -> Typed:
        return Typed(self.schema, self.options.corrupt, view=self.options.view)

    def _rows(self, part: InputPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self.engine != "scan" and isinstance(part, Messages):
            yield from read_messages(self.options, self.engine, part, self.wanted, schema)
        elif self.engine != "scan" and isinstance(part, Entries):
            yield from read_events(self.options, self.engine, part, self.wanted, schema)
        elif part.__class__ is not InputPartition:  # which is what Spark makes of no parts at all
            with opened(self.options, read_only=True) as store:
                if isinstance(part, Messages):
                    yield from scan_messages(store, part, self.wanted.states, schema)
                elif isinstance(part, Entries):
                    yield from scan_events(store, part, self.options, self.wanted, schema)
                elif isinstance(part, Queues):
                    yield from scan_stats(store, part.names, schema)
                elif isinstance(part, Runs):
                    yield from scan_runs(store, part, self.wanted, schema)


class FilteringReader(BatchReader):
    """The reader that takes filters, where they were asked for: Spark keeps the read with the filters of the last query
    on a DataFrame, and uses it for the next one too."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return self.take(filters)


def _require_sense(options: Options) -> None:
    if options.corrupt == "dead-letter":
        raise OptionError(
            "option 'corruptRows' is 'dead-letter', which only a stream with mode 'consume' can do: a batch read "
            "changes nothing; use 'column', 'drop' or 'fail'"
        )
    bounded = options.starting != "earliest" or options.ending != "latest"
    timed = options.starting_at is not None or options.ending_at is not None
    if options.view != "events" and (bounded or timed):
        raise OptionError(
            f"option 'view' is {options.view!r}, and only the journal has offsets and times to start from: "
            'use .option("view", "events")'
        )
