"""Backup and integrity check."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from localqueue.errors import QueueStoreCorruptError
from localqueue.stores.port import STATES, CheckReport
from localqueue.stores.sqlite.connection import translated


def backup(source: sqlite3.Connection, path: str) -> None:
    """Copy the database page by page, verify the copy, then publish it under its name in one step."""
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"backup target {path!r} exists; choose a new name, a backup never overwrites")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with translated(str(unfinished)):
            copy = sqlite3.connect(unfinished, isolation_level=None)
            try:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
                report = check(copy)
            finally:
                copy.close()
        if not report.ok:
            raise QueueStoreCorruptError(
                f"the backup was not kept because it failed its check: {report.problems[0]}", path=path
            )
        _sync(unfinished)
        os.link(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check(connection: sqlite3.Connection) -> CheckReport:
    """SQLite's own integrity check, then ours: counts, leases, keys and dependencies agree with the rows."""
    problems = [row[0] for row in connection.execute("PRAGMA integrity_check(20)").fetchall() if row[0] != "ok"]
    if not problems:
        problems += _wrong_counts(connection) + _broken_promises(connection)
    return CheckReport(tuple(problems))


def _wrong_counts(connection: sqlite3.Connection) -> list[str]:
    real: dict[tuple[int, int], int] = {
        (queue, state): count
        for queue, state, count in connection.execute(
            "SELECT queue, state, count(*) FROM messages GROUP BY queue, state"
        ).fetchall()
    }
    problems = []
    kept = connection.execute(f"SELECT id, name, {', '.join(STATES)} FROM queues").fetchall()
    for queue, name, *counts in kept:
        for state, count in enumerate(counts):
            found = real.get((queue, state), 0)
            if found != count:
                problems.append(f"queue {name!r} counts {count} {STATES[state]} messages but has {found}")
    return problems


_PROMISES = {
    "an ordering key has two messages in delivery": (
        "SELECT queue || ':' || ordering_key FROM messages WHERE ordering_key IS NOT NULL AND state IN (0, 1, 2) "
        "GROUP BY queue, ordering_key HAVING count(*) > 1"
    ),
    "a message is blocked behind an ordering key that nobody holds": (
        "SELECT b.key FROM messages AS b WHERE b.state = 4 AND NOT EXISTS (SELECT 1 FROM messages AS h "
        "WHERE h.queue = b.queue AND h.ordering_key = b.ordering_key AND h.state IN (0, 1, 2))"
    ),
    "a waiting message does not count its dependencies": (
        "SELECT m.key FROM messages AS m WHERE m.state = 3 "
        "AND m.waiting_on != (SELECT count(*) FROM dependencies AS d WHERE d.dependent = m.key)"
    ),
    "a queue would miss a timer": (
        "SELECT q.name FROM queues AS q WHERE q.due > (SELECT min(due_at) FROM messages AS m WHERE m.queue = q.id)"
    ),
    "an inflight message has no lease": (
        "SELECT key FROM messages WHERE state = 2 AND (due_at IS NULL OR leased_at IS NULL)"
    ),
}


def _broken_promises(connection: sqlite3.Connection) -> list[str]:
    return [
        f"{promise}: {row[0]}"
        for promise, query in _PROMISES.items()
        for row in connection.execute(f"{query} LIMIT 5").fetchall()
    ]
