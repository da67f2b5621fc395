"""The tables of a report that are about workflows: functions from a DataFrame of the view `runs` to a DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from localqueue.spark.jobs.journal_rows import reader
from localqueue.spark.jobs.progress import Progress, silent
from localqueue.spark.jobs.small_tables import at_hand, computed
from localqueue.spark.options import Options
from localqueue.workflows.records import FAILED, RUN_STATES, SKIPPED, SUCCEEDED

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

#: The columns of the view that these tables are made of.
NEEDED = (
    "run_id", "workflow", "version", "queue", "run_state", "paused", "created_at", "run_finished_at", "step", "kind",
    "item", "step_state", "attempts", "started_at", "seconds", "worker",
)  # fmt: skip

#: Steps that only wait for others. What they wait for has rows of its own.
_WHOLES = ("map", "child", "flow")


def workflow_runs(spark: SparkSession, place: Options) -> DataFrame:
    """The runs of workflows in a store, with what the tables need of them."""
    rows = reader(spark, replace(place, queue=None, view="runs")).option("columns", ",".join(NEEDED)).load()
    return rows.where("workflow IS NOT NULL")


def run_tables(runs: DataFrame, *, say: Progress = silent) -> dict[str, pa.Table]:
    """All tables, computed; none when there are no runs. The view is read once."""
    kept = runs.persist()
    try:
        if kept.isEmpty():
            return {}
        near = at_hand(kept)
        made: dict[str, Callable[[], DataFrame]] = {
            "workflows": lambda: workflows(near),
            "workflow_steps": lambda: workflow_steps(near),
            "slowest_steps": lambda: slowest_steps(near),
        }
        return computed(made, say)
    finally:
        kept.unpersist()


def workflows(runs: DataFrame) -> DataFrame:
    """The runs of each workflow and version, most first: `workflow`, `version`, `runs`, a count for each state,
    `paused`, and `p50`, `p95`, `max` of the seconds that those took which have ended."""
    from pyspark.sql import functions as F

    took = F.col("run_finished_at").cast("double") - F.col("created_at").cast("double")
    return (
        runs.dropDuplicates(["run_id"])
        .groupBy("workflow", "version")
        .agg(
            F.count("*").alias("runs"),
            *(F.count_if(F.col("run_state") == state).alias(state) for state in RUN_STATES),
            F.count_if("paused").alias("paused"),
            *_spread(took),
        )
        .orderBy(F.col("runs").desc(), "workflow", "version")
    )


def workflow_steps(runs: DataFrame) -> DataFrame:
    """The recorded steps of each workflow and version: `workflow`, `version`, `step`, `kind`, `runs` (that came to it),
    `times` (once for each item of a fan-out or call of a flow), `skipped`, `failures`, `retries`, and `p50`, `p95`,
    `max` of its seconds. What a fork has taken over counts for the run that did it."""
    from pyspark.sql import functions as F

    ran = F.when(F.col("step_state").isin(SUCCEEDED, FAILED), F.col("seconds"))
    return (
        _own(runs)
        .groupBy("workflow", "version", "step", "kind")
        .agg(
            F.count_distinct("run_id").alias("runs"),
            F.count("*").alias("times"),
            F.count_if(F.col("step_state") == SKIPPED).alias("skipped"),
            F.count_if(F.col("step_state") == FAILED).alias("failures"),
            F.coalesce(F.sum(F.greatest(F.col("attempts") - 1, F.lit(0))), F.lit(0)).alias("retries"),
            *_spread(ran),
            F.min("started_at").alias("first"),
        )
        .orderBy("workflow", "version", F.col("first").asc_nulls_last(), "step", "kind")
        .drop("first")
    )


def slowest_steps(runs: DataFrame, limit: int = 20) -> DataFrame:
    """The steps, items and calls that took longest: `workflow`, `version`, `run_id`, `step`, `kind`, `item`,
    `step_state`, `seconds`, `attempts`, `started_at`, `worker`. Whole fan-outs, flows and child runs are not among
    them."""
    from pyspark.sql import functions as F

    rows = _own(runs).where(F.col("seconds").isNotNull() & ~F.coalesce("kind", F.lit("")).isin(*_WHOLES))
    return (
        rows.select(
            "workflow", "version", "run_id", "step", "kind", "item", "step_state", "seconds", "attempts",
            "started_at", "worker",
        )
        .orderBy(F.col("seconds").desc(), "run_id", "step", "item")
        .limit(limit)
    )  # fmt: skip


def _own(runs: DataFrame) -> DataFrame:
    """The steps that their run has done itself: what a fork took over began before it."""
    return runs.where("step IS NOT NULL AND (started_at IS NULL OR started_at >= created_at)")


def _spread(seconds: Column) -> tuple[Column, ...]:
    from pyspark.sql import functions as F

    return (
        F.percentile(seconds, F.lit(0.5)).alias("p50"),
        F.percentile(seconds, F.lit(0.95)).alias("p95"),
        F.max(seconds).alias("max"),
    )
