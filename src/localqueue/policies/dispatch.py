"""Which handlers a put calls in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

from localqueue.policies._described import Described


class DispatchPolicy(Protocol):
    """Calls handlers for a message that is already stored."""

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
        if callable(self.handlers):
            raise TypeError(f"handlers must be a tuple of callables; pass ({self.handlers!r},)")
        handlers = tuple(self.handlers)
        if not handlers:
            raise ValueError("handlers cannot be empty")
        for handler in handlers:
            if not callable(handler):
                raise TypeError(f"handlers must be callable, got {handler!r}")
        object.__setattr__(self, "handlers", handlers)

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


NO_DISPATCHER = NoDispatcher()
