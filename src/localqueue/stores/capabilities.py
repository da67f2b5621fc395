"""What each store is and can do, as one table: for programs, for `python -m localqueue.stores`, and for the docs.

Nothing here imports a driver, so the table can be read where none is installed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """One store. Every store keeps the whole contract of the port; this is what they do not have in common."""

    store: str = field(metadata={"title": "store"})
    backend: str = field(metadata={"title": "`configure(db_backend=)`"})
    address: str = field(metadata={"title": "address"})
    extra: str = field(metadata={"title": "install"})
    shared_by: str = field(metadata={"title": "shared by"})
    wake: str = field(metadata={"title": "what wakes other processes"})
    clock: str = field(metadata={"title": "clock"})
    atomicity: str = field(metadata={"title": "one commit is"})
    joins: str = field(metadata={"title": "`put(connection=)`"})
    durability: str = field(metadata={"title": '`durability="process"`'})
    power: str = field(metadata={"title": '`durability="power"`'})
    window: str = field(metadata={"title": "what a crash can take"})
    bulk: str = field(metadata={"title": "`put_many` of plain messages"})
    backup: str = field(metadata={"title": "`backup(path)` writes"})
    counts: str = field(metadata={"title": "`qsize`, `stats`"})
    limits: str = field(metadata={"title": "known limits"})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_ONE_MACHINE = "processes of one machine"
_MANY_MACHINES = "processes of many machines"
_KILL = "kill -9 of any process: nothing confirmed"

CAPABILITIES: tuple[Capabilities, ...] = (
    Capabilities(
        store="SQLiteQueueStore",
        backend="sqlite",
        address="`sqlite:///jobs.db`, `sqlite:////var/lib/jobs.db`",
        extra="nothing",
        shared_by=_ONE_MACHINE,
        wake="a look at the ends of the line and the records that are waited for every 6 ms, without the write lock",
        clock="this machine's",
        atomicity="one SQLite transaction",
        joins="a `sqlite3.Connection` to the same file",
        durability="WAL with `synchronous=NORMAL`",
        power="`synchronous=FULL`: each commit is synced before it is confirmed",
        window=f"{_KILL}. Loss of power: with `process` the last commits, with `power` nothing confirmed",
        bulk="one transaction, 500 rows a statement",
        backup="a SQLite file, page by page, of all namespaces",
        counts="kept: the same cost at any backlog",
        limits="one writer at a time; a local disk, no NFS or SMB",
    ),
    Capabilities(
        store="LMDBQueueStore",
        backend="lmdb",
        address="`lmdb:///jobs`, `lmdb:////var/lib/jobs`",
        extra="`localqueue[lmdb]`",
        shared_by=_ONE_MACHINE,
        wake="a look at the number of the last transaction every 6 ms",
        clock="this machine's",
        atomicity="one LMDB transaction",
        joins="no",
        durability="`MDB_NOSYNC`",
        power="each commit is synced before it is confirmed",
        window=f"{_KILL}. Loss of power: with `process` the whole environment, with `power` nothing confirmed",
        bulk="one transaction",
        backup="a directory with an LMDB environment of all namespaces",
        counts="kept: the same cost at any backlog",
        limits="one writer at a time; a local disk; POSIX; at most 1 TiB",
    ),
    Capabilities(
        store="MemoryQueueStore",
        backend="memory",
        address="`memory://`",
        extra="nothing",
        shared_by="threads of one process",
        wake="nobody else is there",
        clock="this machine's",
        atomicity="one SQLite transaction",
        joins="no",
        durability="none",
        power="none",
        window="everything, with the process",
        bulk="one transaction, 500 rows a statement",
        backup="a SQLite file",
        counts="kept: the same cost at any backlog",
        limits="tests, and work that may die with the process",
    ),
    Capabilities(
        store="PostgresQueueStore",
        backend="pg",
        address="`postgresql://user@host:5432/database`",
        extra="`localqueue[postgres]`, PostgreSQL 14 or newer",
        shared_by=_MANY_MACHINES,
        wake="`LISTEN`/`NOTIFY` on one connection a process, one notification a transaction, another for records",
        clock="the server's",
        atomicity="one transaction, claims with `SKIP LOCKED`",
        joins="a `psycopg.Connection` to the same database",
        durability="the server as it is configured",
        power="opens only where `fsync=on` and `synchronous_commit` is `on` or `remote_...`",
        window=(
            f"{_KILL}, the server's included. Loss of power: nothing confirmed, except with `synchronous_commit=off` "
            "(about the last 0.6 s) or `fsync=off` (the database)"
        ),
        bulk="`COPY`",
        backup="a SQLite file of this namespace",
        counts="counted by index",
        limits="everything but `LISTEN` works through a transaction pooler (`pooled=True`, `listen_url=`)",
    ),
    Capabilities(
        store="RedisQueueStore",
        backend="redis",
        address="`redis://host:6379/0`, `rediss://...`, `redis+cluster://...`",
        extra="`localqueue[redis]`, Redis 7.0 or newer",
        shared_by=_MANY_MACHINES,
        wake="pub/sub on one connection a process",
        clock="the server's",
        atomicity="one call of a Lua function; a namespace is one hash slot",
        joins="no",
        durability="refused unless `appendonly yes`, or the store is opened with `volatile=True`",
        power="opens only where `appendfsync always`",
        window=(
            f"{_KILL}, the server's included. Loss of power or of the system: with `appendfsync everysec` about the "
            "last second, with `always` nothing confirmed. A failover: what the replica had not received"
        ),
        bulk="one call of a Lua function",
        backup="a SQLite file of this namespace",
        counts="kept: the same cost at any backlog",
        limits="all messages are in memory; a namespace is on one node of a cluster; a full `maxmemory` refuses puts",
    ),
    Capabilities(
        store="MongoDBQueueStore",
        backend="mongodb",
        address="`mongodb://host:27017/database`, `mongodb+srv://...`",
        extra="`localqueue[mongodb]`, MongoDB 5 or newer",
        shared_by=_MANY_MACHINES,
        wake="one change stream a process",
        clock="the server's, by an offset that is measured again and again",
        atomicity="one statement, or one transaction",
        joins="no",
        durability="every write waits for a majority and its journals",
        power="the same",
        window=f"{_KILL}, the servers' included. Loss of power or of a minority of the servers: nothing confirmed",
        bulk="`insert_many` in one transaction",
        backup="a SQLite file of this namespace",
        counts="counted by index",
        limits="a replica set, if only of one server; a message is at most 15 MB",
    ),
)


def as_dict() -> dict[str, dict[str, Any]]:
    """The table in plain values, by the name that `configure(db_backend=)` has for the store."""
    return {one.backend: one.as_dict() for one in CAPABILITIES}


def as_markdown() -> str:
    """One table: a row for each property, a column for each store."""
    names = [one.name for one in fields(Capabilities)]
    titles = [str(one.metadata["title"]) for one in fields(Capabilities)]
    rows = [[title, *(getattr(one, name) for one in CAPABILITIES)] for title, name in zip(titles, names, strict=True)]
    head, *rest = rows
    head = ["", *(f"`{name}`" for name in head[1:])]
    rest[0] = [rest[0][0], *(f"`{backend}`" for backend in rest[0][1:])]
    lines = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
