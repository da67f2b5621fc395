"""Who puts is refused before the disk is full, however many processes do so."""

from __future__ import annotations

from pathlib import Path

import pytest

from localqueue.errors import QueueStoreFullError
from localqueue.stores import room
from localqueue.stores.lmdb import LMDBQueueStore
from localqueue.stores.lmdb import connection as lmdb_connection
from localqueue.stores.port import LeaseRequest
from localqueue.stores.room import Disk, Room


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
