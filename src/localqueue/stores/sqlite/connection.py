"""Opening a SQLite file, and turning the driver's errors into ours.

SQLite waits for a lock by itself, with sleeps that grow from 1 to 100 ms. Shorter pauses in Python were tried under
eight processes on two cores and brought nothing.
"""

from __future__ import annotations

import errno
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from localqueue.errors import (
    QueueStoreCorruptError,
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
)

T = TypeVar("T")

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}

# SQLite tells a full disk from other failed writes only for ENOSPC; a quota or a file size limit ends up here.
_UNWRITABLE = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
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
    connection = sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False, cached_statements=256
    )
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
            connection.execute("PRAGMA wal_autocheckpoint = 10000")
            connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def register_clock(connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
    """Give a connection, unless it has it, the function by which the triggers of the journal tell the store's time."""
    try:
        connection.execute("SELECT localqueue_now()").fetchone()
    except sqlite3.OperationalError:
        connection.create_function("localqueue_now", 0, clock)


def is_busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


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


def locked(path: str, timeout: float) -> QueueStoreLockedError:
    return QueueStoreLockedError(
        f"SQLite queue store at {path!r} is locked by another process and did not become free in {timeout:g} s; "
        "stop the competing process, use a different store_path, or open the store with a longer timeout",
        path=path,
    )


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raises the driver's errors as store errors that name the file and the way out."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error, path: str) -> QueueStoreError:
    extended = getattr(error, "sqlite_errorcode", 0) or 0
    code = extended & 0xFF
    where = f"SQLite queue store at {path!r}"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return QueueStoreLockedError(
            f"{where} is locked by another process; stop the competing process, use a different store_path, or open "
            "the store with a longer timeout",
            path=path,
        )
    if code == sqlite3.SQLITE_FULL or extended in _UNWRITABLE:
        return QueueStoreFullError(
            f"{where} is full or can not be written ({error}): nothing was changed; free some disk space, or raise the "
            "quota or file size limit, and try again",
            path=path,
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return QueueStoreReadOnlyError(
            f"{where} is read-only: give this user write access to the file, its -wal and -shm files and its directory",
            path=path,
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return QueueStoreCorruptError(
            f"{where} is damaged or is not a SQLite database ({error}); restore a backup or move the file away",
            path=path,
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return QueueStoreError(
            f"{where} can not be opened: check that the directory exists and that this user may use it", path=path
        )
    return QueueStoreError(f"{where} failed: {error}", path=path)


def make_parent(path: str) -> None:
    """Make the directory of a store file."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        kind = QueueStoreReadOnlyError if error.errno in (errno.EACCES, errno.EROFS) else QueueStoreError
        raise kind(f"SQLite queue store at {path!r} can not be opened: {error}", path=path) from error
