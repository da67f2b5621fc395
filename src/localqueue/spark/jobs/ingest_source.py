"""What `ingest` takes: a DataFrame, a table of the catalog, or the files at a path."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from os import PathLike, fspath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from localqueue.spark import sail
from localqueue.spark.jobs import outgoing_rows
from localqueue.spark.jobs.arguments import known_schema
from localqueue.spark.jobs.file_errors import files_named, nanoseconds, not_json
from localqueue.spark.jobs.file_ledger import File
from localqueue.spark.jobs.files import folder_at
from localqueue.spark.jobs.ingest_csv import TypedCsv, csv_options
from localqueue.spark.jobs.ingest_files import OF_FILES, Landed, files_of, format_there, given, landed, read
from localqueue.spark.jobs.ingest_json import JsonTexts
from localqueue.spark.jobs.ingest_texts import Unpacking, refuse_damage
from localqueue.spark.jobs.outgoing_rows import Mapped
from localqueue.spark.jobs.table_files import CSV_IN, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Landing = Callable[..., Landed]

#: Options with which Spark reads what is no JSON, or gives NULL for it, beside those that begin with "allow".
_LENIENT = ("mode", "columnnameofcorruptrecord", "rescueddatacolumn", "singlevariantcolumn")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Rows, how they become messages, and the files they are of, if any. `whole` when those can not be told apart.

    `texts` has the lines of files that must be UTF-8, `find_fault` tells what is wrong in rows that can not be put, and
    `only` is the source of some of the files.
    """

    shown: str
    rows: DataFrame
    as_messages: Callable[[DataFrame, Mapped], DataFrame]
    files: tuple[File, ...] = ()
    whole: bool = False
    texts: DataFrame | None = None
    find_fault: Callable[[DataFrame], str | None] = lambda rows: None
    only: Callable[[Sequence[File]], Source] | None = None

    def messages(self, mapped: Mapped, files: Sequence[File] | None = None) -> DataFrame:
        """All rows, or those of some of the files, as messages."""
        if self.only is not None and self._some(files) and sail.runs(self.rows.sparkSession):
            return self.only(files or ()).messages(mapped)  # it knows no file of a row
        if self.texts is not None:
            refuse_damage(self._of(self.texts, files))
        return self.as_messages(self._of(self.rows, files), mapped)

    def fault(self, files: Sequence[File] | None = None) -> str | None:
        """What is wrong with one of these files, as far as it can be found."""
        return self.find_fault(self._of(self.rows, files))

    def _of(self, rows: DataFrame, files: Sequence[File] | None) -> DataFrame:
        from pyspark.sql import functions as f

        if files is None or not self._some(files):
            return rows
        wanted = {file.uri for file in files}
        others = [file.uri for file in self.files if file.uri not in wanted]
        path = f.col("_metadata.file_path")  # Spark leaves files out by it without opening them
        return rows.where(path.isin(*wanted) if len(wanted) <= len(others) else ~path.isin(*others))

    def _some(self, files: Sequence[File] | None) -> bool:
        return files is not None and not self.whole and len(files) < len(self.files)


def source_of(
    spark: SparkSession,
    source: DataFrame | str | PathLike[str],
    format: str | None,
    options: dict[str, str],
    schema: StructType | str | None,
    only: Sequence[File] | None = None,
) -> Source:
    """The source that the arguments of `ingest` name, or why there is none; with `only`, of these files."""
    if not isinstance(source, str | PathLike):
        if format is not None or options or schema is not None:
            raise ValueError("format, options and schema are for files: a DataFrame has been read already")
        return Source(shown="the DataFrame", rows=source, as_messages=outgoing_rows.rows_as_messages)
    name = fspath(source)
    if format != "table":
        format = format_there(spark, name, format)
    if schema is not None and format not in ("csv", "json"):
        raise ValueError(f"schema is for csv and json: {format} has types of its own")
    if format in ("table", "delta"):
        return _table(spark, name, format, options)
    known = None if schema is None else known_schema(schema)
    landing = partial(landed, spark, name, options, only=only)
    found = _of_files(spark, name, format, options, known, landing)
    return replace(found, only=partial(source_of, spark, source, format, options, schema))


def _of_files(
    spark: SparkSession, name: str, format: str, options: dict[str, str], schema: StructType | None, landing: Landing
) -> Source:
    if format == "json":
        return _json(spark, name, options, schema, landing)
    if format == "csv":
        return _csv(spark, name, options, schema, landing)
    if format == "text":
        return _text(name, options, landing)
    files = landing()
    with files_named(lambda: nanoseconds(_first_refused(spark, files, format, options, "NANOS"))):
        rows = read(spark, files, format, options)
    return Source(shown=name, rows=rows, as_messages=outgoing_rows.rows_as_messages, files=files.files)


def _table(spark: SparkSession, name: str, format: str, options: dict[str, str]) -> Source:
    if format == "delta":
        rows, uri = read_table(spark, name, format, options), folder_at(spark, name).uri
    elif spark.catalog.tableExists(name):
        rows, uri = spark.table(name), f"table {name}"
    else:
        raise ValueError(f"there is no table {name!r} in the catalog")
    files: tuple[File, ...] = ()
    if marks := [(file.uri, file.mark) for file in files_of(spark, rows)]:
        files = (File(uri, blake2b(json.dumps(marks).encode(), digest_size=16).hexdigest()),)
    return Source(shown=name, rows=rows, as_messages=outgoing_rows.rows_as_messages, files=files, whole=True)


def _json(
    spark: SparkSession, name: str, options: dict[str, str], schema: StructType | None, landing: Landing
) -> Source:
    """Texts as they are, unless an option has Spark read what is not JSON."""
    if any(option.lower() in _LENIENT or option.lower().startswith("allow") for option in options):
        return _lenient_json(spark, name, {"mode": "FAILFAST", **options}, schema, landing)
    unpacking = _unpacking(options)
    files = landing(whole=unpacking is not None)
    of_columns = {option: text for option, text in options.items() if option.lower() not in OF_FILES}
    texts = JsonTexts(files.texts, schema, of_columns, unpacking, lambda: read(spark, files, "json", options).schema)
    return Source(
        shown=name, rows=files.texts, as_messages=texts.messages, files=files.files, find_fault=texts.fault
    )  # fmt: skip


def _lenient_json(
    spark: SparkSession, name: str, options: dict[str, str], schema: StructType | None, landing: Landing
) -> Source:
    files = landing()
    if _is_utf8(options):
        refuse_damage(files.texts)
    with files_named(lambda: not_json(_first_refused(spark, files, "json", options, "MALFORMED_RECORD"))):
        rows = read(spark, files, "json", options, schema)
    return Source(shown=name, rows=rows, as_messages=outgoing_rows.rows_as_messages, files=files.files)


def _csv(
    spark: SparkSession, name: str, options: dict[str, str], schema: StructType | None, landing: Landing
) -> Source:
    files = landing()
    options = {**CSV_IN, **csv_options(options, name)}
    typed = TypedCsv(schema, options) if schema is not None else None
    rows = read(spark, files, "csv", options, None if typed is None else typed.read_as)

    def as_messages(rows: DataFrame, mapped: Mapped) -> DataFrame:
        return outgoing_rows.rows_as_messages(rows if typed is None else typed.typed(rows), mapped)

    texts = files.texts if _is_utf8(options) else None
    return Source(shown=name, rows=rows, as_messages=as_messages, files=files.files, texts=texts)


def _text(name: str, options: dict[str, str], landing: Landing) -> Source:
    unpacking = _unpacking({option: text for option, text in options.items() if option.lower() != "multiline"})
    files = landing(whole=unpacking is not None)

    def as_messages(rows: DataFrame, mapped: Mapped) -> DataFrame:
        return outgoing_rows.text_as_messages(rows if unpacking is None else unpacking.texts(rows), mapped)

    texts = files.texts if unpacking is None else None
    return Source(shown=name, rows=files.texts, as_messages=as_messages, files=files.files, texts=texts)


def _unpacking(options: dict[str, str]) -> Unpacking | None:
    """How files are taken apart that Spark's reader of lines does not do; None where it does."""
    encoding, multi_line = _encoding(options), given(options, "multiLine") == "true"
    if encoding is None and not multi_line:
        return None
    lines = given(options, "wholetext") != "true"
    return Unpacking(encoding=encoding or "UTF-8", documents=multi_line, lines=lines)


def _encoding(options: dict[str, str]) -> str | None:
    return given(options, "encoding") or given(options, "charset")


def _is_utf8(options: dict[str, str]) -> bool:
    return (_encoding(options) or "utf-8") in ("utf-8", "utf8")


def _first_refused(spark: SparkSession, files: Landed, format: str, options: dict[str, str], sign: str) -> str | None:
    """The first of the files that Spark refuses by itself, with this in what it says."""
    for file in files.files:
        try:
            read_table(spark, unquote(file.uri), format, options).schema  # noqa: B018 -- only this reads it on Connect
        except Exception as error:
            if sign in str(error):
                return file.uri
    return None
