"""The `pymongo` package, or how to install it, and its errors turned into ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from localqueue.errors import (
    PayloadError,
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
    QueueStoreUnavailableError,
)
from localqueue.stores import refusals
from localqueue.stores.address import Address

try:
    import pymongo
    from bson.errors import BSONError
    from pymongo import errors
except ImportError as missing:
    raise ImportError(
        'MongoDB support requires the optional dependency; install with `pip install "localqueue[mongodb]"`'
    ) from missing

DUPLICATE = 11000
REJECTED = 121  # by the validator that guards journalled namespaces, see journal.py
_BARRED = 14  # by the barrier of a paused queue, see gate.py

_UNAUTHORIZED = (13, 18)
_READ_ONLY = (20, 10107, 13435)
_FULL = (14031, 1300, 12501)
_TRANSACTION_TOO_LARGE = (388, 290)  # for the cache as it is, or at all
_TOO_LARGE = (10334, 17280, 17419, 17420)
_TIMED_OUT = (50, 202, 262)
_CONFLICTS = (112, 24, 246, 251, 225)
_AWAY = (6, 7, 43, 64, 89, 91, 94, 133, 134, 175, 189, 211, 237, 9001, 10107, 11600, 11601, 11602, 13435, 13436)

# What a server says, and the driver of one, while it starts and does not know yet that it is part of a replica set.
_STARTING = ("Transaction numbers are only allowed", "does not support retryable writes", "Sessions are not supported")
_PASSING = ("TransientTransactionError", "RetryableWriteError", "UnknownTransactionCommitResult")


def _details(error: BaseException) -> Any:
    """What the server says about an error, also where the driver wraps it in the report of a bulk write."""
    details = getattr(error, "details", None) or {}
    return (details.get("writeErrors") or details.get("writeConcernErrors") or [details])[0]


def code_of(error: BaseException) -> int | None:
    code: int | None = _details(error).get("code", getattr(error, "code", None))
    return code


def index_of(error: BaseException) -> dict[str, Any]:
    """The fields of the index in which a duplicate was found."""
    found: dict[str, Any] = _details(error).get("keyPattern") or {}
    return found


def is_conflict(error: BaseException) -> bool:
    """Whether a transaction failed because of another one, so that nothing of it was applied."""
    return code_of(error) in _CONFLICTS


class Barred(QueueStoreError):
    """A claim met the barrier of a pause."""


class Refused(QueueStoreError):
    """An index or the validator of the journal was in the way of a write."""

    def __init__(self, error: BaseException, url: str) -> None:
        super().__init__(f"MongoDB queue store at {url}: {error}", path=url)
        self.code, self.index = code_of(error), index_of(error)


class Crowded(QueueStoreFullError):
    """A write does not fit into the server's cache beside what is there now."""


def translate(error: Exception, address: Address) -> Exception:
    """A driver's error as one of ours that says the way out. Neither shows a password afterwards."""
    address.cleanse(error)
    url = address.shown
    where = f"MongoDB queue store at {url}"
    code = code_of(error)
    if code in (DUPLICATE, REJECTED):
        return Refused(error, url)
    if code == _BARRED:
        return Barred(f"{where}: {error}", path=url)
    if isinstance(error, errors.DocumentTooLarge) or code in _TOO_LARGE or "BSONObjectTooLarge" in str(error):
        return PayloadError(f"a message is larger than the 16 MB that MongoDB stores in one document ({error})")
    if isinstance(error, BSONError):
        return PayloadError(f"MongoDB can not store this value: {error}")
    if isinstance(error, errors.InvalidOperation) and "close" in str(error):
        return refusals.closed(url)
    if code in _UNAUTHORIZED:
        return QueueStoreError(f"{where}: the user may not do this; grant it readWrite and dbAdmin ({error})", path=url)
    if code in _TRANSACTION_TOO_LARGE:
        return Crowded(
            f"{where}: a commit this large does not fit into the server's cache; nothing was changed, split it, or "
            f"give mongod more with --wiredTigerCacheSizeGB ({error})",
            path=url,
        )
    if code in _FULL or "No space left" in str(error):
        return QueueStoreFullError(f"{where} is full: nothing was changed; free some space ({error})", path=url)
    if code in _CONFLICTS:
        return QueueStoreLockedError(f"{where}: other transactions were in the way for too long ({error})", path=url)
    if isinstance(error, errors.ConnectionFailure) or code in _AWAY or code in _TIMED_OUT or _is_passing(error):
        return QueueStoreUnavailableError(f"{where} does not answer: {_briefly(error)}", path=url)
    if code in _READ_ONLY:
        return QueueStoreReadOnlyError(f"{where} is read-only: name the primary in the url ({error})", path=url)
    if getattr(error, "timeout", False) is True:
        return QueueStoreUnavailableError(f"{where} does not answer in time: {_briefly(error)}", path=url)
    return QueueStoreError(f"{where}: {error}", path=url)


def _is_passing(error: Exception) -> bool:
    """Whether the same may well succeed when it is tried again."""
    labels = isinstance(error, errors.PyMongoError) and any(map(error.has_error_label, _PASSING))
    return labels or any(words in str(error) for words in _STARTING)


def unreadable(error: Exception, address: Address) -> Exception:
    """What a client refuses when it is made: an address, or one whose name could not be looked up."""
    if error.__cause__ is not None:  # the error of the name server
        return translate(error, address)
    return address.unreadable(error, "mongodb://host:27017/database")


@contextmanager
def call(address: Address, timeout: float | None) -> Iterator[None]:
    """Around what goes to the server: it ends within a time, unless that is None, and its errors are ours."""
    try:
        with pymongo.timeout(timeout):
            yield
    except (errors.PyMongoError, BSONError) as error:
        raise translate(error, address) from error


def deadline(at: float) -> AbstractContextManager[None]:
    """Bound the calls inside by a moment of the monotonic clock."""
    return pymongo.timeout(max(0.001, at - time.monotonic()))


def locked(url: str) -> QueueStoreLockedError:
    return QueueStoreLockedError(
        f"MongoDB queue store at {url}: other transactions were in the way until the timeout; nothing was changed",
        path=url,
    )


def _briefly(error: BaseException) -> str:
    """What went wrong, without the driver's picture of the whole replica set behind it."""
    return str(error).split(", Timeout: ", 1)[0]
