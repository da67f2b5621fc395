"""What a worker's log says of attempts that failed."""

from __future__ import annotations

import logging

from localqueue.stores.address import masked
from localqueue.stores.kept_error import describe_error, shown
from localqueue.workers.outcome import Outcome

log = logging.getLogger("localqueue.workers")


def log_failure(outcome: Outcome, what: str = "message") -> None:
    """Tell of a message that failed, with the traceback as it is kept: never with local variables."""
    error = outcome.error
    if error is None or outcome.state == "lost":
        return
    described = describe_error(error) if outcome.settle is None else outcome.settle.error
    trace = (described or {}).get("traceback")
    log.warning(
        "%s %s of queue %r failed and was %s%s: %s%s",
        what, outcome.message.id, outcome.message.queue, outcome.state, _again(outcome), _said(error),
        f"\n{trace}" if trace else "",
    )  # fmt: skip


def log_try(queue: str, message_id: str, attempt: int, delay: float, error: BaseException | None) -> None:
    """Tell of a try that failed inside a lease and will be followed by another."""
    log.warning(
        "try %d of message %s of queue %r failed, the next is in %g s: %s",
        attempt, message_id, queue, delay, "its result is to be tried again" if error is None else _said(error),
    )  # fmt: skip


def _again(outcome: Outcome) -> str:
    if outcome.final or outcome.settle is None or outcome.settle.action != "release":
        return ""
    return f", the next try is in {outcome.settle.delay:g} s"


def _said(error: BaseException) -> str:
    return masked(shown(error))
