"""A process that is killed in a transaction of its own leaves the row and the message of it, or neither."""

from __future__ import annotations

import itertools
import random
import signal
import sqlite3
import threading
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from localqueue import PersistentQueue
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.crash.children import Child, reports_of
from tests.crash.stores import die

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess]

STEPS = ("begun", "row written", "message put", "committed")


def order_once(connection: Connection, path: str, fatal: str) -> None:
    """Write an order and its message, and die after one of the steps."""

    def reached(step: str) -> None:
        if step == fatal:
            die()

    with SQLiteQueueStore(path) as store:
        queue = PersistentQueue[int]("orders", store=store)
        own = sqlite3.connect(path, isolation_level=None)
        own.execute("BEGIN IMMEDIATE")
        reached("begun")
        own.execute("INSERT INTO orders VALUES (1)")
        reached("row written")
        queue.put(1, connection=own)
        reached("message put")
        own.execute("COMMIT")
        reached("committed")


def order_until_killed(connection: Connection, path: str, who: int) -> None:
    """Order after order, some of them rolled back; a timer kills at a moment nobody chose."""
    chance = random.Random(who)
    timer = threading.Timer(chance.uniform(0.05, 0.4), die)
    with SQLiteQueueStore(path, timeout=60.0) as store:
        queue = PersistentQueue[int]("orders", store=store)
        own = sqlite3.connect(path, isolation_level=None, timeout=60.0)
        for n in itertools.count(who * 1_000_000):
            own.execute("BEGIN IMMEDIATE")
            own.execute("INSERT INTO orders VALUES (?)", (n,))
            queue.put(n, dedupe_key=str(n), connection=own)
            own.execute("ROLLBACK" if chance.random() < 0.2 else "COMMIT")
            if not timer.is_alive():
                connection.send(n)
                timer.start()


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "app.db")
    SQLiteQueueStore(path).close()
    with closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    return path


def rows_and_messages(path: str) -> tuple[list[int], list[int]]:
    with SQLiteQueueStore(path) as store, closing(sqlite3.connect(path)) as own:
        assert store.check().problems == ()
        rows = [row for (row,) in own.execute("SELECT id FROM orders ORDER BY id")]
        return rows, sorted(message.value for message in PersistentQueue[int]("orders", store=store).messages())


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_after_each_step_leaves_both_or_none(path: str, step: str) -> None:
    child = Child(order_once, path, step)
    assert child.reports() == []
    assert child.exit_code == -signal.SIGKILL
    assert rows_and_messages(path) == (([1], [1]) if step == "committed" else ([], []))


@pytest.mark.slow
def test_kills_at_random_moments_leave_a_message_for_each_row_and_no_other(path: str) -> None:
    for round_ in range(4):
        children = [Child(order_until_killed, path, 1 + round_ * 3 + n) for n in range(3)]
        assert all(reports_of(children))
        assert [child.exit_code for child in children] == [-signal.SIGKILL] * 3
        rows, messages = rows_and_messages(path)
        assert rows == messages and rows
