"""One thread of a worker: lease, run the handler, settle, and again."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from localqueue.errors import LeaseLost, QueueError, QueueStoreClosedError, QueueStoreError
from localqueue.message import QueueMessage
from localqueue.stores.port import Settle
from localqueue.workers.job import with_job
from localqueue.workers.keeper import Held
from localqueue.workers.outcome import Call, Outcome, drive

if TYPE_CHECKING:
    from localqueue.workers.turns import Turns
    from localqueue.workers.worker import Worker

log = logging.getLogger("localqueue.workers")

_KEEP_OUTCOMES = 0.05  # how long a finished message may wait for its batch to be settled
_AFTER_AN_ERROR = 0.2


class Lane(threading.Thread):
    """Runs until the worker stops, or with `until_empty` until no lane has anything to do.

    `outcomes` are what a lane that was left behind has not settled.
    """

    def __init__(self, worker: Worker, *, number: int, outcomes: Sequence[Outcome] = ()) -> None:
        super().__init__(name=f"{worker.worker_id}-{number}", daemon=True)
        self.failure: BaseException | None = None
        self.number = number
        self._worker = worker
        self._wait = worker.turnstile.waiting()
        self._leased: deque[Held] = deque()
        self._outcomes: list[Outcome] = list(outcomes)
        self._oldest_outcome = time.monotonic()
        self._abandoned = False
        self._replaced = False
        self._has_place = worker.turns is None
        self._leads = False
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
            if not isinstance(error, QueueStoreClosedError):
                self._worker.wind_up()
                self._leave(self._outcomes)
        finally:
            self._follow()
            self._worker.turnstile.flush()
            self._wait.close()
            self._leave_turn()
            if not self._replaced:
                self._worker.lane_ended(self)

    def wake(self) -> None:
        self._wait.wake()

    def _turn(self) -> bool:
        """One message, or one wait for some; False when there will be none."""
        worker = self._worker
        if not self._leased and (pause := worker.pace.open_for) > 0:
            self._settle()
            worker.stopping.wait(pause)
            return True
        held = self._next()
        if held is None:
            return self._wait_for_work()
        if (worker.stopping.is_set() or not self._start_in_pace()) and not worker.delivery.consumes:
            with self._lock:
                self._leased.appendleft(held)
        elif worker.turnstile.admits(held):
            self._run(held)
        return True

    def _next(self) -> Held | None:
        with self._lock:
            if self._leased:
                return self._leased.popleft()
        worker = self._worker
        if worker.turns is not None and not self._take_turn(worker.turns):
            return None
        outcomes, self._outcomes = self._outcomes, []
        messages = worker.turnstile.swap(outcomes, worker.batch)
        self._tell_leader(outcomes)
        if not messages:
            self._leave_turn()
            return None
        self._follow()
        first, *rest = [worker.keeper.hold(message) for message in messages]
        with self._lock:
            self._leased.extend(rest)
        return first

    def _take_turn(self, turns: Turns) -> bool:
        """Have a place among the handlers of all queues that share them; False when the worker stops first."""
        queue = self._worker.queue.name
        if self._has_place:
            if turns.keep(queue):
                return True
            self._settle()
            self._leave_turn()
        self._has_place = turns.take(queue, self._worker.stopping)
        return self._has_place

    def _leave_turn(self) -> None:
        if self._worker.turns is not None and self._has_place:
            self._has_place = False
            self._worker.turns.give()

    def _wait_for_work(self) -> bool:
        if self._worker.stopping.is_set():
            return True
        self._leads = self._leads or self._worker.lead(self._wait)
        try:
            return self._worker.wait_for_work(self._wait)
        except QueueStoreClosedError:
            raise
        except QueueStoreError as error:
            log.warning("queue %r: the store does not answer, trying again: %s", self._worker.queue.name, error)
            self._worker.stopping.wait(_AFTER_AN_ERROR)
            return True

    def _follow(self) -> None:
        """This one has found something: another one waits for more."""
        if self._leads:
            self._leads = False
            self._worker.follow()

    def _start_in_pace(self) -> bool:
        """Wait until a message may start; False when the worker stops first."""
        while self._worker.pace.paced and (pause := self._worker.pace.wait()) > 0:
            self._settle()
            self._worker.turnstile.flush()
            if self._worker.stopping.wait(pause):
                return False
        return True

    def _run(self, held: Held) -> None:
        worker, job = self._worker, held.job
        call = Call(with_job, (job, worker.handler, job.message.value))
        if worker.on_start is not None:
            worker.on_start(job.message)
        timeout = worker.timeout_for(job.message)
        if timeout is not None:
            worker.keeper.watch(held, timeout, lambda: self._give_up(held, timeout))
        try:
            outcome: Outcome = drive(worker.delivery.steps(job, call))
        except LeaseLost as error:
            outcome = Outcome(job.message, "lost", None, error=error)
        except Exception as error:  # the ledger or the saga's log could not be read or written
            outcome = worker.delivery.interrupted(job.message, error)
        if timeout is not None and not worker.keeper.unwatch(held):
            # It took too long: the keeper settles what this thread has, and replaces it.
            self._abandoned = self._replaced = True
            return
        if not self._outcomes:
            self._oldest_outcome = time.monotonic()
        self._outcomes.append(outcome)
        late = time.monotonic() - self._oldest_outcome > _KEEP_OUTCOMES
        if self._leased and (late or worker.turnstile.holds_place(job.message)):
            self._settle()

    def _settle(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        self._worker.exchange.settle(outcomes)
        self._tell_leader(outcomes)

    def _tell_leader(self, outcomes: Sequence[Outcome]) -> None:
        """Whoever waits for work has to know when what was put off falls due."""
        if not self._leads and any(one.state == "released" for one in outcomes):
            self._worker.stir()

    def _give_up(self, held: Held, timeout: float) -> None:
        """Called by the keeper: the handler's time is up. A thread can not be stopped, so it is left behind."""
        self._abandoned = self._replaced = True
        worker, message = self._worker, held.job.message
        held.job.lose()
        error = TimeoutError(f"the handler did not finish within {timeout} seconds")
        log.warning("message %s of queue %r: %s", message.id, worker.queue.name, error)
        try:
            failure = worker.delivery.failure(message, error, held.job.now)
        except Exception as problem:  # the ledger could not be written
            failure = worker.delivery.interrupted(message, problem)
        outcomes, self._outcomes = self._outcomes, []
        self._leave_turn()
        worker.replace_lane(self, [*outcomes, failure, *self._unstarted()])

    def _unstarted(self) -> list[Outcome]:
        with self._lock:
            rest = [held.job.message for held in self._leased]
            self._leased.clear()
        return [unstarted(self._worker.queue.name, message) for message in rest]

    def abandon(self) -> None:
        """The worker ends while a handler of this lane still runs."""
        self._abandoned = True
        self._leave()

    def _leave(self, outcomes: Sequence[Outcome] = ()) -> None:
        """Settle what is finished and give back what was not started. What runs is left to its lease."""
        try:
            self._worker.exchange.settle([*outcomes, *self._unstarted()])
        except QueueError as error:
            log.warning("messages stay leased until their leases run out: %s", error)

    def _end(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        self._worker.exchange.settle([*outcomes, *self._unstarted()])


def unstarted(queue: str, message: QueueMessage[Any]) -> Outcome:
    """Give back a message that no handler has seen."""
    return Outcome(message, "released", Settle(queue, message.id, "release", message.attempts, forgive=True))
