"""The life of one message in a worker: is it a duplicate, run the handler, decide what becomes of it.

Nothing here blocks on the user's code: it is yielded as a `Call`, and the worker runs it in a thread or on its event
loop. Nothing here settles either: the worker commits the `Outcome`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from localqueue.errors import JobCancelled, LeaseLost, PayloadError
from localqueue.jobs.progress import Told
from localqueue.message import QueueMessage
from localqueue.stores.kept_error import describe_error
from localqueue.stores.port import Action, Settle
from localqueue.worker_config import PersistentWorkerConfig
from localqueue.workers.commits import coordinator_for
from localqueue.workers.job import Job
from localqueue.workers.ledger import ledger_for
from localqueue.workers.outcome import Call, Outcome, State, Steps, cause_of

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue
    from localqueue.retry.settings import RetrySettings

log = logging.getLogger("localqueue.workers")

_SOON = 1.0


class Decision(NamedTuple):
    """What becomes of a failed message. Not `final`: this worker will try it again."""

    state: State
    delay: float = 0.0
    final: bool = True
    permanent: bool = False
    since: float | None = None


#: Decides about a message and the error of its handler, at a time by the store's clock.
Decide: TypeAlias = Callable[[QueueMessage[Any], BaseException, float], Decision]


class Delivery:
    """What a worker does with each message. `decide` says what a failure leads to."""

    def __init__(
        self,
        queue: PersistentQueue[Any],
        handler: Callable[..., Any],
        config: PersistentWorkerConfig,
        decide: Decide,
    ) -> None:
        self.queue = queue
        self.handler = handler
        self.config = config
        self._decide = decide
        self.consumes = queue.desk.consumes
        self.ledger = ledger_for(queue)
        self.coordinator = coordinator_for(queue, self.ledger)

    def steps(self, job: Job, call: Call) -> Steps:
        """Run `call` for a message; returns the `Outcome`."""
        if self.ledger is not None:
            return (yield from self._once(job, call))
        message = job.message
        try:
            result = yield call
            return self._success(message, result, job)
        except Exception as failure:
            error = cause_of(failure)
            return self._cancelled(job, error) or self._final(self._failure(message, error, job.now), job.told)

    def _once(self, job: Job, call: Call) -> Steps:
        message, ledger, coordinator = job.message, self.ledger, self.coordinator
        assert ledger is not None
        standing = ledger.begin(message)
        if standing is not None:
            action: Action = "ack" if standing.done else "release"
            settle = Settle(self.queue.name, message.id, action, message.attempts, standing.delay)
            skipped = Outcome(message, "skipped" if standing.done else "released", settle, standing.result)
            with contextlib.suppress(PayloadError):  # it was kept by others, and the work is done all the same
                self._final(skipped, None)
            return skipped
        outcome: Outcome | None = None
        try:
            yield from coordinator.begin(job)
            result = yield call
            outcome = self._success(message, result, job)
            kept = ledger.keep(message, result, outcome)
            yield from coordinator.succeeded(job, kept, outcome)
            ledger.succeeded(message, kept, outcome, job.now)
        except Exception as failure:
            error = cause_of(failure)
            if isinstance(error, LeaseLost) and error.message_id == message.id:
                raise  # nothing we write about the message counts any more
            if (cancelled := self._cancelled(job, error)) is not None:
                return cancelled
            if outcome is not None and outcome.rejected is not None:
                yield from outcome.rejected()
            outcome = self._failure(message, error, job.now)
            yield from coordinator.failed(job, error, outcome)
            ledger.failed(message, outcome, job.now)
            self._final(outcome, job.told)
        finally:
            ledger.forget(message)
        return outcome

    def _success(self, message: QueueMessage[Any], result: Any, job: Job) -> Outcome:
        settle = None if self.consumes else Settle(self.queue.name, message.id, "ack", message.attempts)
        outcome = Outcome(message, "acked", settle, result, follow_ups=job.follow_ups)
        return self._final(outcome, job.told)

    def _final(self, outcome: Outcome, told: Told | None, *, progressed: bool = False) -> Outcome:
        """Has the commit that settles a message say what became of it, if it does not come back."""
        settle, message, endings = outcome.settle, outcome.message, self.queue.desk.endings
        progressed = progressed or told is not None
        if settle is None or not (progressed or endings.keep is not None):
            return outcome
        kept = endings.encoded(outcome.result) if settle.action == "ack" else None
        progressed = progressed or message.attempts > 1
        if settle.action == "ack" and not progressed:
            outcome.records += endings.success(message, kept)
        else:
            lines = () if told is None else tuple(told.lines)
            outcome.records += endings.records(settle, message, result=kept, progressed=progressed, log=lines)
        return outcome

    def _cancelled(self, job: Job, error: BaseException) -> Outcome | None:
        """The outcome of a handler that has ended because its message was cancelled: there is nothing to settle."""
        if job.lost and isinstance(error, JobCancelled):
            return Outcome(job.message, "lost", None, error=error)
        return None

    def _failure(self, message: QueueMessage[Any], error: BaseException, now: float) -> Outcome:
        if self.consumes:
            return Outcome(message, "lost", None, error=error)
        decision = self._decide(message, error, now)
        limit = self.queue.max_attempts
        if limit is not None and message.tries >= limit:
            decision = decision._replace(state="dead-lettered", final=True)
        action: Action = "release" if decision.state == "released" else "dead-letter"
        described = describe_error(error)
        if described is not None and decision.since is not None:
            described["since"] = decision.since
        settle = Settle(self.queue.name, message.id, action, message.attempts, decision.delay, described, limit)
        return Outcome(message, decision.state, settle, error=error, final=decision.final, permanent=decision.permanent)

    def interrupted(self, message: QueueMessage[Any], error: BaseException | None = None) -> Outcome:
        """The handler was cut off by something that is not the message's fault: it is delivered again soon."""
        settle = Settle(
            self.queue.name, message.id, "release", message.attempts, 0.0 if error is None else _SOON,
            describe_error(error),
        )  # fmt: skip
        return Outcome(message, "released", None if self.consumes else settle, error=error, final=False)

    def failure(self, message: QueueMessage[Any], error: BaseException, now: float) -> Outcome:
        """The outcome of a message that failed outside of its handler: it took too long, or its commit was refused."""
        outcome = self._failure(message, error, now)
        if self.ledger is not None:
            self.ledger.failed(message, outcome, now)
        return self._final(outcome, None, progressed=True)


def decide_by_release(config: PersistentWorkerConfig, retry: RetrySettings) -> Decide:
    """Retry by giving the message back with the delay that the settings name: no thread is held meanwhile."""

    def decide(message: QueueMessage[Any], error: BaseException, now: float) -> Decision:
        from localqueue.retry.plan import Retry, is_permanent, next_step

        if is_permanent(error):
            return Decision("dead-lettered", permanent=True)
        started = first_attempt(message)
        try:
            step = next_step(retry, attempt=message.tries, started_at=started, now=now, error=error)
        except Exception:
            log.exception("a retry strategy failed on message %s, which counts as given up", message.id)
            return final(config)
        if isinstance(step, Retry):
            return Decision("released", step.delay, final=False, since=None if retry.stop is None else started)
        return final(config)

    return decide


def first_attempt(message: QueueMessage[Any]) -> float:
    """When the attempts of its budget began, by the store's clock.

    A worker that may need to know writes it down with each error, because a history forgets its oldest attempts.
    """
    history = message.attempt_history
    requeues = [n for n, event in enumerate(history) if event["type"] == "requeued"]
    if requeues:
        return float(history[requeues[-1] + 1]["at"])
    since = (message.last_error or {}).get("since")
    return float(since if isinstance(since, int | float) else history[0]["at"])


def decide_at_once(config: PersistentWorkerConfig) -> Decide:
    """For a handler that was already retried inside its lease: this failure is the last."""

    def decide(message: QueueMessage[Any], error: BaseException, now: float) -> Decision:
        from localqueue.retry.plan import is_permanent

        return Decision("dead-lettered", permanent=True) if is_permanent(error) else final(config)

    return decide


def final(config: PersistentWorkerConfig) -> Decision:
    if config.dead_letter_on_failure:
        return Decision("dead-lettered")
    return Decision("released", config.release_delay)
