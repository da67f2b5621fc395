"""A damaged file is recognised, named, and never made worse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreCorruptError
from localqueue.stores.port import LeaseRequest
from localqueue.stores.sqlite import SQLiteQueueStore

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store of a few hundred pages."""
    path = tmp_path / "store"
    with SQLiteQueueStore(path) as store:
        for n in range(1000):
            store.put_one("jobs", f"{n:04}" * 250, None)
    return path


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def test_a_file_with_a_destroyed_header_is_refused_and_unchanged(path: Path) -> None:
    overwrite(path, 0, b"\x00garbage" * 12)
    before = path.read_bytes()
    with pytest.raises(QueueStoreCorruptError, match="restore a backup") as raised:
        SQLiteQueueStore(path)
    assert raised.value.path == str(path) and str(path) in str(raised.value)
    assert path.read_bytes() == before


def test_a_file_that_was_cut_short_is_called_damaged(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size // 2 // PAGE * PAGE)
    with pytest.raises(QueueStoreCorruptError) as raised, SQLiteQueueStore(path) as store:
        store.scan("jobs")
    assert raised.value.path == str(path) and str(path) in str(raised.value)


def read_all(store: Any) -> None:
    store.scan("jobs")


def lease_all(store: Any) -> None:
    store.lease(LeaseRequest("jobs", 1000))


def purge(store: Any) -> None:
    store.purge("jobs")


@pytest.mark.parametrize("operation", [read_all, lease_all, purge])
def test_destroyed_pages_are_reported_by_the_check_and_stop_operations(
    operation: Callable[[Any], None], path: Path, tmp_path: Path
) -> None:
    middle = path.stat().st_size // PAGE // 2
    overwrite(path, middle * PAGE, b"\xff" * PAGE * 40)
    with SQLiteQueueStore(path) as store:
        report = store.check()
        assert not report.ok and report.problems
        with pytest.raises(QueueStoreCorruptError) as raised:
            operation(store)
        assert raised.value.path == str(path) and str(path) in str(raised.value)
        assert store.stats("jobs").ready == 1000, "the failed operation left its counts behind"
        assert not store._writer.connection.in_transaction
        with pytest.raises(QueueStoreCorruptError):
            store.backup(tmp_path / "copy")
        assert [file.name for file in tmp_path.iterdir() if "copy" in file.name] == []


def test_a_message_that_vanished_behind_our_back_is_reported(path: Path) -> None:
    with SQLiteQueueStore(path) as store:
        assert store.check().ok
        store._writer.connection.execute("DELETE FROM lq_messages WHERE key = (SELECT max(key) FROM lq_messages)")
        report = store.check()
        assert not report.ok and report.problems
