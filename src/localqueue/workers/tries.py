"""The tries of one message inside its lease, counted where a restart finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localqueue.message import QueueMessage
from localqueue.retry import QueueAttemptStore
from localqueue.workers.outcome import Outcome

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue
    from localqueue.retry import PersistentAsyncRetrying, PersistentRetrying


class Tries:
    """Attempt records by message id: in the queue's own store unless `store` or `store_path` name another.

    A message that left the handler's hands for good, or that an operator requeued, starts with a fresh budget.
    """

    def __init__(self, queue: PersistentQueue[Any], retry_kwargs: dict[str, Any]) -> None:
        self._kwargs = dict(retry_kwargs)
        self._own: QueueAttemptStore | None = None
        if self._kwargs.get("store") is None and self._kwargs.get("store_path") is None:
            self._kwargs.pop("store_path", None)
            self._kwargs["store"] = self._own = QueueAttemptStore(queue.store)
        for fixed in ("key", "key_fn"):
            if fixed in self._kwargs:
                raise ValueError(f"a worker counts tries by message id, so it takes no {fixed}=")
        self._store: Any = self._own

    def retryer(self, message: QueueMessage[Any]) -> PersistentRetrying:
        from localqueue.retry import PersistentRetrying

        retryer = PersistentRetrying(key=message.id, **self._kwargs)
        if message.forgiven:
            self._begin_again(retryer, message)
        return retryer

    def async_retryer(self, message: QueueMessage[Any]) -> PersistentAsyncRetrying:
        from localqueue.retry import PersistentAsyncRetrying

        return PersistentAsyncRetrying(key=message.id, **self._kwargs)

    def _begin_again(self, retryer: PersistentRetrying, message: QueueMessage[Any]) -> None:
        """Forget a budget that was used up before the message was last requeued."""
        requeued = max((event["at"] for event in message.attempt_history if event["type"] == "requeued"), default=0.0)
        record = retryer.get_record(message.id)
        if record is not None and record.first_attempt_at < requeued:
            retryer.reset(message.id)

    def forget(self, message: QueueMessage[Any], outcome: Outcome) -> None:
        """Have the budget deleted by the commit that settles the failed message."""
        if self._own is not None and self._own.load(message.id) is not None:
            outcome.records.append(self._own.write(message.id, None))

    def settled(self, outcome: Outcome) -> None:
        """The same for a store of its own, after the commit."""
        if self._own is None and outcome.error is not None and outcome.state != "lost":
            from localqueue.retry import PersistentRetrying

            PersistentRetrying(key=outcome.message.id, **self._kwargs).reset(outcome.message.id)
