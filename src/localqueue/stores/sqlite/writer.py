"""The one write connection of a store.

A thread that finds the lock free runs its work alone. The others are grouped, each in its own savepoint.

The time that work is told is read when nothing is left to wait for. So a statement that is a transaction of its own
does not wait for another process: where there is one, it becomes a transaction that takes the lock first.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, repeat
from typing import Any, TypeVar

from localqueue.stores.group import GroupWriter, Ticket
from localqueue.stores.room import PLENTY
from localqueue.stores.sqlite.errors import (
    UNFORESEEN,
    closed,
    explained,
    is_busy,
    is_full,
    is_taken,
    raise_explained,
    translate,
)
from localqueue.stores.sqlite.space import Space

T = TypeVar("T")
Execute = Callable[..., sqlite3.Cursor]
Work = Callable[[Execute, float], T]

# Seconds before the lock is asked for again: SQLite's own at first, but never longer than the last of them.
_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025)
LONGEST_PAUSE = _PAUSES[-1]


def _unseen(edge: str) -> None:
    """For a writer whose transactions no test watches."""


class Unwritable:
    """Stands for the writer of a store that was opened to look."""

    def __init__(self, refuse: Callable[[], None]) -> None:
        self.run = self.one = lambda work: refuse()
        self.is_ample = lambda size: True


class Writer(GroupWriter):
    """Runs work in write transactions: all of one piece of work is applied, or nothing of it.

    Driver errors come out as store errors, except that a key is taken, which the work foresees.
    """

    def __init__(
        self, connection: sqlite3.Connection, *, path: str, clock: Callable[[], float], timeout: float
    ) -> None:
        super().__init__()
        self.connection = connection
        self.execute: Execute = connection.cursor().execute  # one cursor for all: it is used under the lock only
        self._path = path
        self._clock = clock
        self._timeout = timeout
        connection.execute("PRAGMA busy_timeout = 0").fetchall()
        self._closed = False
        self._committed = False
        self._until_tidy = 1
        self.space = None if path == ":memory:" else Space(connection, path)
        self.entrance = threading.Lock()  # of those who put when the disk is nearly full, before that of the writer

    def one(self, work: Work[T]) -> T:
        """Run work of which a single statement writes, which is a transaction without our saying so."""
        if self.on_edge is None and self.lock.acquire(False):
            try:
                value = work(self.execute, self._clock())
                self._until_tidy -= 1
                if not self._until_tidy:
                    self._tidy()
                return value
            except sqlite3.Error as error:
                if not is_busy(error) and not is_full(error):
                    raise self._failure(error) from error
            except UNFORESEEN as error:
                raise_explained(error, self.connection, self._path)
            finally:
                self.lock.release()
        return self.run(work)

    def is_ample(self, size: int) -> bool:
        """Whether the disk has so much room that this and what others put meanwhile is a small part of it."""
        if self.space is None or self.space.was_ample(size):
            return True
        with self.lock:
            try:
                return self.space.is_ample(size)
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def require_room(self, size: int, connection: sqlite3.Connection | None = None) -> None:
        """Refuse to put so much, unless there is room for it. Called inside of a transaction, so that nobody else puts
        into the same room."""
        if self.space is not None:
            self.space.require(size, connection or self.connection)

    def make_room(self, size: int) -> None:
        if self.space is not None:
            with self.lock, suppress(sqlite3.Error):
                self.space.make_room(size)

    def _tidy(self) -> None:
        self._until_tidy = PLENTY if self.space is None else self.space.tidy()

    def _failure(self, error: sqlite3.Error) -> Exception:
        if self._closed:
            return closed(self._path)
        return error if is_taken(error) else translate(error, self._path)

    def _reason(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error):
            return self._failure(error)
        return explained(error, self.connection, self._path) if isinstance(error, UNFORESEEN) else error

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
        except UNFORESEEN as error:
            raise_explained(error, self.connection, self._path)

    def _transact(self, work: Work[T]) -> T:
        """Again where the disk is full, once the log begins anew in the place that it has. Others who find it full do
        the same, and who reads is in the way of it: they are waited for as long as for the write lock."""
        deadline, anew = 0.0, 0
        for pause in chain(_PAUSES, repeat(LONGEST_PAUSE)):
            try:
                return self._try(work)
            except sqlite3.Error as error:
                if self.space is None or not is_full(error):
                    raise
                deadline = deadline or time.monotonic() + self._timeout
                anew += self.space.begin_log_anew()
                if anew > len(_PAUSES) or time.monotonic() >= deadline:
                    raise
            time.sleep(pause)
        raise AssertionError("the pauses do not end")

    def _try(self, work: Work[T]) -> T:
        edge = self.on_edge or _unseen
        begun = self._committed = False
        if self._closed:
            raise closed(self._path)
        try:
            self._begin()
            begun = True
            now = self._clock()
            edge("begun")
            value = work(self.execute, now)
            edge("applied")
            self.execute("COMMIT")
            edge("committed")
        except BaseException:
            self._committed = begun and not self.connection.in_transaction
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        self._until_tidy -= 1
        if self._until_tidy <= 0:
            self._tidy()
        return value

    def _begin(self) -> None:
        """Take the write lock, and wait for it as long as was asked for."""
        deadline = 0.0
        for pause in chain(_PAUSES, repeat(LONGEST_PAUSE)):
            try:
                self.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                now = time.monotonic()
                deadline = deadline or now + self._timeout
                if now >= deadline:
                    raise
            time.sleep(min(pause, deadline - now))

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self._tidy()
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
            ticket.forget()
            execute("SAVEPOINT ticket")
            try:
                ticket.value = ticket.work(execute, now)
            except sqlite3.OperationalError:
                raise
            except Exception as error:
                execute("ROLLBACK TO ticket")
                ticket.error = self._reason(error)
            execute("RELEASE ticket")
