"""`format("localqueue")`: one name for batch and streams, sources and sinks.

Spark builds this object in a process of its own for every plan, so making one has no effect and opens nothing.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from localqueue.spark.columns import VIEWS, known_columns, spark_schema, struct_of
from localqueue.spark.options import OptionError, Options, parse

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter


class LocalQueueDataSource(DataSource):
    """Queues, dead letters and the journal of a store as Spark tables and streams."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed = parse(options)

    @classmethod
    def name(cls) -> str:
        return "localqueue"

    def schema(self) -> StructType:
        """The columns when the user gives no schema."""
        options = self.parsed
        columns = VIEWS[options.view]
        if options.columns is not None:
            known = known_columns(options.view)
            columns = {name: known[name] for name in options.columns}
        elif not options.include_headers:
            columns = {name: kind for name, kind in columns.items() if name != "headers"}
        return spark_schema(columns)

    def _in_store(self, what: str) -> Options:
        self.parsed.need_store(what)
        return self.parsed

    def _as_table(self) -> Options:
        options = self._in_store("be read as a table")
        if options.mode == "consume":
            raise OptionError(
                "option 'mode' is 'consume', which is for streams: use spark.readStream, with "
                "trigger(availableNow=True) for what is there now, or leave 'mode' out to look without taking"
            )
        return options

    def reader(self, schema: StructType) -> DataSourceReader:
        from localqueue.spark.source.batch import BatchReader

        return BatchReader(_read_options(self._as_table(), schema), struct_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if self.parsed.mode == "consume":
            from localqueue.spark.streams.consume import ConsumeReader

            return ConsumeReader(self.parsed, schema)
        from localqueue.spark.streams.subscribe import SubscribeReader

        return SubscribeReader(self.parsed, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise OptionError('a queue can not be overwritten, only added to: use mode("append")')
        from localqueue.spark.sink.writers import BatchSink

        return BatchSink(self._in_store("be written to"), struct_of(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:
            raise OptionError('a queue can not be overwritten, only added to: use outputMode("append") or "update"')
        from localqueue.spark.sink.writers import StreamSink

        return StreamSink(self._in_store("be written to"), schema)


class RegisteredDataSource(LocalQueueDataSource):
    """The same for a session in which `register` has allowed filters to be pushed down.

    Spark refuses every read of a source that takes filters in a session that has not allowed it, so the source that is
    found by its name alone takes none.
    """

    def reader(self, schema: StructType) -> DataSourceReader:
        from localqueue.spark.source.batch import FilteringReader

        return FilteringReader(_read_options(self._as_table(), schema), struct_of(schema))


def _read_options(options: Options, schema: object) -> Options:
    """Sail, which is known by its schemas, has all tasks in one process: two SQLites there undo each other's locks."""
    if isinstance(schema, StructType) or options.backend != "sqlite":
        return options
    if options.engine == "adbc":
        raise OptionError("option 'engine' is 'adbc', which can not read SQLite on Sail: use 'auto' or 'python'")
    return replace(options, engine="python")
