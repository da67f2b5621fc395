"""The errors of the `lmdb` package as ours."""

from __future__ import annotations

import errno
import os

from localqueue.errors import (
    QueueStoreCorruptError,
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
    QueueStoreVersionError,
)


def locked(path: str) -> QueueStoreLockedError:
    return QueueStoreLockedError(
        f"LMDB queue store at {path!r} is locked by another process; "
        "use a different store_path/db path or stop the competing process",
        path=path,
    )


#: What an error of the driver means to us, by the name of its class: the driver may not be installed.
_MEANING: dict[str, tuple[type[QueueStoreError], str]] = {
    "MapFullError": (
        QueueStoreFullError,
        "is full or can not be written: nothing was changed; free some space and try again",
    ),
    "TxnFullError": (QueueStoreFullError, "can not take a commit this large: nothing was changed; split it"),
    "ReadonlyError": (QueueStoreReadOnlyError, "is read-only: give this user write access to the directory"),
    "InvalidError": (QueueStoreCorruptError, "is damaged or not an LMDB store; restore a backup or move it away"),
    "CorruptedError": (QueueStoreCorruptError, "is damaged; restore a backup"),
    "PageNotFoundError": (QueueStoreCorruptError, "is damaged; restore a backup"),
    "VersionMismatchError": (QueueStoreVersionError, "was written by another version of LMDB"),
    "ReadersFullError": (QueueStoreError, "has too many readers at once; close some of the processes that use it"),
}


# LMDB reports a write that the system cut short, which is how a disk runs full, as an input/output error.
_NO_ROOM_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_NO_ROOM = tuple(os.strerror(code) for code in _NO_ROOM_CODES)


def is_full(error: Exception) -> bool:
    return getattr(error, "errno", None) in _NO_ROOM_CODES or any(text in str(error) for text in _NO_ROOM)


def translate(error: Exception, path: str) -> QueueStoreError:
    """A driver's error (or one of the operating system while opening) as a store error that says the way out."""
    name = type(error).__name__
    where = f"LMDB queue store at {path!r}"
    code = getattr(error, "errno", None)
    if name == "LockError":
        return locked(path)
    if code in (errno.EACCES, errno.EPERM, errno.EROFS) or os.strerror(errno.EROFS) in str(error):
        name = "ReadonlyError"
    elif is_full(error):
        name = "MapFullError"
    kind, meaning = _MEANING.get(name, (QueueStoreError, "failed"))
    return kind(f"{where} {meaning} ({error})", path=path)
