"""What one task of `process` does: the ordinary worker loop, in the Python process that Spark has started for it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueStoreError
from localqueue.queue import PersistentQueue
from localqueue.spark.jobs import process_leash as leash
from localqueue.spark.options import Options
from localqueue.spark.place import opened
from localqueue.stores.port import QueueStore
from localqueue.workers import AsyncWorker, Worker, WorkerCounts
from localqueue.workers.core import is_async

if TYPE_CHECKING:
    import pyarrow as pa

_LOOK = 1.0

_COLUMNS = {
    "task": "int", "attempt": "int", "host": "string", "pid": "int", "worker_id": "string", "acked": "bigint",
    "released": "bigint", "dead_lettered": "bigint", "skipped": "bigint", "lost": "bigint", "seconds": "double",
    "error": "string",
}  # fmt: skip
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every task of a job is told. `ends_at` is on the store's clock, so that a retried task ends in time too."""

    job: str
    options: Options
    handler: str | Callable[..., Any]
    until_empty: bool
    wait_for_delayed: bool = False
    ends_at: float | None = None
    lease_timeout: float = 30.0
    search: tuple[str, ...] = ()
    worker: Mapping[str, Any] = field(default_factory=dict)


class _CannotStart(Exception):
    """What is wrong is wrong for every attempt, so it is reported instead of tried again."""


def reports(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Work for each number in the batches, which is one for a task; what it led to, as a row of `SCHEMA`."""
    import pyarrow as pa

    kinds = {"int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in _COLUMNS.items()])
    for batch in batches:
        for task in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pylist([_report(plan, task)], schema=schema)


def _report(plan: Plan, task: int) -> dict[str, Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = 0 if context is None else context.attemptNumber()
    host, began = socket.gethostname(), time.monotonic()
    row: dict[str, Any] = {"task": task, "attempt": attempt, "host": host, "pid": os.getpid(), "error": None}
    row["worker_id"] = f"spark-{plan.job}-{task}-{attempt}"
    counts = WorkerCounts()
    try:
        counts = work(plan, row["worker_id"], is_retry=attempt > 0)
    except _CannotStart as error:
        row["error"] = str(error)
    return {**row, **counts.as_dict(), "seconds": time.monotonic() - began}


def work(plan: Plan, worker_id: str, *, is_retry: bool = False) -> WorkerCounts:
    """Run a worker until the plan says so or the driver lets go of it."""
    name = plan.options.need_queue()
    with _store(plan) as store:
        handler = _handler(plan, store)
        with PersistentQueue[Any](name, store=store, lease_timeout=plan.lease_timeout) as queue:
            kind: Any = AsyncWorker if is_async(handler) else Worker
            worker = kind(queue, handler, worker_id=worker_id, **plan.worker)
            with _Watch(plan, store, worker) as watch:
                return _until_empty(plan, worker, watch, is_retry) if plan.until_empty else _run(worker.run)


def _run(run: Callable[..., Any], **how: Any) -> WorkerCounts:
    made = run(**how)
    counts: WorkerCounts = asyncio.run(made) if asyncio.iscoroutine(made) else made
    return counts


def _until_empty(plan: Plan, worker: Any, watch: _Watch, is_retry: bool) -> WorkerCounts:
    """Until nothing is ready. A task that was killed left leases behind: its successor waits until they run out."""
    patient_until = time.monotonic() + plan.lease_timeout
    counts = _run(worker.run_until_empty, wait_for_delayed=plan.wait_for_delayed)
    while is_retry and not watch.over.wait(_LOOK / 2):
        is_last = time.monotonic() > patient_until  # every lease from before has run out by now
        stats = worker.queue.stats()
        if stats.ready or stats.inflight:
            counts += _run(worker.run_until_empty, wait_for_delayed=plan.wait_for_delayed)
        if is_last or not (stats.ready or stats.inflight):
            break
    return counts


@contextmanager
def _store(plan: Plan) -> Iterator[QueueStore]:
    try:
        opening = opened(plan.options)
        store = opening.__enter__()
    except QueueStoreError as error:
        raise _CannotStart(f"the store can not be reached from {socket.gethostname()}: {error}") from error
    try:
        yield store
    finally:
        opening.__exit__(None, None, None)


def _handler(plan: Plan, store: QueueStore) -> Callable[..., Any]:
    if not isinstance(plan.handler, str):
        return plan.handler
    try:
        return load(plan.handler, plan.search)
    except ValueError as error:
        leash.let_go(store, plan.job)  # the others will not find it either, and need not wait for the end
        raise _CannotStart(str(error)) from error


def load(spec: str, search: tuple[str, ...] = ()) -> Callable[..., Any]:
    """The function that `module:function` names, or ValueError. `search` are folders to look in last."""
    module, colon, path = spec.partition(":")
    if not (module and colon and path) or ":" in path:
        raise ValueError(f"handler must be 'module:function' or a function, not {spec!r}")
    sys.path.extend(folder for folder in search if folder not in sys.path and os.path.isdir(folder))
    try:
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:
        raise ValueError(
            f"handler {spec!r} can not be imported on {socket.gethostname()}: {type(error).__name__}: {error}; "
            "install its package there, or send the file with spark.addArtifacts(file, pyfile=True)"
        ) from error
    if not callable(found):
        raise ValueError(f"handler {spec!r} is not callable: {found!r}")
    return found  # type: ignore[no-any-return]


class _Watch:
    """Stops a worker when its time is up or when the driver lets go of it."""

    def __init__(self, plan: Plan, store: QueueStore, worker: Any) -> None:
        self._plan, self._store, self._worker = plan, store, worker
        self.over = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="localqueue-process-watch", daemon=True)

    def __enter__(self) -> _Watch:
        if self._is_over():
            self._end()
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(self._pause()):
            with suppress(QueueStoreError):  # the worker meets the same trouble, and knows what to do
                if self._is_over():
                    return self._end()

    def _pause(self) -> float:
        if self._plan.ends_at is None:
            return _LOOK
        with suppress(QueueStoreError):
            return min(_LOOK, max(self._plan.ends_at - self._store.now(), 0.0))
        return _LOOK

    def _is_over(self) -> bool:
        ends_at = self._plan.ends_at
        if ends_at is not None and self._store.now() >= ends_at:
            return True
        word = leash.word(self._store, self._plan.job)
        if word == leash.END_AT_ONCE:
            os.kill(os.getpid(), signal.SIGKILL)  # nothing less ends a handler that does not return
        return word != leash.GO_ON

    def _end(self) -> None:
        self.over.set()
        self._worker.stop()
