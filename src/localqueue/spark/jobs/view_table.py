"""A table in Parquet that is replaced a part at a time, each time in one step.

    _localqueue.json        what this is
    _commits/<n>.json       which folder holds which part, from the n-th change on
    batch-<n>-<mark>/…      the parts that the n-th change wrote

The highest commit is the table. A change writes its parts where they stay, and then its commit, a file that only one
writer can make: nothing is renamed, because an object store can not do that in one step. What neither the last commit
nor the one before it names is removed, so a query has one change's time to finish.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from localqueue.spark.jobs.files import Folder, files_in, reader_of
from localqueue.spark.jobs.staged_files import write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

COMMITS = "_commits"
#: How many parts the keys of a table are divided into: a change rewrites those that it touches.
BUCKETS = 16


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One change: the query and batch that made it, and all parts as they are since."""

    number: int
    query: str
    batch: int
    parts: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> Commit:
        """The commit that a text is, or ValueError."""
        try:
            found = Commit(**json.loads(text))
            parts = [*found.parts, *found.parts.values()]
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"it is no commit ({error})") from None
        kinds = (type(found.number), type(found.query), type(found.batch), *map(type, parts))
        if kinds != (int, str, int, *[str] * len(parts)):
            raise ValueError("it is no commit (a value has another type)")
        return found

    def has(self, query: str, batch: int) -> bool:
        return self.query == query and self.batch >= batch


def commits_in(folder: Folder) -> list[Commit]:
    """The last two commits, the newest first."""
    names = sorted((entry.name for entry in folder.entries(COMMITS) if entry.name[0].isdigit()), reverse=True)
    found = []
    for name in names[:2]:
        text = folder.read(f"{COMMITS}/{name}")
        try:
            found += [Commit.of(text)] if text else []
        except ValueError as error:
            raise ValueError(f"the view at {folder.uri} is damaged: {COMMITS}/{name}: {error}") from None
    return found


def read_parts(spark: SparkSession, folder: Folder, schema: StructType, names: list[str]) -> DataFrame:
    if not names:
        return spark.createDataFrame([], schema)
    return reader_of(spark, folder, files_in(folder, *names)).schema(schema).parquet(*map(folder.at, names))


def replace_all(df: DataFrame, folder: Folder, query: str, batch: int) -> bool:
    """Make the table these rows; False when that batch had been committed before."""
    return _change(folder, query, batch, lambda parts, name: _whole(df, folder, name), anew=True)


def merge_keys(df: DataFrame, folder: Folder, query: str, batch: int, *, anew: bool = False) -> bool:
    """Bring rows with a `key`, a `seq` and whether they are `gone` into a table of keys; False as above.

    With `anew` the table is these rows, whatever it was before.
    """
    return _change(folder, query, batch, lambda parts, name: _merged(df, folder, parts, name), anew=anew)


_Write = Callable[[Mapping[str, str], str], dict[str, str | None]]


def _change(folder: Folder, query: str, batch: int, write: _Write, *, anew: bool = False) -> bool:
    before = commits_in(folder)
    if before and before[0].has(query, batch):
        return False
    parts = dict(before[0].parts) if before and not anew else {}
    number = before[0].number + 1 if before else 1
    name = f"batch-{number:012d}-{uuid.uuid4().hex[:8]}"
    for part, inner in write(parts, name).items():
        if inner is None:
            parts.pop(part, None)
        else:
            parts[part] = f"{name}/{inner}" if inner else name
    commit = Commit(number=number, query=query, batch=batch, parts=parts)
    try:
        folder.write(f"{COMMITS}/{number:012d}.json", json.dumps(asdict(commit)))
    except FileExistsError:
        folder.remove(name)
        raise RuntimeError(f"somebody else has changed the view at {folder.uri} meanwhile: run this again") from None
    _remove_unread(folder, {*parts.values(), *(before[0].parts.values() if before else ())}, number)
    return True


def _whole(df: DataFrame, folder: Folder, name: str) -> dict[str, str | None]:
    write_files(df, folder, name)
    return {"all": ""}


def _merged(df: DataFrame, folder: Folder, parts: Mapping[str, str], name: str) -> dict[str, str | None]:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    new = df.withColumn("bucket", f.pmod(f.xxhash64("key"), f.lit(BUCKETS)).cast("int")).persist()
    try:
        touched = [str(row["bucket"]) for row in new.select("bucket").distinct().collect()]
        schema = StructType([field for field in df.schema.fields if field.name != "gone"])
        old = read_parts(df.sparkSession, folder, schema, [parts[part] for part in touched if part in parts])
        old = old.withColumn("gone", f.lit(False))
        old = old.withColumn("bucket", f.pmod(f.xxhash64("key"), f.lit(BUCKETS)).cast("int"))
        others = [name for name in new.columns if name != "key"]
        last = new.unionByName(old).groupBy("key").agg(f.max_by(f.struct(*others), "seq").alias("last"))
        rows = last.select("key", *(f.col(f"last.{name}").alias(name) for name in others)).where("not gone")
        write_files(rows.select(*schema.fieldNames(), "bucket").repartition("bucket"), folder, name, ["bucket"])
    finally:
        new.unpersist()
    written = {entry.name for entry in folder.entries(name)}
    return {part: f"bucket={part}" if f"bucket={part}" in written else None for part in touched}


def _remove_unread(folder: Folder, named: set[str], number: int) -> None:
    for entry in folder.entries(COMMITS):
        if entry.name[0].isdigit() and int(entry.name.partition(".")[0]) < number - 1:
            folder.remove(f"{COMMITS}/{entry.name}")
    for entry in folder.entries():
        # Later ones are of a writer that goes on from this commit.
        if not entry.name.startswith("batch-") or int(entry.name.split("-")[1]) > number or entry.name in named:
            continue
        inner = [f"{entry.name}/{part.name}" for part in folder.entries(entry.name) if part.name.startswith("bucket=")]
        unread = [name for name in inner if name not in named]
        for name in [entry.name] if len(unread) == len(inner) else unread:
            folder.remove(name)
