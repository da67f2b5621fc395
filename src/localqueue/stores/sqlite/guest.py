"""Changes inside the transaction of a connection that belongs to the user.

They become visible when the user commits and never existed when the user rolls back. So nothing here is remembered in
the store (a queue made in that transaction may not come to be), nobody is woken (the polling of those who wait sees the
user's commit, as it sees that of another process), and the store's own write connection is left alone: it would wait
for the lock that the user holds.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from localqueue.errors import QueueError, QueueStoreError, QueueStoreLockedError
from localqueue.stores.engine.commit import apply
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Changes, Committed
from localqueue.stores.room import size_of
from localqueue.stores.sqlite.connection import register_clock
from localqueue.stores.sqlite.errors import is_busy, translate
from localqueue.stores.sqlite.rows import SQLiteRows

if TYPE_CHECKING:
    from localqueue.stores.sqlite.store import SQLiteQueueStore

# Changes nothing, but takes the write lock: what comes after it is decided on the newest state, at a time that is later
# than that of every message before.
_TAKE_THE_WRITE_LOCK = "UPDATE lq_queues SET name = name WHERE 0"
_HIDDEN_NAMES = (
    "SELECT t.name FROM sqlite_temp_schema AS t JOIN main.sqlite_schema AS m ON m.name = t.name COLLATE NOCASE"
)
_LEGACY_TRANSACTION_CONTROL = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, which Python 3.11 does not have


def commit_within(store: SQLiteQueueStore, connection: sqlite3.Connection, changes: Changes) -> Committed:
    """Apply changes in the user's transaction, or leave that as it was."""
    if not isinstance(connection, sqlite3.Connection):
        raise TypeError(f"connection= takes a sqlite3.Connection to {store.path!r}, not {connection!r}")
    with _plain_rows(connection):
        _require_same_file(store, connection)
        register_clock(connection, store.now)
        with _savepoint(store.path, connection):
            connection.execute(_TAKE_THE_WRITE_LOCK)
            if changes.enqueue:
                store._writer.require_room(size_of(changes.enqueue), connection)
            unit = Unit(SQLiteRows(store, connection), store.now())
            committed = apply(unit, changes)
            unit.finish()
    return committed


@contextmanager
def _plain_rows(connection: sqlite3.Connection) -> Iterator[None]:
    """Rows as tuples and text as `str`, whatever the connection is set to."""
    row_factory, text_factory = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = row_factory, text_factory


def _require_same_file(store: SQLiteQueueStore, connection: sqlite3.Connection) -> None:
    if store.path == ":memory:":
        raise ValueError(
            f"{store!r} lives in the memory of its own connection, so another one can not put into it; use a "
            "SQLiteQueueStore with a path, and connect to that"
        )
    ours = store.file()
    try:
        theirs = connection.execute("PRAGMA database_list").fetchone()[2]
        hidden = connection.execute(_HIDDEN_NAMES).fetchone()
    except sqlite3.ProgrammingError as error:
        raise ValueError(f"connection= can not be used: {error}") from error
    except sqlite3.Error as error:
        raise translate(error, store.path) from error
    if not theirs or not os.path.samefile(ours, theirs):
        where = repr(theirs) if theirs else "a database in memory"
        raise ValueError(
            f"connection= is to {where} and the queue is in {ours!r}; only a connection whose main database is that "
            "file can commit both together"
        )
    if hidden is not None:
        raise ValueError(
            f"connection= has a temporary table {hidden[0]!r}, which hides the table of the queue; give it another name"
        )


@contextmanager
def _savepoint(path: str, connection: sqlite3.Connection) -> Iterator[None]:
    try:
        began = _begin(path, connection)
        connection.execute("SAVEPOINT localqueue")
        try:
            yield
            connection.execute("RELEASE localqueue")
        except BaseException:
            _undo(connection, began)
            raise
    except sqlite3.Error as error:
        raise _translate(error, path) from error


def _begin(path: str, connection: sqlite3.Connection) -> bool:
    """Make sure that a transaction is open, as `sqlite3` would for an INSERT; whether it was opened here."""
    if connection.in_transaction:
        return False
    control = getattr(connection, "autocommit", _LEGACY_TRANSACTION_CONTROL)
    level = connection.isolation_level if control == _LEGACY_TRANSACTION_CONTROL else None if control else ""
    if level is None:
        raise QueueError(
            f"no transaction is open on the connection to {path!r} and it is in autocommit mode: execute "
            "'BEGIN IMMEDIATE' before the first put(..., connection=)"
        )
    connection.execute(f"BEGIN {level}")
    return True


def _undo(connection: sqlite3.Connection, began: bool) -> None:
    if not connection.in_transaction:  # SQLite itself had to roll back, as it does on a full disk
        return
    if began:
        connection.execute("ROLLBACK")
    else:
        connection.execute("ROLLBACK TO localqueue")
        connection.execute("RELEASE localqueue")


def _translate(error: sqlite3.Error, path: str) -> QueueStoreError:
    if not is_busy(error):
        return translate(error, path)
    return QueueStoreLockedError(
        f"the transaction on connection= can not write to {path!r}: another one holds the lock, or wrote since "
        "this one began to read; roll back and begin again, with BEGIN IMMEDIATE so that the lock is taken first",
        path=path,
    )
