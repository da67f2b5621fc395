"""The `redis` package, imported when a store is opened, and the errors of the server turned into ours."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from localqueue.errors import (
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
    QueueStoreUnavailableError,
)


class ServerError(Exception):
    """An error that the server answered with. The command was not executed, unless a function failed halfway."""

    @property
    def code(self) -> str:
        return str(self.args[0]).partition(" ")[0]

    @property
    def text(self) -> str:
        return str(self.args[0])


#: Answers of a server that has not executed the command but may in a moment.
PASSING = frozenset({"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN"})


def load() -> Any:
    """The driver, or a `RuntimeError` that says how to install it."""
    try:
        import redis
    except ImportError as error:
        raise RuntimeError(
            'Redis support requires the optional dependency; install with `pip install "localqueue[redis]"`'
        ) from error
    return redis


def without_password(url: str) -> str:
    """The address for messages: a user stays, a password or a secret in the query does not."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return f"{parts.scheme}://{name + at if name else ''}{host}{parts.path}"


def translate(error: ServerError, url: str) -> QueueStoreError:
    code = error.code
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
    if code in ("NOAUTH", "WRONGPASS", "NOPERM"):
        return QueueStoreError(f"the Redis server at {url} refuses this user: {error}", path=url)
    return QueueStoreError(f"the Redis server at {url} answered: {error}", path=url)


def unavailable(url: str, error: BaseException) -> QueueStoreUnavailableError:
    return QueueStoreUnavailableError(
        f"the Redis server at {url} can not be reached or went away: {str(error) or type(error).__name__}", path=url
    )
