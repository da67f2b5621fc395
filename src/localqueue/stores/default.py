"""The store of queues that were given none: what `configure` says, else the environment, else the user's SQLite file.

It is opened when a queue first needs it and shared by all queues of the process. What was configured before stays
open for the queues that use it, and is closed when the last of them is closed, or at the end of the process.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self

from localqueue._dataclass import dataclass, field
from localqueue.errors import QueueStoreError, QueueStoreMissingError
from localqueue.stores.port import QueueStore

if TYPE_CHECKING:
    # Addresses and paths are for queues that have no store and no file of their own.
    from pathlib import Path

_SERVERS = {
    "memory": "memory://",
    "pg": "postgresql://localhost:5432",
    "redis": "redis://localhost:6379/0",
    "mongodb": "mongodb://localhost:27017",
}
_VARIABLES = ("LOCALQUEUE_BACKEND", "LOCALQUEUE_URL", "LOCALQUEUE_NAMESPACE")


def data_directory() -> Path:
    """Where files live when nothing else is said: the XDG data directory."""
    from pathlib import Path

    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "localqueue"


def default_store_path() -> Path:
    """The SQLite file of queues that were given no store."""
    return data_directory() / "queue.sqlite3"


@dataclass(frozen=True, slots=True)
class Settings:
    """Which store, where. The address and the options may hold a password, which `repr` does not show."""

    url: str = field(repr=False)
    namespace: str = "default"
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(
        db_backend: str | None, url: str | None, namespace: str | None, options: Mapping[str, Any] | None = None
    ) -> Settings:
        """Settings that agree with each other, or ValueError."""
        from localqueue.stores.address import shown
        from localqueue.stores.url import BACKENDS, checked

        if db_backend is not None and db_backend not in BACKENDS:
            raise ValueError(f"db_backend must be one of {', '.join(BACKENDS)}, not {shown(str(db_backend))!r}")
        if namespace is not None and not isinstance(namespace, str):
            raise TypeError(f"namespace must be a string, not {namespace!r}")
        if namespace == "":
            raise ValueError("namespace cannot be empty")
        if url is None:
            url = _address(db_backend or "sqlite")
        else:
            found = checked(url)
            if db_backend is not None and found != db_backend:
                raise ValueError(
                    f"url= is the address of a {found!r} store and db_backend= says {db_backend!r}; leave one out"
                )
        return Settings(url, namespace or "default", dict(options or {}))

    def open(self, *, read_only: bool = False) -> QueueStore:
        from localqueue.stores.url import open_store

        return open_store(self.url, namespace=self.namespace, read_only=read_only, **self.options)


def _address(backend: str) -> str:
    if backend in _SERVERS:
        return _SERVERS[backend]
    from urllib.parse import quote

    path = default_store_path() if backend == "sqlite" else data_directory() / "queue.lmdb"
    return f"{backend}:///{quote(str(path))}"


def environment() -> tuple[str | None, str | None, str | None]:
    """What LOCALQUEUE_BACKEND, LOCALQUEUE_URL and LOCALQUEUE_NAMESPACE say; empty ones say nothing."""
    backend, url, namespace = (os.environ.get(name) or None for name in _VARIABLES)
    return backend, url, namespace


def from_environment() -> Settings | None:
    """The settings of the environment, or None when it has none."""
    found = environment()
    if not any(found):
        return None
    try:
        return Settings.of(*found)
    except ValueError as error:
        raise ValueError(f"{', '.join(name for name in _VARIABLES if os.environ.get(name))}: {error}") from None


class Shared:
    """The store of one configuration, opened on first use and counted by those who use it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._store: QueueStore | None = None
        self._users = 0
        self._retired = False
        self.is_lent = False

    @classmethod
    def lent(cls, store: QueueStore) -> Self:
        """A store that is open and belongs to whoever lends it."""
        one = cls(Settings(store.url, store.namespace))
        one._store, one.is_lent = store, True
        return one

    def store(self) -> QueueStore:
        """The store, without becoming a user of it."""
        with _lock:
            if self._store is None:
                self._store = self.settings.open()
                _open.append(self)
            return self._store

    def is_there(self) -> bool:
        """Whether opening it would make nothing."""
        if self._store is not None:
            return True
        try:
            self.settings.open(read_only=True).close()
        except QueueStoreMissingError:
            return False
        except QueueStoreError:  # which is said when it is opened
            return True
        return True

    def acquire(self) -> QueueStore:
        """The store, open until `release`."""
        with _lock:
            store = self.store()
            self._users += 1
            return store

    def release(self) -> None:
        with _lock:
            self._users -= 1
            self._close_if_unused()

    def retire(self) -> None:
        """No new queue will use it."""
        with _lock:
            self._retired = True
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._retired and self._users <= 0:
            self.close()

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            _open.remove(self)
            store.close()


class Tenant(Protocol):
    """Who has opened the store of the process."""

    def move_out(self) -> None:
        """Let go of it: the store of the process is another one from now on."""


_lock = threading.RLock()
_open: list[Shared] = []
_tenants: weakref.WeakSet[Tenant] = weakref.WeakSet()
_lent: Shared | None = None
_configured: Shared | None = None
_environment: Shared | None = None


def configure(
    db_backend: str | None = None, url: str | None = None, namespace: str | None = None, **options: Any
) -> None:
    """Say where queues of this process live that are given no store: `PersistentQueue("jobs")` is there from now on.

    `db_backend` is sqlite, lmdb, memory, pg, redis or mongodb; `url` alone says that too, and without it the store is
    at its usual place (the user's data directory, the standard port of this machine). `options` go to the store, as in
    `open_store`. The store is opened when a queue first needs it. Queues that have opened theirs keep it. Without any
    argument the environment decides again: LOCALQUEUE_BACKEND, LOCALQUEUE_URL, LOCALQUEUE_NAMESPACE.
    """
    global _configured
    wanted = db_backend is not None or url is not None or namespace is not None or options
    settings = Settings.of(db_backend, url, namespace, options) if wanted else None
    with _lock:
        before, _configured = _configured, None if settings is None else Shared(settings)
        if before is not None:
            before.retire()


def shared() -> Shared | None:
    """The store that is configured for this process, or None when queues live in their own default file."""
    global _environment
    with _lock:
        if _lent is not None:
            return _lent
        if _configured is not None:
            return _configured
        settings = from_environment()
        if _environment is not None and settings != _environment.settings:
            _environment.retire()
            _environment = None
        if settings is not None and _environment is None:
            _environment = Shared(settings)
        return _environment


def is_there() -> bool:
    """Whether the store of queues that were given none is there already."""
    store = shared()
    return os.path.lexists(default_store_path()) if store is None else store.is_there()


@contextmanager
def lend(store: QueueStore) -> Iterator[None]:
    """Make `store` that of the process until the block ends, whatever is configured before or meanwhile.

    Queues that were given no store move, also those that have opened one: into this store now, and out of it at the
    end. The store stays open; what was opened before is closed as if its queue had been.
    """
    global _lent
    with _lock:
        before, _lent = _lent, Shared.lent(store)
    try:
        _move_tenants()
        yield
    finally:
        with _lock:
            _lent = before
        _move_tenants()


def move_in(tenant: Tenant) -> None:
    """Note who has opened the store of the process."""
    with _lock:
        _tenants.add(tenant)


def _move_tenants() -> None:
    with _lock:
        tenants = list(_tenants)
        _tenants.clear()
    for tenant in tenants:
        tenant.move_out()


def described() -> str:
    """Where a queue lives that was given no store, for `repr`."""
    try:
        return str(default_store_path()) if shared() is None else "the default store"
    except ValueError:  # the environment is wrong, which is said when the store is opened
        return "the default store"


def _close_all() -> None:
    for one in list(_open):
        one.close()


def _after_fork_in_child() -> None:
    """The lock may be held by a thread that does not exist here. The stores look after themselves."""
    global _lock
    _lock = threading.RLock()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork_in_child)
