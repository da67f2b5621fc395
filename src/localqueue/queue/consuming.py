"""The consumer's side: lease, settle, renew."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from queue import Empty
from typing import Any, TypeVar

from localqueue.events.event import RENEWED
from localqueue.message import QueueMessage
from localqueue.queue.core import QueueCore
from localqueue.queue.drafts import check_delay, check_key, check_timeout
from localqueue.stores.port import INFLIGHT, Action, Changes, Lease, LeaseRequest, Settle
from localqueue.stores.rules import describe_error

T = TypeVar("T")


class Consuming(QueueCore[T]):
    def get(self, block: bool = True, timeout: float | None = None, *, leased_by: str | None = None) -> T:
        """Lease a message and return only its value; `task_done()` acks it."""
        message = self.get_message(block, timeout, leased_by=leased_by)
        if not self._at_most_once:
            with self._finished:
                self._unfinished[message.id] = message
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
        if timeout is None and leased_by is None and self._hooks is None:
            leased = self.store.lease(self._request)
            if leased:
                message = self._leased(leased[0])
                if message is not None:
                    return message
            elif not block:
                raise Empty
        return self._get(1, block, timeout, leased_by)[0]

    def get_messages(
        self, n: int, block: bool = True, timeout: float | None = None, *, leased_by: str | None = None
    ) -> list[QueueMessage[T]]:
        """Lease up to `n` messages in one transaction, waiting only for the first."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"the number of messages must be a positive integer, not {n!r}")
        return self._get(n, block, timeout, leased_by)

    def _get(self, n: int, block: bool, timeout: float | None, leased_by: str | None) -> list[QueueMessage[T]]:
        check_timeout(timeout)
        request = self._request
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
            stored = self._claim(request)
            messages = [message for one in stored if (message := self._leased(one)) is not None]
            if messages or not stored:
                return messages

    def ack(self, message: QueueMessage[Any] | str) -> bool:
        """Remove a message for good. False when its lease was lost (or it is gone): then nothing changed.

        Given a message that is not leased, or a bare id, this is an operator's override: it acts whoever holds the
        lease. The same is true of `release`, `dead_letter` and `cancel`.
        """
        plain = self._hooks is None and not self._unfinished
        if plain and isinstance(message, QueueMessage) and message.state == INFLIGHT:
            return self.store.ack_one(self.name, message.id, message.attempts)
        return self._settle(message, "ack")

    def ack_many(self, messages: Iterable[QueueMessage[Any] | str]) -> list[bool]:
        """Ack several messages in one transaction; False for each whose lease was lost."""
        batch = list(messages)
        if not batch:
            return []
        name, settles = self.name, []
        for message in batch:
            message_id, token = self._token(message)
            settles.append(Settle(name, message_id, "ack", token))
        settled = self._commit(Changes(settle=settles, strict=False), batch).settled
        if self._unfinished:
            for message in batch:
                self._forget(message)
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
        """Take a message out of delivery because it is not wanted any more; what comes after it keeps waiting."""
        return self._settle(message, "cancel")

    def _settle(
        self, message: QueueMessage[Any] | str, action: Action, *, delay: float = 0.0, error: object = None
    ) -> bool:
        message_id, token = self._token(message)
        if action == "ack" and token is not None:
            settled = self._ack(message, message_id, token)
        else:
            settle = Settle(
                self.name, message_id, action, token, delay, describe_error(error), self._configuration.max_attempts
            )
            settled = self._commit(Changes(settle=(settle,), strict=False), (message,)).settled[0]
        if self._unfinished:
            self._forget(message)
        return settled

    def renew(self, message: QueueMessage[T], *, timeout: float | None = None) -> QueueMessage[T] | None:
        """Extend the lease from now by the queue's lease timeout (or `timeout`); None when the lease was lost."""
        if timeout is not None and not timeout > 0:
            raise ValueError(f"the lease timeout must be greater than zero, not {timeout!r}")
        lease = Lease(self.name, message.id, message.attempts)
        until = self.store.renew([lease], timeout=self._lease_seconds if timeout is None else timeout)[0]
        if until is None:
            return None
        renewed = replace(message, leased_until=until)
        self.emit(RENEWED, renewed, leased_until=until)
        return renewed

    def task_done(self) -> bool:
        """Ack the oldest unfinished `get()` of this object."""
        with self._finished:
            if not self._unfinished:
                raise ValueError("task_done() called too many times")
            message = next(iter(self._unfinished.values()))
        return self.ack(message)

    def join(self) -> None:
        """Wait until every message this object handed out by `get()` is settled."""
        with self._finished:
            self._finished.wait_for(lambda: not self._unfinished)

    def _forget(self, message: QueueMessage[Any] | str) -> None:
        with self._finished:
            self._unfinished.pop(message if isinstance(message, str) else message.id, None)
            self._finished.notify_all()
