"""The driver's errors as ours, each with the file and the way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from localqueue.errors import (
    QueueStoreClosedError,
    QueueStoreCorruptError,
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
)

# SQLite tells a full disk from other failed writes only for ENOSPC; a quota or a file size limit ends up here.
_UNWRITABLE = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)


def is_busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def locked(path: str, timeout: float) -> QueueStoreLockedError:
    return QueueStoreLockedError(
        f"SQLite queue store at {path!r} is locked by another process and did not become free in {timeout:g} s; "
        "stop the competing process, use a different store_path, or open the store with a longer timeout",
        path=path,
    )


def closed(path: str) -> QueueStoreClosedError:
    return QueueStoreClosedError(f"the store at {path!r} is closed", path=path)


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
