"""Giving space back on LMDB: pages that are free are used again at once, and `compact` puts a smaller file in place."""

from __future__ import annotations

import os
import stat
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreFullError, QueueStoreLockedError
from localqueue.stores.lmdb import LMDBQueueStore, space
from localqueue.stores.port import LeaseRequest
from localqueue.stores.privacy import make_file
from tests.crash.children import Child
from tests.processes import context
from tests.unit.worker_steps import eventually

HUGE = 5_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def size(path: Path) -> int:
    return (path / "data.mdb").stat().st_size


def pass_through(store: LMDBQueueStore, payload: str) -> None:
    store.put_one("jobs", payload, None)
    (message,) = store.lease(LeaseRequest("jobs"))
    assert store.ack_one("jobs", message.id, message.attempts)


def test_what_a_huge_message_left_is_reused_and_given_back_by_compact(path: Path) -> None:
    with LMDBQueueStore(path) as store:
        pass_through(store, "x")
        before = size(path)
        sizes = []
        for _ in range(8):
            pass_through(store, "x" * HUGE)
            sizes.append(size(path))
        assert sizes[0] > HUGE and sizes[-1] == sizes[3], "free pages are not reused"
        kept = store.put_one("jobs", "kept", None)[0]
        large = size(path)
        compacted = store.compact()
        assert compacted == (large, size(path)) and size(path) < 3 * before
        assert [one.id for one in store.scan("jobs")] == [kept]
        pass_through(store, "later")
        assert store.check().ok and sorted(one.name for one in path.iterdir()) == ["data.mdb", "lock.mdb", "write.lock"]


@pytest.mark.multiprocess
def test_a_store_that_others_have_open_is_not_replaced(path: Path) -> None:
    with LMDBQueueStore(path) as store:
        store.put_one("jobs", "x", None)
        theirs, ours = context.Pipe(duplex=False)
        other = Child(hold_open, str(path), theirs)
        assert other.connection.recv() == 1
        inode = (path / "data.mdb").stat().st_ino
        with pytest.raises(QueueStoreLockedError, match="open in other processes"):
            store.compact()
        assert (path / "data.mdb").stat().st_ino == inode
        store.put_one("jobs", "y", None)
        ours.send("go on")
        assert other.reports() == [2]
        store.compact()
        assert store.qsize("jobs") == 2


def hold_open(connection: Connection, path: str, told: Connection) -> None:
    with LMDBQueueStore(path) as store:
        connection.send(store.qsize("jobs"))
        told.recv()
        connection.send(store.qsize("jobs"))


def open_and_put(connection: Connection, path: str) -> None:
    with LMDBQueueStore(path) as store:
        connection.send(store.qsize("jobs"))
        store.put_one("jobs", "theirs", None)
        connection.send(store.qsize("jobs"))


def somebody_waits_for(file: Path) -> bool:
    """Whether a process waits for a lock on a file."""
    inode = f":{file.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.multiprocess
@pytest.mark.parametrize("commits", [1, 2, 3])
def test_who_opens_a_store_while_it_is_compacted_waits_and_finds_everything(
    path: Path, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the last transaction had an odd or an even number: the one who waits goes on counting from it."""
    opened: list[Child] = []

    def make_while_somebody_opens(*arguments: Any, **options: Any) -> None:
        opened.append(Child(open_and_put, str(path)))
        eventually(lambda: somebody_waits_for(path / "lock.mdb"))
        make_file(*arguments, **options)

    with LMDBQueueStore(path) as store:
        for n in range(commits):
            store.put_one("jobs", f"{n}", None)
        monkeypatch.setattr(space, "make_file", make_while_somebody_opens)
        store.compact()
        assert opened[0].reports() == [commits, commits + 1]
        assert store.qsize("jobs") == commits + 1
        pass_through(store, "ours")
        assert store.check().ok


def test_the_new_file_has_the_mode_of_the_old_one(path: Path) -> None:
    with LMDBQueueStore(path) as store:
        store.put_one("jobs", "x", None)
        (path / "data.mdb").chmod(0o660)
        store.compact()
        assert stat.S_IMODE((path / "data.mdb").stat().st_mode) == 0o660


def test_a_copy_that_can_not_be_written_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    with LMDBQueueStore(path) as store:
        store.put_one("jobs", "x", None)
        (path / "data.mdb.compact").write_bytes(b"which a process that was killed left behind")
        with monkeypatch.context() as patch:
            patch.setattr(space, "_copy", no_room)
            with pytest.raises(QueueStoreFullError):
                store.compact()
        assert not (path / "data.mdb.compact").exists() and store.qsize("jobs") == 1
        store.compact()
        assert store.qsize("jobs") == 1


def look_unlisted(connection: Connection, path: str, told: Connection) -> None:
    os.access = lambda *_: False  # type: ignore[assignment]  # as if the table of readers may not be written
    with LMDBQueueStore(path, read_only=True) as store:
        connection.send(store.qsize("jobs"))
        told.recv()
        connection.send(store.qsize("jobs"))


@pytest.mark.multiprocess
def test_who_looks_without_being_listed_as_a_reader_sees_the_new_file(path: Path) -> None:
    with LMDBQueueStore(path) as store:
        store.put_one("jobs", "x", None)
        theirs, ours = context.Pipe(duplex=False)
        looker = Child(look_unlisted, str(path), theirs)
        assert looker.connection.recv() == 1
        store.compact()
        store.put_one("jobs", "y", None)
        ours.send("go on")
        assert looker.reports() == [2]
