"""The store a queue lives in: opened on first use, and closed only by whoever opened it."""

from __future__ import annotations

import os
import threading

from localqueue.errors import QueueStoreClosedError
from localqueue.stores import default
from localqueue.stores.path import require_path
from localqueue.stores.port import QueueStore


class Tenancy:
    """One queue object's hold on a store: one it was given, that of the process, or a file it opens for itself."""

    def __init__(
        self,
        queue: str,
        store: QueueStore | None,
        path: str | os.PathLike[str] | None,
        durability: str | None,
    ) -> None:
        self.current = store  # None until somebody needs it
        self._queue = queue
        self._given = store
        self._path = None if path is None else require_path(path)
        self._durability = durability
        self._shared: default.Shared | None = None
        self._empty: QueueStore | None = None
        self._opening = threading.Lock()
        self._closed = False

    @property
    def store(self) -> QueueStore:
        store = self.current
        return self.open() if store is None else store

    def open(self) -> QueueStore:
        """The store, opened if nobody needed it before."""
        with self._opening:
            if self._closed:
                raise QueueStoreClosedError(f"queue {self._queue!r} is closed")
            if self.current is None:
                self.current = self._open_default()
            return self.current

    @property
    def seen(self) -> QueueStore:
        """The store for a look, which makes none: where there is none yet, an empty one stands for it."""
        store = self.current
        return self._open_to_look() if store is None else store

    def _open_to_look(self) -> QueueStore:
        if self._is_there():
            return self.open()
        with self._opening:
            if self._closed:
                raise QueueStoreClosedError(f"queue {self._queue!r} is closed")
            if self._empty is None:
                from localqueue.stores.sqlite import MemoryQueueStore

                self._empty = MemoryQueueStore()
            return self._empty

    def _is_there(self) -> bool:
        return default.is_there() if self._path is None else os.path.lexists(self._path)

    def _open_default(self) -> QueueStore:
        """The file at `path`, else the store of this process, else the user's file."""
        if self._path is None:
            default.move_in(self)
        shared = default.shared() if self._path is None else None
        if shared is not None:
            if self._durability is not None and not shared.is_lent:
                raise ValueError(
                    f"queue {self._queue!r} lives in the store that is configured for this process, which has its own "
                    "durability; pass durability= to configure(), or a store= or store_path= to the queue"
                )
            store = shared.acquire()
            self._shared = shared
            return store
        from localqueue.stores.sqlite import SQLiteQueueStore

        path = default.default_store_path() if self._path is None else self._path
        return SQLiteQueueStore(path, durability=self._durability or "process")

    def close(self) -> None:
        """Close the store, unless it was given or is that of the process: then it belongs to whoever opened it."""
        with self._opening:
            self._closed = True
        self.move_out()

    def move_out(self) -> None:
        """Let go of the store; unless the queue is closed, its next use opens that of the process then."""
        with self._opening:
            store, self.current = self.current, None
            shared, self._shared = self._shared, None
            empty, self._empty = self._empty, None
        if empty is not None:
            empty.close()
        if shared is not None:
            shared.release()
        elif store is not None and store is not self._given:
            store.close()

    def __str__(self) -> str:
        where: object = self.current if self.current is not None else self._path
        return default.described() if where is None else str(where)
