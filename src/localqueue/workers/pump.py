"""The thread behind an `AsyncWorker`: it touches the store so that the event loop need not."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localqueue.errors import LeaseLost, QueueError, QueueStoreClosedError, QueueStoreError
from localqueue.policies._wakeup import Wakeup
from localqueue.stores.kept_error import shown
from localqueue.workers.core import is_async
from localqueue.workers.job import Job, with_job, with_job_async
from localqueue.workers.keeper import Held
from localqueue.workers.lane import unstarted
from localqueue.workers.outcome import Answer, Call, Outcome, Steps, as_failure
from localqueue.workers.performer import Performer
from localqueue.workers.recovery import Recovery
from localqueue.workers.watcher import Watcher

if TYPE_CHECKING:
    from localqueue.workers.async_worker import AsyncWorker

log = logging.getLogger("localqueue.workers")

_LONG = 3600.0
_LOOK_AGAIN = 0.5  # a message that was expected may have been taken or removed by somebody else
_GRACE = 5.0  # for handlers that were cancelled because time is up


class _Running:
    """Steps whose current call runs on the loop: those of a message, or what follows its commit."""

    __slots__ = ("cut_off", "error", "held", "result", "steps", "task")

    def __init__(self, steps: Steps, held: Held | None) -> None:
        self.steps = steps
        self.held = held
        self.task: asyncio.Task[Answer] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.cut_off = False  # by the worker, or with the loop: not by what was called


class Pump:
    def __init__(
        self,
        worker: AsyncWorker,
        loop: asyncio.AbstractEventLoop,
        *,
        until_empty: bool = False,
        wait_for_delayed: bool = False,
    ) -> None:
        self.ended = asyncio.Event()
        self.failure: BaseException | None = None
        self._worker = worker
        self._loop = loop
        self._until_empty = until_empty
        self._wait_for_delayed = wait_for_delayed
        self._bell = Wakeup()
        self._inbox: deque[_Running] = deque()
        self._running: set[_Running] = set()
        self._leased: deque[Held] = deque()
        self._outcomes: list[Outcome] = []
        self._spawning: list[tuple[_Running, Call]] = []
        self._performer = Performer(loop, f"{worker.worker_id}-handler", worker.timeout)
        self._cancelling = False
        self._cancel_at: float | None = None
        self._leave_at: float | None = None
        self._wrap: Callable[..., Any] = with_job_async if is_async(worker.handler) else with_job

    def ring(self) -> None:
        """Have the pump look at its inbox and at whether to stop. Never blocks."""
        self._bell.set()

    def cancel_all(self, grace: float | None = None) -> None:
        """Cancel the handlers that run; their messages are given back. Called on the loop.

        A handler that is not done `grace` seconds later is left to itself.
        """
        self._cancelling = True
        if grace is not None and self._leave_at is None:
            self._leave_at = time.monotonic() + grace
        for running in list(self._running):
            if running.task is not None:
                running.task.cancel()
        self._bell.set()

    def cut_short(self) -> None:
        """The second signal. Called on the loop."""
        self.cancel_all(_GRACE)

    def run(self) -> None:
        worker = self._worker
        try:
            worker._prepare(run_steps=self._begin_after, on_lost=self._cancel_lost)
            self._watcher = Watcher(worker.queue, worker.notification_policy, worker.turnstile.waiting(), self.ring)
            recovery = Recovery(worker.delivery.coordinator, self._performer.run_to_end)
            try:
                worker.keeper.start()
                recovery.start()
                while self._turn():
                    pass
            finally:
                self._watcher.close()
                recovery.close(look_again=self._until_empty and not worker.stopping.is_set())
                worker.keeper.close()
                self._performer.close()
        except BaseException as error:
            self.failure = error
            if (self._outcomes or self._leased) and not isinstance(error, QueueStoreClosedError):
                self._leave()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self.ended.set)

    def _leave(self) -> None:
        """Settle what is finished and give back what was not started. What runs is left to its lease."""
        worker = self._worker
        worker.stopping.set()
        left = [] if worker.delivery.consumes else self._leased
        try:
            queue = worker.queue.name
            worker.exchange.settle([*self._outcomes, *(unstarted(queue, held.job.message) for held in left)])
        except QueueError as error:
            log.warning("messages stay leased until their leases run out: %s", error)

    def _turn(self) -> bool:
        worker = self._worker
        while self._inbox:
            self._go_on(self._inbox.popleft())
        if worker.stopping.is_set():
            return self._wind_down()
        pause = self._start_leased()
        self._flush_calls()
        wanted = worker.concurrency - len(self._running) - len(self._leased)
        if worker.batch > 1:
            wanted += worker.batch
        if worker.pace.open_for:
            wanted = 0
        if self._swap(max(wanted, 0)):
            return True
        if self._is_finished():
            return False
        if wanted > 0:
            self._watcher.arm()
        self._flush_calls()
        worker.turnstile.flush()
        self._bell.wait(min(pause, _LOOK_AGAIN) if self._until_empty else pause)
        return True

    def _swap(self, wanted: int) -> bool:
        """Settle what is finished and lease what may run; whether there is something to do now."""
        outcomes, self._outcomes = self._outcomes, []
        last_look = self._until_empty and not self._running
        if not outcomes and (wanted == 0 or (self._watcher.armed and not last_look)):
            return bool(self._inbox)
        worker = self._worker
        messages = worker.turnstile.swap(outcomes, wanted)
        self._leased.extend(worker.keeper.hold(message) for message in messages)
        if self._watcher.armed and any(one.state == "released" for one in outcomes):
            self._watcher.interrupt()  # it knows nothing of what falls due by that, and would rest for longer
        # Whoever was told of an outcome may have put something: look once more before saying that there is nothing.
        return bool(messages or self._inbox or self._outcomes or (outcomes and self._until_empty))

    def _is_finished(self) -> bool:
        if not self._until_empty or self._running or self._leased or self._inbox or self._worker.pace.open_for:
            return False
        try:
            if self._worker.turnstile.held_back and self._worker.queue.qsize():
                return False
            # What fell due since the last look is not delayed any more: look once more before saying so.
            return not self._wait_for_delayed or (self._worker.queue.stats().delayed == 0 and not self._swap(1))
        except QueueStoreClosedError:
            raise
        except QueueStoreError as error:
            log.warning("queue %r: the store does not answer, trying again: %s", self._worker.queue.name, error)
            return False

    def _wind_down(self) -> bool:
        """Finish what runs and give back what does not; False when nothing is left."""
        worker = self._worker
        self._watcher.interrupt()
        returned = []
        while self._leased:
            held = self._leased.popleft()
            if worker.delivery.consumes:  # it is gone from the store, so it can not be given back
                self._begin_message(held)
            else:
                returned.append(unstarted(worker.queue.name, held.job.message))
        outcomes, self._outcomes = self._outcomes, []
        worker.exchange.settle([*outcomes, *returned])
        self._flush_calls()
        if not self._running and not self._inbox:
            return False
        if not self._inbox:
            return self._wait_for_the_rest()
        return True

    def _wait_for_the_rest(self) -> bool:
        """Wait for running handlers; False when their time is up."""
        worker, now = self._worker, time.monotonic()
        if worker.shutdown_timeout is not None and not self._cancelling:
            self._cancel_at = self._cancel_at or now + worker.shutdown_timeout
            if now >= self._cancel_at:
                log.warning("worker %s stops while %d handlers still run", worker.worker_id, len(self._running))
                self._cancel_at, self._cancelling, self._leave_at = None, True, now + _GRACE
                self._loop.call_soon_threadsafe(self.cancel_all)
        if self._leave_at is not None and now >= self._leave_at:
            log.warning("worker %s leaves %d handlers that do not end", worker.worker_id, len(self._running))
            return False
        ends = [at for at in (self._cancel_at, self._leave_at) if at is not None]
        self._bell.wait(max(min(ends) - now, 0.0) if ends else _LONG)
        return True

    def _start_leased(self) -> float:
        """Start what may start now; how long to wait at most for the next."""
        worker = self._worker
        pause = _LONG
        while self._leased and len(self._running) < worker.concurrency:
            if worker.pace.paced and (pause := worker.pace.wait()) > 0:
                break
            held = self._leased.popleft()
            if worker.turnstile.admits(held):
                self._begin_message(held)
        else:
            pause = _LONG
        return min(pause, worker.pace.open_for or _LONG)

    def _begin_message(self, held: Held) -> None:
        worker = self._worker
        call = Call(self._wrap, (held.job, worker.handler, held.job.message.value))
        self._begin(_Running(worker.delivery.steps(held.job, call), held))

    def _begin_after(self, steps: Steps) -> None:
        """Start what follows a commit; the worker does not end before it is done."""
        self._begin(_Running(steps, None))

    def _begin(self, running: _Running) -> None:
        self._running.add(running)
        self._advance(running, lambda: next(running.steps))

    def _go_on(self, running: _Running) -> None:
        error, result = running.error, running.result
        running.task = running.error = running.result = None
        if running.cut_off:
            running.steps.close()
            self._done(running, None if running.held is None else self._cut_off(running.held.job))
        elif error is not None:
            self._advance(running, lambda: running.steps.throw(as_failure(error)))
        else:
            self._advance(running, lambda: running.steps.send(result))

    def _advance(self, running: _Running, move: Callable[[], Call]) -> None:
        message = None if running.held is None else running.held.job.message
        try:
            call = move()
        except StopIteration as done:
            self._done(running, done.value if message is not None else None)
        except LeaseLost as error:
            self._done(running, None if message is None else Outcome(message, "lost", None, error=error))
        except Exception as error:  # the ledger or the saga's log could not be read or written
            log.warning("queue %r: %s", self._worker.queue.name, shown(error))
            self._done(running, None if message is None else self._worker.delivery.interrupted(message, error))
        else:
            self._spawning.append((running, call))

    def _cut_off(self, job: Job) -> Outcome:
        """What becomes of a message whose handler was cancelled."""
        message = job.message
        if job.lost:
            return Outcome(message, "lost", None, error=LeaseLost(message.queue, message.id, message.attempts))
        return self._worker.delivery.interrupted(message)

    def _flush_calls(self) -> None:
        """Hand gathered calls to the loop, all at once: ringing it is what costs."""
        if self._spawning:
            spawning, self._spawning = self._spawning, []
            self._loop.call_soon_threadsafe(self._spawn, spawning)

    def _done(self, running: _Running, outcome: Outcome | None) -> None:
        self._running.discard(running)
        if outcome is not None:
            self._outcomes.append(outcome)

    # on the loop

    def _spawn(self, spawning: list[tuple[_Running, Call]]) -> None:
        for running, call in spawning:
            if self._is_unwanted(running):
                running.cut_off = True
                self._hand_in(running)
            else:
                running.task = self._loop.create_task(self._perform(running, call))
                running.task.add_done_callback(functools.partial(self._performed, running))

    async def _perform(self, running: _Running, call: Call) -> Answer:
        try:
            return await self._performer.attempt(call)
        except GeneratorExit:  # the loop is gone, and nobody else will tell
            running.cut_off = True
            self._hand_in(running)
            raise

    def _performed(self, running: _Running, task: asyncio.Task[Answer]) -> None:
        """A pass of the loop after the end: whoever cancels all tasks cancels the worker too, and it has heard by now.

        A call that cancelled its own task has just failed.
        """
        if task.cancelled():
            running.cut_off = self._is_unwanted(running)
            running.error = asyncio.CancelledError("the handler cancelled its own task")
        else:
            running.result, running.error = task.result()
        self._hand_in(running)

    def _is_unwanted(self, running: _Running) -> bool:
        """Whether nobody waits for what it does any more."""
        return self._cancelling or (running.held is not None and running.held.job.lost)

    def _hand_in(self, running: _Running) -> None:
        self._inbox.append(running)
        self._bell.set()

    # from other threads

    def _cancel_lost(self, job: Job) -> None:
        for running in list(self._running):
            if running.held is not None and running.held.job is job and running.task is not None:
                self._loop.call_soon_threadsafe(running.task.cancel)
