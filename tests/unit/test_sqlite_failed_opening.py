"""Whoever opens a SQLite file closes it, also when opening or copying it fails at any step."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreError
from localqueue.idempotency import IdempotencyRecord, SQLiteIdempotencyStore
from localqueue.results import SQLiteResultStore
from localqueue.retry import RetryRecord, SQLiteAttemptStore
from localqueue.stores.sqlite import SQLiteQueueStore

_connect = sqlite3.connect


class Failing:
    """Stands in for `sqlite3.connect`: the nth statement fails, and every connection is remembered."""

    def __init__(self, nth: int) -> None:
        self.nth = nth
        self.statements = 0
        self.connections: list[sqlite3.Connection] = []

    def __call__(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        failing = self

        class Connection(sqlite3.Connection):
            def execute(self, *arguments: Any) -> sqlite3.Cursor:
                failing.statements += 1
                if failing.statements == failing.nth:
                    raise sqlite3.DatabaseError("disk I/O error")
                return super().execute(*arguments)

        self.connections.append(_connect(*arguments, factory=Connection, **options))
        return self.connections[-1]

    def left_open(self) -> int:
        return sum(_is_open(connection) for connection in self.connections)


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018
    except sqlite3.ProgrammingError:
        return False
    connection.close()
    return True


def _copy(path: Path) -> None:
    with SQLiteQueueStore(path) as store:
        store.backup(path.with_suffix(".copy"))


def _save(store: Any, value: Any) -> None:
    """The first save makes the file."""
    with closing(store):
        store.save("key", value)


@pytest.mark.parametrize(
    "work",
    [
        lambda path: SQLiteQueueStore(path).close(),
        pytest.param(_copy, marks=pytest.mark.slow),
        lambda path: _save(SQLiteIdempotencyStore(path), IdempotencyRecord.pending()),
        lambda path: _save(SQLiteResultStore(path), {"sum": 3}),
        lambda path: _save(SQLiteAttemptStore(path), RetryRecord.new()),
    ],
    ids=["queue", "backup", "idempotency", "results", "attempts"],
)
def test_a_failure_at_any_step_leaves_no_connection_open(
    work: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nth = failures = 0
    while True:
        nth += 1
        failing = Failing(nth)
        monkeypatch.setattr(sqlite3, "connect", failing)
        try:
            work(tmp_path / f"{nth}.db")
        except (QueueStoreError, sqlite3.Error):
            failures += 1
        assert failing.left_open() == 0, f"statement {nth}"
        if failing.statements < nth:
            break
    assert failures > 5
