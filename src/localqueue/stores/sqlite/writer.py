"""The one write connection of a store.

A thread that finds the lock free runs its work alone. The others are grouped, each in its own savepoint.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from localqueue.stores.group import GroupWriter, Ticket
from localqueue.stores.sqlite.errors import closed, translate

T = TypeVar("T")
Execute = Callable[..., sqlite3.Cursor]
Work = Callable[[Execute, float], T]


def _unseen(edge: str) -> None:
    """For a writer whose transactions no test watches."""


class Unwritable:
    """Stands for the writer of a store that was opened to look."""

    def __init__(self, refuse: Callable[[], None]) -> None:
        self.run = self.one = lambda work: refuse()


class Writer(GroupWriter):
    """Runs work in write transactions: all of one piece of work is applied, or nothing of it.

    Driver errors come out as store errors, except `sqlite3.IntegrityError`, which the work foresees.
    """

    def __init__(self, connection: sqlite3.Connection, *, path: str, clock: Callable[[], float]) -> None:
        super().__init__()
        self.connection = connection
        self.execute: Execute = connection.cursor().execute  # one cursor for all: it is used under the lock only
        self._path = path
        self._clock = clock
        self._closed = False
        self._committed = False

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
        return self._run(Ticket(work))

    def _run_alone(self, work: Work[T]) -> T:
        try:
            return self._transact(work)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def _transact(self, work: Work[T]) -> T:
        edge = self.on_edge or _unseen
        begun = self._committed = False
        if self._closed:
            raise closed(self._path)
        try:
            self.execute("BEGIN IMMEDIATE")
            begun = True
            now = self._clock()
            edge("begun")
            value = work(self.execute, now)
            edge("applied")
            self.execute("COMMIT")
            edge("committed")
            return value
        except BaseException:
            self._committed = begun and not self.connection.in_transaction
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self.connection.close()

    def _commit(self, group: list[Ticket[Any]]) -> None:
        self._transact(lambda execute, now: self._apply(group, now))

    def _has_committed(self) -> bool:
        return self._committed

    def _translate(self, error: Exception) -> Exception:
        return translate(error, self._path) if isinstance(error, sqlite3.Error) else error

    def _apply(self, group: list[Ticket[Any]], now: float) -> None:
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
