"""Who puts is refused before the disk is full, however many processes do so."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreFullError
from localqueue.stores import room
from localqueue.stores.lmdb import LMDBQueueStore
from localqueue.stores.lmdb import connection as lmdb_connection
from localqueue.stores.port import Changes, LeaseRequest, RecordWrite
from localqueue.stores.room import Disk, Room
from localqueue.stores.sqlite import SQLiteQueueStore
from localqueue.stores.sqlite import writer as sqlite_writer


def test_one_that_stood_still_looks_again_before_it_puts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, free = [100.0], [1_000_000]
    monkeypatch.setattr(room.time, "monotonic", lambda: now[0])
    mine = Room("store", lambda: free[0])
    mine.admit(100)
    free[0] = 50  # others have put
    mine.admit(100)  # what it may do at once without a look
    now[0] += 0.1
    with pytest.raises(QueueStoreFullError, match="the disk of the store at 'store' is full"):
        mine.admit(100)
    mine.admit(50)


def test_what_is_kept_of_a_full_disk_is_kept_of_the_free_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may have grown into it, while pages that were free could not be used."""
    with LMDBQueueStore(tmp_path / "store") as store:
        for _ in range(3):
            store.put_one("jobs", "x" * 500_000, None)
            (message,) = store.lease(LeaseRequest("jobs"))
            assert store.ack_one("jobs", message.id, message.attempts)

        def room_with(free: int, kept: int) -> int:
            monkeypatch.setattr(lmdb_connection.Disk, "of", lambda folder, size: Disk(free, kept))
            return store._environment._measure_room()

        in_pages = room_with(0, 0)
        assert in_pages > 400_000
        assert room_with(0, 300_000) == in_pages - 300_000
        assert room_with(100_000, 300_000) == in_pages - 200_000
        assert room_with(0, 10_000_000) == 0


class FullDisk:
    """The writer of a store whose disk is full for so many tries; meanwhile somebody may be in the way of its log."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch, *, tries: float, in_the_way: bool) -> None:
        self.tries, self.now = 0, itertools.count()
        writer, work = store._writer, store._writer._try

        def refused(*given: Any) -> Any:
            self.tries += 1
            if self.tries <= tries:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return work(*given)

        monkeypatch.setattr(writer, "_try", refused)
        monkeypatch.setattr(writer.space, "checkpoint", lambda *how: not in_the_way)
        monkeypatch.setattr(sqlite_writer.time, "sleep", lambda seconds: None)
        monkeypatch.setattr(sqlite_writer.time, "monotonic", lambda: float(next(self.now)))


def write(store: Any) -> None:
    store.commit(Changes(records=[RecordWrite("kind", "key", b"value")]))


def test_who_writes_to_a_full_disk_waits_for_those_who_keep_the_log_from_beginning_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLiteQueueStore(tmp_path / "store.db", timeout=100) as store:
        disk = FullDisk(store, monkeypatch, tries=30, in_the_way=True)
        write(store)
        assert disk.tries == 31


@pytest.mark.parametrize(("in_the_way", "most"), [(True, 101), (False, 8)])
def test_and_gives_up_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_the_way: bool, most: int) -> None:
    with SQLiteQueueStore(tmp_path / "store.db", timeout=100) as store:
        with monkeypatch.context() as patch:
            disk = FullDisk(store, patch, tries=float("inf"), in_the_way=in_the_way)
            with pytest.raises(QueueStoreFullError):
                write(store)
            assert 1 < disk.tries <= most
        write(store)
