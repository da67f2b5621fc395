"""Reading and writing whole tables, whatever their format, for the jobs that take or make one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from os import PathLike, fspath
from typing import TYPE_CHECKING, NamedTuple

from localqueue.spark.jobs import delta_table
from localqueue.spark.jobs.archive_layout import WRITING
from localqueue.spark.jobs.arguments import known_schema
from localqueue.spark.jobs.files import Folder, files_in, folder_at, from_here
from localqueue.spark.jobs.hadoop import file_system, reached
from localqueue.spark.jobs.lake_table import LakeTable, one_place
from localqueue.spark.jobs.row_count import RowCount
from localqueue.spark.jobs.staged_files import known_format, plain_timestamps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Formats that can be read, by the ending of the file. A Delta table is known by its log.
ENDINGS = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet",
    ".orc": "orc", ".txt": "text", ".text": "text", ".log": "text",
}  # fmt: skip
READABLE = ("json", "csv", "parquet", "orc", "delta", "text")
MODES = ("error", "append", "overwrite")
#: CSV as RFC 4180 has it: quotes are doubled, lines may break inside of quotes, blanks belong to the value. A row with
#: more or fewer fields than the header, or a file with another header, is an error and not a row with holes. An empty
#: field is NULL whatever `nullValue` is; that of Spark would make NULL of one in quotes too, which is empty text.
_RFC_4180 = {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
CSV_IN = {
    **_RFC_4180, "multiLine": "true", "enforceSchema": "false", "mode": "FAILFAST",
    "nullValue": "\x00",
}  # fmt: skip
#: Times to the microsecond, which Spark cuts to milliseconds in text.
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}  # fmt: skip
_PACKED = (".gz", ".bz2", ".zst", ".zstd", ".snappy", ".lz4")


class WrittenTable(NamedTuple):
    uri: str
    rows: int


class Files(NamedTuple):
    """A folder that files of a format are written to."""

    path: str | PathLike[str]
    format: str


def target_of(
    spark: SparkSession, path: str | PathLike[str] | None, table: str | None, format: str | None
) -> Files | LakeTable:
    """Where a job writes to: files, or a table of a catalog; ValueError when it is neither or both."""
    one_place(path, table)
    if table is not None:
        return LakeTable(spark, table, format)
    assert path is not None
    return Files(path, known_format(format or "parquet"))


def write_target(df: DataFrame, target: Files | LakeTable, *, mode: str = "error") -> WrittenTable:
    """Write rows where they are to go. A table of a catalog changes in one commit."""
    if isinstance(target, Files):
        return write_table(df, target.path, format=target.format, mode=mode)
    known_mode(mode)
    if target.exists and mode == "error":
        raise ValueError(f"table {target.uri} is there already: give another one, or a mode")
    rows = target.append(df) if target.exists and mode == "append" else target.replace(df)
    return WrittenTable(target.uri, rows)


def known_mode(mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")


def format_of(path: str) -> str | None:
    """The format that the ending of a file tells, also when it is packed; None when it does not."""
    name = path.rstrip("/").rpartition("/")[2].lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return next((format for ending, format in ENDINGS.items() if name.endswith(ending)), None)


def find_format(spark: SparkSession, path: str, given: str | None) -> str:
    """The format to read a path in: as given, or as its ending or that of all its files tells."""
    if given is not None:
        return known_format("json" if given in ("jsonl", "ndjson") else given, READABLE)
    found = format_of(path)
    if found is None and not any(sign in path for sign in "*?[{"):
        folder = folder_at(spark, path)
        if any(entry.name == "_delta_log" for entry in folder.entries()):
            return "delta"
        if not folder.entries():
            raise ValueError(f"there is nothing at {folder.uri}: check the path, or come back when a file has landed")
        formats = {format_of(name) for name, _ in files_in(folder)}
        found = formats.pop() if len(formats) == 1 else None  # among others there may be what nobody meant
    if found is None:
        raise ValueError(f"the format of {path!r} does not show in its name: give format, one of {', '.join(READABLE)}")
    return found


def read_table(
    spark: SparkSession,
    path: str | PathLike[str],
    format: str,
    options: Mapping[str, str] | None = None,
    schema: StructType | str | None = None,
) -> DataFrame:
    """The rows of a path; ValueError when there is nothing."""
    from pyspark.errors import AnalysisException

    text = fspath(path)
    if format == "delta":
        if options:
            raise ValueError(f"a Delta table is read without options, not with {', '.join(options)}")
        return delta_table.read_delta(spark, folder_at(spark, text))
    far = "://" in text and getattr(spark, "_jsc", None) is not None
    if far:
        file_system(spark, text)  # which says what is missing when there is no driver
    reader = spark.read.options(**dict(options or {})).format(format)
    if schema is not None:
        reader = reader.schema(known_schema(schema))
    try:
        with reached(text) if far else nullcontext():
            return reader.load(from_here(spark, text))
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise ValueError(f"there is nothing at {text!r}") from None
        if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
            raise ValueError(f"there are no {format} files with rows at {text!r}") from None
        raise


def write_table(
    df: DataFrame,
    path: str | PathLike[str],
    *,
    format: str = "parquet",
    mode: str = "error",
    partition_by: Sequence[str] = (),
) -> WrittenTable:
    """Write rows to a path. A Delta table changes in one commit; of others, a failed `overwrite` leaves a part."""
    spark = df.sparkSession
    known_format(format)
    known_mode(mode)
    folder = folder_at(spark, path)
    there = [entry.name for entry in folder.entries() if not entry.name.startswith(".")]
    is_delta = "_delta_log" in there
    if there and (mode == "error" or is_delta != (format == "delta")):
        what = "is a Delta table" if is_delta else f"is not empty ({there[0]} is there)"
        raise ValueError(f"{folder.uri} {what}: give another path" + (", or a mode" if mode == "error" else ""))
    try:
        return WrittenTable(folder.uri, _written(df, folder, format, mode, partition_by))
    except BaseException:
        if not there:  # who runs this again needs a path at which there is nothing
            folder.remove_empty(WRITING)
            folder.remove_empty()
        raise


def _written(df: DataFrame, folder: Folder, format: str, mode: str, partition_by: Sequence[str]) -> int:
    if format == "delta":
        way = "append" if mode == "error" else mode
        return delta_table.write_delta(df, folder, mode=way, partition_by=partition_by).rows
    if format == "csv":
        df = _flat(df)
    counted = RowCount(df)
    writer = counted.rows.write.mode(mode)
    if format in ("csv", "json"):
        writer = writer.options(**_TIMES, **(_RFC_4180 if format == "csv" else {}))
    with plain_timestamps(df.sparkSession):
        (writer.partitionBy(*partition_by) if partition_by else writer).format(format).save(folder.uri)
    return counted.number()


def _flat(df: DataFrame) -> DataFrame:
    """The same with what a cell of CSV can not hold as text: JSON, and base64."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    for field in df.schema:
        if isinstance(field.dataType, t.StructType | t.ArrayType | t.MapType | t.VariantType):
            df = df.withColumn(field.name, f.to_json(field.name, _TIMES))
        elif isinstance(field.dataType, t.BinaryType):
            df = df.withColumn(field.name, f.base64(field.name))
    return df
