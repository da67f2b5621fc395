"""The tries of one message inside its lease, counted where a restart finds them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueError
from localqueue.message import QueueMessage
from localqueue.retry import QueueAttemptStore
from localqueue.retry.plan import any_failure
from localqueue.workers.failure_log import log_try
from localqueue.workers.outcome import Outcome

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue
    from localqueue.retry import PersistentAsyncRetrying, PersistentRetrying

log = logging.getLogger("localqueue.workers")


class Tries:
    """Attempt records by message id: in the queue's own store unless `store` or `store_path` name another.

    A message that left the handler's hands for good, or that an operator requeued, starts with a fresh budget.
    """

    def __init__(self, queue: PersistentQueue[Any], retry_kwargs: dict[str, Any]) -> None:
        from localqueue.retry import PersistentAsyncRetrying, PersistentRetrying

        self._queue = queue
        kwargs = dict(retry_kwargs)
        self._own: QueueAttemptStore | None = None
        if kwargs.get("store") is None and kwargs.get("store_path") is None:
            kwargs.pop("store_path", None)
            kwargs["store"] = self._own = QueueAttemptStore(queue.store)
        if kwargs.get("retry") is None:
            kwargs["retry"] = any_failure
        for fixed in ("key", "key_fn"):
            if fixed in kwargs:
                raise ValueError(f"a worker counts tries by message id, so it takes no {fixed}=")
        if kwargs.get("before_sleep") is None:
            kwargs["before_sleep"] = self._tell
        self._sync = PersistentRetrying(**kwargs)
        self._async = PersistentAsyncRetrying(**kwargs)

    def retryer(self, message: QueueMessage[Any]) -> PersistentRetrying:
        self._begin_again(message)
        return self._sync.copy(key=message.id)

    def async_retryer(self, message: QueueMessage[Any]) -> PersistentAsyncRetrying:
        """The same for coroutine functions. Making it may block."""
        self._begin_again(message)
        return self._async.copy(key=message.id)

    def _tell(self, state: Any) -> None:
        error = state.outcome.exception() if state.outcome.failed else None
        log_try(self._queue.name, state.key, state.attempt_number, state.upcoming_sleep, error)

    def _begin_again(self, message: QueueMessage[Any]) -> None:
        """Forget a budget that was used up before the message was last requeued."""
        if not message.forgiven:
            return
        requeued = max((event["at"] for event in message.attempt_history if event["type"] == "requeued"), default=0.0)
        age = self._sync.age(message.id)
        if age is not None and age > self._queue.store.now() - requeued:  # each by the clock that its time is of
            self._sync.reset(message.id)

    def forget(self, message: QueueMessage[Any], outcome: Outcome) -> None:
        """Have the budget deleted by the commit that settles the failed message."""
        if self._own is not None and self._own.load(message.id) is not None:
            outcome.records.append(self._own.erase(message.id))

    def settled(self, outcome: Outcome) -> None:
        """The same for a store of its own, after the commit."""
        if self._own is not None or outcome.error is None or outcome.state == "lost":
            return
        try:
            self._sync.reset(outcome.message.id)
        except QueueError as error:  # a requeued message gets its fresh budget anyway
            log.warning("the tries of message %s were not forgotten: %s", outcome.message.id, error)
