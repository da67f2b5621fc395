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
        self.connection: sqlite3.Connection | None = None
        self.lock = threading.Lock()
        self._closed = False

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.lock:
            if self._closed:
                raise QueueStoreClosedError(f"the store at {self._path!r} is closed", path=self._path)
            try:
                if self.connection is None:
                    self.connection = self._connect()
                return self.connection.execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                raise translate(error, self._path) from error

    def close(self) -> None:
        with self.lock:
            self._closed = True
            if self.connection is not None:
                self.connection.close()
                self.connection = None
