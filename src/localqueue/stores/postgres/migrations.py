"""Bringing the schema of a database to the version of this release, and back.

Each migration is one transaction that also notes its number, taken under a lock of the database, so that any number of
processes may open an empty or an old one at the same time, and a crash leaves a whole version behind.
"""

from __future__ import annotations

from typing import Any

from localqueue.errors import QueueStoreVersionError
from localqueue.stores.postgres import driver
from localqueue.stores.postgres.statements import DEFAULT_SCHEMA, in_schema, migration_files, require_schema

_LOCK = "SELECT pg_advisory_xact_lock(1819373157, 0)"
_CREATE = (
    "CREATE TABLE IF NOT EXISTS localqueue.lq_migrations "
    "(version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
)
# Read as rows: what a session remembers of names (to_regclass) may be older than the lock it has just got.
_EXISTS = (
    "SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1::text AND c.relname = 'lq_migrations'"
)
_VERSION = "SELECT coalesce(max(version), 0) FROM localqueue.lq_migrations"


def latest() -> int:
    return len(migration_files())


def version(connection: Any, schema: str) -> int:
    """The version a database is in; 0 when it has nothing of ours."""
    if connection.execute(_EXISTS, (schema,)).fetchone() is None:
        return 0
    return int(connection.execute(in_schema(_VERSION, schema)).fetchone()[0])


def migrate(connection: Any, schema: str, url: str, to: int | None = None) -> None:
    """Apply what is missing up to a version, by default the latest; `connection` is in autocommit mode."""
    target = latest() if to is None else to
    found = version(connection, schema)
    if found > latest():
        raise QueueStoreVersionError(
            f"the database at {url!r} has version {found} of the queues' schema {schema!r} and this release knows "
            f"{latest()}; upgrade localqueue, or revert the schema with the release that made it",
            path=url,
        )
    while found < target:
        _one_up(connection, schema, target)
        found = version(connection, schema)


def _one_up(connection: Any, schema: str, target: int) -> None:
    with connection.transaction():
        connection.execute(_LOCK)
        current = version(connection, schema)
        if current >= target:  # another process was faster
            return
        if current == 0:
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{require_schema(schema)}"')
            connection.execute(in_schema(_CREATE, schema))
        file = migration_files()[current]
        _run(connection, in_schema(file.read_text(encoding="utf-8"), schema))
        note = in_schema("INSERT INTO localqueue.lq_migrations (version, name) VALUES ($1, $2)", schema)
        connection.execute(note, (current + 1, file.name.removesuffix(".up.sql")))


def _run(connection: Any, script: str) -> None:
    """Several statements in one go, which only a query without parameters can be."""
    connection.execute(script)


def revert(url: str, *, to: int = 0, schema: str = DEFAULT_SCHEMA) -> None:
    """Take the schema of a database back to an older version. Version 0 has nothing left, messages included.

    Stop everything that uses it before; a store of this release that opens the database brings it up again.
    """
    if not 0 <= to <= latest():
        raise ValueError(f"to must be between 0 and {latest()}, not {to}")
    psycopg = driver.load()
    shown = driver.without_password(url)
    try:
        with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
            found = version(connection, schema)
            if found > latest():
                raise QueueStoreVersionError(
                    f"the database at {shown!r} has version {found} and this release knows how to revert {latest()} "
                    "and older; use the release that made it",
                    path=shown,
                )
            while version(connection, schema) > to:
                _one_down(connection, schema, to)
    except psycopg.Error as error:
        raise driver.translate(error, shown) from error


def _one_down(connection: Any, schema: str, to: int) -> None:
    with connection.transaction():
        connection.execute(_LOCK)
        current = version(connection, schema)
        if current <= to:
            return
        up = migration_files()[current - 1]
        down = up.with_name(up.name.replace(".up.sql", ".down.sql"))
        _run(connection, in_schema(down.read_text(encoding="utf-8"), schema))
        if current == 1:
            connection.execute(in_schema("DROP TABLE localqueue.lq_migrations", schema))
        else:
            connection.execute(in_schema("DELETE FROM localqueue.lq_migrations WHERE version = $1", schema), (current,))
