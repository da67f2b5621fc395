"""What happens to messages, as values: events for hooks, and the entries of a store's journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localqueue.events.async_hook import AsyncHook
from localqueue.events.event import EVENT_TYPES, Event
from localqueue.events.hooks import Hook, Hooks
from localqueue.events.journal import JOURNAL_TYPES, JournalEvent

if TYPE_CHECKING:
    from localqueue.events.logging_hook import LoggingHook

__all__ = [
    "EVENT_TYPES",
    "JOURNAL_TYPES",
    "AsyncHook",
    "Event",
    "Hook",
    "Hooks",
    "JournalEvent",
    "LoggingHook",
]


def __getattr__(name: str) -> Any:
    # Every queue loads this package, and loading `logging` takes as long as the rest of it.
    if name == "LoggingHook":
        from localqueue.events.logging_hook import LoggingHook

        return LoggingHook
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
