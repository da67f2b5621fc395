"""Telling hooks what a queue object did, after it is committed.

A queue without hooks pays for one look at an attribute. With hooks, each call that writes is observed: what the store
did on its own account in that call (timers that had passed, attempts that had run out) is told like everything else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from localqueue.events import event as kinds
from localqueue.events.event import Event
from localqueue.events.hooks import Hook, Hooks, several
from localqueue.message import QueueMessage
from localqueue.stores.port import (
    Changes,
    Committed,
    LeaseRequest,
    QueueStore,
    StoredMessage,
    Transition,
)
from localqueue.stores.rules import describe_error

R = TypeVar("R")


class Emitting:
    """The hooks of a queue."""

    name: str

    def __init__(self) -> None:
        self._hooks: Hooks | None = None
        self._hooking = threading.Lock()

    @property
    def store(self) -> QueueStore:
        raise NotImplementedError

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks in the order they are called."""
        return () if self._hooks is None else tuple(self._hooks)

    def add_hook(self, hook: Hook) -> None:
        """Call `hook` with an `Event` after each thing that this queue object does from now on.

        It may be `async def`. One that fails is logged and changes nothing. A hook with a method `attach` is told the
        queue it was added to.
        """
        with self._hooking:
            self._hooks = Hooks((*self.hooks, *several(hook)))
        attach = getattr(hook, "attach", None)
        if attach is not None:
            attach(self)

    def remove_hook(self, hook: Hook) -> None:
        """Stop calling a hook; one that was not added is no error."""
        with self._hooking:
            left = [one for one in self.hooks if one != hook]
            self._hooks = Hooks(left) if left else None
        detach = getattr(hook, "detach", None)
        if detach is not None:
            detach(self)

    def emit(
        self, kind: str, message: QueueMessage[Any] | str | None = None, *, error: object = None, **data: Any
    ) -> None:
        """Tell the hooks that something happened to a message of this queue; without hooks it does nothing."""
        if self._hooks is None:
            return
        described = describe_error(error)
        if not isinstance(message, QueueMessage):
            event = Event(
                type=kind, queue=self.name, at=self.store.now(), message_id=message, error=described, data=data
            )
        else:
            event = Event(
                type=kind,
                queue=message.queue,
                at=self.store.now(),
                message_id=message.id,
                attempt=message.attempts,
                worker=message.leased_by,
                error=described,
                data={**_facts(message), **data},
            )
        self._fire(event)

    def _fire(self, event: Event) -> None:
        hooks = self._hooks
        if hooks is not None:
            hooks.fire(event)

    # calls to the store

    def _observed(self, call: Callable[[], R]) -> R:
        """Make a call to the store and tell what it did beside what it returns."""
        if self._hooks is None:
            return call()
        seen: list[Transition] = []
        try:
            with self.store.observe() as seen:
                return call()
        finally:
            for transition in seen:
                self._tell(transition)

    def _claim(self, request: LeaseRequest) -> list[StoredMessage]:
        if self._hooks is None:
            return self.store.lease(request)
        leased = self._observed(lambda: self.store.lease(request))
        self._tell_leased(leased, request.consume)
        return leased

    def _ack(self, message: QueueMessage[Any] | str, message_id: str, token: int) -> bool:
        acked = self._observed(lambda: self.store.ack_one(self.name, message_id, token))
        if acked:
            self.emit(kinds.ACKED, message)
        return acked

    def _commit(
        self,
        changes: Changes,
        messages: Iterable[QueueMessage[Any] | str] = (),
        others: Sequence[Emitting] = (),
    ) -> Committed:
        """Commit, and tell everything that came of it.

        `messages` are those that are settled, for what is known about them. `others` hear what concerns their queue.
        """
        if self._hooks is None and not others:
            return self.store.commit(changes)
        emitters = {one.name: one for one in others}
        if self._hooks is None and all(one._hooks is None for one in emitters.values()):
            return self.store.commit(changes)
        with self.store.observe() as seen:
            committed = self.store.commit(changes)
        for draft, enqueued in zip(changes.enqueue, committed.enqueued, strict=True):
            queue = draft.queue
            if enqueued.outcome == "diverted":
                queue = changes.limits[queue].overflow_queue or queue
            emitters.get(queue, self)._tell_put(queue, draft.id, enqueued.outcome, enqueued.at)
        for transition in seen:
            emitters.get(transition.queue, self)._tell(transition)
        known = {one.id: one for one in messages if isinstance(one, QueueMessage)}
        for settle, settled in zip(changes.settle, committed.settled, strict=True):
            if settled and settle.action == "ack":
                emitters.get(settle.queue, self).emit(kinds.ACKED, known.get(settle.id, settle.id))
        self._tell_leased(committed.leased, changes.lease is not None and changes.lease.consume)
        return committed

    # what to tell

    def _tell(self, transition: Transition) -> None:
        kind, queue, message_id, at, attempt, worker, leased_at, error = transition
        data = {} if leased_at is None else {"leased_at": leased_at}
        self._fire(
            Event(
                type=kind,
                queue=queue,
                at=at,
                message_id=message_id,
                attempt=attempt,
                worker=worker,
                error=error,
                data=data,
            )
        )

    def _tell_put(self, queue: str, message_id: str, outcome: str, at: float) -> None:
        if outcome != "duplicate":
            kind = kinds.DROPPED if outcome == "dropped" else kinds.ENQUEUED
            self._fire(Event(type=kind, queue=queue, at=at, message_id=message_id))

    def _tell_leased(self, leased: Sequence[StoredMessage], consumed: bool) -> None:
        for one in leased:
            at = one.history[-1]["at"]
            event = Event(
                type=kinds.LEASED,
                queue=one.queue,
                at=at,
                message_id=one.id,
                attempt=one.attempts,
                worker=one.leased_by,
                data={"created_at": one.created_at, "available_at": one.available_at},
            )
            self._fire(event)
            if consumed:
                self._fire(
                    Event(
                        type=kinds.ACKED,
                        queue=one.queue,
                        at=at,
                        message_id=one.id,
                        attempt=one.attempts,
                        worker=one.leased_by,
                        data={"created_at": one.created_at},
                    )
                )

    def _told(
        self, done: str, failed: str, message: QueueMessage[Any], call: Callable[[QueueMessage[Any]], object]
    ) -> None:
        """Call a policy about a stored message, and tell how that went."""
        try:
            call(message)
        except Exception as error:
            self.emit(failed, message, error=error)
            raise
        self.emit(done, message)


def _facts(message: QueueMessage[Any]) -> Mapping[str, Any]:
    facts: dict[str, Any] = {"created_at": message.created_at}
    if message.leased_until is not None and message.attempt_history:
        facts["leased_at"] = message.attempt_history[-1]["at"]
    return facts
