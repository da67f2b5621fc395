"""`backlog_sensor`, `pipeline_op` and `pipeline_asset`: queues and the jobs of the pipeline in Dagster."""

# Dagster reads annotations as they stand, so they are no texts here.
from collections.abc import Mapping
from typing import Any

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    DagsterRunStatus,
    In,
    MaterializeResult,
    Nothing,
    OpDefinition,
    OpExecutionContext,
    Permissive,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    asset,
    op,
)

from localqueue.backlog import Threshold, backlog
from localqueue.spark.jobs.job_call import JobCall

__all__ = ["backlog_sensor", "pipeline_asset", "pipeline_op"]

_TAG = "localqueue/sensor"
_UNFINISHED = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]


def backlog_sensor(
    name: str,
    *,
    target: Any,
    queue: str,
    url: str | None = None,
    namespace: str | None = None,
    ready: int | None = None,
    age: float | None = None,
    missing_ok: bool = False,
    **options: Any,
) -> SensorDefinition:
    """A sensor that starts `target` when a queue has `ready` messages or more, or one ready for `age` seconds.

    With neither, one is enough. Nothing is started while a run that it started is unfinished. Without `url`,
    LOCALQUEUE_URL. A store or queue that is not there fails the tick, unless `missing_ok` says to wait for it.
    """
    threshold = Threshold(ready=ready, age=age)

    def look(context: SensorEvaluationContext) -> Any:
        found = backlog(queue, url=url, namespace=namespace, missing_ok=missing_ok)
        if not found.reaches(threshold):
            return SkipReason(str(found))
        if context.instance.get_runs(RunsFilter(tags={_TAG: name}, statuses=_UNFINISHED), limit=1):
            return SkipReason(f"{found}; a run is under way")
        return RunRequest(tags={_TAG: name, "localqueue/queue": queue, "localqueue/ready": str(found.ready)})

    return SensorDefinition(name, evaluation_fn=look, target=target, **options)


def pipeline_op(
    job: str,
    *,
    arguments: Mapping[str, Any],
    name: str | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    **options: Any,
) -> OpDefinition:
    """An op that runs a job of the pipeline with the arguments of its function in `localqueue.spark`.

    The config of a run may give further arguments, or others. Its output is what the job did; `start` is an input for
    what must come before. An unknown job or argument is refused here.
    """
    call = JobCall(job=job, arguments=arguments, master=master, conf=conf)

    def run(context: OpExecutionContext) -> dict[str, Any]:
        return _run(call, context.op_config)

    return op(name=name or job, ins={"start": In(Nothing)}, config_schema=Permissive(), **options)(run)


def pipeline_asset(
    job: str,
    *,
    name: str,
    arguments: Mapping[str, Any],
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    **options: Any,
) -> AssetsDefinition:
    """The same as an asset, for what a job leaves behind: an archive, a view, a report. What it did is metadata."""
    call = JobCall(job=job, arguments=arguments, master=master, conf=conf)

    def make(context: AssetExecutionContext) -> MaterializeResult:
        return MaterializeResult(metadata=_run(call, context.op_execution_context.op_config))

    return asset(name=name, config_schema=Permissive(), **options)(make)


def _run(call: JobCall, config: Mapping[str, Any] | None) -> dict[str, Any]:
    arguments = {**call.arguments, **(config or {})}
    return JobCall(job=call.job, arguments=arguments, master=call.master, conf=call.conf).run()
