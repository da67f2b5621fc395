"""The tables of a report: functions from a DataFrame of events to a DataFrame.

Each takes the `events` view, or what `facts` or `cells` made of it. Where a table is by queue, rows whose `queue` is
NULL are of all queues together. Times are seconds. Percentiles of events are exact; those of cells are right to 1 %,
which the column `precision` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localqueue.events.event import ACKED, DEAD_LETTERED, LEASE_EXPIRED, LEASED, RELEASED
from localqueue.events.journal import JOURNAL_TYPES
from localqueue.spark import sail
from localqueue.spark.error_shape import UNKNOWN
from localqueue.spark.jobs.facts import END_TO_END, PRECISION, facts, width_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

EXACT = "exact"
ROUNDED = f"within {PRECISION:.0%}"

#: How many buckets a table over time has at most, about.
BUCKETS = 120

_SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def facts_of(events: DataFrame) -> DataFrame:
    return events if "rounded" in events.columns else facts(events)


def flow(events: DataFrame) -> DataFrame:
    """Totals by queue: how many entries of each type, and what follows from them.

    `queue`, `events`, one column a type of entry, `deliveries`, `retried` (deliveries after the first), `retry_rate`,
    `success_rate` (acked among acked and dead-lettered), `backlog` (at the end), `first_at`, `last_at`.
    """
    from pyspark.sql import functions as F

    rows = facts_of(events).where(F.col("type") != END_TO_END)
    counts = [_count(F.col("type") == name).alias(name) for name in JOURNAL_TYPES]
    totals = _by_queue_and_all(rows, "queue").agg(
        _count(F.lit(True)).alias("events"),
        *counts,
        _count(F.col("type") == LEASED).alias("deliveries"),
        _count(_retry()).alias("retried"),
        F.sum(F.col("live") + F.col("before")).alias("backlog"),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
    )
    settled = F.col(ACKED) + F.col(DEAD_LETTERED)
    return totals.select(
        "queue",
        "events",
        *JOURNAL_TYPES,
        "deliveries",
        "retried",
        _share(F.col("retried"), F.col("deliveries")).alias("retry_rate"),
        _share(F.col(ACKED), settled).alias("success_rate"),
        "backlog",
        "first_at",
        "last_at",
    ).orderBy(F.col("queue").asc_nulls_first())


def latencies(events: DataFrame) -> DataFrame:
    """How long messages waited, ran and took in all: `queue`, `measure`, `count`, `p50`, `p90`, `p95`, `p99`, `max`,
    `mean`, `precision`.

    The measures are `wait` (from the put, or the end of its delay, to the first lease), `run` (from a lease to its
    settle, each delivery by itself) and `total` (from the put to the ack).
    """
    from pyspark.sql import functions as F

    measured = _measured(facts_of(events))
    return _percentiles(_by_queue_and_all(measured, "queue", "measure")).orderBy(
        F.col("queue").asc_nulls_first(), "measure"
    )


def latency_over_time(events: DataFrame, width: int | None = None) -> DataFrame:
    """The same in buckets of `width` seconds, of all queues together: `bucket` (its begin), `measure`, and as above.

    A time belongs to the bucket in which it ended.
    """
    rows = facts_of(events)
    measured = _measured(rows).withColumn("bucket", _bucket(width or bucket_of(rows)))
    return _percentiles(measured.groupBy("bucket", "measure")).orderBy("bucket", "measure")


def throughput(events: DataFrame, width: int | None = None) -> DataFrame:
    """What happened in each bucket of `width` seconds: `bucket` (its begin), `queue`, `enqueued`, `leased`, `acked`,
    `retried`, `dead_lettered`, `backlog` (messages that were to be delivered at its end).

    A bucket in which nothing happened to a queue has no row. A message that was stored before the journal begins counts
    as backlog once the journal tells of it.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    given = facts_of(events)
    rows = given.where(F.col("type") != END_TO_END).withColumn("bucket", _bucket(width or bucket_of(given)))
    summed = _by_queue_and_all(rows, "bucket", "queue").agg(
        *(_count(F.col("type") == name).alias(name) for name in ("enqueued", LEASED, ACKED)),
        _count(_retry()).alias("retried"),
        _count(F.col("type") == DEAD_LETTERED).alias(DEAD_LETTERED),
        F.sum("live").alias("live"),
        F.sum("before").alias("before"),
    )
    queue = Window.partitionBy("queue")
    so_far = queue.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    backlog = F.sum("before").over(queue) + F.sum("live").over(so_far)
    return (
        summed.withColumn("backlog", backlog)
        .select("bucket", "queue", "enqueued", LEASED, ACKED, "retried", DEAD_LETTERED, "backlog")
        .orderBy("bucket", F.col("queue").asc_nulls_first())
    )


def retries(events: DataFrame) -> DataFrame:
    """What became of first, second and later deliveries: `queue`, `attempt`, `delivered`, `succeeded`, `failed` (came
    back with an error or by an expired lease), `dead_lettered`, `share` (of all that succeeded), `share_so_far`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    type = F.col("type")
    rows = facts_of(events).where((type != END_TO_END) & (F.col("attempt") > 0))
    counted = _by_queue_and_all(rows, "queue", "attempt").agg(
        _count(type == LEASED).alias("delivered"),
        _count(type == ACKED).alias("succeeded"),
        _count(_failure()).alias("failed"),
        _count(type == DEAD_LETTERED).alias(DEAD_LETTERED),
    )
    queue = Window.partitionBy("queue")
    so_far = queue.orderBy("attempt").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    succeeded = F.sum("succeeded")
    return (
        counted.where(F.col("delivered") + F.col("succeeded") + F.col("failed") + F.col(DEAD_LETTERED) > 0)
        .withColumn("share", _share(F.col("succeeded"), succeeded.over(queue)))
        .withColumn("share_so_far", _share(succeeded.over(so_far), succeeded.over(queue)))
        .orderBy(F.col("queue").asc_nulls_first(), "attempt")
    )


def dead_letters(events: DataFrame) -> DataFrame:
    """Dead letters by the shape of their error, most first: `shape`, `count`, `queues`, `first_seen`, `last_seen`,
    `sample_id` and `sample_message` (of the last one)."""
    from pyspark.sql import functions as F

    rows = facts_of(events).where(F.col("type") == DEAD_LETTERED)
    return (
        rows.groupBy(F.coalesce("shape", F.lit(UNKNOWN)).alias("shape"))
        .agg(
            F.sum("n").alias("count"),
            F.sort_array(F.collect_set("queue")).alias("queues"),
            F.min("first_at").alias("first_seen"),
            F.max("last_at").alias("last_seen"),
            F.max_by("message_id", "last_at").alias("sample_id"),
            F.max_by("sample", "last_at").alias("sample_message"),
        )
        .orderBy(F.col("count").desc(), "shape")
    )


def workers(events: DataFrame) -> DataFrame:
    """Who did the work, most first: `worker`, `processed` (acked), `failed`, `returned` (released without an error),
    `busy` (seconds of its deliveries), `p50`, `p95` (of their run), `first_seen`, `last_seen`.

    Deliveries of a worker that runs several at a time add up, so it can be busy for longer than it was there.
    """
    from pyspark.sql import functions as F

    rows = facts_of(events).where(F.col("worker").isNotNull() & (F.col("type") != END_TO_END))
    run = F.percentile("run", F.array(F.lit(0.5), F.lit(0.95)), F.col("n"))
    returned = (F.col("type") == RELEASED) & F.col("shape").isNull()
    return (
        rows.groupBy("worker")
        .agg(
            _count(F.col("type") == ACKED).alias("processed"),
            _count(_failure() | (F.col("type") == DEAD_LETTERED)).alias("failed"),
            _count(returned).alias("returned"),
            F.coalesce(F.sum(F.col("run") * F.col("n")), F.lit(0.0)).alias("busy"),
            run.alias("run"),
            F.min("first_at").alias("first_seen"),
            F.max("last_at").alias("last_seen"),
        )
        .withColumns({"p50": F.col("run")[0], "p95": F.col("run")[1]})
        .select("worker", "processed", "failed", "returned", "busy", "p50", "p95", "first_seen", "last_seen")
        .orderBy(F.col("processed").desc(), "worker")
    )


def slowest(events: DataFrame, limit: int = 20) -> DataFrame:
    """The acked messages that took longest: `queue`, `message_id`, `attempts`, `wait` (delays included), `run` (of the
    last delivery), `total`, `enqueued_at`, `acked_at`, `worker`. Cells do not know."""
    from pyspark.sql import functions as F

    rows = facts_of(events).where((F.col("type") == ACKED) & F.col("total").isNotNull())
    wait = F.col("first_leased").cast("double") - F.col("put_at").cast("double")
    return (
        rows.select(
            "queue",
            "message_id",
            F.col("attempt").alias("attempts"),
            wait.alias("wait"),
            "run",
            "total",
            F.col("put_at").alias("enqueued_at"),
            F.col("at").alias("acked_at"),
            "worker",
        )
        .orderBy(F.col("total").desc(), "message_id")
        .limit(limit)
    )


def bucket_of(events: DataFrame, most: int = BUCKETS) -> int:
    """The width of a bucket, in seconds, that suits the time these events span."""
    from pyspark.sql import functions as F

    first = "first_at" if "first_at" in events.columns else "at"
    last = "last_at" if "last_at" in events.columns else "at"
    span = events.agg((F.max(last).cast("double") - F.min(first).cast("double")).alias("span")).first()
    return width_for(0.0 if span is None or span[0] is None else span[0], most)


def _bucket(width: int) -> Column:
    from pyspark.sql import functions as F

    return F.timestamp_seconds(F.floor(F.col("at").cast("double") / width) * width)


def _count(which: Column) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(F.sum(F.when(which, F.col("n"))), F.lit(0))


def _share(part: Column, whole: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(whole > 0, part / whole)


def _retry() -> Column:
    from pyspark.sql import functions as F

    return (F.col("type") == LEASED) & (F.col("attempt") > 1)


def _failure() -> Column:
    from pyspark.sql import functions as F

    return ((F.col("type") == RELEASED) & F.col("shape").isNotNull()) | (F.col("type") == LEASE_EXPIRED)


def _measured(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    pairs = F.array(*(F.struct(F.lit(name).alias("m"), F.col(name).alias("s")) for name in ("wait", "run", "total")))
    return (
        rows.select("at", "queue", "n", "rounded", F.explode(pairs).alias("pair"))
        .where(F.col("pair.s").isNotNull())
        .select("at", "queue", "n", "rounded", F.col("pair.m").alias("measure"), F.col("pair.s").alias("seconds"))
    )


def _by_queue_and_all(rows: DataFrame, *keys: str) -> GroupedData:
    """Groups by the keys, of which one is the queue, and by the others alone: there the queue is NULL."""
    from pyspark.sql import functions as F

    if sail.runs(rows.sparkSession):  # which has no grouping sets of this kind
        return rows.withColumn("queue", F.explode(F.array("queue", F.lit(None)))).groupBy(*keys)
    return rows.groupingSets([list(keys), [key for key in keys if key != "queue"]], *keys)


def _percentiles(groups: GroupedData) -> DataFrame:
    from pyspark.sql import functions as F

    shares = F.array(*map(F.lit, _SHARES.values()))
    found = groups.agg(
        F.sum("n").alias("count"),
        F.percentile("seconds", shares, F.col("n")).alias("ps"),
        F.max("seconds").alias("max"),
        (F.sum(F.col("seconds") * F.col("n")) / F.sum("n")).alias("mean"),
        F.when(F.bool_or("rounded"), ROUNDED).otherwise(EXACT).alias("precision"),
    )
    named = {name: F.col("ps")[at] for at, name in enumerate(_SHARES)}
    keys = [name for name in found.columns if name in ("bucket", "queue", "measure")]
    return found.withColumns(named).select(*keys, "count", *_SHARES, "max", "mean", "precision")
