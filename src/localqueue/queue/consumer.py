"""The consumer's side: lease, settle, renew, wait, and have handlers called."""

from __future__ import annotations

import time
from collections.abc import Iterable
from queue import Empty
from typing import TYPE_CHECKING, Any, cast

from localqueue._dataclass import replace
from localqueue.events.event import RENEWED
from localqueue.message import QueueMessage, T
from localqueue.policies import NotificationPolicy
from localqueue.queue.core import QueueCore
from localqueue.queue.desk import fenced
from localqueue.queue.drafts import (
    check_count,
    check_delay,
    check_key,
    check_limit,
    check_timeout,
    one_result_each,
)
from localqueue.queue.wait import WorkWait
from localqueue.stores.port import Action, Changes, LeaseRequest, Payload

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue


class Consumer(QueueCore[T]):
    def get(self, block: bool = True, timeout: float | None = None, *, leased_by: str | None = None) -> T:
        """Lease a message and return only its value; `task_done()` acks it."""
        message = self.get_message(block, timeout, leased_by=leased_by)
        if not self.desk.consumes:
            self.desk.unfinished.add(message)
        return message.value

    def get_nowait(self) -> T:
        """A value, or `queue.Empty` at once."""
        return self.get(block=False)

    def get_message(
        self, block: bool = True, timeout: float | None = None, *, leased_by: str | None = None
    ) -> QueueMessage[T]:
        """Lease the next message. It stays ours until the lease runs out; settle it before, or `renew` it.

        Raises `queue.Empty` when nothing became available. With at-most-once delivery the message is gone from the
        store when this returns.
        """
        desk = self.desk
        if timeout is None and leased_by is None and desk.emitter.hooks is None:
            leased = desk.store.lease(desk.request)
            if leased:
                message = desk.unpack(leased[0])
                if message is not None:
                    return message
            elif not block:
                raise Empty
        return self._get(1, block, timeout, leased_by)[0]

    def get_messages(
        self, n: int, block: bool = True, timeout: float | None = None, *, leased_by: str | None = None
    ) -> list[QueueMessage[T]]:
        """Lease up to `n` messages in one transaction, waiting only for the first."""
        return self._get(check_count(n), block, timeout, leased_by)

    def _get(self, n: int, block: bool, timeout: float | None, leased_by: str | None) -> list[QueueMessage[T]]:
        check_timeout(timeout)
        request = self.desk.request
        if leased_by is not None:
            check_key("leased_by", leased_by)
        if n != 1 or leased_by is not None:
            request = request._replace(limit=n, leased_by=leased_by)
        messages = self._lease(request)
        if messages:
            return messages
        if not block:
            raise Empty
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.store.listen((self.name,), worker=leased_by) as waiter:
            while True:
                remaining = None if deadline is None else deadline - time.monotonic()
                if (remaining is not None and remaining <= 0) or not waiter.heard(remaining):
                    raise Empty
                messages = self._lease(request)
                if messages:
                    return messages

    def _lease(self, request: LeaseRequest) -> list[QueueMessage[T]]:
        """Lease and decode. A batch of nothing but unreadable messages is dead-lettered and the next one taken."""
        while True:
            stored = self.desk.claim(request)
            messages = [message for one in stored if (message := self.desk.unpack(one)) is not None]
            if messages or not stored:
                return messages

    def ack(self, message: QueueMessage[Any] | str, *, result: Any = None) -> bool:
        """Remove a message for good. False when its lease was lost (or it is gone): then nothing changed.

        With `keep_results` its `result` is kept, in the same transaction. Given a message that is not leased, or a bare
        id, this is an operator's override: it acts whoever holds the lease. The same is true of `release`,
        `dead_letter` and `cancel`.
        """
        desk = self.desk
        if desk.acks_at_once(message, result):
            acked = desk.store.ack_one(self.name, message.id, message.attempts)
            if desk.unfinished.messages:
                desk.unfinished.forget(message)
            return acked
        if result is not None or desk.endings.keep is not None:
            return self._settle(message, "ack", result=desk.endings.given(result))
        return self._settle(message, "ack")

    def ack_many(self, messages: Iterable[QueueMessage[Any] | str], results: Iterable[Any] | None = None) -> list[bool]:
        """Ack several messages in one transaction; False for each whose lease was lost.

        `results` has one for each, which is kept with `keep_results`.
        """
        batch, desk = list(messages), self.desk
        kept = one_result_each(results, len(batch))
        if not batch:
            return []
        settles = desk.acks(batch)
        if results is not None or desk.endings.keep is not None:
            payloads = [desk.endings.given(result) for result in kept]
            records = [desk.endings.of(*one) for one in zip(settles, batch, payloads, strict=True)]
            settled = desk.conclude(settles, records, batch)
        else:
            settled = desk.commit(Changes(settle=settles, strict=False), batch).settled
        if desk.unfinished.messages:
            desk.unfinished.forget(*batch)
        return settled

    def release(self, message: QueueMessage[Any] | str, *, delay: float = 0.0, error: object = None) -> bool:
        """Give a message back, to be delivered again after `delay`; `error` is kept as its `last_error`.

        A message that was delivered `max_attempts` times becomes a dead letter instead.
        """
        check_delay(delay)
        return self._settle(message, "release", delay=delay, error=error)

    def dead_letter(self, message: QueueMessage[Any] | str, *, error: object = None) -> bool:
        """Take a message out of delivery and keep it for inspection."""
        return self._settle(message, "dead-letter", error=error)

    def cancel(self, message: QueueMessage[Any] | str) -> bool:
        """Take a message out of delivery because it is not wanted any more; what comes after it keeps waiting.

        If it is running, its lease is lost, and its worker is told: see `current_job().cancelled`.
        """
        return self._settle(message, "cancel")

    def _settle(
        self,
        message: QueueMessage[Any] | str,
        action: Action,
        *,
        delay: float = 0.0,
        error: object = None,
        result: Payload | None = None,
    ) -> bool:
        desk = self.desk
        token = fenced(message)[1]
        if desk.endings.keep is not None or action == "cancel":
            settle = desk.settlement(message, action, delay=delay, error=error)
            settled = desk.conclude([settle], [desk.endings.of(settle, message, result)], (message,))[0]
        elif action == "ack" and token is not None and isinstance(message, QueueMessage):
            settled = desk.ack(message, token)
        else:
            settle = desk.settlement(message, action, delay=delay, error=error)
            settled = desk.commit(Changes(settle=(settle,), strict=False), (message,)).settled[0]
        if desk.unfinished.messages:
            desk.unfinished.forget(message)
        return settled

    def renew(self, message: QueueMessage[T], *, timeout: float | None = None) -> QueueMessage[T] | None:
        """Extend the lease from now by the queue's lease timeout (or `timeout`); None when the lease was lost."""
        lease, seconds = self.desk.renewal(message, timeout)
        (until,) = self.store.renew([lease], timeout=seconds)
        if until is None:
            return None
        renewed = replace(message, leased_until=until)
        self.emit(RENEWED, renewed, leased_until=until)
        return renewed

    def task_done(self) -> bool:
        """Ack the oldest unfinished `get()` of this object."""
        return self.ack(self.desk.unfinished.oldest())

    def join(self) -> None:
        """Wait until every message this object handed out by `get()` is settled."""
        self.desk.unfinished.wait()

    # being woken, and having handlers called

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
        policy: Any = self.desk.configuration.dispatch_policy
        if not policy.dispatches:
            raise ValueError(
                f"queue {self.name!r} has no handlers to dispatch to; pass dispatch_policy=CallbackDispatcher(...), "
                "or take messages with get_message()"
            )
        limit = check_limit(limit)
        from localqueue.dispatch.pending import deliver_pending

        handlers = getattr(policy, "handlers", None) or (policy.dispatch,)
        return deliver_pending(cast("PersistentQueue[T]", self), handlers, limit)
