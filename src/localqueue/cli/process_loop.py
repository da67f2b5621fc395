"""One message after another, each with its retries inside one lease: what `queue process` and `queue exec` do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localqueue.cli.errors import NEGATIVE, OK, CommandFailed
from localqueue.cli.events import log
from localqueue.cli.output import Output
from localqueue.cli.signals import Stop
from localqueue.errors import LeaseLost
from localqueue.interrupts import is_interrupt
from localqueue.message import QueueMessage
from localqueue.stores.kept_error import describe_error
from localqueue.worker_config import PersistentWorkerConfig
from localqueue.workers.decorators import OneByOne
from localqueue.workers.job import Job, with_job
from localqueue.workers.outcome import Call, Outcome, drive

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

_VERBS = {"acked": "ack", "skipped": "ack", "released": "release", "dead-lettered": "dead_letter", "lost": "lost"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long to go on. `most` messages, or with None until stopped; `waits` for messages at most `timeout` long."""

    most: int | None
    waits: bool
    timeout: float | None
    idle_sleep: float


class ProcessLoop:
    """Runs `handler(message.value)` for the messages of a queue; `name` is what its events begin with."""

    def __init__(
        self,
        queue: PersistentQueue[Any],
        handler: Callable[[Any], Any],
        config: PersistentWorkerConfig,
        *,
        worker_id: str | None,
        out: Output,
        name: str,
        log_events: bool,
    ) -> None:
        self._queue = queue
        self._handler = handler
        self._worker_id = worker_id
        self._out = out
        self._name = name
        self._log_events = log_events
        self._one = OneByOne(queue, handler, config, worker_id, None)

    def run(self, plan: Plan, stop: Stop) -> int:
        """Process messages as planned; the exit code."""
        self._one.prepare()
        processed = 0
        while not stop.asked and (plan.most is None or processed < plan.most):
            message = self._next(plan, stop)
            if message is None:
                break
            processed += 1
            if not self._process(message) and plan.most is not None:
                return NEGATIVE
        if stop.asked and plan.most is None:
            self._out.facts({"state": "stopped", "processed": processed})
        elif not processed and not stop.asked:
            raise CommandFailed("queue is empty")
        return OK

    def _next(self, plan: Plan, stop: Stop) -> QueueMessage[Any] | None:
        """The next message that may start, or None when there is none or we are to stop."""
        while (pause := self._one.pace.wait()) > 0:
            if stop.wait(pause):
                return None
        message = self._one.lease()
        if message is not None or not plan.waits:
            return message
        deadline = None if plan.timeout is None else time.monotonic() + plan.timeout
        with self._one.waiting() as waiting:
            stop.also = waiting.wake
            while message is None and not stop.asked:
                remaining = plan.idle_sleep if deadline is None else deadline - time.monotonic()
                if remaining <= 0:
                    return None
                waiting.wait(min(plan.idle_sleep, remaining))
                message = self._one.lease()
        return message

    def _process(self, message: QueueMessage[Any]) -> bool:
        """Run the handler and settle; whether it succeeded."""
        one = self._one
        self._log("lease", message)
        try:
            job = one.hold(message)
            call = Call(with_job, (job, one.tries.retryer(message), self._try, job))
            outcome: Outcome = drive(one.steps(job, call))
            one.settle(outcome)
        except BaseException as raised:
            if is_interrupt(raised):  # the second signal: nobody waits for the handler any more
                one.give_back(message)
            raise
        finally:
            one.keeper.drop(message)
        error = outcome.error
        if error is None and outcome.state == "lost":
            error = LeaseLost(message.queue, message.id, message.attempts)
        if error is not None:
            return self._failed(message, outcome, error)
        self._log(_VERBS[outcome.state], message)
        self._out.facts({"id": message.id, "state": "acked"})
        return True

    def _try(self, job: Job) -> Any:
        job.begin_try()
        return self._handler(job.message.value)

    def _failed(self, message: QueueMessage[Any], outcome: Outcome, error: BaseException) -> bool:
        verb, problem = _VERBS[outcome.state], describe_error(error)
        self._log(verb, message, error=problem)
        stored = self._queue.inspect(message.id) or message
        self._out.message(stored, state="failed", final_state=verb, last_error=problem)
        return False

    def _log(self, verb: str, message: QueueMessage[Any], **fields: Any) -> None:
        log(
            self._log_events,
            f"{self._name}.{verb}",
            queue=message.queue,
            id=message.id,
            attempt=message.attempts,
            worker_id=self._worker_id,
            **fields,
        )
