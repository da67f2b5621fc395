"""Creating, recognising and migrating the file.

`application_id` marks a file as ours, `user_version` is the schema's version. A migration is one SQL text that leads
from a version to the next; all pending ones run in one transaction, so that a crash leaves the old version.
"""

from __future__ import annotations

import sqlite3

from localqueue.errors import QueueStoreVersionError
from localqueue.ids import new_secret
from localqueue.stores.sqlite import statements as sql

APPLICATION_ID = 0x6C71_7565  # "lque"

#: `MIGRATIONS[n]` leads from version n + 1 to n + 2.
MIGRATIONS: list[str] = []


def current_version() -> int:
    return len(MIGRATIONS) + 1


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Make sure the file has the current schema; several processes may do so at once. Busy leaves it as it was."""
    if recognise(connection, path) == current_version():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = recognise(connection, path)
        if version == 0:
            run_script(connection, sql.SCHEMA)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            version = 1
        for migration in MIGRATIONS[version - 1 :]:
            run_script(connection, migration)
        connection.execute(f"PRAGMA user_version = {current_version()}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def recognise(connection: sqlite3.Connection, path: str) -> int:
    """The schema version, 0 for an empty file; refuses what is not ours or too new. Changes nothing."""
    owner, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if owner == APPLICATION_ID:
        if version > current_version():
            raise QueueStoreVersionError(
                f"unsupported SQLite queue schema version: {version}; expected at most {current_version()}: "
                f"{path!r} was written by a newer localqueue, upgrade this one",
                path=path,
            )
        return int(version)
    if owner != 0 or version != 0 or tables:
        raise QueueStoreVersionError(
            f"{path!r} is a SQLite database of another program (application_id {owner}, user_version {version}); "
            "nothing was changed, choose another store_path",
            path=path,
        )
    return 0


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statements inside the current transaction (`executescript` would commit it)."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def namespace(connection: sqlite3.Connection, name: str) -> tuple[int, int]:
    """Row and secret of a namespace, made on first use."""
    find = "SELECT id, secret FROM namespaces WHERE name = ?"
    row = connection.execute(find, (name,)).fetchone()
    if row is None:
        connection.execute(
            "INSERT INTO namespaces (name, secret) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, new_secret())
        )
        row = connection.execute(find, (name,)).fetchone()
    return int(row[0]), int(row[1])
