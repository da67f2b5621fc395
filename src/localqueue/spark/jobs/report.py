"""`report`: what a journal tells of latency, throughput, retries, dead letters and workers, and a store of the runs of
its workflows, as tables and a page."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from localqueue.spark.columns import known_columns, struct_of
from localqueue.spark.jobs import analytics, arguments
from localqueue.spark.jobs.facts import NEEDED, cells, facts, width_for
from localqueue.spark.jobs.known_names import need_queue
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.jobs.report_page import page
from localqueue.spark.jobs.report_text import duration, moment, number, share
from localqueue.spark.jobs.small_tables import SMALL, as_one_part, at_hand, computed, rows_here
from localqueue.spark.lineage import path_of, queue_of, told
from localqueue.spark.options import OptionError, Options, parse
from localqueue.spark.place import opened

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from localqueue.stores.port import QueueStore


#: Up to so many entries percentiles are exact. Above, entries are first added up where they are alike to 1 %.
EXACT_UP_TO = 2_000_000

#: Slots of a journal whose entries were added up. More than a page has buckets, so that these can be chosen later.
SLOTS = 4 * analytics.BUCKETS

#: The kind of the records of runs, known here so that workflows are loaded only where there are some.
_RUN = "workflow.run"


@dataclass(frozen=True, kw_only=True)
class Report:
    """A finished report. The tables are small and hold nothing of the journal any more."""

    tables: dict[str, DataFrame]
    summary: str
    html_path: str | None = None
    _rows: dict[str, list[dict[str, Any]]] = field(repr=False)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table, one of `tables`."""
        if name not in self._rows:
            raise KeyError(f"there is no table {name!r}; there are {', '.join(self._rows)}")
        return self._rows[name]


@told(reads=lambda given: queue_of(given) or path_of(given, "events"), writes=lambda given: path_of(given, "html"))
def report(
    spark: SparkSession,
    url: str | None = None,
    *,
    queue: str | None = None,
    namespace: str | None = None,
    since: datetime | str | float | None = None,
    until: datetime | str | float | None = None,
    events: DataFrame | str | os.PathLike[str] | None = None,
    bucket: int | None = None,
    html: str | os.PathLike[str] | None = None,
    title: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """The tables of `analytics` for the journal at `url`, or for `events`: a DataFrame of the `events` view, or the
    folder that `archive` wrote the journal to.

    `since` and `until`, times with their zone, also as ISO text, choose the entries by their time. A message that was
    put before `since` is counted, but how long it waited is not known. `bucket` is the width of a bucket in seconds,
    chosen by the span when left out. `html` is the file that gets the page, whole or not at all. The journal is read
    once; `progress` hears what is being done.

    Where the store at `url` has runs of workflows, there are the tables of `run_analytics` too: of the runs that began
    in that time and whose workflow is at home in `queue`.
    """
    say = progress or (lambda _: None)
    chosen = _width_given(bucket)
    begin, end = arguments.moment("since", since), arguments.moment("until", until)
    path = None if html is None else local_path("html", html)
    runs, few = None, False
    if events is None:
        source, origin, runs, few = _journal(spark, url, queue, namespace, begin, end, say)
    elif isinstance(events, (str, os.PathLike)):
        from localqueue.spark.jobs.archive import read_archive

        origin = os.fspath(events)
        say(f"reading {origin}")
        source = read_archive(spark, origin)
    else:
        source, origin = events, ""
    known = _known(facts(_within(_checked(source), queue, begin, end)), few=few)
    kept = known.rows
    try:
        if known.entries == 0:
            raise ValueError(
                "there are no journal entries" + _which(queue, begin, end) + (f" in {origin}" if origin else "")
            )
        say(f"{number(known.entries)} events")
        width = chosen or width_for(known.span, analytics.BUCKETS)
        if known.entries > EXACT_UP_TO:
            say("adding up")
            kept = cells(known.rows, chosen or width_for(known.span, SLOTS)).persist()
        near = kept if few else at_hand(kept)
        found = collected(near, width, slowest=analytics.slowest(known.rows), say=say)
    finally:
        known.rows.unpersist()
        kept.unpersist()
    if runs is not None:
        from localqueue.spark.jobs.run_analytics import run_tables

        found.update(run_tables(_within(runs, queue, begin, end, time="created_at"), say=say))
    rows = {name: table.to_pylist() for name, table in found.items()}
    if path is not None:
        say("page")
        named = title or ("Journal" if queue is None else f"Queue {queue}")
        write_whole(Path(path), page(rows, title=named, source=origin, width=width).encode())
    tables = {name: spark.createDataFrame(table, struct_of(table.schema)) for name, table in found.items()}
    return Report(tables=tables, summary=summary(rows), html_path=path, _rows=rows)


class _Known(NamedTuple):
    """Facts that will be read again and again, how many they are, and the seconds that they span."""

    rows: DataFrame
    entries: int
    span: float


def _known(told: DataFrame, *, few: bool) -> _Known:
    import pyarrow.compute as pc
    from pyspark.sql import functions as F

    if few:
        table = told.toArrow()
        ends = [pc.min_max(table.column(name)).as_py() for name in ("first_at", "last_at")]
        seconds = (ends[1]["max"] - ends[0]["min"]).total_seconds() if table.num_rows else 0.0
        return _Known(as_one_part(told.sparkSession, table), table.num_rows, seconds)
    kept = told.persist()
    span = F.max("last_at").cast("double") - F.min("first_at").cast("double")
    found = kept.agg(F.count(F.lit(1)).alias("entries"), F.coalesce(span, F.lit(0.0)).alias("span")).first()
    assert found is not None
    return _Known(kept, found["entries"], found["span"])


def collected(kept: DataFrame, width: int, *, slowest: DataFrame, say: Progress = silent) -> dict[str, pa.Table]:
    """All tables of facts or cells, computed. `slowest` is that table: cells do not know it."""
    made: dict[str, Callable[[], DataFrame]] = {
        "flow": lambda: analytics.flow(kept),
        "latencies": lambda: analytics.latencies(kept),
        "throughput": lambda: analytics.throughput(kept, width),
        "latency_over_time": lambda: analytics.latency_over_time(kept, width),
        "retries": lambda: analytics.retries(kept),
        "dead_letters": lambda: analytics.dead_letters(kept),
        "workers": lambda: analytics.workers(kept),
        "slowest": lambda: slowest,
    }
    return computed(made, say)


def summary(rows: Mapping[str, list[dict[str, Any]]]) -> str:
    """The report in a few lines for a terminal."""
    flow = next(row for row in rows["flow"] if row["queue"] is None)
    lines = [
        f"{moment(flow['first_at'], zone=False)} to {moment(flow['last_at'])}: {number(flow['events'])} entries",
        f"enqueued {number(flow['enqueued'])}, acked {number(flow['acked'])}, "
        f"dead-lettered {number(flow['dead_lettered'])}, backlog {number(flow['backlog'])}; "
        f"{share(flow['success_rate'])} succeeded, {share(flow['retry_rate'])} of deliveries were retries",
    ]
    names = {"wait": "wait", "run": "run", "total": "end to end"}
    for row in rows["latencies"]:
        if row["queue"] is None:
            shown = ", ".join(f"{p} {duration(row[p])}" for p in ("p50", "p95", "p99", "max"))
            lines.append(f"{names[row['measure']]}: {shown} ({row['precision']})")
    for row in rows["dead_letters"][:3]:
        lines.append(f"dead: {number(row['count'])}x {row['shape']}")
    for row in rows.get("workflows", ())[:3]:
        lines.append(
            f"workflow {row['workflow']} version {row['version']}: "
            + ", ".join(f"{name} {number(row[name])}" for name in ("runs", "succeeded", "failed", "running"))
            + "; "
            + ", ".join(f"{p} {duration(row[p])}" for p in ("p50", "p95", "max"))
        )
    return "\n".join(lines)


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in its place, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def source_options(
    url: str | None, queue: str | None, namespace: str | None, **more: str | None
) -> tuple[dict[str, str], Options]:
    """The options of the data source for the entries that a report needs, as text and as values."""
    columns = [*NEEDED, *(name for name in known_columns("events") if name == "delay")]
    given = {"url": url, "queue": queue, "namespace": namespace, "view": "events", "columns": ",".join(columns), **more}
    texts = {name: text for name, text in given.items() if text is not None}
    return texts, parse(texts)


def _journal(
    spark: SparkSession,
    url: str | None,
    queue: str | None,
    namespace: str | None,
    since: datetime | None,
    until: datetime | None,
    say: Progress,
) -> tuple[DataFrame, str, DataFrame | None, bool]:
    """The entries, where they are from, the runs of workflows if that store has some, and whether entries are few."""
    texts, options = source_options(url, queue, namespace, startingTimestamp=_text(since), endingTimestamp=_text(until))
    with opened(options, read_only=True) as store:
        first, last = store.journal_span()
        if last < first:
            raise ValueError(no_journal(store))
        need_queue(store, queue, "there are no journal entries: ")
        origin, has_runs = store.url, bool(store.records(_RUN, limit=1))
    say(f"reading {number(last - first + 1)} events")
    few = last - first < SMALL
    entries = rows_here(spark, texts) if few else spark.read.format("localqueue").options(**texts).load()
    if not has_runs:
        return entries, origin, None, few
    from localqueue.spark.jobs.run_analytics import workflow_runs

    return entries, origin, workflow_runs(spark, options), few


def local_path(name: str, path: str | os.PathLike[str]) -> str:
    """A path of this machine, absolute; ValueError when it is on another file system."""
    text = os.fspath(path)
    if "://" in text:
        raise ValueError(f"{name} is written to a disk of this machine, not to {text!r}: give a path without a scheme")
    return os.path.abspath(text)


def no_journal(store: QueueStore) -> str:
    """What is wrong with the journal of a store that has no entries, and the way out."""
    of = f"the journal of {store.url}, namespace {store.namespace!r},"
    if store.journal_enabled():
        return f"{of} has no entries yet: it tells what happened since it was switched on"
    return (
        f"{of} is not enabled, so there is nothing to report: switch it on with store.enable_journal() or "
        "`localqueue queue journal --enable`, and report what happens from then on"
    )


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _checked(events: DataFrame) -> DataFrame:
    missing = [name for name in NEEDED if name not in events.columns]
    if missing:
        raise ValueError(
            f"events have no column {missing[0]!r}: they need {', '.join(NEEDED)}, as the view 'events' has"
        )
    return events


def _within(
    rows: DataFrame, queue: str | None, since: datetime | None, until: datetime | None, *, time: str = "at"
) -> DataFrame:
    from pyspark.sql import functions as F

    if queue is not None:
        rows = rows.where(F.col("queue") == queue)
    if since is not None:
        rows = rows.where(F.col(time) >= F.lit(since))
    if until is not None:
        rows = rows.where(F.col(time) < F.lit(until))
    return rows


def _width_given(bucket: int | None) -> int | None:
    if bucket is not None and (type(bucket) is not int or bucket < 1):
        raise OptionError(f"bucket must be a whole number of seconds from 1, not {bucket!r}")
    return bucket


def _which(queue: str | None, since: datetime | None, until: datetime | None) -> str:
    parts = ("" if queue is None else f" of queue {queue!r}", f" since {moment(since)}" if since else "")
    return "".join(parts) + (f" until {moment(until)}" if until else "")
