"""`stream_report`: the report as a streaming job, whose page and tables follow the journal.

What it knows lies in the checkpoint, as a snapshot for each batch made of the one before and of the batch. So a batch
that is done again after a crash finds the same snapshot and adds to it once, and losing the checkpoint loses both. Two
snapshots are kept. They grow with the buckets of time, queues, workers and kinds of errors, not with the messages; only
those that are not gone yet are remembered one by one.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from localqueue.spark import sail
from localqueue.spark.jobs import analytics
from localqueue.spark.jobs.facts import NEEDED, cells, still_open, told, with_past
from localqueue.spark.jobs.files import folder_at
from localqueue.spark.jobs.known_names import need_queue
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.jobs.report import SLOTS, collected, local_path, no_journal, source_options, write_whole
from localqueue.spark.jobs.report_page import page
from localqueue.spark.jobs.report_text import number
from localqueue.spark.jobs.small_tables import at_hand
from localqueue.spark.place import opened
from localqueue.spark.spark_session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Seconds after which a browser that shows the page reads it anew.
REFRESH = 15


def stream_report(
    spark: SparkSession,
    url: str | None = None,
    *,
    checkpoint: str | os.PathLike[str],
    output: str | os.PathLike[str],
    queue: str | None = None,
    namespace: str | None = None,
    events: DataFrame | None = None,
    trigger: str | None = None,
    available_now: bool = False,
    max_events: int | None = None,
    title: str | None = None,
    progress: Progress | None = None,
) -> StreamingQuery:
    """Follow the journal at `url`, or the stream `events` of the `events` view, and report after every batch.

    `output` is a folder of the driver that gets `report.html` and `tables/<name>.parquet`, each replaced as a whole.
    Percentiles are right to 1 %. `trigger` is how often to look, such as `"30 seconds"`, else as soon as the last batch
    is done; `available_now` reports what is there and ends. A batch has at most `max_events` entries. Every entry
    counts once, whatever is killed and started again with the same checkpoint.
    """
    if sail.runs(spark):
        sail.refuse_streams("stream_report")
    if trigger is not None and available_now:
        raise ValueError(f"trigger {trigger!r} and available_now say different things: give one of them")
    origin = ""
    if events is None:
        most = None if max_events is None else str(max_events)
        texts, options = source_options(url, queue, namespace, mode="subscribe", maxOffsetsPerTrigger=most)
        with opened(options, read_only=True) as store:
            first, last = store.journal_span()
            if last < first and not store.journal_enabled():
                raise ValueError(no_journal(store))
            need_queue(store, queue)
            origin = store.url
        events = spark.readStream.format("localqueue").options(**texts).load()
    if not events.isStreaming:
        raise ValueError("events is not a stream: report() makes the report of a DataFrame")
    folder = os.fspath(checkpoint)
    if not is_remote(spark):
        folder_at(spark, folder)  # which says what is missing when Spark can not get there
    follow = _Follower(
        state=f"{folder.rstrip('/')}/report",
        output=Path(local_path("output", output)),
        title=title or ("Journal" if queue is None else f"Queue {queue}"),
        origin=origin,
        say=silent if progress is None or is_remote(spark) else progress,  # a server has nobody to tell
    )
    delay = ["delay"] if "delay" in events.columns else []
    writer = events.select(*NEEDED, *delay).writeStream.foreachBatch(follow).option("checkpointLocation", folder)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    return writer.start()


class _Snapshot(NamedTuple):
    """What is known after a batch: entries of open messages, cells of all that happened, the slowest messages."""

    entries: DataFrame
    cells: DataFrame
    slowest: DataFrame


class _Follower:
    """Adds a batch to the snapshot of the one before and writes the report."""

    def __init__(self, *, state: str, output: Path, title: str, origin: str, say: Progress) -> None:
        self._state = state
        self._output = output
        self._title = title
        self._origin = origin
        self._say = say

    def __call__(self, batch: DataFrame, number_: int) -> None:
        before = self._snapshot(batch.sparkSession, number_ - 1) if number_ > 0 else None
        past = with_past(_both(batch, None if before is None else before.entries)).persist()
        kept = None
        try:
            new = told(past)
            both = _both(new, None if before is None else before.cells)
            kept = cells(both, analytics.bucket_of(both, SLOTS)).persist()
            slow = _both(analytics.slowest(new), None if before is None else before.slowest)
            slow = slow.orderBy(slow["total"].desc(), "message_id").limit(20)
            self._keep(number_, _Snapshot(still_open(past), kept, slow))
            self._publish(number_, kept)
        finally:
            past.unpersist()
            if kept is not None:
                kept.unpersist()

    def _slot(self, number_: int) -> str:
        """The place of a batch's snapshot: that of the batch before is not touched until this one is done."""
        return f"{self._state}/{'even' if number_ % 2 == 0 else 'odd'}"

    def _snapshot(self, spark: SparkSession, number_: int) -> _Snapshot:
        slot = self._slot(number_)
        known = _Snapshot(*(spark.read.parquet(f"{slot}/{name}") for name in _Snapshot._fields))
        marked = known.cells.select("batch").first()
        if marked is not None and marked[0] != number_:
            raise ValueError(
                f"the snapshot {slot} is of batch {marked[0]}, not of batch {number_}: the checkpoint was changed by "
                "something else; begin anew with another checkpoint folder"
            )
        return known._replace(cells=known.cells.drop("batch"))

    def _keep(self, number_: int, snapshot: _Snapshot) -> None:
        from pyspark.sql import functions as F

        marked = snapshot._replace(cells=snapshot.cells.withColumn("batch", F.lit(number_).cast("bigint")))
        for name, table in marked._asdict().items():
            table.coalesce(1).write.mode("overwrite").parquet(f"{self._slot(number_)}/{name}")

    def _publish(self, number_: int, kept: DataFrame) -> None:
        import pyarrow.parquet as pq

        if kept.isEmpty():
            return
        spark = kept.sparkSession
        width = analytics.bucket_of(kept)
        tables = collected(at_hand(kept), width, slowest=spark.read.parquet(f"{self._slot(number_)}/slowest"))
        for name, table in tables.items():
            data = io.BytesIO()
            pq.write_table(table, data)
            write_whole(self._output / "tables" / f"{name}.parquet", data.getvalue())
        rows = {name: table.to_pylist() for name, table in tables.items()}
        text = page(rows, title=self._title, source=self._origin, width=width, refresh=REFRESH)
        write_whole(self._output / "report.html", text.encode())
        whole = next(row for row in rows["flow"] if row["queue"] is None)
        self._say(f"batch {number_}: {number(whole['events'])} events so far")


def _both(new: DataFrame, old: DataFrame | None) -> DataFrame:
    return new if old is None else old.unionByName(new, allowMissingColumns=True)
