"""The one write connection of a store, and the grouping of commits.

A thread that finds the lock free runs its work alone. The others hang up a ticket and wait for the lock; whoever gets
it runs every ticket that is waiting, each in its own savepoint, and commits once: with `durability="power"` that is one
fsync for all of them.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from localqueue.stores.sqlite.errors import closed, translate

T = TypeVar("T")
Execute = Callable[..., sqlite3.Cursor]
Work = Callable[[Execute, float], T]

_MOST_IN_A_GROUP = 128


def _unseen(edge: str) -> None:
    """For a writer whose transactions no test watches."""


class _Ticket(Generic[T]):
    __slots__ = ("done", "error", "value", "work")

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.done = False
        self.error: BaseException | None = None
        self.value: T | None = None


class Unwritable:
    """Stands for the writer of a store that was opened to look."""

    def __init__(self, refuse: Callable[[], None]) -> None:
        self.run = self.one = lambda work: refuse()


class Writer:
    """Runs work in write transactions: all of one piece of work is applied, or nothing of it.

    Driver errors come out as store errors, except `sqlite3.IntegrityError`, which the work foresees.
    """

    def __init__(self, connection: sqlite3.Connection, *, path: str, clock: Callable[[], float]) -> None:
        self.lock = threading.Lock()
        self.connection = connection
        self.execute: Execute = connection.cursor().execute  # one cursor for all: it is used under the lock only
        self.on_edge: Callable[[str], None] | None = None
        self._path = path
        self._clock = clock
        self._waiting: deque[_Ticket[Any]] = deque()
        self._closed = False
        self._begun = False

    def one(self, work: Work[T]) -> T:
        """Run work of which a single statement writes, which is a transaction without our saying so."""
        if self.on_edge is None and self.lock.acquire(False):
            try:
                return work(self.execute, 0.0)
            except sqlite3.Error as error:
                raise self._failure(error) from error
            finally:
                self.lock.release()
        return self.run(work)

    def _failure(self, error: sqlite3.Error) -> Exception:
        if self._closed:
            return closed(self._path)
        return error if isinstance(error, sqlite3.IntegrityError) else translate(error, self._path)

    def run(self, work: Work[T]) -> T:
        if self.lock.acquire(False):
            try:
                return self._run_alone(work)
            finally:
                self.lock.release()
        ticket: _Ticket[T] = _Ticket(work)
        try:
            self._waiting.append(ticket)
            with self.lock:
                if not ticket.done:
                    self._lead(ticket)
        except BaseException:
            with suppress(ValueError):  # nobody may run it any more
                self._waiting.remove(ticket)
            raise
        if ticket.error is not None:
            raise ticket.error
        return cast("T", ticket.value)

    def _run_alone(self, work: Work[T]) -> T:
        try:
            return self._transact(work)
        except sqlite3.Error as error:
            self._undo()
            raise self._failure(error) from error
        except BaseException:
            self._undo()
            raise

    def _transact(self, work: Work[T]) -> T:
        edge = self.on_edge or _unseen
        self._begun = False
        if self._closed:
            raise closed(self._path)
        self.execute("BEGIN IMMEDIATE")
        self._begun = True
        now = self._clock()
        edge("begun")
        value = work(self.execute, now)
        edge("applied")
        self.execute("COMMIT")
        edge("committed")
        return value

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self.connection.close()

    def _lead(self, mine: _Ticket[Any]) -> None:
        group: list[_Ticket[Any]] = []
        while self._waiting and len(group) < _MOST_IN_A_GROUP:
            group.append(self._waiting.popleft())
        try:
            self._transact(lambda execute, now: self._apply(group, now))
        except Exception as error:
            self._undo()
            failure = translate(error, self._path) if isinstance(error, sqlite3.Error) else error
            for ticket in group:
                ticket.error = ticket.error or failure
        except BaseException:
            # An interrupt is this thread's alone: the others run their work again, unless the COMMIT took effect.
            if self.connection.in_transaction or not self._begun:
                self._undo()
                others = [ticket for ticket in group if ticket is not mine]
                for ticket in others:
                    ticket.error = ticket.value = None
                self._waiting.extendleft(reversed(others))
                group = [mine]
            raise
        finally:
            for ticket in group:
                ticket.done = True

    def _apply(self, group: list[_Ticket[Any]], now: float) -> None:
        execute = self.execute
        for ticket in group:
            execute("SAVEPOINT ticket")
            try:
                ticket.value = ticket.work(execute, now)
            except sqlite3.OperationalError:
                raise
            except Exception as error:
                ticket.error = self._failure(error) if isinstance(error, sqlite3.Error) else error
                execute("ROLLBACK TO ticket")
            execute("RELEASE ticket")

    def _undo(self) -> None:
        if not self._closed and self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
