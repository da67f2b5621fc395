"""The stream that claims messages: each goes into one batch, and is acked when Spark has committed that.

The offset is the number of a claim (see `claims.py`). Spark asks for the next one only when the batch that ended at
`start` is in its commit log, so that is where messages are acked: its own `commit` comes late and sometimes never.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from localqueue.spark.columns import arrow_schema
from localqueue.spark.options import OptionError, Options
from localqueue.spark.place import opened
from localqueue.spark.source.typed_payload import Typed, is_selection
from localqueue.spark.streams.claim_blob import message_rows, without
from localqueue.spark.streams.claimant import Claimant
from localqueue.spark.streams.claims import Chunk, ClaimsLost, read_chunk
from localqueue.spark.streams.older_spark import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

#: How many messages a claim has at most, unless maxOffsetsPerTrigger says otherwise.
MOST_ROWS = 50_000

#: The same of a broker, which holds three claims as unacked deliveries: SQS has room for 120,000.
MOST_BROKER_ROWS = 10_000


class ClaimPartition(InputPartition):
    """Chunks of a claim, which one task reads."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        super().__init__(tuple(chunks))
        self.chunks = tuple(chunks)


class ConsumeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Claims messages under the name of a consumer. Making one has no effect: the first offset takes the name over."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.view != "messages":
            raise OptionError(f"option 'view' is {options.view!r}: mode 'consume' claims messages, leave it out")
        self._options = options
        self._queue = options.need_queue()
        self._typed = None if is_selection("messages", schema) else Typed(schema, options.corrupt)
        if options.corrupt == "dead-letter" and self._typed is None:
            raise OptionError("option 'corruptRows' is 'dead-letter' and there is no schema to fit: add .schema(...)")
        self._schema = arrow_schema(schema)
        self._claimant: Claimant | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"claim": self._driver().claims.settled}

    def getDefaultReadLimit(self) -> ReadLimit:
        most = MOST_BROKER_ROWS if self._options.at_broker else MOST_ROWS
        return ReadMaxRows(self._options.max_offsets or most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return {"claim": self._driver().advance(start["claim"], most)}

    def prepareForTriggerAvailableNow(self) -> None:
        self._driver().end_with_what_is_there()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return {**self._driver().report(), **self._options.place, "consumer": self._options.consumer}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start["claim"] == end["claim"]:
            return []
        chunks = self._driver().claims.chunks(start["claim"], end["claim"])
        parts = min(self._options.num_partitions or len(chunks), len(chunks))
        return [ClaimPartition(chunks[part::parts]) for part in range(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ClaimPartition)
        typed = self._typed
        with opened(self._options) as store:
            for key, condemned in partition.chunks:
                chunk = read_chunk(store, key)
                if chunk is not None:
                    if condemned:
                        chunk = without(chunk, condemned)
                    rows = message_rows(chunk, self._queue, self._schema if typed is None else typed.source)
                    yield rows if typed is None else typed.batch_of(rows)
                elif self._options.fail_on_data_loss:
                    raise ClaimsLost(f"chunk {key!r} is gone: a later driver of the consumer has settled its claim")

    def stop(self) -> None:
        if self._claimant is not None:
            self._claimant.close()
            self._claimant = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_claimant": None}

    def _driver(self) -> Claimant:
        if self._claimant is None:
            sorts_out = self._typed is not None and self._options.corrupt == "dead-letter"
            self._claimant = Claimant(self._options, self._typed.misfits if self._typed and sorts_out else None)
        return self._claimant
