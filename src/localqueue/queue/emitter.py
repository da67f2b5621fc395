"""Telling hooks what a queue object did, after it is committed.

A queue without hooks pays for one look at an attribute. With hooks, each call that writes is observed: what the store
did on its own account in that call (timers that had passed, attempts that had run out) is told like everything else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from localqueue.events import event as kinds
from localqueue.events.event import Event
from localqueue.events.hooks import Hook, Hooks, several
from localqueue.message import QueueMessage
from localqueue.queue.tenancy import Tenancy
from localqueue.stores.kept_error import describe_error
from localqueue.stores.port import StoredMessage, Transition

R = TypeVar("R")


class Emitter:
    """Tells a queue's hooks. `hooks` is None while there are none; `probes` are those of them that stand around."""

    def __init__(self, queue: str, tenancy: Tenancy) -> None:
        self.hooks: Hooks | None = None
        self.probes: tuple[Any, ...] = ()
        self.adds_headers = False
        self._queue = queue
        self._tenancy = tenancy
        self._hooking = threading.Lock()

    def add_hook(self, hook: Hook) -> None:
        with self._hooking:
            self._have((*(self.hooks or ()), *several(hook)))

    def remove_hook(self, hook: Hook) -> None:
        with self._hooking:
            self._have([one for one in self.hooks or () if one != hook])

    def _have(self, hooks: Sequence[Hook]) -> None:
        self.hooks = Hooks(hooks) if hooks else None
        self.probes = tuple(hook for hook in hooks if hasattr(hook, "around"))
        self.adds_headers = any(getattr(probe, "adds_headers", False) for probe in self.probes)

    def emit(
        self, kind: str, message: QueueMessage[Any] | str | None = None, *, error: object = None, **data: Any
    ) -> None:
        """Tell the hooks that something happened to a message of this queue; without hooks it does nothing."""
        if self.hooks is None:
            return
        described = describe_error(error)
        at = self._tenancy.store.now()
        if not isinstance(message, QueueMessage):
            event = Event(type=kind, queue=self._queue, at=at, message_id=message, error=described, data=data)
        else:
            event = Event(
                type=kind,
                queue=message.queue,
                at=at,
                message_id=message.id,
                attempt=message.attempts,
                worker=message.leased_by,
                error=described,
                data={**_facts(message), **data},
            )
        self._fire(event)

    def _fire(self, event: Event) -> None:
        hooks = self.hooks
        if hooks is not None:
            hooks.fire(event)

    def observed(self, call: Callable[[], R]) -> R:
        """Make a call to the store and tell what it did beside what it returns."""
        if self.hooks is None:
            return call()
        seen: list[Transition] = []
        try:
            with self._tenancy.store.observe() as seen:
                return call()
        finally:
            for transition in seen:
                self.tell(transition)

    def tell(self, transition: Transition) -> None:
        """Tell what the store did on its own account."""
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

    def tell_put(self, queue: str, message_id: str, outcome: str, at: float) -> None:
        """Tell that a message was stored, or dropped; a duplicate was neither."""
        if outcome != "duplicate":
            kind = kinds.DROPPED if outcome == "dropped" else kinds.ENQUEUED
            self._fire(Event(type=kind, queue=queue, at=at, message_id=message_id))

    def tell_leased(self, leased: Sequence[StoredMessage], consumed: bool) -> None:
        """Tell that messages were leased, and with `consumed` that they are gone with that."""
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

    def told(
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
