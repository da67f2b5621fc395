"""Waiting for a wake-up, and calling the dispatcher's handlers in the thread that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from localqueue.policies import NotificationPolicy
from localqueue.queue.core import QueueCore
from localqueue.queue.waiting import WorkWait

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

T = TypeVar("T")


class Dispatching(QueueCore[T]):
    def wait_for_notification(self, timeout: float | None = None) -> bool:
        """Wait until there may be a message to lease; False when `timeout` seconds passed first.

        Wakes with the queue's notification policy where that can be waited for, and for everything the policy does
        not tell of too: messages that were there before, delays and leases that end, puts of other processes.
        """
        with WorkWait(self) as work:
            return work.wait(timeout)

    async def wait_for_notification_async(self, timeout: float | None = None) -> bool:
        """The same without blocking the event loop."""
        with WorkWait(self) as work:
            return await work.wait_async(timeout)

    def work_wait(self, notification_policy: NotificationPolicy | None = None) -> WorkWait:
        """What `wait_for_notification` waits with, to be kept by a consumer that waits again and again."""
        return WorkWait(self, notification_policy)

    def dispatch_pending(self, limit: int | None = None) -> int:
        """Lease what is ready now, at most `limit` messages, and call the dispatcher's handlers with each, here.

        Returns how many messages the handlers were called with. Each is acked when they succeed. When one fails, the
        error is recorded on the message, which is delivered again after a delay, or dead-lettered after
        `max_attempts`, and the next one is taken.
        """
        policy: Any = self._configuration.dispatch_policy
        if not policy.dispatches:
            raise ValueError(
                f"queue {self.name!r} has no handlers to dispatch to; pass dispatch_policy=CallbackDispatcher(...), "
                "or take messages with get_message()"
            )
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise TypeError(f"limit must be an integer, not {limit!r}")
        if limit is not None and limit < 0:
            raise ValueError("limit cannot be negative")
        from localqueue.dispatch.pending import deliver_pending

        handlers = getattr(policy, "handlers", None) or (policy.dispatch,)
        return deliver_pending(cast("PersistentQueue[T]", self), handlers, limit)

    def close(self) -> None:
        """End the dispatcher's work, then close the store, unless it was passed in: then it belongs to its opener."""
        policy: Any = self._configuration.dispatch_policy
        if hasattr(policy, "bind") and getattr(policy, "queue", self) is self:
            policy.close()
        super().close()

    def _bind_dispatcher(self) -> None:
        bind = getattr(self._configuration.dispatch_policy, "bind", None)
        if bind is not None:
            bind(self)
