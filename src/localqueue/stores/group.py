"""Commits in groups: threads that want to write at the same time share a transaction.

They hang up a ticket and take the lock. Whoever gets it runs every ticket that is waiting, each so that it can be
undone alone, and commits once: with `durability="power"` that is one fsync for all of them. The others find their
ticket done.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

_MOST_IN_A_GROUP = 128


class Ticket(Generic[T]):
    """A piece of work, and what came of it. `timeout` is how long it may wait for other processes."""

    __slots__ = ("done", "error", "timeout", "value", "work")

    def __init__(self, work: Callable[[Any], T], timeout: float = 0.0) -> None:
        self.work = work
        self.timeout = timeout
        self.done = False
        self.error: BaseException | None = None
        self.value: T | None = None

    def forget(self) -> None:
        """It was undone, and is to run again."""
        self.error = self.value = None


class GroupWriter(ABC):
    """Runs work in write transactions: all of one piece of work is applied, or nothing of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.leader: int | None = None  # the thread that is inside a transaction
        self.on_edge: Callable[[str], None] | None = None
        self._waiting: deque[Ticket[Any]] = deque()

    @abstractmethod
    def _commit(self, group: list[Ticket[Any]]) -> None:
        """Run the group in one transaction: all of it is undone when this raises. What a ticket did wrong is its own
        error, and undone alone."""

    @abstractmethod
    def _has_committed(self) -> bool:
        """Whether the transaction of a group took effect before it was interrupted."""

    @abstractmethod
    def _translate(self, error: Exception) -> Exception: ...

    def _run(self, ticket: Ticket[T]) -> T:
        try:
            self._waiting.append(ticket)
            with self.lock:
                if not ticket.done:
                    self.leader = threading.get_ident()
                    try:
                        self._lead(ticket)
                    finally:
                        self.leader = None
        except BaseException:
            with suppress(ValueError):  # nobody may run it any more
                self._waiting.remove(ticket)
            raise
        if ticket.error is not None:
            raise ticket.error
        return cast("T", ticket.value)

    def _lead(self, mine: Ticket[Any]) -> None:
        group: list[Ticket[Any]] = []
        while self._waiting and len(group) < _MOST_IN_A_GROUP:
            group.append(self._waiting.popleft())
        try:
            self._commit(group)
        except Exception as error:
            failure = self._translate(error)
            for ticket in group:
                ticket.error = ticket.error or failure
        except BaseException:
            # An interrupt is this thread's alone: the others run their work again, unless the commit took effect.
            if not self._has_committed():
                others = [ticket for ticket in group if ticket is not mine]
                for ticket in others:
                    ticket.forget()
                self._waiting.extendleft(reversed(others))
                group = [mine]
            raise
        finally:
            for ticket in group:
                ticket.done = True

    def _reach(self, edge: str) -> None:
        """Tell who tests what a crash at this point leaves behind."""
        if self.on_edge is not None:
            self.on_edge(edge)
