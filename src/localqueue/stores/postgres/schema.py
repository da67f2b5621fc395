"""The tables and functions of a store in a schema of a database, and the statements on them.

`sql/` has the statements, by file name, with the schema of the store in the place of `localqueue`, and in `migrations/`
what brings a schema to the version of this release, and back. Each migration is one transaction that also notes its
number, taken under a lock of the database, so that any number of processes may open an empty or an old one at the same
time, and a crash leaves a whole version behind.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from localqueue.errors import (
    QueueStoreError,
    QueueStoreMissingError,
    QueueStoreReadOnlyError,
    QueueStoreVersionError,
)
from localqueue.ids import new_secret
from localqueue.stores import refusals
from localqueue.stores.address import parse
from localqueue.stores.postgres import errors

_FOLDER = Path(__file__).parent / "sql"
DEFAULT_SCHEMA = "localqueue"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}\Z")
_INCLUDED = re.compile(r"^\\i (\S+)$", re.MULTILINE)


def require_schema(name: str) -> str:
    """A name that needs no quoting and leaves room for the longer names that are made of it."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueError(
            "schema must be at most 40 lower-case letters, digits and underscores that begin with a letter, "
            f"not {name!r}"
        )
    return name


def in_schema(text: str, schema: str) -> str:
    """The text with its tables and functions looked for in that schema."""
    return text if schema == DEFAULT_SCHEMA else text.replace("localqueue.lq_", f'"{require_schema(schema)}".lq_')


@cache
def load_statement(name: str, schema: str = DEFAULT_SCHEMA) -> str:
    return in_schema((_FOLDER / f"{name}.sql").read_text(encoding="utf-8").strip(), schema)


class Statements:
    """`statements.PUT_ONE` is the text of `sql/put_one.sql`."""

    def __init__(self, schema: str) -> None:
        self.schema = require_schema(schema)

    def __getattr__(self, name: str) -> str:
        text = load_statement(name.lower(), self.schema)
        setattr(self, name, text)
        return text

    def here(self, text: str) -> str:
        return in_schema(text, self.schema)


def migration_files() -> list[Path]:
    """The files that bring a schema up, in the order of their numbers."""
    return sorted((_FOLDER / "migrations").glob("*.up.sql"))


#: What we name is ours, where we say so, or the server's own, whatever the session thinks.
_OWN_NAMES = "SET LOCAL search_path = pg_catalog, pg_temp"
_LOCK = "SELECT pg_advisory_xact_lock(1819373157, 0)"


def latest() -> int:
    return len(migration_files())


def version(connection: Any, schema: str) -> int:
    """The version a database is in; 0 when it has nothing of ours."""
    if connection.execute(load_statement("schema_exists", schema), (schema,)).fetchone() is None:
        return 0
    found = "SELECT coalesce(pg_catalog.max(version), 0) FROM localqueue.lq_migrations"
    return int(connection.execute(in_schema(found, schema)).fetchone()[0])


def migrate(connection: Any, schema: str, url: str, to: int | None = None) -> None:
    """Apply what is missing up to a version, by default the latest; `connection` is in autocommit mode."""
    target = latest() if to is None else to
    found = version(connection, schema)
    _require_known(found, schema, url)
    try:
        while found < target:
            _one_up(connection, schema, target)
            found = version(connection, schema)
    except errors.load().errors.InsufficientPrivilege as error:
        raise QueueStoreError(
            f"the database at {url!r} has version {found} of the queues' schema {schema!r}, this release needs "
            f"{target}, and this user may not make it: open it once as the owner of the schema, or have the schema "
            f"made with CREATE SCHEMA {schema} AUTHORIZATION for the user who is to ({error.diag.message_primary})",
            path=url,
        ) from error


def _require_known(found: int, schema: str, url: str) -> None:
    if found > latest():
        raise QueueStoreVersionError(
            f"the database at {url!r} has version {found} of the queues' schema {schema!r} and this release knows "
            f"{latest()}; upgrade localqueue, or revert the schema with the release that made it",
            path=url,
        )


def _one_up(connection: Any, schema: str, target: int) -> None:
    with connection.transaction():
        connection.execute(_OWN_NAMES)
        connection.execute(_LOCK)
        current = version(connection, schema)
        if current >= target:  # another process was faster
            return
        if current == 0:
            if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = $1", (schema,)).fetchone() is None:
                connection.execute(f'CREATE SCHEMA "{require_schema(schema)}"')
            connection.execute(load_statement("make_migrations", schema))
        file = migration_files()[current]
        _run(connection, _script(file, schema))
        note = in_schema("INSERT INTO localqueue.lq_migrations (version, name) VALUES ($1, $2)", schema)
        connection.execute(note, (current + 1, file.name.removesuffix(".up.sql")))


def _script(file: Path, schema: str) -> str:
    """The statements of a migration, with those of the files that it names by `\\i`, as psql does."""
    text = file.read_text(encoding="utf-8")
    return in_schema(_INCLUDED.sub(lambda named: file.with_name(named[1]).read_text(encoding="utf-8"), text), schema)


def _run(connection: Any, script: str) -> None:
    """Several statements in one go, which only a query without parameters can be."""
    connection.execute(script)


def revert(url: str, *, to: int = 0, schema: str = DEFAULT_SCHEMA) -> None:
    """Take the schema of a database back to an older version. Version 0 has nothing left, messages included.

    Stop everything that uses it before; a store of this release that opens the database brings it up again.
    """
    if not 0 <= to <= latest():
        raise ValueError(f"to must be between 0 and {latest()}, not {to}")
    psycopg, address = errors.load(), parse(url)
    shown = address.shown
    given = errors.parameters_of(address)
    try:
        with psycopg.connect(**given, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
            _require_known(version(connection, schema), schema, shown)
            while version(connection, schema) > to:
                _one_down(connection, schema, to)
    except psycopg.Error as error:
        address.cleanse(error)
        raise errors.translate(error, shown) from error


def _one_down(connection: Any, schema: str, to: int) -> None:
    with connection.transaction():
        connection.execute(_OWN_NAMES)
        connection.execute(_LOCK)
        current = version(connection, schema)
        if current <= to:
            return
        up = migration_files()[current - 1]
        down = up.with_name(up.name.replace(".up.sql", ".down.sql"))
        _run(connection, _script(down, schema))
        if current == 1:
            connection.execute(in_schema("DROP TABLE localqueue.lq_migrations", schema))
        else:
            connection.execute(in_schema("DELETE FROM localqueue.lq_migrations WHERE version = $1", schema), (current,))


class Found(NamedTuple):
    """What a store sees when it is opened; the version is 0 when nothing of ours is there."""

    standby: bool
    fsync: str
    synchronous_commit: str
    as_asked: bool  # whether the session has the settings that we asked for
    version: int
    namespace: tuple[int, int] | None


def look(connection: Any, sql: Statements, name: str) -> Found:
    """One round trip where everything is in place already."""
    psycopg = errors.load()
    try:
        *seen, version, row, secret = connection.execute(sql.OPENING, (name.encode(),)).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        seen, version, row = list(connection.execute(sql.SETTINGS).fetchone()), 0, None
    standby, fsync, commit, as_asked = seen
    return Found(standby, fsync, commit, as_asked, version, None if row is None else (int(row), int(secret)))


def require_privileges(connection: Any, sql: Statements, url: str, *, read_only: bool) -> None:
    """That the user may do all that a store does: else it would come out in the middle of some commit."""
    lacking = [named for (named,) in connection.execute(sql.LACKING, (read_only,))]
    if lacking:
        raise QueueStoreError(
            f"PostgreSQL queue store at {url!r} does not let this user do what a store does: grant it "
            f"{', '.join(lacking)}",
            path=url,
        )


def require_own_names(connection: Any, url: str) -> None:
    """That nobody's functions come before those of the server, in a session whose settings are not ours."""
    (schemas,) = connection.execute("SELECT pg_catalog.current_schemas(true)").fetchone()
    first = [name for name in schemas[: schemas.index("pg_catalog")] if not name.startswith("pg_temp")]
    if first:
        raise QueueStoreError(
            f"sessions of the pooler at {url!r} look for names in schema {first[0]!r} before pg_catalog, so what is "
            "called there may be somebody else's: take pg_catalog out of the search_path of the role and the database, "
            "which puts it first",
            path=url,
        )


def require_writable(found: Found, url: str) -> None:
    if found.standby:
        raise QueueStoreReadOnlyError(
            f"the PostgreSQL server at {url!r} is a standby, which can not be written; connect to the primary, for "
            "example with target_session_attrs=read-write in the address, or open the store with read_only=True",
            path=url,
        )


def require_session(found: Found, url: str) -> None:
    """That what we left behind in a session will be there for the next transaction."""
    if not found.as_asked:
        raise QueueStoreError(
            errors.behind_a_pooler(url, "the session does not have the settings we asked for"), path=url
        )


def require_durability(found: Found, url: str) -> None:
    """That the server has every commit on disk before it confirms it."""
    for setting, good in (("fsync", ("on",)), ("synchronous_commit", ("on", "remote_write", "remote_apply"))):
        value = getattr(found, setting)
        if value not in good:
            raise QueueStoreError(
                f"durability='power' needs the PostgreSQL server at {url!r} to sync every commit, and it has "
                f"{setting} = {value}; set it to on, or open the store with durability='process'",
                path=url,
            )


def require_there(found: Found, sql: Statements, name: str, url: str) -> tuple[int, int]:
    """The row and the secret of a namespace that nobody is to make."""
    if not found.version:
        raise QueueStoreMissingError(f"there is no store at {url!r}: it has no schema {sql.schema!r}", path=url)
    _require_known(found.version, sql.schema, url)
    if found.namespace is None:
        raise refusals.missing(f"namespace {name!r} in the store", url)
    if found.version < latest():
        raise QueueStoreVersionError(
            f"the database at {url!r} has version {found.version} of the queues' schema {sql.schema!r} and this "
            f"release reads {latest()}; open it once without read_only=True, which brings it up to date",
            path=url,
        )
    return found.namespace


def namespace(connection: Any, sql: Statements, name: str) -> tuple[int, int]:
    """The row of a namespace and its secret, made on first use."""
    raw = name.encode()
    while True:
        row = connection.execute(sql.FIND_NAMESPACE, (raw,)).fetchone()
        if row is not None:
            return int(row[0]), int(row[1])
        connection.execute(sql.MAKE_NAMESPACE, (raw, new_secret()))
