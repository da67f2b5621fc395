"""Which handlers a put calls in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from localqueue._dataclass import KW_ONLY, dataclass
from localqueue.policies._described import Described


class DispatchPolicy(Protocol):
    """Calls handlers for a message that is already stored.

    A policy that also has `bind(queue)` and `close()` serves one queue: the queue's constructor binds it, and the
    queue's `close()` closes it before the store. One that settles messages itself says `leases = True`.
    """

    @property
    def dispatches(self) -> bool: ...

    @property
    def dispatches_on_put(self) -> bool: ...

    def dispatch(self, message: Any) -> None: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDispatcher(Described):
    """A put stores the message and calls nobody."""

    dispatches: bool = False
    dispatches_on_put: bool = False
    handler_count: int = 0

    def dispatch(self, message: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class CallbackDispatcher(Described):
    """Handlers are called in the producer's thread, in order, after the message is stored.

    An exception stops the handlers behind it and reaches the caller of `put`; the message stays
    stored. Other processes are not reached.
    """

    handlers: tuple[Callable[[Any], object], ...]
    _: KW_ONLY
    dispatches: bool = True
    dispatches_on_put: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "handlers", check_handlers(self.handlers))

    @property
    def handler_count(self) -> int:
        return len(self.handlers)

    def dispatch(self, message: Any) -> None:
        for handler in self.handlers:
            handler(message)

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": "callback",
            "dispatches": self.dispatches,
            "dispatches_on_put": self.dispatches_on_put,
            "handler_count": self.handler_count,
        }


def check_handlers(handlers: Iterable[Callable[[Any], object]]) -> tuple[Callable[[Any], object], ...]:
    """Return the handlers as a tuple when there is at least one and all are callable."""
    if callable(handlers):
        raise TypeError(f"handlers must be a tuple of callables; pass ({handlers!r},)")
    checked = tuple(handlers)
    if not checked:
        raise ValueError("handlers cannot be empty")
    for handler in checked:
        if not callable(handler):
            raise TypeError(f"handlers must be callable, got {handler!r}")
    return checked


NO_DISPATCHER = NoDispatcher()
