"""The `psycopg` package, imported when a store is opened, and its errors turned into ours."""

from __future__ import annotations

from functools import cache
from typing import Any

from localqueue.errors import (
    IdTaken,
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
    QueueStoreUnavailableError,
)
from localqueue.stores import refusals
from localqueue.stores.address import Address

#: Raised by our own functions when there is more to do than they do.
_MORE_TO_DO = "LQ001"

#: The statement was rolled back whole because of what others did at the same time: it can be tried again.
_TRY_AGAIN = {"40001", "40P01"}
_NO_ROOM = {"53000", "53100", "53200"}
_LOCK_TIMEOUT = "55P03"
_READ_ONLY = {"25006"}
_TOO_MANY = "53300"
_IDLE_TOO_LONG = "25P03"
_STATEMENT_GONE = {"26000", "42P05"}  # a prepared statement is not there, or is there already


class MoreToDo(Exception):
    """One of our functions left something to the long way, and did nothing."""


@cache
def load() -> Any:
    return refusals.load_driver("PostgreSQL", "postgres", "psycopg")


def sqlstate(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or getattr(getattr(error, "diag", None), "sqlstate", None) or ""


def is_retryable(error: BaseException) -> bool:
    """Whether a deadlock or a conflict with others rolled the transaction back."""
    return sqlstate(error) in _TRY_AGAIN


def is_lock_timeout(error: BaseException) -> bool:
    return sqlstate(error) == _LOCK_TIMEOUT


def is_broken(error: BaseException) -> bool:
    """Whether the connection it came over is of no use any more: the server has not said what was wrong."""
    if isinstance(error, load().Error):
        return not sqlstate(error) or is_lost(error)
    return not isinstance(error, Exception)


def is_dedupe_key_taken(error: BaseException) -> bool:
    return _constraint_of(error) == "lq_messages_dedupe"


def _constraint_of(error: BaseException) -> str:
    """The constraint or unique index that was violated."""
    return getattr(getattr(error, "diag", None), "constraint_name", None) or ""


def is_lost(error: BaseException) -> bool:
    """Whether the server went away, as opposed to having refused something."""
    state = sqlstate(error)
    if state:
        return state.startswith(("08", "57P")) or state == _IDLE_TOO_LONG
    return type(error).__name__ in ("OperationalError", "InterfaceError", "ConnectionTimeout")


def parameters_of(address: Address) -> dict[str, Any]:
    """What the driver reads in an address."""
    psycopg = load()
    try:
        found: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(address.url)
        return found
    except (psycopg.Error, ValueError) as error:
        refused = address.unreadable(error, "postgresql://user@host:5432/database")
    raise refused


def behind_a_pooler(url: str, said: str) -> str:
    return (
        f"PostgreSQL queue store at {url!r} seems to be behind a pooler in transaction mode, such as PgBouncer, which "
        "gives each transaction another session: open the store with pooled=True, and with listen_url= for the server "
        f"itself ({said})"
    )


def translate(error: BaseException, url: str) -> Exception:
    """A driver's error as one that says what happened and the way out."""
    state, where = sqlstate(error), f"PostgreSQL queue store at {url!r}"
    said = " ".join(str(error).split())
    if state == _MORE_TO_DO:
        return MoreToDo(said)
    if _constraint_of(error) in ("lq_messages_pkey", "lq_attempts_pkey"):
        return IdTaken("a message id of this commit is in use")
    if state in _NO_ROOM:
        return QueueStoreFullError(f"{where} has no room: nothing was changed; free some space ({said})", path=url)
    if state in _READ_ONLY:
        return QueueStoreReadOnlyError(
            f"{where} is read-only, perhaps a standby: connect to the primary, with "
            f"target_session_attrs=read-write in the address ({said})",
            path=url,
        )
    if state == _LOCK_TIMEOUT:
        return QueueStoreLockedError(
            f"{where} is locked by another transaction for longer than timeout=; nothing was changed ({said})",
            path=url,
        )
    if state in _STATEMENT_GONE or "startup parameter" in said:
        return QueueStoreError(behind_a_pooler(url, said), path=url)
    if state == _TOO_MANY or is_lost(error):
        return QueueStoreUnavailableError(
            f"{where} can not be reached, or went away during the call ({said})", path=url
        )
    if state.startswith("22") or (not state and type(error).__name__ == "DataError"):
        return ValueError(f"{where} can not store this value: {said}")
    if state in ("42P01", "3F000", "42883"):
        return QueueStoreError(
            f"{where} lacks a table or function of ours: it was removed, or it belongs to another release ({said})",
            path=url,
        )
    if state == "42501":
        return QueueStoreError(f"{where} does not let this user do that: grant it the right ({said})", path=url)
    return QueueStoreError(f"{where} failed: {said}", path=url)
