"""A long poll that can be left: the service is asked in a thread, and who waits for the answer may go away.

A request that waits 20 seconds can not be ended from outside, and to cut its connection would leave what it is about to
bring invisible until its lease is over. So the thread stays, and what it brings then is given back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Poll(Generic[T]):
    """`ask` is run in a thread; `give_back` gets what it returned after everybody had left."""

    def __init__(self, ask: Callable[[], list[T]], give_back: Callable[[list[T]], None]) -> None:
        self._ask = ask
        self._give_back = give_back
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._left = False
        self._found: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="localqueue-sqs-poll", daemon=True).start()

    def _run(self) -> None:
        found: list[T] = []
        error: BaseException | None = None
        try:
            found = self._ask()
        except BaseException as failed:
            error = failed
        with self._lock:
            if not self._left:
                self._found, self._error = found, error
                self._ended.set()
                return
        self._give_back(found)

    def wait(self) -> list[T]:
        """What was found; nothing when it was left meanwhile."""
        try:
            self._ended.wait()
        finally:
            with self._lock:
                self._left = not self._ended.is_set() or self._left
        if self._error is not None:
            raise self._error
        return self._found

    def leave(self) -> None:
        """End the wait."""
        with self._lock:
            if not self._ended.is_set():
                self._left = True
                self._ended.set()
