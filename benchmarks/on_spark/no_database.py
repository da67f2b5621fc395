"""A data source in Python whose rows lie in memory already: the most that any of them could reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from localqueue.spark.options import parse
from localqueue.spark.shape import default_schema
from localqueue.spark.source.batch import BatchReader

PARTS = 4


class NoDatabase(DataSource):
    """The first batch of a queue, again and again, until there are as many rows as the queue has."""

    @classmethod
    def name(cls) -> str:
        return "no_database"

    def schema(self) -> Any:
        return default_schema(self._options())

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader(BatchReader(self._options(), schema), int(self.options["rows"]))

    def _options(self) -> Any:
        return parse({name: text for name, text in self.options.items() if name != "rows"})


class _Reader(DataSourceReader):
    def __init__(self, source: BatchReader, rows: int) -> None:
        batch = next(source.read(source.partitions()[0]))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        self._batch = sink.getvalue().to_pybytes()
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._rows // PARTS)] * PARTS

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        left = partition.value
        batch = pa.ipc.open_stream(self._batch).read_next_batch()
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows
