"""The whole past of a journal: what it has pruned comes from an archive, the rest from itself, each entry once."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from localqueue.spark.jobs.archive import archive_at, archived, reached
from localqueue.spark.jobs.journal_rows import journal_rows, need_journal
from localqueue.spark.jobs.latest import messages_of
from localqueue.spark.options import Options
from localqueue.spark.place import opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Past(NamedTuple):
    """Entries up to `through` are `rows` of an archive, None when there are none; the journal has the rest."""

    through: int
    last: int
    rows: DataFrame | None = None


def whole_past(
    spark: SparkSession,
    place: Options,
    archive: str | PathLike[str] | None,
    *,
    fail_on_data_loss: bool = True,
) -> Past:
    """Where the entries of a journal are to be had, from the first one on.

    ValueError names the entries that neither the journal nor the archive has, unless `fail_on_data_loss` is False:
    then the past begins with what is there.
    """
    with opened(place, read_only=True) as store:
        span = first, last = store.journal_span()
        need_journal(store, span, place.namespace, ", or give an archive or a DataFrame as source")
        where = f"the journal of {store.url}, namespace {place.namespace!r}"
        own = store.url
    if first == 1:
        return Past(0, last)
    if archive is None:
        if fail_on_data_loss:
            raise ValueError(
                f"entries 1 to {first - 1} were pruned from {where}: give the archive that has them (archive), or take "
                "what is left (fail_on_data_loss False)"
            )
        return Past(first - 1, last)
    target, marker = archive_at(spark, archive)
    wrong = next(
        (
            f"{name} {found!r} and not {wanted!r}"
            for name, found, wanted in (
                ("view", marker.view, "events"),
                ("store", marker.store, own),
                ("namespace", marker.namespace, place.namespace),
                ("queue", marker.queue or place.queue, place.queue),
            )
            if found != wanted
        ),
        None,
    )
    if wrong is not None:
        raise ValueError(f"{target.uri} is not an archive of {where}: it has {wrong}")
    through = reached(target, marker)
    if through > last:
        raise ValueError(f"{target.uri} goes up to entry {through} and {where} only to {last}: it is another journal")
    rows = archived(spark, target, marker)
    if fail_on_data_loss:
        gaps = _gaps(rows, marker.queue is None, through, first)
        if gaps:
            raise ValueError(
                f"entries {' and '.join(gaps)} are neither in {where} nor in the archive {target.uri}: give another "
                "archive, or take what is left (fail_on_data_loss False)"
            )
    return Past(max(through, first - 1), last, rows.where(f"seq <= {through}"))


def past_messages(spark: SparkSession, place: Options, past: Past) -> DataFrame:
    """What was put, in the whole past, of one queue or of all."""
    rows = journal_rows(spark, place, after=past.through, last=past.last)
    if past.rows is not None:
        archived = past.rows if place.queue is None else past.rows.where(past.rows["queue"] == place.queue)
        rows = archived.select(*rows.columns).unionByName(rows)
    return messages_of(rows)


def _gaps(rows: DataFrame, of_all: bool, through: int, first: int) -> list[str]:
    """Ranges that are missing before the first entry of the archive, and between its last and the journal's first."""
    found = []
    if of_all:  # of one queue, numbers between its entries are those of others
        begins = rows.agg({"seq": "min"}).first()
        begin = through + 1 if begins is None or begins[0] is None else int(begins[0])
        if begin > 1:
            found.append(f"1 to {begin - 1}")
    if through + 1 < first:
        found.append(f"{through + 1} to {first - 1}")
    return found
