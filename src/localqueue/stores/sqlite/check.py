"""Integrity check: SQLite's own, then ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from localqueue._named_tuple import NamedTuple
from localqueue.events.journal import JOURNAL_TYPES
from localqueue.stores.engine.row import from_json
from localqueue.stores.port import STATES, CheckReport
from localqueue.stores.sqlite import schema
from localqueue.stores.sqlite import statements as sql

_TOO_NEW = 3 << 61  # for a key: what is minted in the year 2073


def check(connection: sqlite3.Connection) -> CheckReport:
    """SQLite's own integrity check, then ours: counts, leases, keys and dependencies agree with the rows."""
    problems = [row[0] for row in connection.execute("PRAGMA integrity_check(20)").fetchall() if row[0] != "ok"]
    return CheckReport(tuple(problems or content_problems(connection)))


def content_problems(connection: sqlite3.Connection) -> list[str]:
    """What is not as localqueue writes it. What comes later relies on what was found sound before."""
    made = _made()
    for look in (_missing, _mistyped, _no_texts, _no_objects, _broken_promises):
        if problems := list(look(connection, made)):
            return problems
    return []


class _Schema(NamedTuple):
    """The names of what a file must have, each with what it is, also while a journal is kept; the columns of tables."""

    names: dict[str, str]
    of_journal: dict[str, str]
    columns: dict[str, list[tuple[str, tuple[str, ...]]]]


_STORED_AS = {"INTEGER": ("integer",), "REAL": ("real",), "TEXT": ("text",), "BLOB": ("blob",), "": ("text", "blob")}


def _made() -> _Schema:
    """What this release makes."""
    with closing(sqlite3.connect(":memory:")) as connection:
        find = "SELECT name, type FROM sqlite_schema WHERE name LIKE 'lq_%'"
        schema.prepare(connection, ":memory:")
        names = dict(connection.execute(find).fetchall())
        schema.run_script(connection, sql.JOURNAL_ON)
        of_journal = dict(dict(connection.execute(find).fetchall()).items() - names.items())
        columns = {}
        for table in (name for name, kind in names.items() if kind == "table"):
            columns[table] = [
                (name, _STORED_AS[kind] if required or of_key else (*_STORED_AS[kind], "null"))
                for _, name, kind, required, _, of_key in connection.execute(f"PRAGMA table_info({table})")
            ]
    return _Schema(names, of_journal, columns)


def _missing(connection: sqlite3.Connection, made: _Schema) -> Iterator[str]:
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    kept = "lq_journals" in there and connection.execute("SELECT 1 FROM lq_journals WHERE enabled LIMIT 1").fetchone()
    for name, kind in {**made.names, **(made.of_journal if kept else {})}.items():
        if name not in there:
            yield f"the {kind} {name} is missing"
    for table, columns in made.columns.items():
        found = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} if table in there else set()
        for column, _ in columns if found else ():
            if column not in found:
                yield f"the table {table} has no column {column}"


def _mistyped(connection: sqlite3.Connection, made: _Schema) -> Iterator[str]:
    for table, columns in made.columns.items():
        wrong = ", ".join(f"""sum(typeof("{name}") NOT IN {(*kinds, "")!r})""" for name, kinds in columns)
        counts = connection.execute(f"SELECT {wrong} FROM {table}").fetchone()
        for (name, kinds), count in zip(columns, counts, strict=True):
            if count:
                yield f"{count} rows of {table} have a {name} that is not {' or '.join(kinds)}"


def _no_texts(connection: sqlite3.Connection, made: _Schema) -> Iterator[str]:
    for table, columns in made.columns.items():
        texts = [f'"{name}"' for name, kinds in columns if "text" in kinds]
        try:
            for _ in connection.execute(f"SELECT {', '.join(texts)} FROM {table}") if texts else ():
                pass
        except sqlite3.OperationalError as error:
            yield f"a row of {table} has a text that can not be read: {str(error).partition(' with text ')[0]}"


_OBJECTS = {"lq_messages": ("last_error",), "lq_attempts": ("error",), "lq_journal": ("error", "options")}


def _no_objects(connection: sqlite3.Connection, _: _Schema) -> Iterator[str]:
    for table, columns in _OBJECTS.items():
        for column in columns:
            for (text,) in connection.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"):
                try:
                    from_json(text)
                except ValueError as error:
                    yield f"a row of {table} has a {column} that can not be read: {error}"
                    break


def _broken_promises(connection: sqlite3.Connection, _: _Schema) -> Iterator[str]:
    for promise, query in _PROMISES.items():
        for row in connection.execute(f"{query} LIMIT 5").fetchall():
            yield f"{promise}: {row[0]}"


def _kept_count(state: int) -> str:
    name = STATES[state]
    return (
        f"SELECT q.name || ' counts ' || q.{name} FROM lq_queues AS q "
        f"WHERE q.{name} != (SELECT count(*) FROM lq_messages AS m WHERE m.queue = q.id AND m.state = {state})"
    )


_PROMISES = {
    "a message is in a state that does not exist": (
        "SELECT key FROM lq_messages WHERE state NOT IN (0, 1, 3, 4, 5, 6, 7)"
    ),
    "a message has a key that is none": "SELECT key FROM lq_messages WHERE key < 1",
    "a message is in a queue that does not exist": (
        "SELECT key FROM lq_messages WHERE queue NOT IN (SELECT id FROM lq_queues)"
    ),
    "a message is in a run that does not exist": (
        "SELECT key FROM lq_messages WHERE run IS NOT NULL AND run NOT IN (SELECT id FROM lq_runs)"
    ),
    "a queue is in a namespace that does not exist": (
        "SELECT name FROM lq_queues WHERE namespace NOT IN (SELECT id FROM lq_namespaces)"
    ),
    "an entry of the journal has a type that does not exist": (
        f"SELECT id FROM lq_journal WHERE type NOT BETWEEN 1 AND {len(JOURNAL_TYPES)}"
    ),
    **{f"a queue miscounts its {STATES[state]} messages": _kept_count(state) for state in (1, 3, 4, 5, 6, 7)},
    "a queue miscounts its ready messages": (
        "SELECT q.name FROM lq_queues AS q JOIN lq_line AS head ON head.queue = q.id AND head.part = 0 "
        "JOIN lq_line AS tail ON tail.queue = q.id AND tail.part = 3 "
        "WHERE tail.count - head.count != (SELECT count(*) FROM lq_line AS l WHERE l.queue = q.id AND l.part = 2)"
    ),
    "a queue has no head or no tail": (
        "SELECT q.name FROM lq_queues AS q "
        "WHERE 2 != (SELECT count(*) FROM lq_line AS l WHERE l.queue = q.id AND l.part IN (0, 3))"
    ),
    "a queue does not know its newest message": (
        "SELECT q.name FROM lq_queues AS q JOIN lq_line AS tail ON tail.queue = q.id AND tail.part = 3 "
        "LEFT JOIN (SELECT queue, max(key) AS newest FROM lq_messages GROUP BY queue) AS m ON m.queue = q.id "
        f"WHERE tail.most IS NULL OR tail.since IS NULL OR tail.most > {_TOO_NEW} OR tail.most < m.newest"
    ),
    "a lease has no beginning or no end": "SELECT key FROM lq_line WHERE part = 1 AND (since IS NULL OR until IS NULL)",
    "a message that should be in line is not": (
        "SELECT key FROM lq_messages WHERE state = 0 EXCEPT SELECT key FROM lq_line WHERE part IN (1, 2)"
    ),
    "the line holds a message that is not in line": (
        "SELECT key FROM lq_line WHERE part IN (1, 2) EXCEPT SELECT key FROM lq_messages WHERE state = 0"
    ),
    "the line holds a message twice": ("SELECT key FROM lq_line WHERE part IN (1, 2) GROUP BY key HAVING count(*) > 1"),
    "a ready message stands in the wrong place": (
        "SELECT m.key FROM lq_line AS l JOIN lq_messages AS m ON m.key = l.key "
        "WHERE l.part = 2 AND (l.queue != m.queue OR l.rank != -m.priority "
        "OR l.position < coalesce(m.available_at, m.created_at) OR l.count != m.attempts "
        "OR l.until IS NOT m.expires_at)"
    ),
    "an ordering key has two messages in delivery": (
        "SELECT queue || ':' || ordering_key FROM lq_messages WHERE ordering_key IS NOT NULL AND state IN (0, 1) "
        "GROUP BY queue, ordering_key HAVING count(*) > 1"
    ),
    "a message is blocked behind an ordering key that nobody holds": (
        "SELECT b.key FROM lq_messages AS b WHERE b.state = 4 AND NOT EXISTS (SELECT 1 FROM lq_messages AS h "
        "WHERE h.queue = b.queue AND h.ordering_key = b.ordering_key AND h.state IN (0, 1))"
    ),
    "a waiting message does not count its dependencies": (
        "SELECT m.key FROM lq_messages AS m WHERE m.state = 3 "
        "AND m.waiting_on != (SELECT count(*) FROM lq_dependencies AS d WHERE d.dependent = m.key)"
    ),
    "a worker is paused where claims do not look": (
        "SELECT w.worker FROM lq_workers AS w JOIN lq_line AS head ON head.queue = w.queue AND head.part = 0 "
        "WHERE w.paused_at IS NOT NULL AND head.most IS NULL"
    ),
    "a queue would miss a timer": (
        "SELECT q.name FROM lq_queues AS q JOIN lq_line AS head ON head.queue = q.id AND head.part = 0 "
        "WHERE head.until > (SELECT min(m.due_at) FROM lq_messages AS m WHERE m.queue = q.id) "
        "OR head.until > (SELECT min(l.until) FROM lq_line AS l WHERE l.queue = q.id AND l.part = 1)"
    ),
}
