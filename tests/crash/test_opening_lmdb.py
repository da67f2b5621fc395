"""kill -9 while an LMDB store is made: around the driver's opening and at every edge of the first commit."""

from __future__ import annotations

import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.crash.children import Child
from tests.crash.stores import die, kill_at, open_store

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess]


def open_and_die(connection: Connection, path: str, point: str) -> None:
    import lmdb

    from localqueue.stores.lmdb.writer import Writer

    open_driver, make_writer = lmdb.open, Writer.__init__

    def fatal_open(*arguments: Any, **options: Any) -> Any:
        if point == "before opening":
            die()
        opened = open_driver(*arguments, **options)
        if point == "after opening":
            die()
        return opened

    def fatal_writer(self: Writer, *arguments: Any, **options: Any) -> None:
        make_writer(self, *arguments, **options)
        self.on_edge = kill_at(point, 1)

    lmdb.open = fatal_open
    Writer.__init__ = fatal_writer  # type: ignore[method-assign]
    open_store("lmdb", path)
    connection.send("opened")


@pytest.mark.parametrize("point", ["before opening", "after opening", "begun", "applied", "committed"])
def test_a_kill_while_making_a_store_leaves_a_directory_that_opens(point: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    child = Child(open_and_die, str(path), point)
    assert (child.reports(), child.exit_code) == ([], -signal.SIGKILL)
    with open_store("lmdb", path) as store:
        message_id, _ = store.put_one("jobs", "x", None)
        assert [message.id for message in store.scan("jobs")] == [message_id]
        assert store.check().problems == ()
