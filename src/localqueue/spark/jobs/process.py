"""`process`: the workers of a queue as tasks of Spark.

Each task runs the ordinary worker loop and settles under its own leases, so nothing that a task returns decides what
becomes of a message. Spark supplies the processes, their placement, and another attempt when one is lost.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localqueue.queue import PersistentQueue
from localqueue.spark.jobs import process_leash as leash
from localqueue.spark.jobs.known_names import UnknownName, need_queue
from localqueue.spark.jobs.process_task import SCHEMA, Plan, reports
from localqueue.spark.lineage import queue_of, told
from localqueue.spark.options import OptionError, parse
from localqueue.spark.place import opened
from localqueue.spark.spark_session import is_remote
from localqueue.stores.sqlite import MemoryQueueStore
from localqueue.workers import Worker
from localqueue.workers.signals import StopSignals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from localqueue.message import QueueStats
    from localqueue.stores.port import QueueStore

_LOOK = 0.2
_BETWEEN_PROGRESS = 1.0


@dataclass(frozen=True, kw_only=True)
class TaskReport:
    """What one task did, and where. `attempt` is above 0 when Spark had to start it again."""

    task: int
    attempt: int
    host: str
    pid: int
    worker_id: str
    acked: int
    released: int
    dead_lettered: int
    skipped: int
    lost: int
    seconds: float

    @property
    def processed(self) -> int:
        """Messages that are done: acked, or skipped as duplicates of finished work."""
        return self.acked + self.skipped

    @property
    def failed(self) -> int:
        """Deliveries whose handler failed, those that were the last included."""
        return self.released + self.dead_lettered


@dataclass(frozen=True, kw_only=True)
class ProcessResult:
    """What `process` did. A task that was lost counts from its last attempt on: the store has what came before."""

    queue: str
    seconds: float
    tasks: tuple[TaskReport, ...]

    @property
    def processed(self) -> int:
        return sum(task.processed for task in self.tasks)

    @property
    def failed(self) -> int:
        return sum(task.failed for task in self.tasks)

    @property
    def dead_lettered(self) -> int:
        return sum(task.dead_lettered for task in self.tasks)

    @property
    def per_second(self) -> float:
        return self.processed / self.seconds if self.seconds else 0.0


@told(reads=queue_of)
def process(
    spark: SparkSession,
    *,
    queue: str,
    handler: str | Callable[..., Any],
    url: str | None = None,
    namespace: str | None = None,
    workers: int | None = None,
    until: str | float = "empty",
    wait_for_delayed: bool = False,
    lease_timeout: float = 30.0,
    progress: Callable[[QueueStats], object] | None = None,
    **worker_options: Any,
) -> ProcessResult:
    """Process the messages of a queue with the ordinary `Worker`, in `workers` tasks of Spark at a time.

    `handler` is `"module:function"`, imported where the task runs, or a function (also a coroutine function) that
    pickles. There are as many workers as the cluster runs tasks at once, unless said otherwise. `until` is `"empty"`
    (nothing is ready; with `wait_for_delayed` nothing is delayed either), a number of seconds, or `"forever"`.
    A queue that is not there is an error; where this waits, only when nothing came.
    `worker_options` are those of `Worker`: `prefetch`, `concurrency`, `timeout`, `max_tries`, `config` and so on.
    `progress` is called about every second with the counts of the queue.

    SIGTERM or SIGINT in the main thread asks all tasks to finish what they run and give back the rest, and so does a
    job that is cancelled or a driver that is gone for a minute; a second signal ends them at once. A task that is ended
    so, or lost with its machine, leaves its messages to be delivered again when their leases run out; where Spark
    starts it again, it waits for that. Delivery is at least once, as with any worker.
    """
    options = parse(_given(url=url, namespace=namespace, queue=queue))
    _refuse_speculation(spark)
    ends_after = _seconds(until)
    _check_handler(handler)
    count = parallelism(spark) if workers is None else _at_least_one(workers)
    check_worker(queue, lease_timeout, worker_options)
    unknown = None
    with opened(options, read_only=True) as there:  # a worker makes what is not there, and finds it empty
        try:
            need_queue(there, queue)
        except UnknownName as error:
            if until == "empty":
                raise
            unknown = error  # it may come while this waits
    with opened(options) as store:
        plan = Plan(
            job=secrets.token_hex(6),
            options=options,
            handler=handler,
            until_empty=until == "empty",
            wait_for_delayed=wait_for_delayed,
            ends_at=None if ends_after is None else store.now() + ends_after,
            lease_timeout=lease_timeout,
            search=(os.getcwd(),) if isinstance(handler, str) else (),
            worker=worker_options,
        )
        frame = spark.range(0, count, 1, count).mapInArrow(lambda batches: reports(plan, batches), SCHEMA)
        began = time.monotonic()
        rows = _Job(spark, frame, store, plan, progress).run()
    errors = sorted({row["error"] for row in rows if row["error"] is not None})
    if errors:
        raise ValueError(errors[0])
    tasks = (TaskReport(**{name: row[name] for name in TaskReport.__dataclass_fields__}) for row in rows)
    result = ProcessResult(
        queue=queue, seconds=time.monotonic() - began, tasks=tuple(sorted(tasks, key=lambda one: one.task))
    )
    if unknown is not None and not result.processed + result.failed:
        raise unknown
    return result


class _Job:
    """The Spark job in a thread of its own, so that this one can hear signals and tell how far it is."""

    def __init__(
        self,
        spark: SparkSession,
        frame: DataFrame,
        store: QueueStore,
        plan: Plan,
        progress: Callable[[QueueStats], object] | None,
    ) -> None:
        self._spark, self._frame, self._store, self._plan, self._progress = spark, frame, store, plan, progress
        self._tag = f"localqueue-process-{plan.job}"
        self._asked = threading.Event()
        self._rows: list[Any] = []
        self._failure: BaseException | None = None

    def run(self) -> list[Any]:
        leash.sweep(self._store)
        leash.hold(self._store, self._plan.job)
        thread = threading.Thread(target=self._collect, name=self._tag, daemon=True)
        with StopSignals(self._asked.set):
            try:
                thread.start()
                self._attend(thread)
            except BaseException:
                leash.cut(self._store, self._plan.job)
                self._spark.interruptTag(self._tag)
                raise
        leash.let_go(self._store, self._plan.job)
        if self._failure is not None:
            raise self._failure
        return self._rows

    def _collect(self) -> None:
        try:
            self._spark.addTag(self._tag)
            self._rows = self._frame.collect()
        except BaseException as failure:
            self._failure = failure

    def _attend(self, thread: threading.Thread) -> None:
        held_at = told_at = time.monotonic()
        is_let_go = False
        while thread.is_alive():
            thread.join(_LOOK)
            now = time.monotonic()
            if self._asked.is_set() and not is_let_go:
                leash.let_go(self._store, self._plan.job)
                is_let_go = True
            if now - held_at >= leash.BEAT and not is_let_go:
                leash.hold(self._store, self._plan.job)
                held_at = now
            if self._progress is not None and now - told_at >= _BETWEEN_PROGRESS:
                self._progress(self._store.stats(self._plan.options.need_queue()))
                told_at = now


def parallelism(spark: SparkSession) -> int:
    """How many tasks the cluster runs at once. A client of Spark Connect has to count the parts of a table."""
    if not is_remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    from pyspark.sql.functions import spark_partition_id

    return max(1, spark.range(0, 100_000).select(spark_partition_id()).distinct().count())


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse_speculation(spark: SparkSession) -> None:
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise OptionError(
            "spark.speculation is on: Spark would start slow tasks a second time and kill one of the two in the middle "
            "of a message; start the session with spark.speculation=false"
        )


def _seconds(until: str | float) -> float | None:
    if until in ("empty", "forever"):
        return None
    if isinstance(until, str | bool) or not 0 < until < float("inf"):
        raise ValueError(f"until must be 'empty', 'forever' or seconds above 0, not {until!r}")
    return float(until)


def _at_least_one(workers: int) -> int:
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers must be a whole number from 1, not {workers!r}")
    return workers


def _check_handler(handler: str | Callable[..., Any]) -> None:
    if isinstance(handler, str):
        module, colon, path = handler.partition(":")
        if not (module and colon and path) or ":" in path:
            raise ValueError(f"handler must be 'module:function' or a function, not {handler!r}")
        return
    if not callable(handler):
        raise TypeError(f"handler must be 'module:function' or a function, not {handler!r}")
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(handler)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise ValueError(
            f"handler {handler!r} can not be sent to the tasks: {error}; make connections and locks inside of it, or "
            "name it as 'module:function'"
        ) from error


def check_worker(queue: str, lease_timeout: float, options: dict[str, Any]) -> None:
    """Say here, not in every task, what no worker could follow."""
    for name in ("executor", "worker_id"):
        if name in options:
            raise ValueError(f"{name} is not an option of process: Spark decides where workers run, and names them")
    with (
        MemoryQueueStore() as store,
        PersistentQueue[Any](queue, store=store, lease_timeout=lease_timeout) as named,
    ):
        Worker(named, print, **options)
