"""A worker's handlers in processes of their own: one dies without the others, and can be ended."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueError, QueueStoreClosedError
from localqueue.stores.kept_error import describe_error
from localqueue.stores.port import INFLIGHT, Settle
from localqueue.workers.counts import Tally, WorkerCounts
from localqueue.workers.signals import STOP_SIGNALS, StopSignals

if TYPE_CHECKING:
    from localqueue.message import QueueMessage
    from localqueue.workers.worker import Worker

log = logging.getLogger("localqueue.workers")

_FORK = multiprocessing.get_context("fork")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_LIVED_LONG_ENOUGH = 10.0
STUCK = 70


class WorkerDied(QueueError):
    """The process that ran a handler ended without settling its message."""


class Child:
    """One forked process running a worker with a single thread."""

    def __init__(self, worker: Worker, number: int) -> None:
        self.number = number
        self.worker_id = f"{worker.worker_id}-{number}"
        self.started = time.monotonic()
        self.tally = Tally.shared(_FORK.RawArray)
        self._running = _FORK.RawArray("c", 64)
        self._finished = _FORK.RawValue("b", 0)

    def start(self, *arguments: Any) -> None:
        self.process: ForkProcess = _FORK.Process(target=_run_child, args=(self, *arguments))
        self.process.start()

    def note_start(self, message: QueueMessage[Any]) -> None:
        """Called in the process: a handler is about to run."""
        self._running.value = message.id.encode()

    def note_end(self) -> None:
        """Called in the process: the worker in it has finished."""
        self._finished.value = 1

    @property
    def finished(self) -> bool:
        return bool(self._finished.value)

    @property
    def running(self) -> str:
        """Id of the message whose handler started last."""
        return bytes(self._running.value).decode()


class Supervisor:
    """Keeps `concurrency` processes running until told to stop. It has no threads, so that it can fork."""

    def __init__(self, worker: Worker, *, until_empty: bool, wait_for_delayed: bool) -> None:
        self._worker = worker
        self._until_empty = until_empty
        self._wait_for_delayed = wait_for_delayed
        self._children: list[Child] = []
        self._due: list[tuple[float, int]] = []  # when to start which child again
        self._pauses: dict[int, float] = {}
        self._told = False
        self._bell, self._rope = os.pipe()
        self._totals = WorkerCounts()

    def run(self, signals: bool) -> None:
        worker = self._worker
        os.set_blocking(self._rope, False)
        worker.ring = self._ring
        try:
            with StopSignals(worker.stop, enabled=signals):
                try:
                    for number in range(worker.concurrency):
                        self._start(number)
                    self._supervise()
                finally:
                    self._kill()
        finally:
            worker.ring = None
            os.close(self._bell)
            os.close(self._rope)

    def counts(self) -> WorkerCounts:
        return sum((child.tally.counts() for child in list(self._children)), self._totals)

    def _ring(self) -> None:
        """Have the supervisor look whether to stop; a process of its rings to have all of them stop."""
        with contextlib.suppress(OSError):
            os.write(self._rope, b"!")

    def _start(self, number: int) -> None:
        child = Child(self._worker, number)
        # A signal between the fork and the child's own handlers would run ours in the child, and be lost.
        earlier = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            child.start(self._worker, os.getpid(), self._ring, self._until_empty, self._wait_for_delayed)
            self._children.append(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, earlier)

    def _supervise(self) -> None:
        deadline: float | None = None
        while self._children or self._due:
            if self._worker.stopping.is_set():
                self._due.clear()
                self._tell_children()
                if self._worker.shutdown_timeout is not None:
                    deadline = deadline or time.monotonic() + self._worker.shutdown_timeout
                    if time.monotonic() >= deadline:
                        log.warning("worker %s stops while handlers still run", self._worker.worker_id)
                        return
            self._start_due()
            self._wait(deadline)

    def _wait(self, deadline: float | None) -> None:
        ends = [deadline] if deadline is not None else []
        ends += [at for at, _ in self._due]
        timeout = max(min(ends) - time.monotonic(), 0.0) if ends else None
        sentinels: dict[Any, Child] = {child.process.sentinel: child for child in self._children}
        ready = wait([*sentinels, self._bell], timeout)
        if self._bell in ready:
            os.read(self._bell, 64)
            self._worker.stopping.set()
        for sentinel in ready:
            if sentinel != self._bell:
                self._ended(sentinels[sentinel])

    def _ended(self, child: Child) -> None:
        child.process.join()
        code = child.process.exitcode
        self._children.remove(child)
        self._totals += child.tally.counts()
        child.process.close()
        if child.finished and code == 0 and (self._until_empty or self._worker.stopping.is_set()):
            return
        if code != STUCK:
            log.error("process %s of worker %s ended with %s", child.worker_id, self._worker.worker_id, _ending(code))
        self._release(child, _ending(code))
        lived = time.monotonic() - child.started > _LIVED_LONG_ENOUGH or code == STUCK
        pause = _FIRST_PAUSE if lived else min(self._pauses.get(child.number, _FIRST_PAUSE / 2) * 2, _LONGEST_PAUSE)
        self._pauses[child.number] = pause
        self._due.append((time.monotonic() + pause, child.number))

    def _start_due(self) -> None:
        now = time.monotonic()
        for entry in [entry for entry in self._due if entry[0] <= now]:
            self._due.remove(entry)
            self._start(entry[1])

    def _tell_children(self) -> None:
        if not self._told:
            self._told = True
            for child in self._children:
                if child.process.pid is not None:
                    os.kill(child.process.pid, signal.SIGTERM)

    def _kill(self) -> None:
        """End what still runs; its messages come back at once."""
        for child in self._children:
            child.process.kill()
        while self._children:
            child = self._children[0]
            child.process.join()
            with contextlib.suppress(QueueStoreClosedError):
                self._release(child, "being stopped")
            self._children.remove(child)
            self._totals += child.tally.counts()
            child.process.close()

    def _release(self, child: Child, how: str) -> None:
        """Give back what a dead process held. For the message it was running, that delivery was an attempt."""
        queue = self._worker.queue
        limit = self._worker.attempt_limit
        error = describe_error(WorkerDied(f"the worker process ended with {how} while it held the message"))
        settles, records = [], []
        try:
            for message in queue.store.scan(queue.name, state=INFLIGHT):
                if message.leased_by == child.worker_id:
                    settle = Settle(queue.name, message.id, "release", message.attempts)
                    ran = child.running in (message.id, "")
                    settle = settle._replace(**{"error": error, "max_attempts": limit} if ran else {"forgive": True})
                    settles.append(settle)
                    records.append(queue.desk.endings.records(settle, message))
            if settles:
                queue.desk.conclude(settles, records)
        except QueueStoreClosedError:
            raise
        except QueueError as problem:  # then the leases run out by themselves
            log.warning("could not give back the messages of %s: %s", child.worker_id, problem)


def _run_child(
    child: Child, worker: Worker, parent: int, ring: Callable[[], object], until_empty: bool, wait_for_delayed: bool
) -> None:
    worker.become_child(child, orphaned=lambda: os.getppid() != parent, ring=ring)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of us; the supervisor passes it on
    signal.signal(signal.SIGTERM, lambda *_: worker.wind_up())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    if until_empty:
        worker.run_until_empty(wait_for_delayed=wait_for_delayed, signals=False)
    else:
        worker.run(signals=False)
    child.note_end()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"exit code {code}"
