"""How a store connects, and what it makes sure of when it does."""

from __future__ import annotations

from typing import Any

from localqueue.errors import QueueStoreError, QueueStoreReadOnlyError
from localqueue.ids import new_secret
from localqueue.stores.postgres import driver
from localqueue.stores.postgres.statements import Statements

#: Has the system notice, within about a minute, that the other end is gone although nobody said so.
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_PREPARE_AFTER = 2

#: The tables swing between empty and millions of rows faster than they are analysed, so plans are not left to
#: statistics: everything is looked up by index. Behind a pooler, where nothing can be set for a session, our functions
#: say the same for themselves.
_PLANNING = "-c jit=off -c enable_seqscan=off -c enable_bitmapscan=off -c plan_cache_mode=force_generic_plan"


def conninfo(url: str, *, timeout: float, pooled: bool) -> str:
    """The address with what we need added; what the user has set in it is kept."""
    psycopg = driver.load()
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ValueError(
            f"{driver.without_password(url)!r} is not the address of a PostgreSQL database: use "
            "postgresql://user@host:5432/database"
        ) from error
    wanted: dict[str, Any] = {
        "connect_timeout": max(2, round(timeout)),
        "application_name": "localqueue",
        "client_encoding": "utf8",
        **_KEEPALIVE,
        **given,
    }
    if not pooled:  # a pooler has sessions of its own and takes no options for them
        ours = f"{_PLANNING} -c lock_timeout={_milliseconds(timeout)} -c default_transaction_isolation=read\\ committed"
        wanted["options"] = f"{given.get('options', '')} {ours}".strip()
    return str(psycopg.conninfo.make_conninfo("", **wanted))


def _milliseconds(timeout: float) -> int:
    return max(1, min(int(timeout * 1000), 2_000_000_000))


def lock_timeout(timeout: float) -> str:
    return f"{_milliseconds(timeout)}ms"


def connect(info: str, *, pooled: bool) -> Any:
    """A connection whose statements are transactions of their own unless one is begun."""
    psycopg = driver.load()
    return psycopg.connect(
        info,
        autocommit=True,
        cursor_factory=psycopg.RawCursor,
        prepare_threshold=None if pooled else _PREPARE_AFTER,
    )


def require_writable(connection: Any, url: str) -> None:
    if connection.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
        raise QueueStoreReadOnlyError(
            f"the PostgreSQL server at {url!r} is a standby, which can not be written; connect to the primary, for "
            "example with target_session_attrs=read-write in the address",
            path=url,
        )


def require_durability(connection: Any, url: str) -> None:
    """That the server has every commit on disk before it confirms it."""
    fsync, commit = connection.execute(
        "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
    ).fetchone()
    for setting, value, good in (("fsync", fsync, ("on",)), ("synchronous_commit", commit, _SYNCED)):
        if value not in good:
            raise QueueStoreError(
                f"durability='power' needs the PostgreSQL server at {url!r} to sync every commit, and it has "
                f"{setting} = {value}; set it to on, or open the store with durability='process'",
                path=url,
            )


_SYNCED = ("on", "remote_write", "remote_apply")


def namespace(connection: Any, sql: Statements, name: str) -> tuple[int, int]:
    """The row of a namespace and its secret, made on first use."""
    find = sql.here("SELECT id, secret FROM localqueue.lq_namespaces WHERE sha256(name) = sha256($1::bytea)")
    make = sql.here(
        "INSERT INTO localqueue.lq_namespaces (name, secret) VALUES ($1, $2) ON CONFLICT (sha256(name)) DO NOTHING"
    )
    raw = name.encode()
    while True:
        row = connection.execute(find, (raw,)).fetchone()
        if row is not None:
            return int(row[0]), int(row[1])
        connection.execute(make, (raw, new_secret()))
