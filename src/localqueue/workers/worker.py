"""`Worker`: threads or processes that lease, run a handler and settle."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from localqueue.limits import Limits
from localqueue.policies import NotificationPolicy
from localqueue.queue.wait import WorkWait
from localqueue.worker_config import PersistentWorkerConfig, WorkerOptions
from localqueue.workers.core import WorkerCore, is_async
from localqueue.workers.counts import WorkerCounts
from localqueue.workers.lane import Lane
from localqueue.workers.outcome import Settled, drive
from localqueue.workers.recovery import Recovery
from localqueue.workers.signals import StopFlag, StopSignals

if TYPE_CHECKING:
    from localqueue.message import QueueMessage
    from localqueue.queue import PersistentQueue
    from localqueue.workers.outcome import Outcome
    from localqueue.workers.processes import Child, Supervisor
    from localqueue.workers.turns import Turns

log = logging.getLogger("localqueue.workers")

_LOOK_FOR_SIGNALS = 0.2

_LOOK_AGAIN = 0.5  # a message that was expected may have been taken or removed by somebody else


class Worker(WorkerCore):
    """Runs `handler(message.value)` for the messages of a queue and settles them by what it does.

    A handler that returns acks its message. One that raises has it delivered again after the delay of the `wait`
    strategy, until `max_tries` (3 unless the queue, its config or `stop` say otherwise) or an exception that `retry`
    does not cover; then the message is dead-lettered, or released with `dead_letter_on_failure=False`. Tries are
    counted in the store: a restart, and the death of a worker, go on counting.

    `concurrency` handlers run at a time, in threads or, with `executor="processes"`, in forked processes. Leases are
    renewed while handlers run. With `prefetch` each thread leases that many messages in one transaction and settles
    them together. `timeout` gives up on a handler: a process is ended, a thread is left behind and replaced.

    `limits` say how many messages all workers of the queue together may start in a time and run at once.

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
        limits: Limits | None = None,
        **settings: Unpack[WorkerOptions],
    ) -> None:
        if executor not in ("threads", "processes"):
            raise ValueError(f"executor must be 'threads' or 'processes', not {executor!r}; asyncio has AsyncWorker")
        if callable(handler) and is_async(handler):
            raise TypeError(f"{handler!r} is a coroutine function, which nobody would await here; use AsyncWorker")
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
            limits=limits,
            overrides=settings,
        )
        self.executor = executor
        self._lanes: list[Lane] = []
        self._changed = threading.Condition()
        self._lead = threading.Condition()
        self._leader: WorkWait | None = None  # how some lane waits for work, for all that have none
        self._idle = 0
        self._rounds = 0  # how often a lane stopped being idle
        self._until_empty = False
        self._wait_for_delayed = False
        self._emptied = False
        self._failure: BaseException | None = None
        self.turns: Turns | None = None
        self.ring: Callable[[], object] | None = None
        self.on_start: Callable[[QueueMessage[Any]], object] | None = None
        self._supervisor: Supervisor | None = None
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

    @property
    def counts(self) -> WorkerCounts:
        """What became of the messages so far, in this run or the last one."""
        return self._tally.counts() if self._supervisor is None else self._supervisor.counts()

    def stop(self) -> None:
        """Ask the worker to finish; returns at once. May be called from any thread, a handler or a signal handler."""
        self.wind_up()
        if self.ring is not None:
            self.ring()

    def wind_up(self) -> None:
        """Have the threads of this process finish."""
        self.stopping.set()
        for lane in list(self._lanes):
            lane.wake()
        if self.turns is not None:
            self.turns.stir()
        with self._changed:
            self._changed.notify_all()
        with self._lead:
            self._lead.notify_all()

    def become_child(self, child: Child, *, orphaned: Callable[[], bool], ring: Callable[[], object]) -> None:
        """Go on in a forked process, with one thread. A handler that takes too long ends the process."""
        from localqueue.workers.processes import STUCK

        self.executor, self.concurrency, self.worker_id = "threads", 1, child.worker_id
        self.shutdown_timeout = None  # the supervisor has one, and gives back what a process it ended held
        self.ring = ring
        self.on_start = child.note_start
        self._supervisor = None
        self._busy = threading.Lock()
        self._changed = threading.Condition()
        self._lead = threading.Condition()
        self._leader = None
        self.stopping = StopFlag()
        self._tally = child.tally
        self._on_stuck = lambda: os._exit(STUCK)
        self._orphaned = orphaned

    def _work(self, signals: bool) -> WorkerCounts:
        with self._one_run():
            if self.executor == "processes":
                self._run_in_processes(signals)
            else:
                self._supervisor = None
                with StopSignals(self.stop, enabled=signals):
                    self._run_in_threads()
        return self.counts

    def _run_in_processes(self, signals: bool) -> None:
        from localqueue.workers.processes import Supervisor

        if self.queue.store.url.startswith("memory:"):
            raise ValueError(
                f"queue {self.queue.name!r} is in the memory of this process, where others can not see it; "
                "use executor='threads', or a store in a file"
            )
        self._supervisor = Supervisor(self, until_empty=self._until_empty, wait_for_delayed=self._wait_for_delayed)
        self._supervisor.run(signals)

    def _run_in_threads(self) -> None:
        self._prepare(run_steps=drive, on_beat=self._notice_orphanhood)
        self._emptied, self._idle, self._failure, self._leader = False, 0, None, None
        recovery = Recovery(self.delivery.coordinator, drive)
        try:
            self.keeper.start()
            recovery.start()
            for number in range(self.concurrency):
                self._start_lane(number)
            self._join()
        finally:
            self.wind_up()
            for lane in list(self._lanes):
                lane.abandon()
            recovery.close(look_again=self._emptied)
            self.keeper.close()
            self._lanes = []
        if self._failure is not None:
            raise self._failure

    def _start_lane(self, number: int, outcomes: Sequence[Outcome] = ()) -> None:
        lane = Lane(self, number=number, outcomes=outcomes)
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
                # Not for ever: a signal that arrives just before an endless wait begins would be handled after it.
                self._changed.wait(_LOOK_FOR_SIGNALS if remaining is None else min(remaining, _LOOK_FOR_SIGNALS))

    # called by lanes

    def lane_ended(self, lane: Lane) -> None:
        with self._changed:
            if lane not in self._lanes:
                return  # it was left behind by a run that is over
            self._lanes.remove(lane)
            if lane.failure is not None and self._failure is None:
                self._failure = lane.failure
            self._changed.notify_all()
        if lane.failure is not None:
            self.wind_up()

    def replace_lane(self, lane: Lane, outcomes: Sequence[Outcome]) -> None:
        """A handler took too long and its thread is left to itself; another one settles what it had."""
        if self._on_stuck is not None:
            try:
                self.exchange.settle(outcomes)
            finally:
                self._on_stuck()
        with self._changed:
            if lane in self._lanes:
                self._start_lane(lane.number, outcomes)
                self._lanes.remove(lane)

    def lead(self, wait: WorkWait) -> bool:
        """Become the one lane that waits for work: a message that comes wakes one, and not all to find it taken.

        It leads until it has found something. False when the worker stops first, and where all have to look for
        themselves, to know when there is nothing more.
        """
        if self._until_empty:
            return False
        with self._lead:
            while self._leader is not None and not self.stopping.is_set():
                self._lead.wait()
            if self.stopping.is_set():
                return False
            self._leader = wait
            return True

    def follow(self) -> None:
        """The lane that led has found something, or ends."""
        with self._lead:
            self._leader = None
            self._lead.notify()

    def stir(self) -> None:
        """Have the lane that leads look again: it knows nothing of what was put off since, and would rest too long."""
        leader = self._leader
        if leader is not None:
            leader.wake()

    def wait_for_work(self, wait: WorkWait) -> bool:
        """Wait until there may be work; False when the worker is to end because there is none."""
        if not self._until_empty:
            if not self.stopping.is_set():
                wait.wait()
            return True
        with self._changed:
            self._idle += 1
        try:
            while not (self._emptied or self.stopping.is_set()):
                if self._is_last_to_idle(wait):
                    break
                # The look of that may have taken the wake-up which says that it is over.
                if self._emptied or self.stopping.is_set() or wait.wait(_LOOK_AGAIN):
                    break
        finally:
            with self._changed:
                self._idle -= 1
                self._rounds += 1
        return not self._emptied

    def _is_last_to_idle(self, wait: WorkWait) -> bool:
        """Whether no lane has anything to do; then all of them end."""
        with self._changed:
            rounds = self._rounds
            if self._idle < len(self._lanes):
                return False
        # In this order: what is delayed at the first look and due before the second would be seen by neither.
        if self._is_work_expected() or wait.wait(0):
            return False
        with self._changed:
            if self._idle < len(self._lanes) or self._rounds != rounds:
                return False
            self._emptied = True
            for lane in self._lanes:
                lane.wake()
            return True

    def _is_work_expected(self) -> bool:
        return self._wait_for_delayed and self.queue.stats().delayed > 0

    def _notice_orphanhood(self) -> None:
        if self._orphaned is not None and self._orphaned():
            log.error("the process that supervises %s is gone, so it stops", self.worker_id)
            self.wind_up()
