"""`persistent_worker` and its async twin: a function that processes one message a call.

Unlike `Worker`, they retry inside the lease: Tenacity sleeps between the tries, the tries are counted in the queue's
store by message id, and the lease is renewed meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Awaitable, Callable
from queue import Empty
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from localqueue.errors import LeaseLost
from localqueue.message import QueueMessage
from localqueue.policies import NotificationPolicy
from localqueue.queue.waiting import WorkWait
from localqueue.worker_config import PersistentWorkerConfig
from localqueue.workers.exchange import Exchange
from localqueue.workers.handling import Handling, decide_at_once
from localqueue.workers.job import Job, with_job, with_job_async
from localqueue.workers.keeper import Keeper
from localqueue.workers.outcome import Call, Outcome, Steps, drive, drive_async
from localqueue.workers.pacing import Pace
from localqueue.workers.settings import merged
from localqueue.workers.tries import Tries

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

P = ParamSpec("P")
R = TypeVar("R")


class OneByOne:
    """What both decorators share: everything but the waiting."""

    def __init__(
        self,
        queue: PersistentQueue[Any],
        handler: Callable[..., Any],
        config: PersistentWorkerConfig,
        worker_id: str | None,
        policy: NotificationPolicy | None,
    ) -> None:
        self.queue = queue
        self.pace = Pace(config)
        self._handler = handler
        self._worker_id = worker_id
        self._policy = policy
        self._config = config
        self._lock = threading.Lock()
        self._ready = False

    def prepare(self) -> None:
        """Open the store at the first call, not where the function is defined."""
        with self._lock:
            if not self._ready:
                queue, config = self.queue, self._config
                self.tries = Tries(queue, config.retry_kwargs)
                self.handling = Handling(queue, self._handler, config, decide_at_once(config))
                self.keeper = Keeper(queue, lasting=False, ledger=self.handling.ledger)
                self.exchange = Exchange.for_one_message(queue, self.handling, settled=self._note)
                self._ready = True
        if self._worker_id is not None:
            self.queue.record_worker_heartbeat(self._worker_id)

    def waiting(self) -> WorkWait:
        return WorkWait(self.queue, self._policy)

    def lease(self) -> QueueMessage[Any] | None:
        try:
            return self.queue.get_message(block=False, leased_by=self._worker_id)
        except Empty:
            return None

    def steps(self, job: Job, call: Call) -> Steps:
        outcome: Outcome = yield from self.handling.steps(job, call)
        if outcome.error is not None:
            self.tries.forget(job.message, outcome)
        return outcome

    def finish(self, outcome: Outcome) -> Any:
        """Settle, then return or raise what the handler did."""
        self.exchange.settle([outcome])
        if self._worker_id is not None:
            self.queue.record_worker_heartbeat(self._worker_id)
        if outcome.error is not None:
            raise outcome.error
        if outcome.state == "lost":
            raise LeaseLost(self.queue.name, outcome.message.id, outcome.message.attempts)
        return outcome.result

    def _note(self, outcome: Outcome) -> None:
        self.keeper.drop(outcome.message)
        self.tries.settled(outcome)
        self.pace.note(failed=outcome.error is not None, permanent=outcome.permanent)


def persistent_worker(
    queue: PersistentQueue[Any],
    *,
    config: PersistentWorkerConfig | None = None,
    worker_id: str | None = None,
    notification_policy: NotificationPolicy | None = None,
    **overrides: Any,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Make a function that processes one message of `queue` each time it is called.

    It waits for a message, calls `handler(message.value, *args, **kwargs)` with the retries of the config (or of the
    keyword arguments, which win), settles the message and returns the handler's result. A final failure dead-letters
    the message, or releases it with `dead_letter_on_failure=False`, and is raised again.
    """
    settings = merged(queue, config, overrides)

    def decorate(handler: Callable[..., R]) -> Callable[..., R]:
        one = OneByOne(queue, handler, settings, worker_id, notification_policy)

        @functools.wraps(handler)
        def process(*args: Any, **kwargs: Any) -> R:
            one.prepare()
            while (pause := one.pace.wait()) > 0:
                time.sleep(pause)
            message = one.lease()
            if message is None:
                with one.waiting() as waiting:
                    while message is None:
                        waiting.wait()
                        message = one.lease()
            held = one.keeper.hold(message)
            try:
                retryer = one.tries.retryer(message)
                call = Call(with_job, (held.job, retryer, handler, message.value, *args), kwargs)
                outcome = drive(one.steps(held.job, call))
                result: R = one.finish(outcome)
                return result
            finally:
                one.keeper.drop(message)

        return process

    return decorate


def persistent_async_worker(
    queue: PersistentQueue[Any],
    *,
    config: PersistentWorkerConfig | None = None,
    worker_id: str | None = None,
    notification_policy: NotificationPolicy | None = None,
    **overrides: Any,
) -> Callable[[Callable[..., Awaitable[R]]], Callable[..., Awaitable[R]]]:
    """`persistent_worker` for a coroutine function. The store is used from other threads, never from the loop."""
    settings = merged(queue, config, overrides)

    def decorate(handler: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[R]]:
        one = OneByOne(queue, handler, settings, worker_id, notification_policy)

        @functools.wraps(handler)
        async def process(*args: Any, **kwargs: Any) -> R:
            await asyncio.to_thread(one.prepare)
            while (pause := one.pace.wait()) > 0:
                await asyncio.sleep(pause)
            message = await asyncio.to_thread(one.lease)
            if message is None:
                with one.waiting() as waiting:
                    while message is None:
                        await waiting.wait_async()
                        message = await asyncio.to_thread(one.lease)
            held = one.keeper.hold(message)
            try:
                retryer = one.tries.async_retryer(message)
                call = Call(with_job_async, (held.job, retryer, handler, message.value, *args), kwargs)
                outcome = await drive_async(one.steps(held.job, call))
                result: R = await asyncio.to_thread(one.finish, outcome)
                return result
            finally:
                one.keeper.drop(message)

        return process

    return decorate
