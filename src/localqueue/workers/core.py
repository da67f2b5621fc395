"""What every worker has, whatever runs its handlers: settings, pace, leases it keeps and counts of what it did."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueError, UnsupportedByBroker
from localqueue.interrupts import asks_to_end
from localqueue.limits import Limited, Limits
from localqueue.message import QueueMessage
from localqueue.policies import NotificationPolicy
from localqueue.policies._limits import require_integer, require_seconds
from localqueue.stores.port import LeaseRequest
from localqueue.worker_config import PersistentWorkerConfig
from localqueue.workers.counts import Tally, WorkerCounts
from localqueue.workers.delivery import Decide, Delivery, decide_by_release
from localqueue.workers.exchange import Exchange
from localqueue.workers.failure_log import log_failure
from localqueue.workers.job import Job
from localqueue.workers.keeper import Keeper
from localqueue.workers.outcome import Outcome, Settled, Steps, is_unwanted
from localqueue.workers.pace import Pace
from localqueue.workers.settings import attempt_limit, merged, retry_by_release
from localqueue.workers.signals import StopFlag
from localqueue.workers.turnstile import Turnstile

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.workers")


class WorkerCore:
    def __init__(
        self,
        queue: PersistentQueue[Any],
        handler: Callable[..., Any],
        *,
        concurrency: int,
        prefetch: int,
        config: PersistentWorkerConfig | None,
        worker_id: str | None,
        timeout: float | None,
        shutdown_timeout: float | None,
        notification_policy: NotificationPolicy | None,
        on_settled: Callable[[Settled], object] | None,
        limits: Limits | None,
        overrides: Mapping[str, Any],
    ) -> None:
        if not hasattr(queue, "build_worker_config"):
            raise TypeError(f"a worker needs a PersistentQueue, not {queue!r}")
        if not callable(handler):
            raise TypeError(f"the handler must be callable, not {handler!r}")
        if worker_id is not None and not worker_id:
            raise ValueError("worker_id cannot be empty")
        if limits is not None and not isinstance(limits, Limits):
            raise TypeError(f"limits must be Limits(rate=..., concurrency=..., key=...), not {limits!r}")
        if limits is not None and queue.desk.consumes:
            raise ValueError(
                f"queue {queue.name!r} removes its messages when they are taken, so none can be given back to wait for "
                "a limit; use at-least-once delivery, or min_interval="
            )
        if limits is not None and queue.broker is not None:
            raise UnsupportedByBroker(
                f"queue {queue.name!r} on {queue.broker.name} can not have limits: they are counted in a store; "
                "use min_interval=, or keep the queue in a store"
            )
        self.queue = queue
        self.handler = handler
        self.limits = limits
        self.concurrency = _at_least_one("concurrency", concurrency)
        self.prefetch = _at_least_one("prefetch", prefetch)
        self.timeout = _positive("timeout", timeout)
        self.shutdown_timeout = _positive("shutdown_timeout", shutdown_timeout)
        self.notification_policy = notification_policy
        self.config = merged(type(self), queue, config, overrides)
        self.worker_id = worker_id or new_worker_id()
        self.stopping: threading.Event = StopFlag()
        self._retry = retry_by_release(queue, self.config)
        self._on_settled = on_settled
        self._tally = Tally()
        self._busy = threading.Lock()

    def _batch(self) -> int:
        """How many messages are taken at once. What is gone from the store when it is taken can not be given back, and
        what is taken where only so many may run keeps a place from others."""
        few = self.queue.desk.consumes or any(one.limits.concurrency is not None for one in self.shared_limits())
        return 1 if few else self.prefetch

    @property
    def attempt_limit(self) -> int | None:
        """After how many deliveries the store itself buries a message whose worker died each time."""
        return attempt_limit(self.queue, self.config, self._retry)

    @property
    def has_limits(self) -> bool:
        """Whether any message may be under a limit; a worker that overrides `limits_of` may say so."""
        return self.limits is not None or type(self).limits_of is not WorkerCore.limits_of

    def limits_of(self, message: QueueMessage[Any]) -> Sequence[Limited]:
        """Every limit that a message is under. To be overridden by a worker whose messages have limits of their own."""
        if self.limits is None:
            return ()
        return (Limited(self.queue.name, self.limits, self.limits.key_of(message.value)),)

    def shared_limits(self) -> Sequence[Limited]:
        """Those that all messages of the queue are under, whatever they are: without a place, none needs be leased."""
        if self.limits is None or self.limits.key is not None:
            return ()
        return (Limited(self.queue.name, self.limits),)

    def timeout_for(self, message: QueueMessage[Any]) -> float | None:
        """How long the handler of a message may take."""
        return self.timeout

    def called(self, message: QueueMessage[Any]) -> str:
        """What the log calls a message."""
        return "message"

    def decider(self) -> Decide:
        """What a failure leads to."""
        return decide_by_release(self.config, self._retry)

    def new_delivery(self) -> Delivery:
        """What is done with each message of one run."""
        return Delivery(self.queue, self.handler, self.config, self.decider())

    @contextlib.contextmanager
    def _one_run(self) -> Iterator[None]:
        """A worker has one set of leases, so it runs once at a time. `stop` is forgotten when the run ends."""
        if not self._busy.acquire(blocking=False):
            raise QueueError(f"worker {self.worker_id} is running already; make another one to run beside it")
        self._tally.clear()
        try:
            yield
        finally:
            self.stopping.clear()
            self._busy.release()

    def _prepare(
        self,
        *,
        run_steps: Callable[[Steps], Any],
        on_lost: Callable[[Job], None] | None = None,
        on_beat: Callable[[], None] | None = None,
    ) -> None:
        """Make what belongs to one run; the store is opened here, in the process that runs."""

        def beat() -> None:
            if on_beat is not None:
                on_beat()
            self.turnstile.beat()

        queue = self.queue
        self.delivery = self.new_delivery()
        self.pace = Pace(self.config)
        self.turnstile = Turnstile(self)
        self.batch = self._batch()
        self.keeper = Keeper(
            queue, worker_id=self.worker_id, on_lost=on_lost, on_beat=beat, ledger=self.delivery.ledger
        )
        request = LeaseRequest(
            queue.name,
            self.batch,
            queue.lease_timeout,
            self.worker_id,
            self.attempt_limit,
            self.delivery.consumes,
            counted=False,
            ledger=None if self.delivery.ledger is None else self.delivery.ledger.kind,
        )
        self.exchange = Exchange(
            queue, self.delivery, request, settled=self._note, run_steps=run_steps, stopping=self.stopping
        )

    @property
    def counts(self) -> WorkerCounts:
        """What became of the messages so far, in this run or the last one."""
        return self._tally.counts()

    def _note(self, outcome: Outcome) -> None:
        """A message left this worker's hands."""
        self.keeper.drop(outcome.message)
        self.turnstile.left(outcome.message)
        self._tally.add(outcome)
        if not (is_unwanted(outcome) or (outcome.settle is not None and outcome.settle.forgive)):
            self.pace.note(failed=outcome.error is not None, permanent=outcome.permanent)
        if outcome.error is not None:
            log_failure(outcome, self.called(outcome.message))
        if self._on_settled is not None:
            try:
                self._on_settled(outcome.settled())
            except BaseException as error:
                if asks_to_end(error):
                    raise
                log.exception("on_settled failed for message %s", outcome.message.id)


def new_worker_id() -> str:
    """A name that tells a person where to look: host and process."""
    return f"{socket.gethostname()}-{os.getpid()}"


def _at_least_one(name: str, value: int) -> int:
    if require_integer(name, value) < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    return value


def _positive(name: str, value: float | None) -> float | None:
    if value is not None and not require_seconds(name, value) > 0:
        raise ValueError(f"{name} must be greater than zero, not {value!r}")
    return value


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
