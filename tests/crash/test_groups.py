"""A kill inside a grouped commit takes all of the group or nothing of it."""

from __future__ import annotations

import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.crash.children import DEADLINE, Child
from tests.crash.stores import OPENERS, die, open_store, watch_edges

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess]

THREADS = 8


def put_from_threads(connection: Connection, kind: str, path: str, fatal: str) -> None:
    """One thread commits alone and holds its commit until the others wait; their common commit ends at an edge."""
    store = open_store(kind, path, durability="power")
    store.put_one("jobs", "first", None)
    commits = 0

    def on_edge(edge: str) -> None:
        nonlocal commits
        if edge == "begun":
            commits += 1
            deadline = time.monotonic() + DEADLINE
            while commits == 1 and len(store._writer._waiting) < THREADS - 1:
                assert time.monotonic() < deadline
                time.sleep(0)  # lets the others reach the lock
        if commits == 2 and edge == fatal:
            die()

    watch_edges(store, on_edge)
    threads = [threading.Thread(target=store.put_one, args=("jobs", f"t{n}", None)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(("edge", "stored"), [("begun", 2), ("applied", 2), ("committed", THREADS + 1)])
@pytest.mark.parametrize("kind", OPENERS)
def test_a_grouped_commit_is_there_whole_or_not_at_all(kind: str, edge: str, stored: int, tmp_path: Path) -> None:
    child = Child(put_from_threads, kind, str(tmp_path / "store"), edge)
    assert child.reports() == []
    assert child.exit_code == -signal.SIGKILL
    with open_store(kind, tmp_path / "store") as store:
        assert store.check().problems == ()
        assert store.qsize("jobs") == len(store.scan("jobs")) == stored
