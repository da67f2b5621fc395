"""What `ingest` takes: a DataFrame, a table of the catalog, or the files at a path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from os import PathLike, fspath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from localqueue.spark.jobs import outgoing_rows
from localqueue.spark.jobs.file_ledger import File
from localqueue.spark.jobs.files import folder_at
from localqueue.spark.jobs.hadoop import Entry
from localqueue.spark.jobs.outgoing_rows import Mapped
from localqueue.spark.jobs.table_files import CSV_IN, find_format, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NO_HOST = re.compile(r"^(\w+):///")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Rows, how they become messages, and the files they are of, if any. `whole` when those can not be told apart."""

    shown: str
    rows: DataFrame
    as_messages: Callable[[DataFrame, Mapped], DataFrame]
    files: tuple[File, ...] = ()
    whole: bool = False

    def messages(self, mapped: Mapped, files: Sequence[File] | None = None) -> DataFrame:
        """All rows, or those of some of the files, as messages."""
        from pyspark.sql import functions as f

        rows = self.rows
        if files is not None and not self.whole and len(files) < len(self.files):
            wanted = {file.uri for file in files}
            others = [file.uri for file in self.files if file.uri not in wanted]
            path = f.col("_metadata.file_path")  # Spark leaves files out by it without opening them
            chosen = path.isin(*wanted) if len(wanted) <= len(others) else ~path.isin(*others)
            rows = rows.where(chosen)
        return self.as_messages(rows, mapped)


def source_of(
    spark: SparkSession,
    source: DataFrame | str | PathLike[str],
    format: str | None,
    options: dict[str, str],
    schema: StructType | str | None,
    *,
    fields: bool = False,
) -> Source:
    """The source that the arguments of `ingest` name, or why there is none.

    With `fields`, lines of JSON are read into columns.
    """
    if not isinstance(source, str | PathLike):
        if format is not None or options or schema is not None:
            raise ValueError("format, options and schema are for files: a DataFrame has been read already")
        return Source(shown="the DataFrame", rows=source, as_messages=outgoing_rows.rows_as_messages)
    name = fspath(source)
    if format != "table":
        format = find_format(spark, name, format)
    if schema is not None and format not in ("csv", "json"):
        raise ValueError(f"schema is for csv and json: {format} has types of its own")
    as_messages = outgoing_rows.rows_as_messages
    if format == "table":
        if not spark.catalog.tableExists(name):
            raise ValueError(f"there is no table {name!r} in the catalog")
        rows = spark.table(name)
    elif format == "json" and not options and schema is None and not fields:
        rows, as_messages = read_table(spark, name, "text"), outgoing_rows.lines_as_messages
    else:
        if schema is not None or format == "json":
            options = {"mode": "FAILFAST", **options}
        if format == "csv":
            tabs = {"sep": "\t"} if ".tsv" in name.lower() else {}
            options = {**CSV_IN, **tabs, **options}
        rows = read_table(spark, name, format, options, schema)
        if format == "text":
            as_messages = outgoing_rows.text_as_messages
    files = _files(spark, rows)
    whole = format in ("table", "delta")
    if whole and files:
        uri = f"table {name}" if format == "table" else folder_at(spark, name).uri
        files = (File(uri, blake2b(json.dumps(files).encode(), digest_size=16).hexdigest()),)
    return Source(shown=name, rows=rows, as_messages=as_messages, files=files, whole=whole)


def _files(spark: SparkSession, rows: DataFrame) -> tuple[File, ...]:
    """The files that rows are read from, with their marks."""
    folders: dict[str, dict[str, Entry]] = {}
    found = []
    for listed in sorted(rows.inputFiles()):
        uri = _NO_HOST.sub(r"\1:/", listed)  # as `_metadata` has it
        parent, _, own = uri.rpartition("/")
        if parent not in folders:
            folders[parent] = {entry.name: entry for entry in folder_at(spark, unquote(parent)).entries()}
        entry = folders[parent].get(unquote(own))
        found.append(File(uri, "" if entry is None else f"{entry.size}@{entry.modified}"))
    return tuple(found)
