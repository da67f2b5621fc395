"""`format("localqueue")`: one name for batch and streams, sources and sinks.

Spark builds this object in a process of its own for every plan, so making one has no effect and opens nothing.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from localqueue.spark import catalog_table
from localqueue.spark.columns import struct_of
from localqueue.spark.options import OptionError, Options, parse
from localqueue.spark.shape import default_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter


class LocalQueueDataSource(DataSource):
    """Queues, dead letters and the journal of a store as Spark tables and streams."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._asked = False  # for the schema: Spark takes this object, as it is then, to where it reads
        if "url" in options or catalog_table.is_creation(options):
            self.parsed()  # what is wrong is said as early as it can be; a table's options may come with its schema

    def parsed(self) -> Options:
        """The options as they were given, without what a table of a catalog keeps."""
        given = self.options
        return parse(catalog_table.table_options(given) if catalog_table.is_creation(given) else given)

    @classmethod
    def name(cls) -> str:
        return "localqueue"

    def schema(self) -> StructType:
        """The columns when the user gives no schema."""
        columns = default_schema(self.parsed())
        if catalog_table.is_creation(self.options):
            return catalog_table.keeping(columns, catalog_table.table_options(self.options))
        self._asked = True
        return columns

    def _to_read(self, schema: StructType) -> Options:
        asked = self._asked or not isinstance(schema, StructType)  # Sail, which hands over the options of its tables
        options = catalog_table.options_to_read(self.options, struct_of(schema), asked=asked)
        options.need_store("be read as a table")
        if options.mode == "consume":
            raise OptionError(
                "option 'mode' is 'consume', which is for streams: use spark.readStream, with "
                "trigger(availableNow=True) for what is there now, or leave 'mode' out to look without taking"
            )
        return _read_options(options, schema)

    def _to_write(self, schema: StructType) -> Options:
        options = catalog_table.options_to_write(self.options, struct_of(schema))
        options.need_store("be written to")
        return options

    def reader(self, schema: StructType) -> DataSourceReader:
        from localqueue.spark.source.batch import BatchReader, FilteringReader

        options = self._to_read(schema)
        return (FilteringReader if options.push_filters else BatchReader)(options, struct_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            return self._stream(schema)
        except Exception as error:
            return RefusedStream(error)

    def _stream(self, schema: StructType) -> DataSourceStreamReader:
        options = catalog_table.options_to_read(self.options, schema, asked=self._asked)
        if options.infer and "url" in self.options:  # a table of a catalog has had its schema since it was made
            raise OptionError(
                "option 'inferSchema' is for batch reads: what a stream reads would have another schema after a "
                "restart. Infer it once, localqueue.spark.infer_schema(url=..., queue=...) or localqueue pipeline "
                "schema QUEUE, and give it to .schema(...)"
            )
        from localqueue.spark.streams.older_spark import for_this_spark

        if options.mode == "consume":
            from localqueue.spark.streams.consume import ConsumeReader

            return for_this_spark(ConsumeReader(options, schema))
        from localqueue.spark.streams.subscribe import SubscribeReader

        return for_this_spark(SubscribeReader(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise OptionError('a queue can not be overwritten, only added to: use mode("append")')
        from localqueue.spark.sink.writers import BatchSink

        return BatchSink(self._to_write(schema), struct_of(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:
            raise OptionError('a queue can not be overwritten, only added to: use outputMode("append") or "update"')
        from localqueue.spark.sink.writers import StreamSink

        return StreamSink(self._to_write(schema), schema)


class RefusedStream(DataSourceStreamReader):
    """A stream that can not be, and says so once it is used: what `streamReader` raises PySpark hides behind an error
    of its own."""

    def __init__(self, reason: Exception) -> None:
        self._reason = reason

    def initialOffset(self) -> NoReturn:
        raise self._reason

    def latestOffset(self, *given: Any) -> NoReturn:
        raise self._reason

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        raise self._reason

    def read(self, partition: InputPartition) -> NoReturn:
        raise self._reason


def _read_options(options: Options, schema: object) -> Options:
    """Sail, which is known by its schemas, has all tasks in one process: two SQLites there undo each other's locks."""
    if isinstance(schema, StructType) or options.backend != "sqlite":
        return options
    if options.engine == "adbc":
        raise OptionError("option 'engine' is 'adbc', which can not read SQLite on Sail: use 'auto' or 'python'")
    return replace(options, engine="python")
