"""Records as rows of a SQLite file of their own.

A write is one statement in autocommit. One connection serves all threads, behind a lock; processes wait for each other
as SQLite makes them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from localqueue.errors import QueueStoreError, QueueStoreVersionError
from localqueue.stores import fork
from localqueue.stores.keyvalue.port import Kind, Records
from localqueue.stores.sqlite.connection import SYNCHRONOUS, connect, make_parent, patiently
from localqueue.stores.sqlite.errors import translate, translated
from localqueue.stores.sqlite.schema import run_script

V = TypeVar("V")

VERSION = 1


class SQLiteRecords(Records[V]):
    """`durability="process"` survives the death of the process, `"power"` also the loss of power."""

    def __init__(
        self, kind: Kind[V], path: str | os.PathLike[str], *, timeout: float = 15.0, durability: str = "process"
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise ValueError(f"durability must be 'process' or 'power', not {durability!r}")
        self.kind = kind
        self.path = os.fspath(path)
        self._timeout = timeout
        self._durability = durability
        self._closed = False
        columns = ", ".join(("key", *kind.columns))
        marks = ", ".join("?" * (1 + len(kind.columns)))
        table = f"{kind.name}_records"
        self._get = f"SELECT {', '.join(kind.columns)} FROM {table} WHERE key = ?"
        self._put = f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})"
        self._add = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"
        self._delete = f"DELETE FROM {table} WHERE key = ?"
        self._keys = f"SELECT key FROM {table} WHERE key >= ? ORDER BY key"
        self._prune = f"DELETE FROM {table} WHERE {kind.ended_rows}"
        self._count = f"SELECT count(*) FROM {table} WHERE {kind.ended_rows}"
        self._open()
        fork.track(self)

    def __repr__(self) -> str:
        return repr(self.path)

    def get(self, key: str) -> V | None:
        with self._lock:
            try:
                row = self._execute(self._get, (key,)).fetchone()
            except sqlite3.Error as error:
                raise self._failure(error) from error
        return None if row is None else self.kind.from_row(row)

    def put(self, key: str, value: V) -> None:
        self._change(self._put, (key, *self.kind.to_row(value)))

    def put_unless(self, key: str, value: V, blocks: Callable[[V], bool]) -> V | None:
        row = (key, *self.kind.to_row(value))
        if self._change(self._add, row):
            return None
        with self._lock:
            try:
                self._execute("BEGIN IMMEDIATE")
                found = self._execute(self._get, (key,)).fetchone()
                there = None if found is None else self.kind.from_row(found)
                if there is not None and blocks(there):
                    return there
                self._execute(self._put, row)
                self._execute("COMMIT")
                return None
            except sqlite3.Error as error:
                raise self._failure(error) from error
            finally:
                if not self._closed and self._connection.in_transaction:
                    self._execute("ROLLBACK")

    def delete(self, key: str) -> None:
        self._change(self._delete, (key,))

    def keys(self, prefix: str = "") -> list[str]:
        found: list[str] = []
        with self._lock:
            try:
                for (key,) in self._connection.execute(self._keys, (prefix,)):
                    if not key.startswith(prefix):
                        break
                    found.append(key)
            except sqlite3.Error as error:
                raise self._failure(error) from error
        return found

    def prune(self, until: float, *, dry_run: bool = False) -> int:
        if not dry_run:
            return self._change(self._prune, (until,))
        with self._lock:
            try:
                return int(self._execute(self._count, (until,)).fetchone()[0])
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def _change(self, statement: str, parameters: tuple[Any, ...]) -> int:
        with self._lock:
            try:
                return self._execute(statement, parameters).rowcount
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> QueueStoreError:
        return self.kind.closed(self.path) if self._closed else self.kind.reword(translate(error, self.path))

    # life

    def _open(self) -> None:
        self._lock = threading.Lock()
        try:
            if self.path != ":memory:":
                make_parent(self.path)
            with translated(self.path):
                self._connection = connect(
                    self.path, durability=self._durability, timeout=self._timeout, recognise=self._recognise
                )
                try:
                    patiently(self._prepare, self.path, self._timeout)
                except BaseException:
                    self._connection.close()
                    raise
        except QueueStoreError as error:
            raise self.kind.reword(error) from error.__cause__
        self._execute = self._connection.cursor().execute  # one cursor for all: it is used under the lock only

    def _prepare(self) -> None:
        """Make the table in a file that has none; several processes may do so at once."""
        connection = self._connection
        if self._recognise(connection) == VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self._recognise(connection) == 0:
                run_script(connection, self.kind.schema)
                connection.execute(f"PRAGMA application_id = {self.kind.application_id}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _recognise(self, connection: sqlite3.Connection) -> int:
        """The schema version, 0 for an empty file; refuses what is not ours or too new. Changes nothing."""
        owner, version, tables = connection.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
            "FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        name = self.kind.name
        if owner in (0, self.kind.application_id) and version > VERSION:
            raise QueueStoreVersionError(
                f"unsupported SQLite {name} schema version: {version}; expected at most {VERSION}: "
                f"{self.path!r} was written by a newer localqueue, upgrade this one",
                path=self.path,
            )
        if owner == self.kind.application_id:
            return int(version)
        if owner != 0 or version != 0 or tables:
            raise QueueStoreVersionError(
                f"{self.path!r} is a SQLite database of another program or another kind of store (application_id "
                f"{owner}, user_version {version}); nothing was changed, choose another path for the {name} store",
                path=self.path,
            )
        return 0

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                fork.forget(self)
                self._connection.close()

    # fork: SQLite's record of the file locks it holds is inherited, the locks are not

    def hold_for_fork(self) -> None:
        self._lock.acquire()

    def go_on_after_fork(self) -> None:
        self._lock.release()

    def close_in_child(self) -> None:
        if self.path != ":memory:":
            self._connection.close()

    def reopen_in_child(self) -> None:
        if self.path == ":memory:":
            self._lock = threading.Lock()
        else:
            self._open()
