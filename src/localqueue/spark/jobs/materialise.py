"""`materialise`: a table that follows a queue, by a streaming query over its journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING

from localqueue.spark import sail
from localqueue.spark.jobs import delta_table, view_table
from localqueue.spark.jobs.archive_layout import MARKER
from localqueue.spark.jobs.arguments import first_line, known_schema
from localqueue.spark.jobs.files import Folder, folder_at
from localqueue.spark.jobs.journal_past import past_messages, whole_past
from localqueue.spark.jobs.journal_rows import place_of
from localqueue.spark.jobs.known_names import need_queue
from localqueue.spark.jobs.lake_table import LakeTable, one_place
from localqueue.spark.jobs.latest import MESSAGE_KEYS, json_path, need_key
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.jobs.staged_files import known_format, write_files
from localqueue.spark.jobs.view_keeper import SCHEMA, TableKeeper
from localqueue.spark.jobs.view_query import COLUMNS, check_query, queried, typed
from localqueue.spark.jobs.view_shape import Shape, claim, evolved, note, shape_at, shape_of_table
from localqueue.spark.lineage import path_of, queue_of, told
from localqueue.spark.options import Options
from localqueue.spark.place import opened
from localqueue.spark.spark_session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

VIEW_FORMATS = ("parquet", "delta")
#: Keys that are columns; any other is a field of the payload.
_COLUMN_KEYS = tuple(name for name in MESSAGE_KEYS if name in COLUMNS)


@dataclass(frozen=True, kw_only=True)
class MaterialiseResult:
    """A view that is up to date with what the journal had when the run began."""

    path: str
    format: str
    batches: int

    def __str__(self) -> str:
        return f"{self.path} ({self.format}) is up to date after {self.batches} batches"


@told(reads=queue_of, writes=path_of)
def materialise(
    spark: SparkSession,
    *,
    url: str,
    queue: str,
    path: str | PathLike[str] | None = None,
    table: str | None = None,
    key: str | None = None,
    sql: str | None = None,
    schema: StructType | str | None = None,
    format: str | None = None,
    checkpoint: str | PathLike[str] | None = None,
    available_now: bool = True,
    every: str = "5 seconds",
    max_entries: int | None = None,
    namespace: str | None = None,
    archive: str | PathLike[str] | None = None,
    rebuild: bool = False,
    fail_on_data_loss: bool = True,
    options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> MaterialiseResult | StreamingQuery:
    """Keep a table up to date with the messages that are put into a queue; its journal must be on.

    It is at `path`, in `parquet` or, committed with delta-rs, in `delta`. Or it is a `table` of a catalog, which Spark
    writes with the jars of `iceberg` or `delta`, one commit a batch; then `checkpoint` must be given, a folder of its
    own for all but the rows, and `spark.table` reads it.

    With `key` (`ordering_key`, `dedupe_key` or a field of the payload such as `user.id`) the table has the latest
    message of each key; a payload that is null removes its key. With `sql`, it has the result of an aggregating query
    over the view `messages`: `SELECT status, count(*) AS n FROM messages GROUP BY status`. With `schema`, the payload's
    fields are columns, in place of `value` in a table by key and beside it in a query.

    Run again with the same path or table it goes on where it stopped, and a batch that is run twice counts once. By
    default it runs until the table has what the journal had at the start; without `available_now` it goes on, looks for
    news `every` so often, and the running query is returned. `checkpoint` is by default in the table's folder. A table
    at a path is read with `read_view`; a Delta table also by everything that reads Delta.

    A view that begins needs the whole journal. What was pruned comes from `archive`, each entry once; entries that
    neither has are an error that names them, unless `fail_on_data_loss` is False. A table by key takes up a wider
    `schema`: new rows have the new fields, those that are there have NULL in them. With `rebuild` the table is built
    anew from the journal, and `archive`, under another schema, key or query, and takes the place of the old one.
    """
    from pyspark.errors import AnalysisException

    from localqueue.spark.streams.older_spark import TO_THE_END, run_to_end

    if sail.runs(spark):
        sail.refuse_streams("materialise")
    one_place(path, table)
    if (key is None) == (sql is None):
        raise ValueError("give either key, for the latest message of each, or sql, for an aggregate")
    if key is not None and key not in ("ordering_key", "dedupe_key"):
        json_path(key)
    place = place_of(url, namespace=namespace, queue=queue)
    folder, lake = _where(spark, path, table, format, checkpoint)
    format = lake.format if lake is not None else format or "parquet"
    if schema is not None:
        known_schema(schema)
    text = schema if schema is None or isinstance(schema, str) else schema.simpleString()
    wanted = Shape(format=format, namespace=place.namespace, queue=queue, key=key, sql=sql, schema=text, table=table)
    if sql is not None:
        check_query(spark, sql, schema)  # before anything is made for one that is none
    beginning = _Beginning(archive=archive, fails=fail_on_data_loss, given=dict(options or {}))
    begins = shape_at(folder) is None
    beside = checkpoint if lake is None else None  # that of a table is the folder itself
    shape = _begun(spark, place, folder, lake, wanted, beside, rebuild, beginning)
    state = _state(folder, shape, beside)
    rows = _stream(spark, place, folder, shape, max_entries, beginning, available_now)
    checkpoints = folder_at(spark, state)
    before = _batches(checkpoints)
    say = silent if progress is None or is_remote(spark) else progress  # a server has nobody to tell
    keep = TableKeeper(folder, shape, checkpoints, schema, say)
    how = TO_THE_END if available_now else {"processingTime": every}
    if sql is None:
        writing = rows.writeStream.outputMode("append").foreachBatch(keep.merge)
        query = writing.option("checkpointLocation", state).trigger(**how).start()
    else:
        with queried(typed(rows, schema), sql) as found:
            writing = found.writeStream.outputMode("complete").foreachBatch(keep.replace)
            try:
                query = writing.option("checkpointLocation", state).trigger(**how).start()
            except AnalysisException as error:
                if begins:  # nothing has come of it
                    checkpoints.remove("metadata")
                    for name in (shape.checkpoint, shape.history, MARKER):
                        folder.remove(name)
                raise ValueError(
                    f"sql {sql!r} does not aggregate messages as a table that follows them needs it, such as SELECT "
                    f"queue, count(*) AS n FROM messages GROUP BY queue: {first_line(error)}"
                ) from None
    if not available_now:
        return query
    run_to_end(query)
    batches = _batches(checkpoints) - before
    if lake is not None and batches:
        lake.refresh()
    return MaterialiseResult(path=table or folder.uri, format=format, batches=batches)


def read_view(spark: SparkSession, path: str | PathLike[str]) -> DataFrame:
    """The table that `materialise` keeps at a path, as it is now; one of a catalog is read by `spark.table`."""
    from pyspark.sql.types import StructType

    folder = folder_at(spark, path)
    shape = shape_at(folder)
    if shape is None:
        raise ValueError(f"{folder.uri} is not a view: give the path that materialise writes to")
    if shape.table is not None:
        raise ValueError(f"{folder.uri} is the checkpoint of the view {shape.table}: read that by spark.table")
    if shape.format == "delta":
        return delta_table.read_delta(spark, folder)
    commits = view_table.commits_in(folder)
    if not commits:
        raise ValueError(f"the view at {folder.uri} has nothing yet: no batch has been committed")
    try:
        columns = StructType.fromJson(json.loads(folder.read(SCHEMA) or ""))
    except Exception as error:
        raise ValueError(f"the view at {folder.uri} is damaged: its {SCHEMA} is no schema ({error})") from None
    return view_table.read_parts(spark, folder, columns, list(commits[0].parts.values()))


@dataclass(frozen=True, kw_only=True)
class _Beginning:
    """What a view begins with that has read nothing yet."""

    archive: str | PathLike[str] | None
    fails: bool
    given: dict[str, str]

    @property
    def is_chosen(self) -> bool:
        return any(name.lower() in ("startingoffsets", "startingtimestamp") for name in self.given)


def _where(
    spark: SparkSession,
    path: str | PathLike[str] | None,
    table: str | None,
    format: str | None,
    checkpoint: str | PathLike[str] | None,
) -> tuple[Folder, LakeTable | None]:
    """The folder of a view, and the table of a catalog if its rows are in one."""
    if table is not None:
        if checkpoint is None:
            raise ValueError(f"table {table!r} has no folder in which a view could keep how far it is: give checkpoint")
        lake = LakeTable(spark, table, format)
        return folder_at(spark, checkpoint), lake
    assert path is not None
    known_format(format or "parquet", VIEW_FORMATS)
    folder = folder_at(spark, path)
    if format == "delta":
        delta_table.need_delta()
        delta_table.location_of(folder)
    return folder, None


def _state(folder: Folder, shape: Shape, checkpoint: str | PathLike[str] | None) -> str:
    if checkpoint is None:
        return folder.at(shape.checkpoint)
    return fspath(checkpoint) if shape.build == 1 else f"{fspath(checkpoint)}-{shape.build}"


def _begun(
    spark: SparkSession,
    place: Options,
    folder: Folder,
    lake: LakeTable | None,
    wanted: Shape,
    checkpoint: str | PathLike[str] | None,
    rebuild: bool,
    beginning: _Beginning,
) -> Shape:
    """The view as its folder notes it, with the past that its journal has lost laid beside it."""
    shape = _shape(folder, lake, wanted, rebuild)
    with opened(place, read_only=True) as store:
        need_queue(store, shape.queue)
    state = folder_at(spark, _state(folder, shape, checkpoint))
    if lake is not None and not lake.exists and _batches(state):
        raise ValueError(
            f"table {lake.uri} is not there any more, and {folder.uri} goes on from what it had: have it built anew "
            "(rebuild), or give another checkpoint"
        )
    if state.read("metadata") is not None or beginning.is_chosen:
        claim(folder, shape)
        return shape
    past = whole_past(spark, place, beginning.archive, fail_on_data_loss=beginning.fails)
    if shape.key is not None and shape.key not in _COLUMN_KEYS:
        fields = None if shape.schema is None else known_schema(shape.schema)
        need_key(past_messages(spark, place, past), shape.key, fields)
    claim(folder, shape)
    if past.rows is not None:
        rows = past.rows.where((past.rows["type"] == "enqueued") & (past.rows["queue"] == shape.queue))
        folder.remove(shape.history)
        write_files(rows.select(*COLUMNS), folder, shape.history)
    shape = replace(shape, past=past.through if past.rows is not None else 0)
    note(folder, shape)
    return shape


def _shape(folder: Folder, lake: LakeTable | None, wanted: Shape, rebuild: bool) -> Shape:
    """What the view becomes, by the note in its folder, or in its table when that is older than the folder."""
    noted = None if lake is None else shape_of_table(lake, wanted)
    if (found := shape_at(folder)) is not None:
        place = "path" if lake is None else "checkpoint"
        return evolved(found, wanted, folder.uri, rebuild=rebuild, place=place)
    if lake is not None and noted is not None:
        return evolved(noted, wanted, lake.uri, rebuild=rebuild, place="table")
    return wanted


def _stream(
    spark: SparkSession,
    place: Options,
    folder: Folder,
    shape: Shape,
    max_entries: int | None,
    beginning: _Beginning,
    available_now: bool,
) -> DataFrame:
    from localqueue.spark.streams.older_spark import IS_OLDER

    stream = spark.readStream.format("localqueue").option("url", place.url).option("namespace", place.namespace)
    stream = stream.option("queue", place.need_queue()).option("mode", "subscribe").option("view", "events")
    stream = stream.option("columns", ",".join(("type", *COLUMNS)))
    if max_entries is not None:
        stream = stream.option("maxOffsetsPerTrigger", str(max_entries))
    if available_now and IS_OLDER:  # newer ones find out themselves
        with opened(place, read_only=True) as store:
            stream = stream.option("endingOffsets", json.dumps({"seq": store.journal_span()[1]}))
    if not beginning.fails:
        stream = stream.option("failOnDataLoss", "false")
    elif not beginning.is_chosen:
        # From a number on, and not from wherever the journal begins: what is pruned until then is an error.
        stream = stream.option("startingOffsets", json.dumps({"seq": shape.past}))
    rows = stream.options(**beginning.given).load().where("type = 'enqueued'").drop("type")
    if not shape.past:
        return rows
    return spark.readStream.schema(rows.schema).parquet(folder.at(shape.history)).unionByName(rows)


def _batches(checkpoint: Folder) -> int:
    """How many batches the query has committed: the last one's number tells, because early ones are removed."""
    numbers = [int(entry.name) for entry in checkpoint.entries("commits") if entry.name.isdigit()]
    return max(numbers, default=-1) + 1
