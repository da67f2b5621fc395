"""`Worker`: threads or processes that lease, run a handler and settle."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from localqueue.policies import NotificationPolicy
from localqueue.queue.waiting import WorkWait
from localqueue.worker_config import PersistentWorkerConfig
from localqueue.workers.core import WorkerCore
from localqueue.workers.counts import Tally, WorkerCounts
from localqueue.workers.lane import Lane
from localqueue.workers.outcome import Settled, drive
from localqueue.workers.recovery import Recovery
from localqueue.workers.signals import StopSignals

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")


class Worker(WorkerCore):
    """Runs `handler(message.value)` for the messages of a queue and settles them by what it does.

    A handler that returns acks its message. One that raises has it delivered again after the delay of the `wait`
    strategy, until `max_tries` (3 unless the queue, its config or `stop` say otherwise) or an exception that `retry`
    does not cover; then the message is dead-lettered, or released with `dead_letter_on_failure=False`. Tries are
    counted in the store: a restart, and the death of a worker, go on counting.

    `concurrency` handlers run at a time, in threads or, with `executor="processes"`, in forked processes. Leases are
    renewed while handlers run. With `prefetch` each thread leases that many messages in one transaction and settles
    them together. `timeout` gives up on a handler: a process is ended, a thread is left behind and replaced.

    `run` returns after `stop()`, SIGTERM or SIGINT: running handlers finish, messages not yet started are given back. A
    second signal, or `shutdown_timeout`, stops waiting for them.
    """

    def __init__(
        self,
        queue: PersistentQueue[Any],
        handler: Callable[..., Any],
        *,
        concurrency: int = 1,
        executor: Literal["threads", "processes"] = "threads",
        prefetch: int = 1,
        config: PersistentWorkerConfig | None = None,
        worker_id: str | None = None,
        timeout: float | None = None,
        shutdown_timeout: float | None = None,
        notification_policy: NotificationPolicy | None = None,
        on_settled: Callable[[Settled], object] | None = None,
        **overrides: Any,
    ) -> None:
        if executor not in ("threads", "processes"):
            raise ValueError(f"executor must be 'threads' or 'processes', not {executor!r}; asyncio has AsyncWorker")
        super().__init__(
            queue,
            handler,
            concurrency=concurrency,
            prefetch=prefetch,
            config=config,
            worker_id=worker_id,
            timeout=timeout,
            shutdown_timeout=shutdown_timeout,
            notification_policy=notification_policy,
            on_settled=on_settled,
            overrides=overrides,
        )
        self.executor = executor
        self._lanes: list[Lane] = []
        self._changed = threading.Condition()
        self._idle = 0
        self._until_empty = False
        self._wait_for_delayed = False
        self._emptied = False
        self._failure: BaseException | None = None
        self.ring: Callable[[], object] | None = None
        self._on_stuck: Callable[[], object] | None = None
        self._orphaned: Callable[[], bool] | None = None

    def run(self, *, signals: bool = True) -> WorkerCounts:
        """Work until stopped. Called in the main thread it handles SIGTERM and SIGINT, unless `signals` is False."""
        self._until_empty = False
        return self._work(signals)

    def run_until_empty(self, *, wait_for_delayed: bool = False, signals: bool = True) -> WorkerCounts:
        """Work until nothing is ready and nothing runs; with `wait_for_delayed` also until nothing is delayed."""
        self._until_empty, self._wait_for_delayed = True, wait_for_delayed
        return self._work(signals)

    def stop(self) -> None:
        """Ask the worker to finish; returns at once. May be called from any thread, a handler or a signal handler."""
        self.stopping.set()
        for lane in list(self._lanes):
            lane.wake()
        with self._changed:
            self._changed.notify_all()
        if self.ring is not None:
            self.ring()

    def become_child(self, worker_id: str, tally: Tally, *, orphaned: Callable[[], bool]) -> None:
        """Go on in a forked process, with one thread. A handler that takes too long ends the process."""
        from localqueue.workers.processes import STUCK

        self.executor, self.concurrency, self.worker_id = "threads", 1, worker_id
        self.ring = None
        self._changed = threading.Condition()
        self.stopping = threading.Event()
        self._tally = tally
        self._on_stuck = lambda: os._exit(STUCK)
        self._orphaned = orphaned

    def _work(self, signals: bool) -> WorkerCounts:
        if self.executor == "processes":
            from localqueue.workers.processes import Supervisor

            return Supervisor(self, until_empty=self._until_empty, wait_for_delayed=self._wait_for_delayed).run(signals)
        with StopSignals(self.stop, enabled=signals):
            self._run_in_threads()
        return self.counts

    def _run_in_threads(self) -> None:
        self._prepare(run_steps=drive, on_beat=self._notice_orphanhood)
        self._emptied, self._idle, self._failure = False, 0, None
        recovery = Recovery(self.handling.coordinator, drive)
        try:
            self.keeper.start()
            recovery.start()
            for number in range(self.concurrency):
                self._start_lane(number)
            self._join()
        finally:
            self.stop()
            for lane in list(self._lanes):
                lane.abandon()
            recovery.close()
            self.keeper.close()
            self._lanes = []
            self.stopping.clear()
        if self._failure is not None:
            raise self._failure

    def _start_lane(self, number: int) -> None:
        lane = Lane(self, number=number)
        with self._changed:
            self._lanes.append(lane)
            lane.start()

    def _join(self) -> None:
        deadline: float | None = None
        with self._changed:
            while self._lanes:
                if self.stopping.is_set() and self.shutdown_timeout is not None:
                    deadline = deadline or time.monotonic() + self.shutdown_timeout
                remaining = None if deadline is None else deadline - time.monotonic()
                if remaining is not None and remaining <= 0:
                    log.warning("worker %s stops while %d handlers still run", self.worker_id, len(self._lanes))
                    return
                self._changed.wait(remaining)

    # called by lanes

    def lane_ended(self, lane: Lane) -> None:
        with self._changed:
            if lane in self._lanes:
                self._lanes.remove(lane)
            if lane.failure is not None and self._failure is None:
                self._failure = lane.failure
            self._changed.notify_all()
        if lane.failure is not None:
            self.stop()

    def replace_lane(self, lane: Lane) -> None:
        """A handler took too long and its thread is left to itself."""
        if self._on_stuck is not None:
            self._on_stuck()
        with self._changed:
            if lane in self._lanes:
                self._lanes.remove(lane)
                if not self.stopping.is_set():
                    self._start_lane(lane.number)
            self._changed.notify_all()

    def wait_for_work(self, wait: WorkWait) -> bool:
        """Wait until there may be work; False when the worker is to end because there is none."""
        if not self._until_empty:
            wait.wait()
            return True
        with self._changed:
            self._idle += 1
            if self._idle == len(self._lanes) and not self._is_work_expected():
                self._emptied = True
                for lane in self._lanes:
                    lane.wake()
        while not (self._emptied or self.stopping.is_set() or wait.wait()):
            continue
        with self._changed:
            self._idle -= 1
        return not self._emptied

    def _is_work_expected(self) -> bool:
        return self._wait_for_delayed and self.queue.stats().delayed > 0

    def _notice_orphanhood(self) -> None:
        if self._orphaned is not None and self._orphaned():
            log.error("the process that supervises %s is gone, so it stops", self.worker_id)
            self.stop()
