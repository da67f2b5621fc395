"""What PySpark 4.1 lacks of streams, and how a reader does without it.

Since 4.2 Spark tells a reader where its query stands, `latestOffset(start, limit)`, which is how a consumer knows what
is committed. 4.1 asks for `latestOffset()`. But it plans a batch, `partitions(start, end)`, before it asks for what
comes after that; and a query that goes on from a checkpoint first plans the nothing between the last offset of its log
and itself, then the batch that ended there if that was not committed, and only then asks. So where a query stands is
the end of what was planned last, and of one that has planned nothing, its initial offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from localqueue.spark.options import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

if TYPE_CHECKING or find_spec("pyspark.sql.streaming.datasource") is not None:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    IS_OLDER = False
else:
    IS_OLDER = True

    class ReadLimit:
        """How much of a stream is read."""

    class ReadAllAvailable(ReadLimit):
        """All there is."""

    class ReadMaxRows(ReadLimit):
        """So many rows."""

        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class SupportsTriggerAvailableNow:
        """What no reader of this PySpark has."""


__all__ = [
    "IS_OLDER",
    "TO_THE_END",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "for_this_spark",
    "run_to_end",
]

#: The trigger of a query that `run_to_end` waits for. Of `availableNow`, 4.1 makes one batch of whatever size.
TO_THE_END: Mapping[str, Any] = {"processingTime": "0 seconds"} if IS_OLDER else {"availableNow": True}
_OLDEST = (4, 1)


def for_this_spark(reader: DataSourceStreamReader) -> DataSourceStreamReader:
    """The reader as the PySpark that runs calls it; OptionError on one that is too old."""
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < _OLDEST:
        raise OptionError(f"streams of localqueue need PySpark 4.1 or newer, and this is {pyspark.__version__}")
    return OlderSparkReader(reader) if IS_OLDER else reader


def run_to_end(query: StreamingQuery) -> None:
    """Wait until a query has read all there is for it."""
    if IS_OLDER:
        query.processAllAvailable()
        query.stop()
    query.awaitTermination()


class OlderSparkReader(DataSourceStreamReader):
    """A reader that keeps in mind where its query stands. Of `availableNow` Spark 4.1 makes a single batch."""

    def __init__(self, reader: DataSourceStreamReader) -> None:
        self._reader = reader
        self._initial: dict[str, Any] | None = None
        self._told: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            self._initial = self._reader.initialOffset()
        return self._initial

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        start = self.initialOffset() if self._planned is None else self._planned
        self._told = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        return self._told

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if self._told is not None and _number(start) > _number(self._told):
            # Spark has asked before it said where the query stands, and would now go back to what it was told.
            raise OptionError(
                f"the query stands at {start} and was asked for what comes next before that was known: set "
                "spark.sql.streaming.triggerAvailableNowWrapper.enabled=false, as it is by default"
            )
        self._planned = end
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)

    def stop(self) -> None:
        self._reader.stop()


def _number(offset: dict[str, Any]) -> int:
    """Both readers have offsets of one number."""
    (number,) = offset.values()
    return int(number)
