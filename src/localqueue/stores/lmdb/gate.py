"""A gate that many may pass at a time, and that can be shut to wait until nobody is inside."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._inside = 0
        self._shut = False

    def __enter__(self) -> None:
        with self._condition:
            while self._shut:
                self._condition.wait()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._inside -= 1
            if self._shut and not self._inside:
                self._condition.notify_all()

    def close(self) -> None:
        """Let nobody in, and wait until everybody has left. One thread at a time: they hold the writer's lock."""
        self._shut = True  # before the lock, or a stream of readers could keep it from us
        with self._condition:
            while self._inside:
                self._condition.wait()

    def open(self) -> None:
        with self._condition:
            self._shut = False
            self._condition.notify_all()

    @contextmanager
    def shut(self) -> Iterator[None]:
        self.close()
        try:
            yield
        finally:
            self.open()
