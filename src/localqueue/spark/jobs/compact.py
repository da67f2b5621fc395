"""`compact`: a topic down to the latest value of every key, as a table or as a new queue."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING

from localqueue.queue.setup import check_name
from localqueue.spark.jobs.archive import read_archive
from localqueue.spark.jobs.journal_past import past_messages, whole_past
from localqueue.spark.jobs.journal_rows import place_of
from localqueue.spark.jobs.known_names import need_queue, need_queue_in
from localqueue.spark.jobs.latest import is_tombstone, latest_per_key, messages_of, need_key
from localqueue.spark.jobs.outgoing_rows import put_rows
from localqueue.spark.jobs.progress import Progress
from localqueue.spark.jobs.table_files import target_of, write_target
from localqueue.spark.lineage import origin_of, path_of, queue_of, told
from localqueue.spark.options import Options
from localqueue.spark.place import opened
from localqueue.stores.url import backend_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OPTIONS = ("headers", "priority", "dedupe_key", "ordering_key")


@dataclass(frozen=True, kw_only=True)
class CompactResult:
    """How many keys were written, and where."""

    target: str
    keys: int

    def __str__(self) -> str:
        return f"wrote the latest value of {self.keys} keys to {self.target}"


@told(reads=origin_of, writes=lambda given: path_of(given) or queue_of(given))
def compact(
    spark: SparkSession,
    source: DataFrame | str | PathLike[str],
    *,
    key: str,
    topic: str | None = None,
    url: str | None = None,
    queue: str | None = None,
    path: str | PathLike[str] | None = None,
    table: str | None = None,
    format: str | None = None,
    mode: str = "error",
    tombstones: bool = True,
    namespace: str | None = None,
    source_namespace: str | None = None,
    archive: str | PathLike[str] | None = None,
    fail_on_data_loss: bool = True,
    idempotency_key: str | None = None,
    progress: Progress | None = None,
) -> CompactResult:
    """Write the latest message of every key to a table, or into the queue `queue` at `url`.

    `source` is the address of a store, for its journal, the path or table of an archive, or a DataFrame with columns
    `value` and `seq` or `id`; `topic` takes only the messages of one queue. `key` is `ordering_key`, `dedupe_key` or a
    field of the payload such as `user.id`; messages without it are left out. A payload that is null removes its key,
    unless `tombstones` is False: then it is a value like any other. Of a journal that was pruned, the entries that are
    gone come from `archive`; without one that has them it is an error, unless `fail_on_data_loss` is False.

    A table has the columns of the source and `key`; `path`, `table`, `format` and `mode` are those of `export`.
    Messages of a new queue keep their payload, headers, priority and keys, and are put once a run, or once ever with an
    `idempotency_key`.
    """
    if [path, table, queue].count(None) != 2 or (queue is not None and url is None):
        raise ValueError("give either path or table, for a table, or url and queue, for a queue")
    target = None if queue is not None else target_of(spark, path, table, format)
    if queue is not None:
        check_name(queue)
    rows = topic_rows(
        spark,
        source,
        source_namespace or namespace,
        topic=topic,
        known_to=None if url is None or topic is None else place_of(url, namespace=namespace),
        archive=archive,
        fail_on_data_loss=fail_on_data_loss,
    )
    need_key(rows, key)
    if progress is not None:
        progress(f"looking for the latest value by {key}")
    found = latest_per_key(rows, key)
    if tombstones:
        found = found.where(~is_tombstone(found))
    if target is not None:
        written = write_target(found, target, mode=mode)
        return CompactResult(target=written.uri, keys=written.rows)
    assert url is not None and queue is not None
    place = place_of(url, namespace=namespace, queue=queue)
    done = put_rows(_as_messages(found), place, idempotency_key)
    return CompactResult(target=f"queue {queue!r}", keys=done.stored)


def topic_rows(
    spark: SparkSession,
    source: DataFrame | str | PathLike[str],
    namespace: str | None,
    *,
    topic: str | None,
    known_to: Options | None,
    archive: str | PathLike[str] | None = None,
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """What was put, of one queue or of all: the journal of a store and what an archive has of its past, an archive, or
    a DataFrame. A queue that the latter two do not have may be `known_to` a store."""
    store = None
    if isinstance(source, str | PathLike):
        with suppress(ValueError):
            store = fspath(source) if backend_of(fspath(source)) else None
    if store is None:
        if archive is not None:
            raise ValueError("archive completes the journal of a store: give the address of a store as source")
        if isinstance(source, str | PathLike):
            return _of_queue(read_archive(spark, source), topic, f"the archive {fspath(source)!r}", known_to)
        return _of_queue(source, topic, "the rows", known_to)
    place = place_of(store, namespace=namespace, queue=topic)
    past = whole_past(spark, place, archive, fail_on_data_loss=fail_on_data_loss)
    with opened(place, read_only=True) as there:
        need_queue(there, topic)
    return past_messages(spark, place, past)


def _of_queue(rows: DataFrame, queue: str | None, what: str, known_to: Options | None) -> DataFrame:
    from pyspark.sql import functions as f

    if queue is None:
        return messages_of(rows)
    if "queue" not in rows.columns:
        raise ValueError(f"topic is given, and there is no column 'queue'; there are {', '.join(rows.columns)}")
    need_queue_in(rows, queue, what, known_to)
    return messages_of(rows).where(f.col("queue") == queue)


def _as_messages(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    # A value that is missing, and that is to be kept, is the JSON of nothing.
    value = f.when(is_tombstone(found), f.lit("null")).otherwise(f.col("value"))
    return found.select(value.alias("value"), *(name for name in _OPTIONS if name in found.columns))
