"""A worker's handlers in processes of their own: one dies without the others, and can be ended."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueError
from localqueue.stores.port import INFLIGHT, Changes, Settle
from localqueue.stores.rules import describe_error
from localqueue.workers.counts import Tally, WorkerCounts
from localqueue.workers.signals import STOP_SIGNALS, StopSignals

if TYPE_CHECKING:
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

    def __init__(self, worker: Worker, number: int, *, until_empty: bool, wait_for_delayed: bool) -> None:
        self.number = number
        self.worker_id = f"{worker.worker_id}-{number}"
        self.started = time.monotonic()
        self.tally = Tally.shared(_FORK.RawArray)
        self.process: ForkProcess = _FORK.Process(
            target=_run_child, args=(worker, self.worker_id, until_empty, wait_for_delayed, self.tally)
        )
        self.process.start()


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

    def run(self, signals: bool) -> WorkerCounts:
        worker = self._worker
        os.set_blocking(self._rope, False)
        worker.ring = self._ring
        try:
            with StopSignals(worker.stop, enabled=signals):
                for number in range(worker.concurrency):
                    self._start(number)
                self._supervise()
        finally:
            self._kill()
            worker.ring = None
            worker.stopping.clear()
            os.close(self._bell)
            os.close(self._rope)
        return self._totals

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._rope, b"!")

    def _start(self, number: int) -> None:
        self._children.append(
            Child(self._worker, number, until_empty=self._until_empty, wait_for_delayed=self._wait_for_delayed)
        )

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
        for ready in wait([*sentinels, self._bell], timeout):
            if ready == self._bell:
                os.read(self._bell, 64)
            else:
                self._ended(sentinels[ready])

    def _ended(self, child: Child) -> None:
        child.process.join()
        code = child.process.exitcode
        self._totals += child.tally.counts()
        self._children.remove(child)
        child.process.close()
        if code == 0:
            return
        if code != STUCK:
            log.error("process %s of worker %s ended with %s", child.worker_id, self._worker.worker_id, _said(code))
        self._release(child.worker_id, _said(code))
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
        children, self._children = self._children, []
        for child in children:
            child.process.kill()
        for child in children:
            child.process.join()
            self._totals += child.tally.counts()
            self._release(child.worker_id, "being stopped")
            child.process.close()

    def _release(self, worker_id: str, how: str) -> None:
        """Give back what a dead process held. Its delivery counts as an attempt."""
        queue = self._worker.queue
        limit = self._worker.attempt_limit
        error = describe_error(WorkerDied(f"the worker process ended with {how} while it held the message"))
        try:
            settles = [
                Settle(queue.name, message.id, "release", message.attempts, 0.0, error, limit)
                for message in queue.store.scan(queue.name, state=INFLIGHT)
                if message.leased_by == worker_id
            ]
            if settles:
                queue.store.commit(Changes(settle=settles, strict=False))
        except QueueError as problem:  # then the leases run out by themselves
            log.warning("could not give back the messages of %s: %s", worker_id, problem)


def _run_child(worker: Worker, worker_id: str, until_empty: bool, wait_for_delayed: bool, tally: Tally) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of us; the supervisor passes it on
    parent = os.getppid()
    worker.become_child(worker_id, tally, orphaned=lambda: os.getppid() != parent)
    for number in STOP_SIGNALS:
        if number != signal.SIGINT:
            signal.signal(number, lambda *_: worker.stop())
    if until_empty:
        worker.run_until_empty(wait_for_delayed=wait_for_delayed, signals=False)
    else:
        worker.run(signals=False)


def _said(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"exit code {code}"
