"""kill -9 while a SQLite store is made, migrated or backed up: before every statement of it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreVersionError
from localqueue.stores.sqlite import SQLiteQueueStore, schema
from tests.crash.children import Child
from tests.crash.stores import die

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess]

MIGRATION = """
ALTER TABLE lq_queues ADD COLUMN colour TEXT;
UPDATE lq_queues SET colour = 'blue';
CREATE TABLE colours (name TEXT PRIMARY KEY);
INSERT INTO colours SELECT DISTINCT colour FROM lq_queues;
"""


def counted_connections(on_statement: Callable[[int], None]) -> type[sqlite3.Connection]:
    """Connections that call `on_statement` with a running number before each statement."""
    number = 0

    class Counted(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            nonlocal number
            number += 1
            on_statement(number)
            return super().execute(*arguments)

    return Counted


def open_counted(path: str, on_statement: Callable[[int], None], migrations: list[str]) -> None:
    connect, known = sqlite3.connect, list(schema.MIGRATIONS)
    counted = counted_connections(on_statement)
    sqlite3.connect = lambda *args, **options: connect(*args, factory=counted, **options)  # type: ignore[assignment]
    schema.MIGRATIONS += migrations
    try:
        SQLiteQueueStore(path).close()
    finally:
        sqlite3.connect = connect
        schema.MIGRATIONS[:] = known


def open_and_die(connection: Connection, path: str, nth: int, migrations: list[str]) -> None:
    open_counted(path, lambda number: die() if number == nth else None, migrations)
    connection.send("opened")


def statements_to_open(path: str, migrations: list[str]) -> int:
    numbers: list[int] = []
    open_counted(path, numbers.append, migrations)
    return len(numbers)


def test_a_kill_at_any_statement_of_making_a_store_leaves_a_file_that_opens(tmp_path: Path) -> None:
    count = statements_to_open(str(tmp_path / "rehearsed"), [])
    assert count > 20
    for nth in range(1, count + 1):
        path = str(tmp_path / f"killed-{nth}")
        child = Child(open_and_die, path, nth, [])
        assert (child.reports(), child.exit_code) == ([], -signal.SIGKILL), nth
        with SQLiteQueueStore(path) as store:
            store.put_one("jobs", "x", None)
            assert store.qsize("jobs") == 1, nth
            assert store.check().problems == (), nth


def test_a_kill_at_any_statement_of_a_migration_leaves_the_old_version_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = tmp_path / "original"
    with SQLiteQueueStore(original) as store:
        store.put_one("jobs", "kept", None)
    shutil.copyfile(original, tmp_path / "rehearsed")
    count = statements_to_open(str(tmp_path / "rehearsed"), [MIGRATION])
    versions = []
    for nth in range(1, count + 1):
        path = tmp_path / f"killed-{nth}"
        shutil.copyfile(original, path)
        child = Child(open_and_die, str(path), nth, [MIGRATION])
        assert (child.reports(), child.exit_code) == ([], -signal.SIGKILL), nth
        versions.append(_version_and_columns(path))
    before, after = versions[0], versions[-1]
    assert (before[0], after[0]) == (schema.current_version(), schema.current_version() + 1)
    assert set(versions) == {before, after}
    assert versions == sorted(versions), "a kill later in the migration brought the old version back"
    with pytest.raises(QueueStoreVersionError):
        SQLiteQueueStore(tmp_path / f"killed-{count}")
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, MIGRATION])
    for nth in range(1, count + 1):
        with SQLiteQueueStore(tmp_path / f"killed-{nth}") as store:
            assert [message.payload for message in store.scan("jobs")] == ["kept"], nth
            assert store.check().problems == (), nth
        assert _version_and_columns(tmp_path / f"killed-{nth}") == after, nth


def _version_and_columns(path: Path) -> tuple[int, int, int]:
    """The version a file says it has, and whether the two things that the migration makes are there."""
    connection = sqlite3.connect(path)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        columns = [row[1] for row in connection.execute("PRAGMA table_info(queues)").fetchall()]
        tables = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'colours'").fetchone()[0]
        return version, int("colour" in columns), tables
    finally:
        connection.close()


def back_up_and_die(connection: Connection, path: str, target: str, function: str, nth: int, after: bool) -> None:
    """Back up, and die before or after the nth call of a function of `os` that makes the copy durable and visible."""
    original, calls = getattr(os, function), 0

    def fatal(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and not after:
            die()
        result = original(*arguments, **options)
        if calls == nth:
            die()
        return result

    setattr(os, function, fatal)
    SQLiteQueueStore(path).backup(target)
    connection.send("backed up")


@pytest.mark.parametrize(
    ("function", "nth", "after", "visible"),
    [("fsync", 1, False, False), ("link", 1, False, False), ("link", 1, True, True), ("fsync", 2, False, True)],
)
def test_a_backup_appears_whole_or_not_at_all(
    function: str, nth: int, after: bool, visible: bool, tmp_path: Path
) -> None:
    with SQLiteQueueStore(tmp_path / "store") as store:
        store.put_one("jobs", "kept", None)
    target = tmp_path / "copy"
    child = Child(back_up_and_die, str(tmp_path / "store"), str(target), function, nth, after)
    assert (child.reports(), child.exit_code) == ([], -signal.SIGKILL)
    assert target.exists() == visible
    if visible:
        with SQLiteQueueStore(target) as copy:
            assert [message.payload for message in copy.scan("jobs")] == ["kept"]
            assert copy.check().problems == ()
    with SQLiteQueueStore(tmp_path / "store") as store:
        assert store.check().problems == ()
        store.backup(tmp_path / "second copy")
