"""Delta tables without a jar: Spark's tasks write the Parquet files, the driver commits them with delta-rs.

Only tables in a folder that the driver sees as a path. A commit can carry a transaction, a name and a number that only
grows: whoever committed under that name reads the number from the table and knows what is in it.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from localqueue.spark.jobs.files import Folder, LocalFolder, files_in, reader_of
from localqueue.spark.jobs.staged_files import stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What a table may ask of its readers that plain Parquet files can answer.
_READABLE = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


class Transaction(NamedTuple):
    """Under which name a commit is made, and its number."""

    name: str
    version: int


class CommittedElsewhere(RuntimeError):
    """Two writers at a time: the table has what the other one wrote, and nothing of this."""


class Committed(NamedTuple):
    rows: int
    files: int


def need_delta() -> Any:
    """The module deltalake, or an error that says how to get it."""
    try:
        import deltalake
    except ImportError:
        raise ValueError(
            "format 'delta' needs the package deltalake, which is not installed: pip install \"localqueue[delta]\""
        ) from None
    return deltalake


def local(folder: Folder) -> LocalFolder:
    if not isinstance(folder, LocalFolder):
        raise ValueError(f"a Delta table is kept in a local or mounted folder, not at {folder.uri}: use parquet there")
    return folder


def table_at(folder: Folder) -> Any | None:
    """The table in a folder, None when there is none."""
    path = str(local(folder).path)
    deltalake = need_delta()
    return deltalake.DeltaTable(path) if deltalake.DeltaTable.is_deltatable(path) else None


def committed_version(folder: Folder, name: str) -> int | None:
    """The number of the last commit under a name, None when there was none."""
    table = table_at(folder)
    return None if table is None else table.transaction_version(name)


def write_delta(
    df: DataFrame,
    folder: Folder,
    *,
    mode: str = "append",
    partition_by: Sequence[str] = (),
    transaction: Transaction | None = None,
) -> Committed:
    """Write a DataFrame as one commit of a Delta table, which is made when there is none.

    With a transaction whose number is not above the table's, nothing is committed and `rows` is 0. Two writers that
    use one name at a time can not both commit: the later one raises.
    """
    deltalake = need_delta()
    place = local(folder)
    staged = stage(df, place, partition_by)
    try:
        actions = [_named(place, staged.name, file, df, partition_by) for file, _ in files_in(place, staged.name)]
        properties = deltalake.CommitProperties(app_transactions=_transactions(deltalake, transaction))
        schema = deltalake.Schema.from_json(df.schema.json())
        table = table_at(place)
        if table is None:
            deltalake.transaction.create_table_with_add_actions(
                str(place.path), schema, actions, mode="error", partition_by=list(partition_by),
                commit_properties=properties,
            )  # fmt: skip
        elif transaction is not None and _has(table, transaction):
            for action in actions:
                place.remove(action.path)
            return Committed(0, 0)
        else:
            table.create_write_transaction(
                actions, mode, schema, partition_by=list(partition_by), commit_properties=properties
            )
    except deltalake.exceptions.CommitFailedError as error:
        raise CommittedElsewhere(f"somebody else has committed to {place.uri} meanwhile: run this again") from error
    finally:
        place.remove(staged.name)
    return Committed(staged.rows, len(actions))


def _has(table: Any, transaction: Transaction) -> bool:
    done = table.transaction_version(transaction.name)
    return done is not None and bool(done >= transaction.version)


def _transactions(deltalake: Any, transaction: Transaction | None) -> list[Any]:
    return [] if transaction is None else [deltalake.Transaction(transaction.name, transaction.version)]


def _named(place: LocalFolder, staged: str, file: str, df: DataFrame, partition_by: Sequence[str]) -> Any:
    """Move a file to where a table has it, and describe it for the log."""
    import pyarrow.parquet as parquet
    from deltalake.transaction import AddAction

    within = posixpath.relpath(file, staged)
    metadata = parquet.read_metadata(place.path / file)
    values = {}
    for step in within.split("/")[: len(partition_by)]:
        name, _, value = step.partition("=")
        values[name] = None if value == _NULL_PARTITION else unquote(value)
    place.rename(file, within)
    status = (place.path / within).stat()
    return AddAction(
        path=within,
        size=status.st_size,
        partition_values=values,
        modification_time=int(status.st_mtime * 1000),
        data_change=True,
        stats=json.dumps(_statistics(metadata)),
    )


def _statistics(metadata: Any) -> dict[str, Any]:
    """What the log says of a file: its rows, and the range of the numbers of its entries."""
    found: dict[str, Any] = {"numRecords": metadata.num_rows}
    low: list[int] = []
    high: list[int] = []
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            if chunk.path_in_schema == "seq" and chunk.statistics is not None and chunk.statistics.has_min_max:
                low.append(chunk.statistics.min)
                high.append(chunk.statistics.max)
    if low and len(low) == metadata.num_row_groups:
        found["minValues"], found["maxValues"] = {"seq": min(low)}, {"seq": max(high)}
    return found


def read_delta(spark: SparkSession, folder: Folder) -> DataFrame:
    """The table as it is now. Only what plain Parquet files can say: no deletion vectors, no column mapping."""
    from pyspark.sql.types import StructType

    table = table_at(folder)
    if table is None:
        raise ValueError(f"there is no Delta table at {folder.uri}")
    asked = set(table.protocol().reader_features or ())
    if asked - _READABLE:
        raise ValueError(
            f"the Delta table at {folder.uri} uses {', '.join(sorted(asked - _READABLE))}, which can not be read "
            "without Delta's own jar: read it with that, and give the DataFrame"
        )
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    root = local(folder)
    spelled = [f"file://{file.removeprefix('file://')}" for file in files]
    named = {*spelled}
    read = reader_of(spark, root, (one for one in files_in(root) if root.at(one[0]) in named))
    return read.schema(schema).option("basePath", root.uri).parquet(*spelled)


def merge_delta(df: DataFrame, folder: Folder, transaction: Transaction, *, anew: bool = False) -> bool:
    """Bring rows with a `key`, a `seq` and whether they are `gone` into a table of keys; False when it had been done.

    A row is taken when it is newer than the one of its key. They go through the memory of the driver. Columns that the
    table lacks are added; with `anew` the table is these rows, whatever it was before.
    """
    deltalake = need_delta()
    table = table_at(folder)
    columns = [name for name in df.columns if name != "gone"]
    if table is None or anew:
        mode = "append" if table is None else "overwrite"
        write_delta(df.where("not gone").select(*columns), folder, mode=mode, transaction=transaction)
        return True
    if _has(table, transaction):
        return False
    there = {field.name for field in table.schema().fields}
    lacking = [one for one in deltalake.Schema.from_json(df.schema.json()).fields if one.name not in {*there, "gone"}]
    if lacking:
        table.alter.add_columns(lacking)
        table = table_at(folder)
        assert table is not None
    values = {f"`{name}`": f"s.`{name}`" for name in columns}
    merging = table.merge(
        df.toArrow(), "t.key = s.key", source_alias="s", target_alias="t",
        commit_properties=deltalake.CommitProperties(app_transactions=_transactions(deltalake, transaction)),
    )  # fmt: skip
    merging = merging.when_matched_delete("s.gone and s.seq > t.seq").when_matched_update(values, "s.seq > t.seq")
    merging.when_not_matched_insert(values, "not s.gone").execute()
    return True


def tidy_delta(folder: Folder, *, files: int) -> int:
    """Merge small files when there are more than `files` of them; how many were merged.

    What no version of the last seven days needs is removed, also the files of writers that died before their commit.
    """
    table = table_at(folder)
    if table is None or len(table.file_uris()) <= files:
        return 0
    merged = int(table.optimize.compact()["numFilesRemoved"])
    table.vacuum(dry_run=False)
    return merged
