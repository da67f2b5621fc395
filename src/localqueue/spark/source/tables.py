"""The SELECT that reads columns of a view straight from the tables of a store, for SQLite and for PostgreSQL.

Each public column is made of a few raw ones, which `finish` turns into what Spark shows. Only the
raw columns that are needed are selected, and only the tables that they need are joined. Most columns of a message are
NULL in most queues, and to fetch a NULL costs as much as a number: so it is counted first which of them are used. Texts
go into a statement as hexadecimal digits, numbers as numbers: there is nothing to escape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from localqueue.spark.columns import PUT_OPTIONS

#: The raw columns of each public one, where they are not the one of the same name.
_MADE_OF: dict[str, tuple[str, ...]] = {
    "id": ("key",),
    "message_id": ("key",),
    "value": ("payload", "codec"),
    "available_at": ("available_at", "created_at"),
}

#: The kind of a raw column: whole, real, text or bytes.
KINDS: dict[str, str] = {
    "key": "whole",
    "seq": "whole",
    "queue": "whole",
    "state": "whole",
    "type": "whole",
    "payload": "bytes",
    "codec": "text",
    "headers": "text",
    "options": "text",
    "attempts": "whole",
    "attempt": "whole",
    "priority": "whole",
    "dedupe_key": "text",
    "ordering_key": "text",
    "run_id": "text",
    "created_at": "real",
    "available_at": "real",
    "leased_until": "real",
    "leased_by": "text",
    "last_error": "text",
    "error": "text",
    "worker": "text",
    "failed_at": "real",
    "at": "real",
}


@dataclass(frozen=True, kw_only=True)
class Source:
    """One view in one kind of database: its raw columns as expressions, and the joins that some of them need.

    `tested` are the expressions for conditions, where they are others. `sparse` are columns that are NULL more often
    than not, each with the column that tells whether it is used.
    """

    columns: Mapping[str, str]
    table: str
    joins: Mapping[str, str] = field(default_factory=dict)
    tested: Mapping[str, str] = field(default_factory=dict)
    sparse: Mapping[str, str] = field(default_factory=dict)

    def test(self, column: str) -> str:
        return self.tested.get(column) or self.columns[column]

    def count(self, sparse: Iterable[str], conditions: Iterable[str]) -> str:
        """The statement that tells how many rows use each of these columns."""
        return self._select([f"count({self.sparse[name]})" for name in sparse], conditions)

    def select(self, raw: Iterable[str], conditions: Iterable[str]) -> str:
        """The statement. A join is made when an expression or a condition names its table."""
        return self._select([f"{self.columns[name]} AS {name}" for name in raw], conditions)

    def _select(self, expressions: list[str], conditions: Iterable[str]) -> str:
        where = list(conditions)
        used = " ".join((*expressions, *where))
        joined = [join for name, join in self.joins.items() if f"{name}." in used]
        filtered = f" WHERE {' AND '.join(where)}" if where else ""
        return f"SELECT {', '.join(expressions)} FROM {' '.join((self.table, *joined))}{filtered}"


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of one kind of database, and how a value is written in its SQL."""

    namespaces: str
    queues: str
    messages: Source
    events: Source
    text: str
    leases: str | None = None  # where leases are not columns of the message

    def source(self, view: str) -> Source:
        return self.events if view == "events" else self.messages

    def literal(self, value: int | float | str) -> str:
        return self.text.format(value.encode().hex()) if isinstance(value, str) else repr(value)

    def namespace(self, name: str) -> str:
        """The number and the secret of a namespace."""
        return f"SELECT id, secret FROM {self.namespaces} WHERE name = {self.literal(name)}"

    def queue_names(self, namespace: int) -> str:
        return f"SELECT id, name FROM {self.queues} WHERE namespace = {namespace}"


def raw_columns(view: str, columns: Iterable[str]) -> tuple[str, ...]:
    """The raw columns that these public ones are made of; the key of the message, or the number, is always first."""
    wanted = {"seq"} if view == "events" else {"key"}
    for name in columns:
        wanted.update(("options", "type") if view == "events" and name in PUT_OPTIONS else _MADE_OF.get(name, (name,)))
    return tuple(sorted(wanted, key=list(KINDS).index)) if view != "events" else _seq_first(wanted)


def _seq_first(wanted: set[str]) -> tuple[str, ...]:
    return ("seq", *sorted(wanted - {"seq"}, key=list(KINDS).index))


_SAME = ("key", "queue", "codec", "headers", "priority", "dedupe_key", "ordering_key", "created_at", "last_error",
         "failed_at")  # fmt: skip
_RARE = ("codec", "headers", "dedupe_key", "ordering_key", "last_error", "failed_at")
_SAME_OF_EVENT = ("at", "type", "queue", "key", "attempt", "worker", "error", "codec", "options")

SQLITE = Tables(
    namespaces="lq_namespaces",
    queues="lq_queues",
    text="CAST(x'{}' AS TEXT)",
    leases="SELECT key, count, until, by FROM lq_line WHERE part = 1 AND rank = 0 AND position = 0",
    messages=Source(
        columns={
            **{name: f"m.{name}" for name in (*_SAME, "state", "attempts", "available_at")},
            "payload": "CAST(m.payload AS BLOB)",
            "run_id": "r.name",
        },
        tested={
            "state": "iif(l.key IS NULL, m.state, 2)",
            "attempts": "coalesce(l.count, m.attempts)",
            "available_at": "coalesce(m.available_at, m.created_at)",
            "leased_until": "l.until",
            "leased_by": "l.by",
        },
        sparse={**{name: f"m.{name}" for name in (*_RARE, "available_at")}, "run_id": "m.run"},
        table="lq_messages AS m",
        joins={
            "r": "LEFT JOIN lq_runs AS r ON r.id = m.run",
            "l": "LEFT JOIN lq_line AS l ON l.queue = m.queue AND l.part = 1 AND l.rank = 0 AND l.position = 0 "
            "AND l.key = m.key",
        },
    ),
    events=Source(
        columns={
            **{name: f"e.{name}" for name in _SAME_OF_EVENT},
            "seq": "e.id & 0xffffffffffff",
            "payload": "CAST(e.payload AS BLOB)",
        },
        table="lq_journal AS e",
    ),
)

POSTGRES = Tables(
    namespaces="localqueue.lq_namespaces",
    queues="localqueue.lq_queues",
    text=r"'\x{}'::bytea",
    messages=Source(
        columns={
            **{name: f"m.{name}" for name in _SAME},
            **{name: f"m.{name}" for name in ("state", "payload", "attempts", "available_at", "leased_until")},
            "leased_by": "m.leased_by",
            "run_id": "r.name",
        },
        sparse={**{name: f"m.{name}" for name in (*_RARE, "leased_until", "leased_by")}, "run_id": "m.run"},
        table="localqueue.lq_messages AS m",
        joins={"r": "LEFT JOIN localqueue.lq_runs AS r ON r.id = m.run"},
    ),
    events=Source(
        columns={**{name: f"e.{name}" for name in (*_SAME_OF_EVENT, "seq", "payload")}},
        table="localqueue.lq_journal AS e",
    ),
)

TABLES: dict[str, Tables] = {"sqlite": SQLITE, "pg": POSTGRES}

#: Has a transaction of PostgreSQL see one moment.
ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
#: Names that we do not qualify are the server's, whatever the role or the database say.
OWN_NAMES = "SET LOCAL search_path = pg_catalog, pg_temp"
