"""Telling everybody who waits on one notification."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Listeners:
    """Callbacks that each notification calls. Every one is called every time, so none can use up another's wake-up."""

    __slots__ = ("_callbacks", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: tuple[Callable[[], object], ...] = ()

    def attach(self, callback: Callable[[], object]) -> None:
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

    def detach(self, callback: Callable[[], object]) -> None:
        with self._lock:
            kept = list(self._callbacks)
            if callback in kept:
                kept.remove(callback)
            self._callbacks = tuple(kept)

    def tell(self) -> None:
        for callback in self._callbacks:
            callback()


class TellsListeners:
    """A notification that any number of waiters share."""

    __slots__ = ()

    _listeners: Listeners

    def attach(self, callback: Callable[[], object]) -> None:
        """Call `callback` on every notification, in the thread of the producer."""
        self._listeners.attach(callback)

    def detach(self, callback: Callable[[], object]) -> None:
        """Stop calling `callback`."""
        self._listeners.detach(callback)
