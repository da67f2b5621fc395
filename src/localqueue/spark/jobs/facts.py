"""From the entries of a journal to facts that can be counted.

A fact is an entry that knows its past: how long its message had waited, how long its delivery ran, whether the message
was still to be delivered before and after. Every table of a report is a plain aggregate of facts. `cells` are facts
that were added up where they are alike, to 1 %, so that a stream can go on for ever; the same aggregates read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localqueue.events.event import (
    ACKED,
    CANCELLED,
    DEAD_LETTERED,
    DROPPED,
    ENQUEUED,
    EXPIRED,
    LEASED,
    PRUNED,
    PURGED,
    RELEASED,
    RENEWED,
    REQUEUED,
)
from localqueue.spark.error_shape import error_shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The columns of the `events` view that facts are made of. A `delay` (seconds) is looked at where there is one.
NEEDED = ("seq", "at", "type", "queue", "message_id", "attempt", "worker", "error")

#: How far a value in a cell can be from the true one.
PRECISION = 0.01
_STEP = 1 + 2 * PRECISION

#: The type of a cell that only holds the end-to-end times of acked messages.
END_TO_END = "end_to_end"

#: After these a message is not to be delivered, and after the second ones nothing more is heard of it.
_ENDED = (ACKED, DEAD_LETTERED, EXPIRED, CANCELLED, PURGED, PRUNED, DROPPED)
_GONE = (ACKED, PURGED, PRUNED, DROPPED)

# Each divides the next, so what was added up by one can be added up by any later one.
_WIDTHS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)


def width_for(seconds: float, most: int) -> int:
    """The narrowest bucket, in seconds, that divides a span into at most about `most` of them."""
    return next((width for width in _WIDTHS if seconds / width <= most), _WIDTHS[-1])


def with_past(events: DataFrame) -> DataFrame:
    """Events, each with what its message had gone through before it.

    Adds `lease` and `put` (structs: the last lease and the put), `first_leased`, `previous` (the type of the entry
    before) and `last` (the last entry of the message), all without renewals.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    delay = F.col("delay").cast("double") if "delay" in events.columns else F.lit(0.0)
    carried = F.coalesce("carried", F.lit(False)) if "carried" in events.columns else F.lit(False)
    seconds = F.col("at").cast("double").alias("at")
    known = events.select(*NEEDED, F.coalesce(delay, F.lit(0.0)).alias("delay"), carried.alias("carried"))
    message = Window.partitionBy("queue", "message_id").orderBy("seq")
    earlier = message.rowsBetween(Window.unboundedPreceding, -1)
    whole = message.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    leased, told = F.col("type") == LEASED, F.col("type") != RENEWED
    lease = F.when(leased, F.struct(seconds, F.col("worker")))
    put = F.when(F.col("type") == ENQUEUED, F.struct(seconds, F.col("delay")))
    return known.select(
        "*",
        F.last(lease, ignorenulls=True).over(earlier).alias("lease"),
        F.last(put, ignorenulls=True).over(earlier).alias("put"),
        F.first(F.when(leased, F.col("at")), ignorenulls=True).over(earlier).alias("first_leased"),
        F.last(F.when(told, F.col("type")), ignorenulls=True).over(earlier).alias("previous"),
        F.last(F.when(told, F.struct("seq", "type")), ignorenulls=True).over(whole).alias("last"),
    )


def facts(events: DataFrame) -> DataFrame:
    """One row an entry of the journal.

    | column | what |
    |---|---|
    | at, first_at, last_at | when (the last two differ in cells) |
    | queue, type, message_id, attempt, worker | as in the journal; a settle without a worker has that of its lease |
    | n | how many entries it stands for: 1 |
    | wait | seconds from the put, or the end of its delay, to the first lease; on that `leased` entry |
    | run | seconds from a lease to its settle; on `acked`, `released` and `dead_lettered` |
    | total | seconds from the put to the ack; on `acked` |
    | live | +1 when the message became one to be delivered, -1 when it ceased to be |
    | before | 1 on the first entry of a message that was to be delivered before the journal begins |
    | shape, sample | the shape of the error and its message |
    | put_at, first_leased | of its message, on `acked` |
    | rounded | whether times are only right to 1 %: false |
    """
    return told(with_past(events))


def told(past: DataFrame) -> DataFrame:
    """The facts of events that have their past."""
    from pyspark.sql import functions as F

    type, previous, lease, put = (F.col(name) for name in ("type", "previous", "lease", "put"))
    seconds = F.col("at").cast("double")
    acked = type == ACKED
    settled = type.isin(ACKED, RELEASED, DEAD_LETTERED) & (previous == LEASED)
    first = (type == LEASED) & F.col("first_leased").isNull() & put.isNotNull()
    # The journal may begin in the middle of a message. A purge of an unknown one says nothing about it.
    was_live = F.when(previous.isNotNull(), ~previous.isin(*_ENDED)).otherwise(
        ~type.isin(ENQUEUED, REQUEUED, PRUNED, PURGED)
    )
    change = (~type.isin(*_ENDED)).cast("int") - was_live.cast("int")
    quiet = type == RENEWED
    failed = F.col("error").isNotNull()
    return past.where(~F.col("carried")).select(
        "at",
        F.col("at").alias("first_at"),
        F.col("at").alias("last_at"),
        "queue",
        "type",
        "message_id",
        F.coalesce("attempt", F.lit(0)).alias("attempt"),
        F.coalesce(F.col("worker"), F.when(settled, lease["worker"])).alias("worker"),
        F.lit(1).cast("bigint").alias("n"),
        F.when(first, F.greatest(seconds - put["at"] - put["delay"], F.lit(0.0))).alias("wait"),
        F.when(settled, _positive(seconds - lease["at"])).alias("run"),
        F.when(acked & put.isNotNull(), _positive(seconds - put["at"])).alias("total"),
        F.when(quiet, 0).otherwise(change).cast("bigint").alias("live"),
        F.when(previous.isNull() & was_live & ~quiet, 1).otherwise(0).cast("bigint").alias("before"),
        F.when(failed, error_shape("error")).alias("shape"),
        F.when(failed, F.substring(F.col("error")["message"], 1, 500)).alias("sample"),
        F.when(acked, F.timestamp_micros((put["at"] * 1_000_000).cast("bigint"))).alias("put_at"),
        F.when(acked, F.col("first_leased")).alias("first_leased"),
        F.lit(False).alias("rounded"),
    )


def _positive(seconds: Column) -> Column:
    """Clocks of several machines can disagree by a little; no time is negative."""
    from pyspark.sql import functions as F

    return F.greatest(seconds, F.lit(0.0))


def still_open(past: DataFrame) -> DataFrame:
    """The entries that later ones of the same messages need as their past: at most three a message that is not gone."""
    from pyspark.sql import functions as F

    type, last = F.col("type"), F.col("last")
    first_lease = (type == LEASED) & F.col("first_leased").isNull()
    kept = (type == ENQUEUED) | first_lease | (F.col("seq") == last["seq"])
    return past.where(last.isNotNull() & ~last["type"].isin(*_GONE) & kept).select(
        *NEEDED, "delay", F.lit(True).alias("carried")
    )


def cells(facts: DataFrame, width: int) -> DataFrame:
    """Facts, or cells, of which those are added up that are alike: same bucket of `width` seconds, same times to 1 %.

    The columns are those of facts; `message_id` and `sample` are those of the last one. Cells of cells are cells.
    """
    from pyspark.sql import functions as F

    # An ack has two times. Kept in one row, hardly any two would be alike.
    part = F.when(F.col("total").isNotNull() & (F.col("type") != END_TO_END), F.array(F.lit(0), F.lit(1)))
    apart = facts.withColumn("part", F.explode(F.coalesce(part, F.array(F.lit(0)))))
    extra = F.col("part") == 1
    alone = F.col("type") == END_TO_END
    parts = apart.select(
        F.timestamp_seconds(F.floor(F.col("at").cast("double") / width) * width).alias("at"),
        "first_at",
        "last_at",
        "queue",
        F.when(extra, END_TO_END).otherwise(F.col("type")).alias("type"),
        F.when(~extra, F.col("message_id")).alias("message_id"),
        F.when(~extra, F.col("attempt")).alias("attempt"),
        F.when(~extra, F.col("worker")).alias("worker"),
        "n",
        F.when(~extra, _rounded("wait")).alias("wait"),
        F.when(~extra, _rounded("run")).alias("run"),
        F.when(extra | alone, _rounded("total")).alias("total"),
        F.when(extra, 0).otherwise(F.col("live")).alias("live"),
        F.when(extra, 0).otherwise(F.col("before")).alias("before"),
        F.when(~extra, F.col("shape")).alias("shape"),
        F.when(~extra, F.col("sample")).alias("sample"),
    )
    alike = ("at", "queue", "type", "attempt", "worker", "wait", "run", "total", "shape")
    added = parts.groupBy(*alike).agg(
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
        F.max_by("message_id", "last_at").alias("message_id"),
        F.max_by("sample", "last_at").alias("sample"),
        *(F.sum(name).alias(name) for name in ("n", "live", "before")),
    )
    nothing = F.lit(None).cast("timestamp")
    return added.select(
        *("at", "first_at", "last_at", "queue", "type", "message_id", "attempt", "worker", "n", "wait", "run", "total"),
        *("live", "before", "shape", "sample"),
        nothing.alias("put_at"),
        nothing.alias("first_leased"),
        F.lit(True).alias("rounded"),
    )


def _rounded(name: str) -> Column:
    from pyspark.sql import functions as F

    value = F.col(name)
    return F.when(value < 1e-6, 0.0).when(value.isNotNull(), F.pow(F.lit(_STEP), F.round(F.log(_STEP, value))))
