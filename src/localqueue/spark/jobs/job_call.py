"""A job of the pipeline that is named now and run later, as schedulers of pipelines do."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from localqueue.spark.jobs.plain_result import plain, rows_of
from localqueue.spark.jobs.process import check_worker

JOBS = ("archive", "compact", "export", "ingest", "materialise", "process", "replay", "report", "triage")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCall:
    """A job of `JOBS` with the arguments of its function in `localqueue.spark`, without the session.

    A name or an argument that the job does not know is refused here, before Spark is needed. Arguments that a job must
    have may come later, but before `run`.
    """

    job: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    master: str | None = None
    conf: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.job not in JOBS:
            raise ValueError(f"there is no job {self.job!r}; there are {', '.join(JOBS)}")
        try:
            known = inspect.signature(self._function()).bind_partial(None, **self.arguments).arguments
            if self.job == "process":
                check_worker(
                    known.get("queue", "jobs"), known.get("lease_timeout", 30.0), known.get("worker_options", {})
                )
        except TypeError as error:
            raise TypeError(f"job {self.job!r}: {error}") from None
        if self.job == "materialise" and not self.arguments.get("available_now", True):
            raise ValueError("job 'materialise' with available_now=False never ends: leave it out")

    def run(self) -> dict[str, Any]:
        """Run the job in the running Spark session, or in one that ends with it; what it did, as JSON has it."""
        from pyspark.sql import SparkSession

        from localqueue.spark.spark_session import session

        started = SparkSession.getActiveSession() is None
        spark = session(f"localqueue {self.job}", master=self.master, conf=self.conf)
        try:
            return self._facts(self._function()(spark, **self.arguments))
        finally:
            if started:
                spark.stop()

    def _function(self) -> Any:
        return getattr(import_module(f"localqueue.spark.jobs.{self.job}"), self.job)

    def _facts(self, result: Any) -> dict[str, Any]:
        if self.job == "report":
            return {"summary": result.summary, "html_path": result.html_path}
        if self.job == "triage":
            return {"queue": result.queue, "groups": rows_of(result.groups())}
        facts: dict[str, Any] = plain(result)
        if self.job == "process":
            names = ("processed", "failed", "dead_lettered")
            facts = {**facts, **{name: getattr(result, name) for name in names}, "tasks": len(result.tasks)}
        return facts
