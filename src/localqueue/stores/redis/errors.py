"""The exceptions of the port: for what the server answers with, and for what a function refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localqueue.errors import (
    IdTaken,
    LeaseLost,
    QueueError,
    QueueFull,
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
    QueueStoreUnavailableError,
)
from localqueue.stores import refusals
from localqueue.stores.port import Changes, NewMessage
from localqueue.stores.redis.privileges import denied, word_of

KeyOf = Callable[[str], bytes]

#: Answers of a server that has not executed the command but may in a moment.
PASSING = frozenset({"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN"})

#: The driver takes the code from the text of those it has a class for.
_CODES = {
    "AskError": "ASK",
    "AuthenticationError": "NOAUTH",
    "BusyLoadingError": "LOADING",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
    "NoPermissionError": "NOPERM",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}


class Refused(Exception):
    """The function changed nothing; `name` is that of the exception it asks for."""

    def __init__(self, name: str, details: list[Any]) -> None:
        super().__init__(name, *details)
        self.name = name
        self.details = details


def code_of(error: Exception) -> str:
    """The code of an error that the server answered with."""
    return _CODES.get(type(error).__name__) or str(error).partition(" ")[0]


def is_passing(error: Exception) -> bool:
    """Whether there may be another answer to the same command: in a moment, elsewhere, or with our functions loaded."""
    return code_of(error) in (*PASSING, "MOVED", "ASK") or "Function not found" in str(error)


def translate(error: Exception, url: str) -> QueueStoreError:
    """What the caller gets for an error that the server answered with."""
    code = code_of(error)
    if code == "OOM":
        return QueueStoreFullError(
            f"the Redis server at {url} has used up its maxmemory and nothing was stored; raise it or drain a queue: "
            f"{error}",
            path=url,
        )
    if code in ("READONLY", "NOREPLICAS"):
        return QueueStoreReadOnlyError(
            f"the Redis server at {url} takes no writes, it is a replica or has none: connect to the primary: {error}",
            path=url,
        )
    if code == "MISCONF":
        return QueueStoreFullError(
            f"the Redis server at {url} can not write to its disk and takes no changes: {error}", path=url
        )
    if code == "BUSY":
        return QueueStoreLockedError(
            f"the Redis server at {url} is kept busy by a script or function; end it with FUNCTION KILL: {error}",
            path=url,
        )
    if code in PASSING or code in ("MOVED", "ASK"):
        return unavailable(url, error)
    if code == "NOPERM":
        return denied(url, [word_of(str(error))])
    if code == "NOAUTH":
        return QueueStoreError(f"the Redis server at {url} refuses this user: {error}", path=url)
    return QueueStoreError(f"the Redis server at {url} answered: {error}", path=url)


def unavailable(url: str, error: BaseException) -> QueueStoreUnavailableError:
    return QueueStoreUnavailableError(
        f"the Redis server at {url} can not be reached or went away: {str(error) or type(error).__name__}", path=url
    )


def explain(refused: Refused, changes: Changes, key_of: KeyOf, name_of: Callable[[bytes], str]) -> QueueError:
    """What a refused commit raises; the function says which part of it was refused, the rest is known here."""
    details = refused.details
    match refused.name:
        case "LeaseLost":
            stale = changes.settle[details[0] - 1]
            return LeaseLost(stale.queue, stale.id, stale.token)
        case "RecordConflict":
            return refusals.record_conflict(changes.records[details[0] - 1], int.from_bytes(details[1]))
        case "QueueFull":
            queue = _message(changes, details[0], key_of).queue
            return QueueFull(queue, changes.limits[queue].maxsize)
        case "IdTaken":
            why = "is in use" if len(details) < 2 else "is in use, or its queue has had a newer one"
            return IdTaken(f"message id {_message(changes, details[0], key_of).id} {why}")
        case "RunCancelled":
            return refusals.run_cancelled(_message(changes, details[0], key_of).run_id)
        case "UnknownMessage":
            which = _upstream(changes, details[0], details[1], key_of)
            return refusals.removed(which) if details[1] else refusals.never_put(which)
        case "Forgotten":
            return refusals.forgotten(_upstream(changes, details[0], details[1], key_of))
        case "NotWaiting":
            return refusals.not_waiting(changes.edges[details[0] - 1], details[1].decode())
        case "CircularDependency":
            return refusals.circular(changes.edges[details[0] - 1])
        case "SubscriptionsChanged":
            return refusals.subscriptions_changed(name_of(details[0]))
    raise refused


def _message(changes: Changes, key: bytes, key_of: KeyOf) -> NewMessage:
    return next(message for message in changes.enqueue if key_of(message.id) == key)


def _upstream(changes: Changes, dependent: bytes, upstream: bytes, key_of: KeyOf) -> str:
    """Which upstream it was: one that is no id of ours, or one that is gone."""
    named = [one for message in changes.enqueue if key_of(message.id) == dependent for one in message.after]
    named += [edge.upstream for edge in changes.edges if key_of(edge.dependent) == dependent]
    return next((one for one in named if key_of(one) == upstream), "")
