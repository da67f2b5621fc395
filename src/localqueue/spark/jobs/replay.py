"""`replay`: a window of the journal, or of an archive of it, back into a queue."""

from __future__ import annotations

import hashlib
import json
import operator
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from localqueue.queue.setup import check_name
from localqueue.spark.jobs.archive import read_archive
from localqueue.spark.jobs.arguments import moment, where_sql
from localqueue.spark.jobs.journal_rows import journal_rows, place_of
from localqueue.spark.jobs.known_names import need_queue, need_queue_in
from localqueue.spark.jobs.paced_puts import Way, check_rate, put_paced, slice_of, way_of
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.jobs.replay_pages import journal_pages, replayable
from localqueue.spark.lineage import origin_of, queue_of, told
from localqueue.spark.options import Options
from localqueue.spark.place import opened
from localqueue.stores.address import shown as shown_address
from localqueue.stores.port import QueueStore, RecordWrite
from localqueue.stores.url import backend_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SAMPLE = 5


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """The messages of a window, and how many of them were put.

    `matched` messages lie in the window, from `first_seq` at `first_at` to `last_seq` at `last_at`. `put` of them were
    stored by this run; the others had been put by an earlier one, were `duplicates` of a live message with their
    dedupe key, or are `unreadable`: the journal has no payload of them. With `dry_run` nothing was put, and `sample`
    shows the first few.
    """

    target: str
    matched: int
    put: int = 0
    duplicates: int = 0
    unreadable: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    dry_run: bool = False
    finished_before: bool = False
    idempotency_key: str | None = None
    sample: tuple[dict[str, Any], ...] = ()

    def __str__(self) -> str:
        if self.finished_before:
            return (
                f"this window was replayed into {self.target} before: nothing was put (again=True replays it once more)"
            )
        span = ""
        if self.first_at is not None and self.last_at is not None:
            span = f" (seq {self.first_seq} to {self.last_seq}, {self.first_at:%Y-%m-%d %H:%M:%S} to "
            span += f"{self.last_at:%Y-%m-%d %H:%M:%S} UTC)"
        if not self.dry_run:
            text = f"replayed {self.put} of {self.matched} messages into {self.target}{span}"
            text += f"; {self.duplicates} duplicates" if self.duplicates else ""
            return text + (f"; {self.unreadable} without a payload" if self.unreadable else "")
        lines = [f"would replay {self.matched} messages into {self.target}{span}"]
        lines += [f"  {row['seq']}  {row['at']:%Y-%m-%d %H:%M:%S}  {row['value']}" for row in self.sample]
        return "\n".join(lines)


@told(reads=origin_of, writes=lambda given: queue_of({**given, "queue": given.get("to") or given.get("queue")}))
def replay(
    spark: SparkSession,
    *,
    source: str | PathLike[str],
    url: str,
    queue: str | None = None,
    to: str | None = None,
    since: datetime | str | float | None = None,
    until: datetime | str | float | None = None,
    from_seq: int | None = None,
    to_seq: int | None = None,
    where: str | None = None,
    dry_run: bool = False,
    rate: float | None = None,
    idempotency_key: str | None = None,
    again: bool = False,
    namespace: str | None = None,
    source_namespace: str | None = None,
    progress: Progress | None = None,
) -> ReplayResult:
    """Put the messages that were enqueued in a window once more, in their order, with payload, headers and keys.

    `source` is the address of a store, for its journal, or the path or table of an archive. The window is the messages
    of `queue`, or of all queues, from `since` and before `until` and from `from_seq` up to `to_seq`, for which the SQL
    condition `where` holds; its columns are those of the view `events`. They go into the queue `to`, by default the one
    each came from, with no delay, no time to live and no run.

    The driver puts them, at most `rate` a second. A replay that was killed is continued by the same call, and one that
    was finished puts nothing: it is known by `idempotency_key`, by default made of the source and the window. `again`
    replays it once more. The end of the window is fixed when a replay begins, so it never meets what it puts itself.
    """
    say = progress or silent
    check_rate(rate)
    if to is not None:
        check_name(to)
    place = place_of(url, namespace=namespace, queue=to or queue)
    begin, end = moment("since", since), moment("until", until)
    for name, seq in (("from_seq", from_seq), ("to_seq", to_seq)):
        if seq is not None and seq < 1:
            raise ValueError(f"{name} must be at least 1, not {seq}")
    rows = _entries(spark, source, queue, source_namespace or namespace, from_seq, to_seq, target=place)
    rows = _window(rows, queue, begin, end, from_seq, to_seq, where)
    key = idempotency_key or _derived(source, queue, place.queue, begin, end, from_seq, to_seq, where)
    key = f"{key} again {uuid.uuid4().hex}" if again else key
    target = f"queue {place.queue!r}" if place.queue is not None else "the queues they came from"
    if dry_run:
        sample = rows.orderBy("seq").limit(_SAMPLE).select("seq", "at", "queue", "value", "headers").collect()
        shown = tuple(_utc(row.asDict(recursive=True)) for row in sample)
        return ReplayResult(target=target, idempotency_key=key, **_counted(rows), dry_run=True, sample=shown)
    with opened(place) as store:
        way = way_of(store, key)
        if way is not None and way.done:
            return ReplayResult(target=target, matched=0, finished_before=True, idempotency_key=key)
        if way is not None:
            rows = rows.where(f"seq <= {way.last}")
        found = _counted(rows)
        result = {"target": target, "idempotency_key": key, **found}
        way = way or Way(key=key, last=found["last_seq"] or 0)
        say(f"replaying {found['matched']} messages into {target}")
        putting = _Replayer(store, place.queue)
        rows = rows.where(f"seq > {way.through} and seq <= {way.last}")
        slices = ((batch["seq"][-1].as_py(), batch) for batch in replayable(rows, slice_of(rate)))
        stored = put_paced(store, way, slices, putting.put, rate=rate, progress=say)
        return ReplayResult(**result, put=stored, duplicates=putting.duplicates, unreadable=putting.unreadable)


def _entries(
    spark: SparkSession,
    source: str | PathLike[str],
    queue: str | None,
    namespace: str | None,
    from_seq: int | None,
    to_seq: int | None,
    *,
    target: Options,
) -> DataFrame:
    text = fspath(source)
    try:
        backend_of(text)
    except ValueError:
        archived = read_archive(spark, text)
        if queue is not None:
            need_queue_in(archived, queue, f"the archive {text!r}", target)
        return archived
    origin: Options = place_of(text, namespace=namespace, queue=queue)
    with opened(origin, read_only=True) as store:
        first, last = store.journal_span()
        if last < first and not store.journal_enabled():
            raise ValueError(
                f"the journal of {store.url}, namespace {origin.namespace!r}, is off and empty: there is nothing to "
                "replay. Switch it on with enable_journal(), or give the path of an archive as source"
            )
        need_queue(store, queue)
    after = max(first, from_seq or 1) - 1
    return journal_rows(spark, origin, after=after, last=max(after, min(last, to_seq or last)))


def _window(
    rows: DataFrame,
    queue: str | None,
    since: datetime | None,
    until: datetime | None,
    from_seq: int | None,
    to_seq: int | None,
    where: str | None,
) -> DataFrame:
    from pyspark.sql import functions as f

    found = rows.where("type = 'enqueued'")
    for column, bound, holds in (
        ("queue", queue, operator.eq),
        ("at", since, operator.ge),
        ("at", until, operator.lt),
        ("seq", from_seq, operator.ge),
        ("seq", to_seq, operator.le),
    ):
        if bound is not None:
            found = found.where(holds(f.col(column), f.lit(bound)))
    return found if where is None else where_sql(found, where)


def _counted(rows: DataFrame) -> dict[str, Any]:
    from pyspark.sql import functions as f

    ends = rows.agg(
        f.count(f.lit(1)).alias("matched"),
        f.min("seq").alias("first_seq"),
        f.max("seq").alias("last_seq"),
        f.unix_micros(f.min("at")).alias("first_at"),
        f.unix_micros(f.max("at")).alias("last_at"),
    ).first()
    assert ends is not None
    found = ends.asDict()
    for name in ("first_at", "last_at"):
        found[name] = None if found[name] is None else datetime.fromtimestamp(found[name] / 1e6, UTC)
    return found


def _utc(row: dict[str, Any]) -> dict[str, Any]:
    """Spark hands times out in the zone of this process, without saying so."""
    return {**row, "at": row["at"].astimezone(UTC)}


def _derived(source: str | PathLike[str], *window: Any) -> str:
    name = fspath(source)
    with suppress(ValueError):  # of a path, which is no address
        backend_of(name)
        name = shown_address(name)  # what is made of it is seen, and outlives a password
    text = json.dumps([name, *window], default=str)
    return f"replay {hashlib.sha256(text.encode()).hexdigest()[:32]}"


class _Replayer:
    """Rows of the journal as new messages, and what became of them."""

    def __init__(self, store: QueueStore, queue: str | None) -> None:
        self._store = store
        self._queue = queue
        self.duplicates = 0
        self.unreadable = 0

    def put(self, rows: pa.RecordBatch | None, records: Sequence[RecordWrite]) -> int:
        pages = [] if rows is None else list(journal_pages(rows, self._queue))
        done = self._store.put_pages(pages, records=records)
        self.unreadable += (0 if rows is None else len(rows)) - sum(len(page.payload) for page in pages)
        self.duplicates += done.duplicates
        return done.stored
