"""The attempt store of retryers that were given none: one for each thread, opened on first use.

Where a store is configured for the process (`localqueue.configure`), attempts are kept there instead of in a file.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from localqueue.retry.record import AttemptStore
from localqueue.stores import default


class Source(Protocol):
    """Where a retryer's attempt store comes from. `open` may be called from any thread, any number of times."""

    def open(self) -> AttemptStore: ...


class GivenStore:
    """A store that its owner opened and closes."""

    def __init__(self, store: AttemptStore) -> None:
        self._store = store

    def open(self) -> AttemptStore:
        return self._store


class MadeStore:
    """A store that is made on first use. With `owned` it is closed when nobody can use it any more."""

    def __init__(self, make: Callable[[], AttemptStore], *, owned: bool) -> None:
        self._make = make
        self._owned = owned
        self._lock = threading.Lock()
        self._store: AttemptStore | None = None

    def open(self) -> AttemptStore:
        with self._lock:
            if self._store is None:
                self._store = self._make()
            return self._store

    def close(self) -> None:
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            _close(store)

    def __del__(self) -> None:
        if self._owned:
            self.close()


def store_at(path: str | os.PathLike[str]) -> MadeStore:
    def make() -> AttemptStore:
        from localqueue.retry.stores import SQLiteAttemptStore

        return SQLiteAttemptStore(path)

    return MadeStore(make, owned=True)


def default_path() -> Path:
    """Where attempts are kept when nothing else is said: the XDG data directory."""
    return default.data_directory() / "retries.sqlite3"


class StoreOfProcess:
    """The store that is configured for this process."""

    def __init__(self, shared: default.Shared) -> None:
        self._shared = shared

    def open(self) -> AttemptStore:
        from localqueue.retry.stores import QueueAttemptStore

        return QueueAttemptStore(self._shared.store())


class _ThisThread(threading.local):
    source: Source | None = None


_this_thread = _ThisThread()
_made: weakref.WeakSet[MadeStore] = weakref.WeakSet()
_factory: Callable[[], AttemptStore] | None = None


def current() -> Source:
    """The default store of this thread, which another thread may then open and use."""
    source = _this_thread.source
    if _factory is None and not isinstance(source, GivenStore) and (shared := default.shared()) is not None:
        return StoreOfProcess(shared)
    if source is None:
        made = store_at(default_path()) if _factory is None else MadeStore(_factory, owned=False)
        _made.add(made)
        source = _this_thread.source = made
    return source


def configure_default_store(store: AttemptStore | None) -> None:
    """Use this store for the retryers that this thread calls. None closes it and goes back to the factory's."""
    if store is None:
        close_default_store()
        return
    if isinstance(_this_thread.source, MadeStore):
        _this_thread.source.close()
    _this_thread.source = GivenStore(store)


def configure_default_store_factory(factory: Callable[[], AttemptStore] | None) -> None:
    """Make the default store of each thread with `factory`; None goes back to the SQLite file of the user.

    Closes this thread's store. Other threads keep theirs until they close it.
    """
    global _factory
    close_default_store()
    _factory = factory


def close_default_store(*, all_threads: bool = False) -> None:
    """Close the default store of this thread, or those that were made for any thread. The next use opens another."""
    source, _this_thread.source = _this_thread.source, None
    if isinstance(source, MadeStore):
        source.close()
    elif source is not None:
        _close(source.open())
    if all_threads:
        _close_made()


def _close(store: AttemptStore) -> None:
    close = getattr(store, "close", None)
    if close is not None:
        close()


def _close_made() -> None:
    for made in list(_made):
        made.close()


atexit.register(_close_made)
