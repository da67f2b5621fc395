"""Messages that leave the store: claimed, read, and settled under their leases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeGuard

from localqueue.errors import LeaseLost, PayloadError
from localqueue.events.event import ACKED
from localqueue.message import QueueMessage
from localqueue.queue.desk.core import DeskCore
from localqueue.queue.drafts import check_seconds, id_of
from localqueue.queue.payloads import message_of
from localqueue.stores.kept_error import describe_error
from localqueue.stores.port import (
    INFLIGHT,
    Action,
    Changes,
    Lease,
    LeaseRequest,
    NewMessage,
    RecordWrite,
    Settle,
    StoredMessage,
)


class Departures(DeskCore):
    def claim(self, request: LeaseRequest) -> list[StoredMessage]:
        """Lease messages, and tell the hooks."""
        emitter = self.emitter
        if emitter.hooks is None:
            return self.store.lease(request)
        with self._watching("receive", batch=request.limit != 1) as receiving:
            leased = emitter.observed(lambda: self.store.lease(request))
            if receiving is not None:
                receiving.messages = list(leased)
        emitter.tell_leased(leased, request.consume)
        return leased

    def unpack(self, stored: StoredMessage) -> QueueMessage[Any] | None:
        """The leased message, or None when it can not be read: then it has become a dead letter."""
        try:
            return self.read(stored)
        except PayloadError as error:
            self._bury(stored, {"type": "PayloadError", "module": "localqueue", "message": str(error)})
            return None

    def read(self, stored: StoredMessage) -> QueueMessage[Any]:
        """The message, or `PayloadError` when it can not be read."""
        return message_of(stored, self.payloads.decode(stored))

    def processing(self, message: QueueMessage[Any]) -> AbstractContextManager[object]:
        """What a handler is called in, for those who stand around it."""
        return self._watching("process", (message,))

    def acks_at_once(self, message: QueueMessage[Any] | str, result: Any) -> TypeGuard[QueueMessage[Any]]:
        """Whether an ack is that alone: of a lease, with nothing to keep and nobody to tell."""
        return (
            result is None
            and self.endings.keep is None
            and self.emitter.hooks is None
            and isinstance(message, QueueMessage)
            and message.state == INFLIGHT
        )

    def acks(self, messages: Iterable[QueueMessage[Any] | str]) -> list[Settle]:
        return [Settle(self.name, message_id, "ack", token) for message_id, token in map(fenced, messages)]

    def renewal(self, message: QueueMessage[Any], timeout: float | None) -> tuple[Lease, float]:
        """The lease of a message, and for how many seconds from now it is to hold."""
        if not isinstance(message, QueueMessage):
            raise TypeError(f"renew takes the leased message, as get_message() returned it, not {message!r}")
        if timeout is not None:
            if not timeout > 0:
                raise ValueError(f"the lease timeout must be greater than zero, not {timeout!r}")
            check_seconds("the lease timeout", timeout)
        return Lease(self.name, message.id, message.attempts), self.lease_seconds if timeout is None else timeout

    def ack(self, message: QueueMessage[Any], token: int) -> bool:
        """Ack one message under its lease, and tell the hooks."""
        with self._watching("settle", (message,), name="ack") as settling:
            settled = self.emitter.observed(lambda: self.store.ack_one(self.name, message.id, token))
            if settling is not None:
                settling.lost = int(not settled)
        if settled:
            self.emitter.emit(ACKED, message)
        return settled

    def settlement(
        self, message: QueueMessage[Any] | str, action: Action, *, delay: float = 0.0, error: object = None
    ) -> Settle:
        """How a message ends, fenced by its lease; without one (not leased, a bare id) it is an operator's override."""
        message_id, token = fenced(message)
        return Settle(
            self.name, message_id, action, token, delay, describe_error(error), self.configuration.max_attempts
        )

    def conclude(
        self,
        settles: Sequence[Settle],
        records: Sequence[Sequence[RecordWrite]],
        messages: Sequence[QueueMessage[Any] | str] = (),
    ) -> list[bool]:
        """Settle messages in one commit, each with its records or, where its lease was lost, not at all: those are
        False."""
        settled = [True] * len(settles)
        while any(settled):
            left = [n for n, is_current in enumerate(settled) if is_current]
            writes = [write for n in left for write in records[n]]
            try:
                self.commit(Changes(settle=[settles[n] for n in left], records=writes), messages)
                break
            except LeaseLost as stale:
                which = (stale.message_id, stale.token)
                # The last of them: of a message that is settled twice here, the first settle may be current.
                settled[max(n for n in left if (settles[n].id, settles[n].token) == which)] = False
        return settled

    def _bury(self, stored: StoredMessage, problem: dict[str, Any]) -> None:
        """Keep a message that can not be read as a dead letter; one delivered at most once is stored again for that."""
        if not self.consumes:
            settle = Settle(self.name, stored.id, "dead-letter", stored.attempts, error=problem)
            self.conclude([settle], [self.endings.records(settle, stored)])
            return
        (new_id,) = self.store.mint()
        again = NewMessage(new_id, self.name, stored.payload, stored.codec, headers=stored.headers)
        buried = Settle(self.name, new_id, "dead-letter", error=problem)
        self.commit(Changes(enqueue=(again,), settle=(buried,)))


def fenced(message: QueueMessage[Any] | str) -> tuple[str, int | None]:
    """Id and fencing token. Only a leased message has a token; anything else is an operator's override."""
    if isinstance(message, QueueMessage):
        return message.id, message.attempts if message.state == INFLIGHT else None
    return id_of(message), None
