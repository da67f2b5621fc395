"""The connection that blocked callers look through; it is opened when somebody first waits."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any

from localqueue.errors import QueueStoreClosedError
from localqueue.stores.sqlite.connection import translate


class Watch:
    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str) -> None:
        self._connect = connect
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._closed = False

    def version(self) -> int:
        """A number that changes when another connection has committed; reading it takes no lock on the file."""
        return int(self.query("PRAGMA data_version")[0][0])

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            if self._closed:
                raise QueueStoreClosedError(f"the store at {self._path!r} is closed", path=self._path)
            try:
                if self._connection is None:
                    self._connection = self._connect()
                return self._connection.execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                raise translate(error, self._path) from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None
