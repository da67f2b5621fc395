"""The driver's errors as ours, each with the file and the way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from localqueue.errors import (
    QueueError,
    QueueStoreClosedError,
    QueueStoreCorruptError,
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
)

#: What the driver raises; the second where it can not read what SQLite has to say of a damaged file.
DRIVER = (sqlite3.Error, UnicodeDecodeError)

#: What Python raises when a row is not what it should be.
UNFORESEEN = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError, MemoryError)

# SQLite tells a full disk from other failed writes only for ENOSPC; a quota or a file size limit ends up here.
_UNWRITABLE = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)


# What SQLite says where a table, a trigger or a text of ours is not as we left it.
_NOT_OURS = (
    "no such table", "no such column", "no such index", "has no column", "duplicate column", "already exists",
    "because it is a view", "decode to UTF-8", "can't decode byte",
)  # fmt: skip
_BY_KEY = ("lq_messages.", "lq_attempts.")

_CLOSED = "Cannot operate on a closed database."  # by another thread, just now


def is_busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_taken(error: sqlite3.Error) -> bool:
    """Whether a message has the same key already, or its queue a newer one; another key might be free. Any other
    conflict would come again."""
    code = getattr(error, "sqlite_errorcode", None)
    by_key = code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY and any(table in str(error) for table in _BY_KEY)
    return by_key or (code == sqlite3.SQLITE_CONSTRAINT_TRIGGER and str(error) == "late")


def is_full(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF == sqlite3.SQLITE_FULL or code in _UNWRITABLE


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
    except DRIVER as error:
        raise translate(error, path) from error


def translate(error: Exception, path: str) -> QueueStoreError:
    extended = getattr(error, "sqlite_errorcode", 0) or 0
    code = extended & 0xFF
    where = f"SQLite queue store at {path!r}"
    said = str(error).partition(" with text ")[0]  # the driver shows a text that it can not read: it may be a payload
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return QueueStoreLockedError(
            f"{where} is locked by another process; stop the competing process, use a different store_path, or open "
            "the store with a longer timeout",
            path=path,
        )
    if said == _CLOSED:
        return closed(path)
    if is_full(error):
        return QueueStoreFullError(
            f"{where} is full or can not be written ({said}): nothing was changed; free some disk space, or raise the "
            "quota or file size limit, and try again",
            path=path,
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return QueueStoreReadOnlyError(
            f"{where} is read-only: give this user write access to the file, its -wal and -shm files and its directory",
            path=path,
        )
    if code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH) or any(text in said for text in _NOT_OURS):
        return QueueStoreCorruptError(
            f"{where} is not as localqueue made it ({said}): nothing was changed; restore a backup", path=path
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return QueueStoreCorruptError(
            f"{where} is damaged or is not a SQLite database ({said}); restore a backup or move the file away",
            path=path,
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return QueueStoreError(
            f"{where} can not be opened: check that the directory exists and that this user may use it", path=path
        )
    return QueueStoreError(f"{where} failed: {said}", path=path)


def raise_explained(error: Exception, connection: sqlite3.Connection, path: str) -> NoReturn:
    reason = explained(error, connection, path)
    if reason is error:
        raise error
    raise reason from error


def explained(error: Exception, connection: sqlite3.Connection, path: str) -> Exception:
    """The error, or that the file is damaged where what it holds explains an error that nobody foresaw."""
    if isinstance(error, QueueError):
        return error
    from localqueue.stores.sqlite.check import content_problems  # which a store that is sound never needs

    try:
        problems = content_problems(connection)
    except DRIVER as failure:
        return translate(failure, path)
    if not problems:
        return error
    return QueueStoreCorruptError(
        f"SQLite queue store at {path!r} holds what localqueue did not write ({problems[0]}): check() tells all of it, "
        "restore a backup",
        path=path,
    )
