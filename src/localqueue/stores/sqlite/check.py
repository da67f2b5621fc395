"""Integrity check: SQLite's own, then ours."""

from __future__ import annotations

import sqlite3

from localqueue.stores.port import STATES, CheckReport


def check(connection: sqlite3.Connection) -> CheckReport:
    """SQLite's own integrity check, then ours: counts, leases, keys and dependencies agree with the rows."""
    problems = [row[0] for row in connection.execute("PRAGMA integrity_check(20)").fetchall() if row[0] != "ok"]
    if not problems:
        problems = [
            f"{promise}: {row[0]}"
            for promise, query in _PROMISES.items()
            for row in connection.execute(f"{query} LIMIT 5").fetchall()
        ]
    return CheckReport(tuple(problems))


def _kept_count(state: int) -> str:
    name = STATES[state]
    return (
        f"SELECT q.name || ' counts ' || q.{name} FROM lq_queues AS q "
        f"WHERE q.{name} != (SELECT count(*) FROM lq_messages AS m WHERE m.queue = q.id AND m.state = {state})"
    )


_PROMISES = {
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
        "OR l.position != coalesce(m.available_at, m.created_at) OR l.count != m.attempts "
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
