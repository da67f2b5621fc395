"""What the four faces of a queue share: its name, its store, its hooks, and the desk that does their work."""

from __future__ import annotations

import weakref
from typing import Any, Generic

from localqueue.events.hooks import Hook
from localqueue.message import QueueMessage, T
from localqueue.queue.desk import Desk
from localqueue.stores.port import QueueStore

#: The queue objects of the process, and the hooks that every one of them has: see `everywhere`.
living: set[weakref.ref[QueueCore[Any]]] = set()
shared_hooks: list[Hook] = []


class QueueCore(Generic[T]):
    """A queue's name and its desk, which is for the parts of this package that serve a queue."""

    def __init__(self, desk: Desk) -> None:
        self.name = desk.name
        self.desk = desk
        living.add(weakref.ref(self, living.discard))

    @property
    def store(self) -> QueueStore:
        """The store this queue lives in."""
        return self.desk.store

    @property
    def _seen(self) -> QueueStore:
        """The same for a look: where no store was made yet, an empty one that is made of nothing."""
        return self.desk.tenancy.seen

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks in the order they are called."""
        return tuple(self.desk.emitter.hooks or ())

    def add_hook(self, hook: Hook) -> None:
        """Call `hook` with an `Event` after each thing that this queue object does from now on.

        It may be `async def`. One that fails is logged and changes nothing. A hook with a method `attach` is told the
        queue it was added to; one with a method `around` is asked for a context manager around each operation.
        """
        self.desk.add_hook(hook)
        attach = getattr(hook, "attach", None)
        if attach is not None:
            attach(self)

    def remove_hook(self, hook: Hook) -> None:
        """Stop calling a hook; one that was not added is no error."""
        self.desk.remove_hook(hook)
        detach = getattr(hook, "detach", None)
        if detach is not None:
            detach(self)

    def emit(
        self, kind: str, message: QueueMessage[Any] | str | None = None, *, error: object = None, **data: Any
    ) -> None:
        """Tell the hooks that something happened to a message of this queue; without hooks it does nothing."""
        self.desk.emitter.emit(kind, message, error=error, **data)

    def close(self) -> None:
        """End the dispatcher's work, then close the store, unless it was passed in: then it belongs to its opener."""
        policy: Any = self.desk.configuration.dispatch_policy
        if hasattr(policy, "bind") and getattr(policy, "queue", self) is self:
            policy.close()
        self.desk.tenancy.close()
