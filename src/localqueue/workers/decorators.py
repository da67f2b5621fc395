"""`persistent_worker` and its async twin: a function that processes one message a call.

Unlike `Worker`, they retry inside the lease: Tenacity sleeps between the tries, the tries are counted in the queue's
store by message id, and the lease is renewed meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from queue import Empty
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from localqueue.errors import LeaseLost, QueueError
from localqueue.interrupts import is_interrupt
from localqueue.message import QueueMessage
from localqueue.policies import NotificationPolicy
from localqueue.queue.wait import WorkWait
from localqueue.worker_config import LeaseWorkerOptions, PersistentWorkerConfig
from localqueue.workers.delivery import Delivery, decide_at_once
from localqueue.workers.exchange import Exchange
from localqueue.workers.failure_log import log_failure
from localqueue.workers.job import Job, with_job, with_job_async
from localqueue.workers.keeper import Keeper
from localqueue.workers.outcome import Call, Outcome, Steps, drive, drive_async, is_unwanted
from localqueue.workers.pace import Pace
from localqueue.workers.settings import limited, merged
from localqueue.workers.tries import Tries

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

R = TypeVar("R")

log = logging.getLogger("localqueue.workers")

_RECOVER_EVERY = 5.0


class _After(threading.local):
    """What follows a commit that a thread has made."""

    def __init__(self) -> None:
        self.steps: list[Steps] = []

    def add(self, steps: Steps) -> None:
        self.steps.append(steps)

    def taken(self) -> list[Steps]:
        steps, self.steps = self.steps, []
        return steps


class OneByOne:
    """What both decorators share: everything but the waiting."""

    def __init__(
        self,
        queue: PersistentQueue[Any],
        handler: Callable[..., Any],
        config: PersistentWorkerConfig,
        worker_id: str | None,
        policy: NotificationPolicy | None,
        *,
        on_a_loop: bool = False,
    ) -> None:
        self.queue = queue
        self.pace = Pace(config)
        self._handler = handler
        self._worker_id = worker_id
        self._policy = policy
        self._config = config
        self._lock = threading.Lock()
        self._ready = False
        self._recover_at = 0.0
        self._after = _After() if on_a_loop else None

    def prepare(self) -> None:
        """Open the store at the first call, not where the function is defined."""
        with self._lock:
            if not self._ready:
                queue, config = self.queue, self._config
                self.tries = Tries(queue, config.retry_kwargs)
                self.delivery = Delivery(queue, self._handler, config, decide_at_once(config))
                self.keeper = Keeper(queue, lasting=False, ledger=self.delivery.ledger)
                self.exchange = Exchange.for_one_message(
                    queue,
                    self.delivery,
                    settled=self._note,
                    run_steps=drive if self._after is None else self._after.add,
                )
                self._ready = True
        if self._worker_id is not None:
            self.queue.record_worker_heartbeat(self._worker_id)

    def recovery(self) -> Steps:
        """Finish what callers that died have left in doubt; looks once every few seconds."""
        coordinator = self.delivery.coordinator
        if coordinator.needs_recovery and time.monotonic() >= self._recover_at:
            self._recover_at = time.monotonic() + _RECOVER_EVERY
            yield from coordinator.recover()

    def waiting(self) -> WorkWait:
        return WorkWait(self.queue, self._policy, worker=self._worker_id)

    def lease(self) -> QueueMessage[Any] | None:
        try:
            return self.queue.get_message(block=False, leased_by=self._worker_id)
        except Empty:
            return None

    def hold(self, message: QueueMessage[Any]) -> Job:
        """Keep the lease of a message; one that is delivered at most once has none."""
        if self.delivery.consumes:
            return Job(self.queue, message, time.monotonic())
        return self.keeper.hold(message).job

    def steps(self, job: Job, call: Call) -> Steps:
        try:
            outcome: Outcome = yield from self.delivery.steps(job, call)
        except LeaseLost:
            raise
        except Exception as error:  # the ledger or the saga's log could not be read or written
            return self.delivery.interrupted(job.message, error)
        if outcome.error is not None and outcome.settle is not None:
            self.tries.forget(job.message, outcome)
        return outcome

    def give_back(self, message: QueueMessage[Any]) -> None:
        """The caller was interrupted: somebody else may have the message now."""
        try:
            self.exchange.settle([self.delivery.interrupted(message)])
        except QueueError as error:
            log.warning("message %s stays leased until its lease runs out: %s", message.id, error)

    def settle(self, outcome: Outcome) -> list[Steps]:
        """Commit; what is left to be run on the loop, if there is one."""
        self.exchange.settle([outcome])
        if self._worker_id is not None:
            self.queue.record_worker_heartbeat(self._worker_id)
        return [] if self._after is None else self._after.taken()

    async def settle_from_loop(self, outcome: Outcome) -> None:
        for steps in await asyncio.to_thread(self.settle, outcome):
            try:
                await drive_async(steps)
            except Exception:
                log.exception("queue %r: what follows a commit failed; recovery goes on with it", self.queue.name)

    def finish(self, outcome: Outcome) -> bool:
        """Settle and conclude."""
        self.settle(outcome)
        return self.conclude(outcome)

    def conclude(self, outcome: Outcome) -> bool:
        """Whether the message was processed. What the handler raised is raised again.

        A message whose key is in progress elsewhere was not: it was given back and the next one is taken.
        """
        if outcome.error is not None:
            raise outcome.error
        if outcome.state == "lost":
            raise LeaseLost(self.queue.name, outcome.message.id, outcome.message.attempts)
        return outcome.state != "released"

    def _note(self, outcome: Outcome) -> None:
        self.keeper.drop(outcome.message)
        self.tries.settled(outcome)
        if not is_unwanted(outcome):
            self.pace.note(failed=outcome.error is not None, permanent=outcome.permanent)
            log_failure(outcome)


def persistent_worker(
    queue: PersistentQueue[Any],
    *,
    config: PersistentWorkerConfig | None = None,
    worker_id: str | None = None,
    notification_policy: NotificationPolicy | None = None,
    **options: Unpack[LeaseWorkerOptions],
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Make a function that processes one message of `queue` each time it is called.

    It waits for a message, calls `handler(message.value, *args, **kwargs)` with the retries of the config (or of the
    keyword arguments, which win), settles the message and returns the handler's result. There are 3 tries, or as many
    as the queue's `max_attempts`, unless `max_tries` or `stop` say otherwise; each that failed is logged. A final
    failure dead-letters the message, or releases it with `dead_letter_on_failure=False`, and is raised again.
    """
    settings = limited(queue, merged(persistent_worker, queue, config, options))

    def decorate(handler: Callable[..., R]) -> Callable[..., R]:
        one = OneByOne(queue, handler, settings, worker_id, notification_policy)

        @functools.wraps(handler)
        def tried(job: Job, *args: Any, **kwargs: Any) -> Any:
            job.begin_try()
            return handler(*args, **kwargs)

        def process_one(*args: Any, **kwargs: Any) -> tuple[bool, Any]:
            message = one.lease()
            if message is None:
                with one.waiting() as waiting:
                    while message is None:
                        waiting.wait()
                        message = one.lease()
            try:
                job = one.hold(message)
                retryer = one.tries.retryer(message)
                call = Call(with_job, (job, retryer, tried, job, message.value, *args), kwargs)
                outcome = drive(one.steps(job, call))
                return one.finish(outcome), outcome.result
            except BaseException as error:
                if is_interrupt(error):
                    one.give_back(message)
                raise
            finally:
                one.keeper.drop(message)

        @functools.wraps(handler)
        def process(*args: Any, **kwargs: Any) -> R:
            one.prepare()
            while (pause := one.pace.wait()) > 0:
                time.sleep(pause)
            drive(one.recovery())
            while True:
                processed, result = process_one(*args, **kwargs)
                if processed:
                    return result  # type: ignore[no-any-return]

        return process

    return decorate


def persistent_async_worker(
    queue: PersistentQueue[Any],
    *,
    config: PersistentWorkerConfig | None = None,
    worker_id: str | None = None,
    notification_policy: NotificationPolicy | None = None,
    **options: Unpack[LeaseWorkerOptions],
) -> Callable[[Callable[..., Awaitable[R]]], Callable[..., Awaitable[R]]]:
    """`persistent_worker` for a coroutine function. The store is used from other threads, never from the loop."""
    settings = limited(queue, merged(persistent_async_worker, queue, config, options))

    def decorate(handler: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[R]]:
        one = OneByOne(queue, handler, settings, worker_id, notification_policy, on_a_loop=True)

        @functools.wraps(handler)
        async def tried(job: Job, *args: Any, **kwargs: Any) -> Any:
            job.begin_try()
            return await handler(*args, **kwargs)

        async def lease() -> QueueMessage[Any] | None:
            """Lease in a thread; a caller that is cancelled meanwhile gives back what came of it."""
            leasing = asyncio.ensure_future(asyncio.to_thread(one.lease))
            try:
                return await asyncio.shield(leasing)
            except asyncio.CancelledError:
                message = await leasing
                if message is not None:
                    await asyncio.to_thread(one.give_back, message)
                raise

        async def process_one(*args: Any, **kwargs: Any) -> tuple[bool, Any]:
            message = await lease()
            if message is None:
                with one.waiting() as waiting:
                    while message is None:
                        await waiting.wait_async()
                        message = await lease()
            settling: asyncio.Future[None] | None = None
            try:
                job = one.hold(message)
                retryer = await asyncio.to_thread(one.tries.async_retryer, message)
                call = Call(with_job_async, (job, retryer, tried, job, message.value, *args), kwargs)
                outcome = await drive_async(one.steps(job, call))
                settling = asyncio.ensure_future(one.settle_from_loop(outcome))
                await asyncio.shield(settling)
                return one.conclude(outcome), outcome.result
            except asyncio.CancelledError:
                if settling is None:
                    await asyncio.to_thread(one.give_back, message)
                else:  # it is being committed: the message is settled before the caller goes on
                    await asyncio.wait([settling])
                raise
            finally:
                one.keeper.drop(message)

        @functools.wraps(handler)
        async def process(*args: Any, **kwargs: Any) -> R:
            await asyncio.to_thread(one.prepare)
            while (pause := one.pace.wait()) > 0:
                await asyncio.sleep(pause)
            await drive_async(one.recovery())
            while True:
                processed, result = await process_one(*args, **kwargs)
                if processed:
                    return result  # type: ignore[no-any-return]

        return process

    return decorate
