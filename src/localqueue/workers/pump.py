"""The thread behind an `AsyncWorker`: it touches the store so that the event loop need not."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from localqueue.errors import LeaseLost
from localqueue.queue.waiting import Wakeup
from localqueue.workers.job import Job, with_job, with_job_async
from localqueue.workers.keeper import Held
from localqueue.workers.lane import unstarted
from localqueue.workers.outcome import Call, Outcome, Steps
from localqueue.workers.recovery import Recovery
from localqueue.workers.watcher import Watcher

if TYPE_CHECKING:
    from localqueue.workers.aio import AsyncWorker

log = logging.getLogger("localqueue.workers")

_LONG = 3600.0


class _Running:
    """Steps whose current call runs on the loop: those of a message, or what follows its commit."""

    __slots__ = ("error", "held", "result", "steps", "task")

    def __init__(self, steps: Steps, held: Held | None) -> None:
        self.steps = steps
        self.held = held
        self.task: asyncio.Task[None] | None = None
        self.result: Any = None
        self.error: BaseException | None = None


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
        self._threads = ThreadPoolExecutor(worker.concurrency, thread_name_prefix=f"{worker.worker_id}-handler")
        self._deadline: float | None = None
        self._wrap: Callable[..., Any] = with_job_async if _is_async(worker.handler) else with_job

    def ring(self) -> None:
        """Have the pump look at its inbox and at whether to stop. Never blocks."""
        self._bell.set()

    def cancel_all(self) -> None:
        """Cancel the handlers that run; their messages are given back. Called on the loop."""
        for running in list(self._running):
            if running.task is not None:
                running.task.cancel()

    def run(self) -> None:
        worker = self._worker
        try:
            worker._prepare(run_steps=self._begin_after, on_lost=self._cancel_lost)
            self._watcher = Watcher(worker.queue, worker.notification_policy, self.ring)
            recovery = Recovery(worker.handling.coordinator, self._run_to_end)
            try:
                worker.keeper.start()
                recovery.start()
                while self._turn():
                    pass
            finally:
                self._watcher.close()
                recovery.close()
                worker.keeper.close()
                self._threads.shutdown(wait=False)
        except BaseException as error:
            self.failure = error
        finally:
            self._loop.call_soon_threadsafe(self.ended.set)

    def _turn(self) -> bool:
        worker = self._worker
        while self._inbox:
            self._go_on(self._inbox.popleft())
        if worker.stopping.is_set():
            return self._wind_down()
        pause = self._start_leased()
        self._flush_calls()
        wanted = worker.concurrency - len(self._running) - len(self._leased)
        if worker.prefetch > 1:
            wanted += worker.prefetch
        if worker.pace.is_open:
            wanted = 0
        if self._swap(max(wanted, 0)):
            return True
        if self._is_finished():
            return False
        if wanted > 0:
            self._watcher.arm()
        self._flush_calls()
        self._bell.wait(pause)
        return True

    def _swap(self, wanted: int) -> bool:
        """Settle what is finished and lease what may run; whether there is something to do now."""
        outcomes, self._outcomes = self._outcomes, []
        if not outcomes and (wanted == 0 or self._watcher.armed):
            return bool(self._inbox)
        messages = self._worker.exchange.swap(outcomes, wanted)
        self._leased.extend(self._worker.keeper.hold(message) for message in messages)
        return bool(messages or self._inbox or self._outcomes)

    def _is_finished(self) -> bool:
        if not self._until_empty or self._running or self._leased or self._inbox:
            return False
        return not (self._wait_for_delayed and self._worker.queue.stats().delayed > 0)

    def _wind_down(self) -> bool:
        """Finish what runs and give back what does not; False when nothing is left."""
        worker = self._worker
        self._watcher.interrupt()
        returned = [unstarted(worker.queue.name, held.job.message) for held in self._leased]
        self._leased.clear()
        outcomes, self._outcomes = self._outcomes, []
        worker.exchange.settle([*outcomes, *returned])
        self._flush_calls()
        if not self._running and not self._inbox:
            return False
        if worker.shutdown_timeout is None:
            self._bell.wait(_LONG)
        elif not self._inbox:
            self._deadline = self._deadline or time.monotonic() + worker.shutdown_timeout
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                log.warning("worker %s stops while %d handlers still run", worker.worker_id, len(self._running))
                self._loop.call_soon_threadsafe(self.cancel_all)
            self._bell.wait(max(remaining, 0.05))
        return True

    def _start_leased(self) -> float:
        """Start what may start now; how long to wait at most for the next."""
        worker = self._worker
        pause = _LONG
        while self._leased and len(self._running) < worker.concurrency:
            if worker.pace.paced and (pause := worker.pace.wait()) > 0:
                break
            held = self._leased.popleft()
            call = Call(self._wrap, (held.job, worker.handler, held.job.message.value))
            self._begin(_Running(worker.handling.steps(held.job, call), held))
        else:
            pause = _LONG
        if worker.pace.is_open:
            pause = min(pause, 0.05)
        return pause

    def _begin_after(self, steps: Steps) -> None:
        """Start what follows a commit; the worker does not end before it is done."""
        self._begin(_Running(steps, None))

    def _begin(self, running: _Running) -> None:
        self._running.add(running)
        self._advance(running, lambda: next(running.steps))

    def _go_on(self, running: _Running) -> None:
        error, result = running.error, running.result
        running.task = running.error = running.result = None
        if isinstance(error, asyncio.CancelledError):
            running.steps.close()
            self._done(running, self._worker.handling.interrupted(running.held.job.message) if running.held else None)
        elif error is not None:
            self._advance(running, lambda: running.steps.throw(error))
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
            log.warning("queue %r: %r", self._worker.queue.name, error)
            self._done(running, None if message is None else self._worker.handling.interrupted(message, error))
        else:
            self._spawning.append((running, call))

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
            running.task = self._loop.create_task(self._perform(running, call))

    async def _perform(self, running: _Running, call: Call) -> None:
        try:
            running.result = await self._call(call)
        except BaseException as error:
            lost = running.held is not None and running.held.job.lost
            if lost and isinstance(error, asyncio.CancelledError):
                assert running.held is not None
                message = running.held.job.message
                error = LeaseLost(message.queue, message.id, message.attempts)
            running.error = error
        self._inbox.append(running)
        self._bell.set()

    async def _call(self, call: Call) -> Any:
        is_handler = call.function in (with_job, with_job_async)
        limit = self._worker.timeout if is_handler else None
        try:
            async with asyncio.timeout(limit) as clock:
                if _is_async(call.function):
                    return await call.function(*call.args, **call.kwargs)
                return await self._loop.run_in_executor(self._threads, lambda: call.function(*call.args, **call.kwargs))
        except TimeoutError:
            if clock.expired():
                raise TimeoutError(f"the handler did not finish within {limit} seconds") from None
            raise

    # from other threads

    def _cancel_lost(self, job: Job) -> None:
        for running in list(self._running):
            if running.held is not None and running.held.job is job and running.task is not None:
                self._loop.call_soon_threadsafe(running.task.cancel)

    def _run_to_end(self, steps: Steps) -> Any:
        """For recovery, which has a thread of its own to wait in."""
        try:
            call = next(steps)
            while True:
                try:
                    result = asyncio.run_coroutine_threadsafe(self._call(call), self._loop).result()
                except (Exception, SystemExit) as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(result)
        except StopIteration as done:
            return done.value


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
