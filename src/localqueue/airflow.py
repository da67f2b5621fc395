"""`BacklogSensor` and `PipelineOperator`: queues and the jobs of the pipeline in a DAG of Airflow 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator, BaseSensorOperator, PokeReturnValue

from localqueue.backlog import Threshold, backlog
from localqueue.spark.jobs.job_call import JobCall

__all__ = ["BacklogSensor", "PipelineOperator"]


class BacklogSensor(BaseSensorOperator):
    """Waits until a queue has `ready` messages or more, or one that has been ready for `age` seconds.

    With neither, one is enough. `queue_name`, because `queue` is Airflow's word for where a task runs. Without `url`,
    LOCALQUEUE_URL of the worker. A store or queue that is not there fails the task, unless `missing_ok` says to wait
    for it. What it found is its XCom: `queue`, `ready`, `age`.
    """

    template_fields: Sequence[str] = ("queue_name", "url", "namespace")

    def __init__(
        self,
        *,
        queue_name: str,
        url: str | None = None,
        namespace: str | None = None,
        ready: int | None = None,
        age: float | None = None,
        missing_ok: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.queue_name, self.url, self.namespace = queue_name, url, namespace
        self.ready, self.age, self.missing_ok = ready, age, missing_ok
        Threshold(ready=ready, age=age)

    def poke(self, context: Any) -> Any:
        found = backlog(self.queue_name, url=self.url, namespace=self.namespace, missing_ok=self.missing_ok)
        self.log.info("%s", found)
        return PokeReturnValue(found.reaches(Threshold(ready=self.ready, age=self.age)), xcom_value=found.as_dict())


class PipelineOperator(BaseOperator):
    """Runs a job of the pipeline, such as `archive`, with the arguments of its function in `localqueue.spark`.

    Arguments may be templates. `master` and `conf` are those of the Spark session, which ends with the task. What the
    job did is its XCom. An unknown job or argument is refused when the DAG is read.
    """

    template_fields: Sequence[str] = ("arguments", "master")

    def __init__(
        self,
        *,
        job: str,
        arguments: Mapping[str, Any],
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.job, self.arguments, self.master, self.conf = job, dict(arguments), master, conf
        self._call()

    def execute(self, context: Any) -> dict[str, Any]:
        return self._call().run()

    def _call(self) -> JobCall:
        return JobCall(job=self.job, arguments=self.arguments, master=self.master, conf=self.conf)
