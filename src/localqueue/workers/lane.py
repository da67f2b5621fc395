"""One thread of a worker: lease, run the handler, settle, and again."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from localqueue.errors import LeaseLost, QueueError
from localqueue.message import QueueMessage
from localqueue.queue.waiting import WorkWait
from localqueue.stores.port import Settle
from localqueue.workers.job import with_job
from localqueue.workers.keeper import Held
from localqueue.workers.outcome import Call, Outcome, drive

if TYPE_CHECKING:
    from localqueue.workers.worker import Worker

log = logging.getLogger("localqueue.workers")

_KEEP_OUTCOMES = 0.05  # how long a finished message may wait for its batch to be settled


class Lane(threading.Thread):
    """Runs until the worker stops, or with `until_empty` until no lane has anything to do."""

    def __init__(self, worker: Worker, *, number: int) -> None:
        super().__init__(name=f"{worker.worker_id}-{number}", daemon=True)
        self.failure: BaseException | None = None
        self.number = number
        self._worker = worker
        self._wait = WorkWait(worker.queue, worker.notification_policy)
        self._leased: deque[Held] = deque()
        self._outcomes: list[Outcome] = []
        self._oldest_outcome = 0.0
        self._abandoned = False
        self._lock = threading.Lock()

    def run(self) -> None:
        try:
            while not self._abandoned and not self._worker.stopping.is_set():
                if not self._turn():
                    break
            if not self._abandoned:
                self._end()
        except BaseException as error:
            self.failure = error
            log.exception("a thread of worker %s ended", self._worker.worker_id)
        finally:
            self._wait.close()
            self._worker.lane_ended(self)

    def wake(self) -> None:
        self._wait.wake()

    def _turn(self) -> bool:
        """One message, or one wait for some; False when there will be none."""
        held = self._next()
        if held is None:
            return self._worker.wait_for_work(self._wait)
        if self._worker.pace.paced and not self._start_in_pace():
            with self._lock:
                self._leased.appendleft(held)
            return True
        self._run(held)
        return True

    def _next(self) -> Held | None:
        with self._lock:
            if self._leased:
                return self._leased.popleft()
        worker = self._worker
        if worker.pace.is_open:
            self._settle()
            self._start_in_pace()
            return self._next() if not worker.stopping.is_set() else None
        outcomes, self._outcomes = self._outcomes, []
        messages = worker.exchange.swap(outcomes, worker.prefetch)
        if not messages:
            return None
        first, *rest = [worker.keeper.hold(message) for message in messages]
        with self._lock:
            self._leased.extend(rest)
        return first

    def _start_in_pace(self) -> bool:
        """Wait until a message may start; False when the worker stops first."""
        while (pause := self._worker.pace.wait()) > 0:
            self._settle()
            if self._worker.stopping.wait(pause):
                return False
        return True

    def _run(self, held: Held) -> None:
        worker, job = self._worker, held.job
        call = Call(with_job, (job, worker.handler, job.message.value))
        if worker.timeout is not None:
            worker.keeper.watch(held, worker.timeout, lambda: self._give_up(held))
        try:
            outcome: Outcome = drive(worker.handling.steps(job, call))
        except LeaseLost as error:
            outcome = Outcome(job.message, "lost", None, error=error)
        except Exception as error:  # the ledger or the saga's log could not be read or written
            outcome = worker.handling.interrupted(job.message, error)
        if worker.timeout is not None and not worker.keeper.unwatch(held):
            return  # it took too long: the message was settled and this thread replaced
        if not self._outcomes:
            self._oldest_outcome = time.monotonic()
        self._outcomes.append(outcome)
        if self._leased and time.monotonic() - self._oldest_outcome > _KEEP_OUTCOMES:
            self._settle()

    def _settle(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        self._worker.exchange.settle(outcomes)

    def _give_up(self, held: Held) -> None:
        """Called by the keeper: the handler's time is up. A thread can not be stopped, so it is left behind."""
        self._abandoned = True
        worker, message = self._worker, held.job.message
        held.job.lose()
        error = TimeoutError(f"the handler did not finish within {worker.timeout} seconds")
        log.warning("message %s of queue %r: %s", message.id, worker.queue.name, error)
        outcomes, self._outcomes = self._outcomes, []
        worker.exchange.settle([*outcomes, worker.handling.failure(message, error), *self._unstarted()])
        worker.replace_lane(self)

    def _unstarted(self) -> list[Outcome]:
        with self._lock:
            rest = [held.job.message for held in self._leased]
            self._leased.clear()
        return [unstarted(self._worker.queue.name, message) for message in rest]

    def abandon(self) -> None:
        """The worker ends while a handler of this lane still runs."""
        self._abandoned = True
        try:
            self._worker.exchange.settle(self._unstarted())
        except QueueError as error:
            log.warning("messages that were not started stay leased until their leases run out: %s", error)

    def _end(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        self._worker.exchange.settle([*outcomes, *self._unstarted()])


def unstarted(queue: str, message: QueueMessage[Any]) -> Outcome:
    """Give back a message that no handler has seen."""
    return Outcome(message, "released", Settle(queue, message.id, "release", message.attempts, forgive=True))
