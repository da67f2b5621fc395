"""How a store connects, and what it makes sure of when it does."""

from __future__ import annotations

from typing import Any, NamedTuple

from localqueue.errors import QueueStoreError, QueueStoreReadOnlyError
from localqueue.ids import new_secret
from localqueue.stores.postgres import driver, patience
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

#: The same for the server, which keeps what a host has locked until it finds out that the host is gone.
_KEPT_ALIVE = "-c tcp_keepalives_idle=20 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=4"

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
        ours = (
            f"{_PLANNING} {_KEPT_ALIVE} -c lock_timeout={_milliseconds(timeout)} "
            f"-c idle_in_transaction_session_timeout={idle_timeout(timeout)} "
            "-c default_transaction_isolation=read\\ committed"
        )
        wanted["options"] = f"{given.get('options', '')} {ours}".strip()
    return str(psycopg.conninfo.make_conninfo("", **wanted))


def _milliseconds(timeout: float) -> int:
    return max(1, min(int(timeout * 1000), 2_000_000_000))


def idle_timeout(timeout: float) -> int:
    """Milliseconds after which the server ends a transaction whose host says nothing more.

    Others, which wait for its locks as long as `timeout`, shall still get them.
    """
    return min(max(1000, _milliseconds(timeout) // 3), 10_000)


def lock_timeout(timeout: float) -> str:
    return f"{_milliseconds(timeout)}ms"


def connect(info: str, *, pooled: bool, timeout: float) -> Any:
    """A connection whose statements are transactions of their own unless one is begun."""
    return patience.connect(
        info,
        patience=patience.of_timeout(timeout),
        ask_at=None if pooled else info,  # behind a pooler nobody knows which session is ours
        prepare_threshold=None if pooled else _PREPARE_AFTER,
    )


class Found(NamedTuple):
    """What a store sees when it is opened; the version is 0 when nothing of ours is there."""

    standby: bool
    fsync: str
    synchronous_commit: str
    as_asked: bool  # whether the session has the settings that we asked for
    version: int
    namespace: tuple[int, int] | None


_BARE = (
    "SELECT pg_is_in_recovery(), current_setting('fsync'), current_setting('synchronous_commit'), "
    "current_setting('plan_cache_mode') = 'force_generic_plan'"
)


def look(connection: Any, sql: Statements, name: str) -> Found:
    """One round trip where everything is in place already."""
    psycopg = driver.load()
    try:
        *seen, version, row, secret = connection.execute(sql.OPENING, (name.encode(),)).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        seen, version, row = list(connection.execute(_BARE).fetchone()), 0, None
    standby, fsync, commit, as_asked = seen
    return Found(standby, fsync, commit, as_asked, version, None if row is None else (int(row), int(secret)))


def require_writable(found: Found, url: str) -> None:
    if found.standby:
        raise QueueStoreReadOnlyError(
            f"the PostgreSQL server at {url!r} is a standby, which can not be written; connect to the primary, for "
            "example with target_session_attrs=read-write in the address",
            path=url,
        )


def require_session(found: Found, url: str) -> None:
    """That what we left behind in a session will be there for the next transaction."""
    if not found.as_asked:
        raise QueueStoreError(
            driver.behind_a_pooler(url, "the session does not have the settings we asked for"), path=url
        )


def require_durability(found: Found, url: str) -> None:
    """That the server has every commit on disk before it confirms it."""
    for setting, good in (("fsync", ("on",)), ("synchronous_commit", _SYNCED)):
        value = getattr(found, setting)
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
