"""Letting a caller see what its calls did to messages beside what it asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from localqueue.stores.port import Transition


class _Watched(threading.local):
    seen: list[Transition] | None = None


class Observed:
    """`observe()` for a store that adds to `_watched.seen`, when it is not None, after each commit of a call."""

    def __init__(self) -> None:
        self._watched = _Watched()

    @contextmanager
    def observe(self) -> Iterator[list[Transition]]:
        outer, seen = self._watched.seen, list[Transition]()
        self._watched.seen = seen
        try:
            yield seen
        finally:
            self._watched.seen = outer
