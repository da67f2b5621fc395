"""Records as rows of a SQLite file of their own.

A write is one statement in autocommit. One connection serves all threads, behind a lock; processes wait for each other
as SQLite makes them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from itertools import takewhile
from operator import attrgetter
from typing import Any, TypeVar

from localqueue.stores import fork
from localqueue.stores.keyvalue.port import VERSION, Kind, LockedRecords
from localqueue.stores.path import require_path
from localqueue.stores.sqlite.connection import SYNCHRONOUS, connect, make_place, patiently
from localqueue.stores.sqlite.errors import DRIVER, translate, translated
from localqueue.stores.sqlite.schema import run_script

T = TypeVar("T")
V = TypeVar("V")

_one = sqlite3.Cursor.fetchone
_changed: Callable[[sqlite3.Cursor], int] = attrgetter("rowcount")


class SQLiteRecords(LockedRecords[V]):
    """Reads of a file that is not there find nothing; the first write makes it.

    `durability="process"` survives the death of the process, `"power"` also the loss of power.
    """

    def __init__(self, kind: Kind[V], path: str | os.PathLike[str], *, timeout: float, durability: str) -> None:
        if durability not in SYNCHRONOUS:
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        self.kind = kind
        self.path = require_path(path)
        self._timeout = timeout
        self._durability = durability
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        table, columns = f"{kind.name}_records", ", ".join(kind.columns)
        marks = ", ".join("?" * len(kind.columns))
        self._find = f"SELECT {columns} FROM {table} WHERE key = ?"
        self._put = f"INSERT OR REPLACE INTO {table} (key, {columns}) VALUES (?, {marks})"
        self._add = f"INSERT OR IGNORE INTO {table} (key, {columns}) VALUES (?, {marks})"
        self._swap = f"UPDATE {table} SET ({columns}) = ({marks}) WHERE key = ? AND ({columns}) IS ({marks})"
        self._delete = f"DELETE FROM {table} WHERE key = ?"
        self._keys = f"SELECT key FROM {table} WHERE key >= ? ORDER BY key"
        self._prune = f"DELETE FROM {table} WHERE {kind.ended_rows}"
        self._count = f"SELECT count(*) FROM {table} WHERE {kind.ended_rows}"
        if self._is_there():
            self._open()
        super().__init__(kind)

    def find(self, key: str) -> tuple[V | None, Any]:
        row = self._read(_one, None, self._find, key)
        return (None, None) if row is None else (self.kind.from_row(row), row)

    def put(self, key: str, value: V) -> None:
        self._run(_changed, self._put, key, *self.kind.to_row(value))

    def swap(self, key: str, value: V, seen: Any) -> bool:
        row = self.kind.to_row(value)
        if seen is None:
            return bool(self._run(_changed, self._add, key, *row))
        return bool(self._run(_changed, self._swap, *row, key, *seen))

    def delete(self, key: str) -> None:
        self._read(_changed, 0, self._delete, key)

    def keys(self, prefix: str = "") -> list[str]:
        def beginning(rows: sqlite3.Cursor) -> list[str]:
            return list(takewhile(lambda key: key.startswith(prefix), (key for (key,) in rows)))

        return self._read(beginning, [], self._keys, prefix)

    def prune(self, until: float, *, dry_run: bool = False) -> int:
        if dry_run:
            return int(self._read(_one, (0,), self._count, until)[0])
        return self._read(_changed, 0, self._prune, until)

    def _read(self, read: Callable[[sqlite3.Cursor], T], nothing: T, statement: str, *parameters: Any) -> T:
        """Run what finds nothing, or does nothing, in a file that is not there."""
        if self._connection is None and not self._closed and not self._is_there():
            return nothing
        return self._run(read, statement, *parameters)

    def _run(self, read: Callable[[sqlite3.Cursor], T], statement: str, *parameters: Any) -> T:
        with self._lock:
            connection = self._connection
            if connection is None:
                connection = self._open()
            try:
                return read(connection.execute(statement, parameters))
            except DRIVER as error:
                if self._closed:
                    raise self.kind.closed(self.path) from error
                raise self.kind.reword(translate(error, self.path)) from error

    # life

    def _is_there(self) -> bool:
        return self.path == ":memory:" or os.path.lexists(self.path)

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise self.kind.closed(self.path)
        with self.kind.worded(), translated(self.path):
            if self.path != ":memory:":
                make_place(self.path)
            connection = connect(
                self.path, durability=self._durability, timeout=self._timeout, recognise=self._recognise
            )
            try:
                patiently(lambda: self._prepare(connection), self.path, self._timeout)
            except BaseException:
                connection.close()
                raise
        self._connection = connection
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the table in a file that has none; several processes may do so at once."""
        if self._recognise(connection) == VERSION:
            return
        with connection:  # commits, or rolls back
            connection.execute("BEGIN IMMEDIATE")
            if self._recognise(connection) == 0:
                run_script(connection, self.kind.schema)
                connection.execute(f"PRAGMA application_id = {self.kind.application_id}")
                connection.execute(f"PRAGMA user_version = {VERSION}")

    def _recognise(self, connection: sqlite3.Connection) -> int:
        """The schema version, 0 for an empty file; refuses what is not ours or too new. Changes nothing."""
        owner, version, tables = connection.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
            "FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        ours = owner == self.kind.application_id
        if ours or owner == 0:
            self.kind.check_version(version, self.path, "SQLite")
        if not ours and (owner or version or tables):
            what = f"a SQLite database (application_id {owner}, user_version {version})"
            raise self.kind.foreign(self.path, what)
        return int(version)

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                fork.forget(self)
                if self._connection is not None:
                    self._connection.close()

    # SQLite's record of the file locks it holds is inherited by a child, the locks are not

    def close_in_child(self) -> None:
        if self.path != ":memory:" and self._connection is not None:
            self._connection.close()

    def reopen_in_child(self) -> None:
        self._lock = threading.Lock()
        if self.path != ":memory:" and self._connection is not None:
            self._open()
