"""Delta tables without a jar: Spark's tasks write the Parquet files, the driver commits them with delta-rs.

In a folder that the driver sees as a path, or on S3, where a commit is one request that only the first of two writers
gets through. A commit can carry a transaction, a name and a number that only
grows: whoever committed under that name reads the number from the table and knows what is in it.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from localqueue.spark.jobs.files import Folder, LocalFolder, files_in, reader_of
from localqueue.spark.jobs.hadoop import Entry, HadoopFolder
from localqueue.spark.jobs.staged_files import Staged, stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What a table may ask of its readers that plain Parquet files can answer.
_READABLE = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


class Transaction(NamedTuple):
    """Under which name a commit is made, and its number.

    `after` is the number of the one before it, 0 for none: where there has been another one since, it is not made.
    """

    name: str
    version: int
    after: int | None = None


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


class Location(NamedTuple):
    """Where delta-rs finds a table, and what it has to be told to get there."""

    uri: str
    options: dict[str, str] | None = None


#: What Hadoop's settings of S3 are called by delta-rs.
_S3 = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint": "aws_endpoint",
    "endpoint.region": "aws_region",
}


def location_of(folder: Folder) -> Location:
    """The place of a table; ValueError where there can be none."""
    if isinstance(folder, LocalFolder):
        return Location(str(folder.path))
    scheme, _, rest = folder.uri.partition("://")
    if scheme not in ("s3a", "s3") or not isinstance(folder, HadoopFolder):
        raise ValueError(
            f"a Delta table is kept in a local or mounted folder or on S3, not at {folder.uri}: use parquet there"
        )
    options = {name: folder.setting(key) for key, name in _S3.items()}
    endpoint = options["aws_endpoint"] or ""
    options["aws_allow_http"] = "true" if endpoint.startswith("http://") else None
    options["aws_virtual_hosted_style_request"] = "false" if folder.setting("path.style.access") == "true" else None
    return Location(f"s3://{rest}", {name: value for name, value in options.items() if value})


def table_at(folder: Folder) -> Any | None:
    """The table in a folder, None when there is none."""
    deltalake = need_delta()
    uri, options = location_of(folder)
    return deltalake.DeltaTable(uri, storage_options=options) if _is_table(folder) else None


def _is_table(folder: Folder) -> bool:
    return bool(folder.entries("_delta_log"))


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
    use one name at a time can not both commit: the later one raises, and so does one that follows another number.
    """
    deltalake = need_delta()
    uri, options = location_of(folder)
    staged = stage(df, folder, partition_by)
    try:
        actions = [_named(folder, staged.name, file, entry, partition_by) for file, entry in _listed(folder, staged)]
        properties = deltalake.CommitProperties(app_transactions=_transactions(deltalake, transaction))
        schema = deltalake.Schema.from_json(df.schema.json())
        table = table_at(folder)
        if table is None:
            deltalake.transaction.create_table_with_add_actions(
                uri, schema, actions, mode="error", partition_by=list(partition_by),
                commit_properties=properties, storage_options=options,
            )  # fmt: skip
        elif transaction is not None and _has(table, transaction):
            _remove(folder, actions)
            return Committed(0, 0)
        elif transaction is not None and not _follows(table, transaction):
            _remove(folder, actions)
            raise CommittedElsewhere(f"somebody else has committed to {folder.uri} meanwhile: run this again")
        else:
            table.create_write_transaction(
                actions, mode, schema, partition_by=list(partition_by), commit_properties=properties
            )
    except deltalake.exceptions.CommitFailedError as error:
        raise CommittedElsewhere(f"somebody else has committed to {folder.uri} meanwhile: run this again") from error
    finally:
        folder.remove(staged.name)
    return Committed(staged.rows, len(actions))


def _remove(folder: Folder, actions: Sequence[Any]) -> None:
    for action in actions:
        folder.remove(action.path)


def _has(table: Any, transaction: Transaction) -> bool:
    done = table.transaction_version(transaction.name)
    return done is not None and bool(done >= transaction.version)


def _follows(table: Any, transaction: Transaction) -> bool:
    return transaction.after is None or transaction.after == (table.transaction_version(transaction.name) or 0)


def _transactions(deltalake: Any, transaction: Transaction | None) -> list[Any]:
    return [] if transaction is None else [deltalake.Transaction(transaction.name, transaction.version)]


def _listed(folder: Folder, staged: Staged) -> list[tuple[str, Entry]]:
    return list(files_in(folder, staged.name))  # before any of them is moved


def _named(folder: Folder, staged: str, file: str, entry: Entry, partition_by: Sequence[str]) -> Any:
    """Move a file to where a table has it, and describe it for the log."""
    from deltalake.transaction import AddAction

    within = posixpath.relpath(file, staged)
    values = {}
    for step in within.split("/")[: len(partition_by)]:
        name, _, value = step.partition("=")
        values[name] = None if value == _NULL_PARTITION else unquote(value)
    statistics = _statistics(_metadata(folder, file))
    folder.rename(file, within)
    return AddAction(
        path=within,
        size=entry.size,
        partition_values=values,
        modification_time=int(entry.modified * 1000),
        data_change=True,
        stats=json.dumps(statistics),
    )


def _metadata(folder: Folder, file: str) -> Any:
    import pyarrow.parquet as parquet

    uri, options = location_of(folder)
    if options is None:
        return parquet.read_metadata(f"{uri}/{file}")
    from deltalake.fs import DeltaStorageHandler

    with DeltaStorageHandler(uri, options).open_input_file(file) as opened:
        return parquet.read_metadata(opened)


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
    root = location_of(folder).uri
    spelled = [folder.at(file.removeprefix("file://").removeprefix(f"{root}/")) for file in files]
    named = {*spelled}
    read = reader_of(spark, folder, (one for one in files_in(folder) if folder.at(one[0]) in named))
    return read.schema(schema).option("basePath", folder.uri).parquet(*spelled)


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
