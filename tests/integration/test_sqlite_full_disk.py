"""A full disk: a clear error, every confirmed message still there, and work again when there is room."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreError, QueueStoreFullError
from localqueue.stores.port import Changes, LeaseRequest, NewMessage
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.crash.children import Child
from tests.disks import lift_file_size, limit_file_size, mount_small_disk

KILOBYTE = 1024
PAYLOAD = "x" * 3000


def fill(store: Any, most: int = 10_000) -> tuple[list[str], QueueStoreError]:
    """Put until the store refuses; the ids that it confirmed, and why it stopped."""
    confirmed: list[str] = []
    for n in range(most):
        try:
            confirmed.append(store.put_one("jobs", f"{n}{PAYLOAD}", None)[0])
        except QueueStoreError as error:
            return confirmed, error
    raise AssertionError(f"{most} messages fit into a disk that should be small")


def held(store: Any) -> list[str]:
    return [message.id for message in store.scan("jobs")]


def fill_free_and_go_on(path: str, free_space: Callable[[], None]) -> dict[str, Any]:
    """Fill the disk, look, free some space and go on. What happened, to be judged by the parent."""
    store = SQLiteQueueStore(path)
    store.put_one("jobs", "first", None)
    before = held(store)
    confirmed, error = fill(store)
    seen: dict[str, Any] = {"error": error, "path": error.path, "fit": len(confirmed)}
    seen["kept while full"] = held(store) == before + confirmed
    try:
        store.commit(
            Changes(enqueue=[NewMessage(i, q, PAYLOAD * 9) for i, q in zip(store.mint(3), "abc", strict=True)])
        )
    except QueueStoreError:
        seen["fan-out while full"] = [store.qsize(queue) for queue in "abc"]
    free_space()
    seen["kept when freed"] = held(store) == before + confirmed
    for n in range(5):
        confirmed.append(store.put_one("jobs", f"more{n}", None)[0])
    (message,) = store.lease(LeaseRequest("jobs"))
    seen["acked"] = store.ack_one("jobs", message.id, message.attempts)
    seen["problems"] = store.check().problems
    store.close()
    with SQLiteQueueStore(path) as reopened:
        seen["kept when reopened"] = held(reopened) == confirmed
        seen["problems when reopened"] = reopened.check().problems
    return seen


def assert_nothing_was_lost(seen: dict[str, Any], path: str) -> None:
    assert seen["path"] == path and path in str(seen["error"])
    assert seen["fit"] > 10
    assert seen["kept while full"] and seen["kept when freed"] and seen["kept when reopened"]
    assert seen["fan-out while full"] == [0, 0, 0]
    assert seen["acked"]
    assert seen["problems"] == seen["problems when reopened"] == ()


def work_on_a_small_disk(connection: Connection, folder: str) -> None:
    """Work on a disk with a ballast file to remove; where none can be mounted, under a limit that can be lifted."""
    if not mount_small_disk(folder):
        limit_file_size(1000 * KILOBYTE)
        connection.send(fill_free_and_go_on(f"{folder}/store", lift_file_size))
        return
    ballast = Path(folder, "ballast")
    ballast.write_bytes(bytes(600 * KILOBYTE))
    connection.send(fill_free_and_go_on(f"{folder}/store", ballast.unlink))


def work_under_a_file_size_limit(connection: Connection, folder: str) -> None:
    limit_file_size(1000 * KILOBYTE)
    connection.send(fill_free_and_go_on(f"{folder}/store", lift_file_size))


@pytest.mark.multiprocess
def test_a_full_disk_is_named_and_loses_no_confirmed_message(tmp_path: Path) -> None:
    (seen,) = Child(work_on_a_small_disk, str(tmp_path)).reports()
    assert isinstance(seen["error"], QueueStoreFullError)
    assert_nothing_was_lost(seen, str(tmp_path / "store"))


@pytest.mark.multiprocess
def test_a_file_size_limit_or_quota_is_named_and_loses_no_confirmed_message(tmp_path: Path) -> None:
    (seen,) = Child(work_under_a_file_size_limit, str(tmp_path)).reports()
    assert isinstance(seen["error"], QueueStoreFullError), seen["error"]
    assert_nothing_was_lost(seen, str(tmp_path / "store"))


def test_a_store_of_limited_size_refuses_whole_commits_and_takes_more_when_it_may_grow(tmp_path: Path) -> None:
    with SQLiteQueueStore(tmp_path / "store") as store:
        limit = store._writer.connection.execute
        limit("PRAGMA max_page_count = 60")
        confirmed, error = fill(store)
        assert isinstance(error, QueueStoreFullError) and "full" in str(error)
        assert error.path == str(tmp_path / "store") and str(tmp_path / "store") in str(error)
        with pytest.raises(QueueStoreFullError):
            copies = [NewMessage(i, q, PAYLOAD) for i, q in zip(store.mint(30), "abc" * 10, strict=True)]
            store.commit(Changes(enqueue=copies))
        assert [store.qsize(queue) for queue in "abc"] == [0, 0, 0]
        assert held(store) == confirmed and store.qsize("jobs") == len(confirmed)
        assert store.check().problems == ()
        limit("PRAGMA max_page_count = 1000000")
        confirmed.append(store.put_one("jobs", PAYLOAD, None)[0])
    with SQLiteQueueStore(tmp_path / "store") as store:
        assert held(store) == confirmed
        assert store.check().problems == ()


def test_a_full_store_can_still_be_emptied(tmp_path: Path) -> None:
    with SQLiteQueueStore(tmp_path / "store") as store:
        store._writer.connection.execute("PRAGMA max_page_count = 60")
        confirmed, _ = fill(store)
        for message_id in confirmed:
            (message,) = store.lease(LeaseRequest("jobs"))
            assert message.id == message_id
            assert store.ack_one("jobs", message.id, message.attempts)
        again, _ = fill(store)
        assert len(again) >= len(confirmed) - 2, "acked messages did not give their room back"
