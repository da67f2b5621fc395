"""The connections of a store: `Reader` looks, `Writer` (writer.py) writes, and those who wait look through a third.

SQLite waits for a lock by itself, with sleeps that grow from 1 to 100 ms. Shorter pauses in Python were tried under
eight processes on two cores and brought nothing.
"""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from localqueue.errors import QueueStoreError, QueueStoreReadOnlyError
from localqueue.stores.privacy import make_directory, make_file
from localqueue.stores.sqlite import space
from localqueue.stores.sqlite.errors import UNFORESEEN, closed, is_busy, locked, raise_explained, translate, translated

T = TypeVar("T")

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}

_PAUSE = 0.002


def connect(
    path: str,
    *,
    durability: str,
    timeout: float,
    recognise: Callable[[sqlite3.Connection], object] | None = None,
) -> sqlite3.Connection:
    """A connection in WAL mode, in autocommit, usable from any thread.

    `recognise` looks at the file before anything is changed, and raises when it is not ours.
    """
    connection = new_connection(path, timeout)
    try:
        with translated(path):
            if recognise is not None:
                patiently(lambda: recognise(connection), path, timeout)
            if path != ":memory:":
                mode = patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone(), path, timeout)
                if mode[0] != "wal":
                    raise QueueStoreError(
                        f"SQLite can not use write-ahead logging for {path!r} (it answered {mode[0]!r}): "
                        "put the file on a local disk",
                        path=path,
                    )
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {space.LOG_PAGES}")
            patiently(lambda: connection.execute(f"PRAGMA journal_size_limit = {space.LOG_SIZE}"), path, timeout)
            connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def new_connection(path: str, timeout: float, *, uri: bool = False) -> sqlite3.Connection:
    """A connection in autocommit, usable from any thread, to what is there or else will be."""
    return sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False, cached_statements=256, uri=uri
    )


def register_clock(connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
    """Give a connection, unless it has it, the function by which the triggers of the journal tell the store's time."""
    try:
        connection.execute("SELECT localqueue_now()").fetchone()
    except sqlite3.OperationalError:
        connection.create_function("localqueue_now", 0, clock)


def patiently(action: Callable[[], T], path: str, timeout: float) -> T:
    """Run `action` until the database is not locked, for at most `timeout` seconds.

    For what SQLite does not wait for by itself: switching to write-ahead logging, and reading a file that another
    process is just making.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if time.monotonic() >= deadline:
                raise locked(path, timeout) from error
        time.sleep(_PAUSE * (0.5 + random.random()))


def make_place(path: str) -> None:
    """Make the file of a store and its directory. What SQLite makes beside it gets the mode of the file."""
    try:
        make_directory(os.path.dirname(path) or os.curdir)
        with suppress(PermissionError):  # which SQLite finds as well
            make_file(path)
    except OSError as error:
        kind = QueueStoreReadOnlyError if error.errno in (errno.EACCES, errno.EROFS) else QueueStoreError
        raise kind(f"SQLite queue store at {path!r} can not be opened: {error}", path=path) from error


class Reader:
    """Runs reads one at a time, on a connection of its own. A read of several statements sees one moment."""

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], path: str, lock: threading.Lock | None = None
    ) -> None:
        self.lock = lock or threading.Lock()
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._path = path
        self._closed = False

    def open(self) -> sqlite3.Connection:
        """The connection, made when it is first needed."""
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return self.read(lambda connection: at_one_moment(connection, work))

    def rows(self, statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        """The rows of a single statement, which sees one moment without our saying so."""
        return self.read(lambda connection: connection.execute(statement, parameters).fetchall())

    def one(self, statement: str, parameters: Any = ()) -> tuple[Any, ...] | None:
        found = self.rows(statement, parameters)
        return found[0] if found else None

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work of which a single statement reads."""
        with self.lock:
            self.require_open()
            connection = self.open()
            try:
                return work(connection)
            except sqlite3.Error as error:
                raise translate(error, self._path) from error
            except UNFORESEEN as error:
                raise_explained(error, connection, self._path)

    def require_open(self) -> None:
        if self._closed:
            raise closed(self._path)

    def let_go(self) -> None:
        """Close what is kept open; the next read opens it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self.let_go()


def at_one_moment(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    try:
        connection.execute("BEGIN")
        found = work(connection)
        connection.execute("COMMIT")
        return found
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
