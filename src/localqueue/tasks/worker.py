"""`TaskWorker`: one worker for all queues of an application's tasks, and for its schedules."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from localqueue.policies._limits import require_integer
from localqueue.tasks.branches import Branches
from localqueue.tasks.crew import LoopCrew, ThreadCrew, executor_of
from localqueue.tasks.errors import TaskError
from localqueue.workers.core import new_worker_id
from localqueue.workers.counts import WorkerCounts
from localqueue.workers.outcome import Settled
from localqueue.workers.signals import StopFlag, StopSignals
from localqueue.workers.turns import Turns

if TYPE_CHECKING:
    from localqueue.schedules import Scheduler
    from localqueue.tasks.registry import Tasks

log = logging.getLogger("localqueue.tasks")

DEFAULT_CONCURRENCY = 8
_LOOK_FOR_SIGNALS = 0.2


class TaskWorkerOptions(TypedDict, total=False):
    """The arguments of a `TaskWorker` beside its tasks."""

    queues: Sequence[str] | Mapping[str, float] | None
    concurrency: int
    processes: int | None
    strict: bool
    prefetch: int
    scheduler: bool
    worker_id: str | None
    shutdown_timeout: float | None
    on_settled: Callable[[Settled], object] | None


class TaskWorker:
    """Runs the jobs of all queues of `tasks`, or of `queues`.

    Functions run in `concurrency` threads, which the queues share: `queues` may map each name to its weight, and with
    `strict` a queue that is named earlier goes before the later ones always. A queue with coroutine functions has an
    event loop with as many jobs at a time, one with tasks of `executor="processes"` has `processes` processes (the
    number of cores unless given). With `scheduler` the schedules of the tasks are kept, too; any number of workers may
    do so. `run` returns after `stop()`, SIGTERM or SIGINT, when running jobs have ended; `shutdown_timeout` or a second
    signal stops waiting for them.
    """

    def __init__(
        self,
        tasks: Tasks,
        queues: Sequence[str] | Mapping[str, float] | None = None,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        processes: int | None = None,
        strict: bool = False,
        prefetch: int = 1,
        scheduler: bool = True,
        worker_id: str | None = None,
        shutdown_timeout: float | None = None,
        on_settled: Callable[[Settled], object] | None = None,
    ) -> None:
        self.tasks = tasks
        self.weights = _weights(tasks, queues)
        self.concurrency = _positive("concurrency", concurrency)
        self.processes = _positive("processes", (os.cpu_count() or 1) if processes is None else processes)
        self.strict = strict
        self.worker_id = worker_id or new_worker_id()
        self.executors = {name: executor_of(tasks, name) for name in self.weights}
        self.schedules = [
            (task, schedule) for task, schedule in tasks.schedules if scheduler and task.queue in self.weights
        ]
        self._options: dict[str, Any] = {
            "prefetch": prefetch,
            "shutdown_timeout": shutdown_timeout,
            "on_settled": on_settled,
        }
        self.turns: Turns | None = None
        self._stopping = StopFlag()
        self._stop_now: Callable[[], object] | None = None
        self._counts = WorkerCounts()

    @property
    def counts(self) -> WorkerCounts:
        """What became of the jobs of the last run."""
        return self._counts

    def run(self, *, signals: bool = True) -> WorkerCounts:
        """Work until stopped."""
        apart = [name for name, executor in self.executors.items() if executor == "processes"]
        here = [name for name in self.weights if name not in apart]
        if not apart:
            return self._run_here(here, signals)
        if len(apart) == 1 and not here and not self.schedules:
            return self._run_here(apart, signals)
        # A process that has threads is not to be forked, so this one has none: each part works in a process of its own.
        parts = [self._branch([name], schedules=False) for name in apart]
        if here or self.schedules:
            parts.append(self._branch(here, schedules=True))
        branches = Branches(parts)
        return self._finish(branches.run, branches.stop, signals)

    def run_until_empty(self, *, wait_for_delayed: bool = False, signals: bool = True) -> WorkerCounts:
        """Work until no queue has anything ready; with `wait_for_delayed` also until nothing is delayed."""

        def rounds() -> WorkerCounts:
            total = WorkerCounts()
            while not self._stopping.is_set():
                done = WorkerCounts()
                for name in self.weights:
                    if not self._has_work(name, wait_for_delayed):
                        continue
                    crew = self._crew(name)
                    self._stop_now = crew.stop
                    done += _run_crew(crew, until_empty=True, wait_for_delayed=wait_for_delayed)
                total += done
                if not done.total:
                    break
            return total

        return self._finish(rounds, lambda: None, signals)

    def _has_work(self, queue: str, wait_for_delayed: bool) -> bool:
        stats = self.tasks.queue(queue).stats()
        return bool(stats.ready or (wait_for_delayed and stats.delayed))

    def stop(self) -> None:
        """Ask the worker to finish; returns at once. May be called from any thread, a job or a signal handler."""
        self._stopping.set()
        if self._stop_now is not None:
            self._stop_now()

    def _finish(self, work: Callable[[], WorkerCounts], stop: Callable[[], object], signals: bool) -> WorkerCounts:
        self._stop_now = stop
        if self._stopping.is_set():  # before there was anything to stop
            stop()
        try:
            with StopSignals(self.stop, enabled=signals):
                self._counts = work()
        finally:
            self._stop_now = None
            self._stopping.clear()
        return self._counts

    def _run_here(self, queues: Sequence[str], signals: bool, *, schedules: bool = True) -> WorkerCounts:
        team = _Team([self._crew(name) for name in queues], self._schedulers() if schedules else [])
        shared = [crew for crew in team.crews if isinstance(crew, ThreadCrew) and crew.executor == "threads"]
        if len(shared) > 1:
            order = list(self.weights)
            priorities: dict[Hashable, int] = {name: -n for n, name in enumerate(order)} if self.strict else {}
            self.turns = Turns(
                self.concurrency, {crew.queue.name: self.weights[crew.queue.name] for crew in shared}, priorities
            )
            for crew in shared:
                crew.turns = self.turns
        return self._finish(lambda: team.run(self._stopping), team.stop, signals)

    def _branch(self, queues: Sequence[str], *, schedules: bool) -> Callable[[], WorkerCounts]:
        return lambda: self._run_here(queues, True, schedules=schedules)

    def _crew(self, name: str) -> ThreadCrew | LoopCrew:
        executor = self.executors[name]
        return self.tasks.crew(
            name,
            executor,
            concurrency=self.processes if executor == "processes" else self.concurrency,
            worker_id=self.worker_id,
            **self._options,
        )

    def _schedulers(self) -> list[Scheduler]:
        from localqueue.schedules import Scheduler

        schedulers: dict[str, Scheduler] = {}
        for task, schedule in self.schedules:
            scheduler = schedulers.setdefault(task.queue, Scheduler(self.tasks.queue(task.queue)))
            scheduler.add(schedule, replace=True)
        for queue, scheduler in schedulers.items():
            ours = {schedule.name for task, schedule in self.schedules if task.queue == queue}
            for state in scheduler.list():
                value = state.schedule.value
                if state.name not in ours and isinstance(value, dict) and "task" in value:
                    log.warning(
                        "schedule %r of queue %r is for task %r, which is not declared here; end it with "
                        "`localqueue schedule remove`", state.name, queue, value["task"],
                    )  # fmt: skip
        return list(schedulers.values())


class _Team:
    """Crews and schedulers of one process, each in a thread of its own; a lone crew in the thread that runs it."""

    def __init__(self, crews: list[ThreadCrew | LoopCrew], schedulers: list[Scheduler]) -> None:
        self.crews = crews
        self._schedulers = schedulers
        self._failures: list[BaseException] = []

    def run(self, stopping: threading.Event) -> WorkerCounts:
        threads = [
            threading.Thread(target=one.run, name="localqueue-scheduler", daemon=True) for one in self._schedulers
        ]
        for thread in threads:
            thread.start()
        try:
            self._run_crews(stopping)
        finally:
            self.stop()
            for thread in threads:
                thread.join()
        if self._failures:
            raise self._failures[0]
        return sum((crew.counts for crew in self.crews), WorkerCounts())

    def stop(self) -> None:
        for crew in self.crews:
            crew.stop()
        for scheduler in self._schedulers:
            scheduler.stop()

    def _run_crews(self, stopping: threading.Event) -> None:
        if len(self.crews) == 1 and isinstance(self.crews[0], ThreadCrew):
            self._run_one(self.crews[0])
            return
        threads = [
            threading.Thread(target=self._run_one, args=(crew,), name=f"localqueue-{crew.queue.name}", daemon=True)
            for crew in self.crews
        ]
        for thread in threads:
            thread.start()
        if not threads:  # nothing but schedules
            while not stopping.wait(_LOOK_FOR_SIGNALS):
                pass
        for thread in threads:
            while thread.is_alive():  # not for ever: a signal is handled between two waits
                thread.join(_LOOK_FOR_SIGNALS)

    def _run_one(self, crew: ThreadCrew | LoopCrew) -> None:
        try:
            _run_crew(crew)
        except BaseException as error:
            self._failures.append(error)
            self.stop()


def _run_crew(
    crew: ThreadCrew | LoopCrew, *, until_empty: bool = False, wait_for_delayed: bool = False
) -> WorkerCounts:
    if isinstance(crew, LoopCrew):
        run = (
            crew.run_until_empty(wait_for_delayed=wait_for_delayed, signals=False)
            if until_empty
            else crew.run(signals=False)
        )
        return asyncio.run(run)
    if until_empty:
        return crew.run_until_empty(wait_for_delayed=wait_for_delayed, signals=False)
    return crew.run(signals=False)


def _weights(tasks: Tasks, queues: Sequence[str] | Mapping[str, float] | None) -> dict[str, float]:
    if isinstance(queues, str):
        raise TypeError(f"queues takes a list of names, not the string {queues!r}; write [{queues!r}]")
    if queues is None:
        queues = tasks.queues
        if not queues:
            raise TaskError("there are no tasks to work for; declare some with @tasks.task")
    weights = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, 1.0)
    if not weights:
        raise TaskError("a worker needs a queue to work for; name some, or leave queues= out for all")
    known = tasks.queues
    for name, weight in weights.items():
        if name not in known:
            raise TaskError(f"no task is put into queue {name!r}; the queues of these tasks are {', '.join(known)}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0:
            raise ValueError(f"the weight of queue {name!r} must be a number greater than zero, not {weight!r}")
    return weights


def _positive(name: str, value: int) -> int:
    if require_integer(name, value) < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    return value
