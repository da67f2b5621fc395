"""Creating, recognising and migrating the file.

`application_id` marks a file as ours, `user_version` is the schema's version. In a file that belongs to an application,
both are its own: there the version is in the table `lq_schema`. A migration is one SQL text that leads from a version
to the next; all pending ones run in one transaction, so that a crash leaves the old version.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from localqueue._named_tuple import NamedTuple
from localqueue.errors import QueueStoreCorruptError, QueueStoreVersionError
from localqueue.ids import new_secret
from localqueue.stores.sqlite import statements as sql

APPLICATION_ID = 0x6C71_7565  # "lque"

#: `MIGRATIONS[n]` leads from version n + 1 to n + 2.
MIGRATIONS: list[str] = [
    sql.load(f"migrations/{name}")
    for name in ("0002_journal_options", "0003_commit_order", "0004_touched_runs", "0005_journal_retention")
]


def current_version() -> int:
    return len(MIGRATIONS) + 1


def prepare(connection: sqlite3.Connection, path: str, *, shared: bool = False) -> None:
    """Make sure the file has the current schema; several processes may do so at once. Busy leaves it as it was."""
    if recognise(connection, path, shared=shared) == current_version():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = recognise(connection, path, shared=shared)
        file = _look(connection)
        is_new = version == 0
        if is_new:
            run_script(connection, sql.SCHEMA)
            version = 1
        for migration in MIGRATIONS[version - 1 :]:
            run_script(connection, migration)
        if not is_new:
            _renew_triggers(connection)
        if file.is_ours or file.is_empty:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {current_version()}")
        else:
            connection.execute("CREATE TABLE IF NOT EXISTS lq_schema (version INTEGER NOT NULL)")
            connection.execute("DELETE FROM lq_schema")
            connection.execute("INSERT INTO lq_schema VALUES (?)", (current_version(),))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _renew_triggers(connection: sqlite3.Connection) -> None:
    """Have the journal, where one is kept, written as this release writes it."""
    if connection.execute("SELECT 1 FROM lq_journals WHERE enabled LIMIT 1").fetchone():
        run_script(connection, sql.JOURNAL_OFF)
        run_script(connection, sql.JOURNAL_ON)


def recognise(connection: sqlite3.Connection, path: str, *, shared: bool = False) -> int:
    """The schema version, 0 when there is none yet; refuses what is not ours or too new. Changes nothing.

    With `shared` the file may belong to an application that has its own tables in it.
    """
    file = _look(connection)
    version = file.version
    if not isinstance(version, int) or (file.is_ours and version < 1) or version < 0:
        raise QueueStoreVersionError(
            f"{path!r} says that its SQLite queue schema has version {version!r}, which none has: nothing was changed, "
            "restore a backup",
            path=path,
        )
    if version > current_version():
        raise QueueStoreVersionError(
            f"unsupported SQLite queue schema version: {version}; expected at most {current_version()}: "
            f"{path!r} was written by a newer localqueue, upgrade this one",
            path=path,
        )
    if version == 0 and not (file.is_empty or shared):
        raise QueueStoreVersionError(
            f"{path!r} is a SQLite database of another program (application_id {file.owner}, user_version "
            f"{file.user_version}); nothing was changed, choose another store_path, or open it with "
            "SQLiteQueueStore(path, shared=True) if messages are to live beside its tables",
            path=path,
        )
    return int(version)


class _File(NamedTuple):
    """What a file says about itself, at one moment."""

    owner: int
    user_version: int
    tables: int
    shared_version: Any

    @property
    def is_empty(self) -> bool:
        return not (self.owner or self.user_version or self.tables)

    @property
    def is_ours(self) -> bool:
        return self.owner == APPLICATION_ID

    @property
    def version(self) -> Any:
        """A number, unless somebody else has written it."""
        return self.user_version if self.is_ours else self.shared_version


def _look(connection: sqlite3.Connection) -> _File:
    """The file itself is asked in one statement, because another process may be making it."""
    owner, version, tables, shared = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema), "
        "(SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'lq_schema') "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    found = connection.execute("SELECT version FROM lq_schema").fetchone() if shared else (0,)
    return _File(owner, version, tables, None if found is None else found[0])


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statements inside the current transaction (`executescript` would commit it)."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def require_current(version: int, path: str) -> None:
    """Refuse to look at a file of an older release: only opening it to write brings it up to date."""
    if version != current_version():
        raise QueueStoreVersionError(
            f"{path!r} has SQLite queue schema version {version}, and this localqueue reads {current_version()}: open "
            "it once to write, which brings it up to date",
            path=path,
        )


def find_namespace(connection: sqlite3.Connection, path: str, name: str) -> tuple[int, int] | None:
    """Row and secret of a namespace."""
    found: tuple[int, int] | None = connection.execute(
        "SELECT id, secret FROM lq_namespaces WHERE name = ?", (name,)
    ).fetchone()
    if found is not None and not isinstance(found[1], int):
        raise QueueStoreCorruptError(
            f"SQLite queue store at {path!r} is damaged: namespace {name!r} has lost its secret; restore a backup",
            path=path,
        )
    return found


def namespace(connection: sqlite3.Connection, path: str, name: str) -> tuple[int, int]:
    """The same, made on first use."""
    while (found := find_namespace(connection, path, name)) is None:
        connection.execute(
            "INSERT INTO lq_namespaces (name, secret) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, new_secret())
        )
    return found
