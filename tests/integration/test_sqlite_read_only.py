"""A file or directory that this user may not write. Permissions do not bind root, so root becomes nobody first."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreError, QueueStoreReadOnlyError
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.crash.children import Child
from tests.processes import become_nobody

pytestmark = pytest.mark.multiprocess


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike `tmp_path`."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def path(folder: Path) -> Path:
    """A closed store with one message."""
    path = folder / "store"
    with SQLiteQueueStore(path) as store:
        store.put_one("jobs", "kept", None)
    return path


def open_and_put(connection: Connection, path: str) -> None:
    """Report the error, and what could be read before it."""
    become_nobody()
    payloads: list[Any] = []
    try:
        with SQLiteQueueStore(path, timeout=1.0) as store:
            payloads = [message.payload for message in store.scan("jobs")]
            store.put_one("jobs", "new", None)
        connection.send((None, None, payloads))
    except QueueStoreError as error:
        connection.send((error, error.path, payloads))


def put_as_nobody(path: Path) -> tuple[Any, Any, Any]:
    reports = Child(open_and_put, str(path)).reports()
    assert len(reports) == 1, "an error that is not ours ended the process"
    return reports[0]


@pytest.mark.parametrize("folder_mode", [0o777, 0o555])
def test_a_read_only_file_is_named_and_unchanged(folder_mode: int, folder: Path, path: Path) -> None:
    path.chmod(0o444)
    before = path.read_bytes()
    folder.chmod(folder_mode)
    error, named, _ = put_as_nobody(path)
    assert isinstance(error, QueueStoreReadOnlyError), error
    assert named == str(path) and str(path) in str(error)
    assert path.read_bytes() == before

    folder.chmod(0o755)
    for file in folder.iterdir():  # a journal that was made beside a read-only file is read-only too
        file.chmod(0o644)
    with SQLiteQueueStore(path) as store:
        store.put_one("jobs", "more", None)
        assert [message.payload for message in store.scan("jobs")] == ["kept", "more"]
        assert store.check().problems == ()


def test_a_writable_file_in_a_read_only_directory_is_named_and_unchanged(folder: Path, path: Path) -> None:
    path.chmod(0o666)
    before = path.read_bytes()
    folder.chmod(0o555)
    error, named, _ = put_as_nobody(path)
    assert isinstance(error, QueueStoreError), error
    assert "directory" in str(error)
    assert named == str(path) and str(path) in str(error)
    assert path.read_bytes() == before


def test_a_new_file_in_a_read_only_directory_is_refused_by_name(folder: Path) -> None:
    folder.chmod(0o555)
    error, named, _ = put_as_nobody(folder / "new")
    assert isinstance(error, QueueStoreError), error
    assert "directory" in str(error)
    assert named == str(folder / "new") and str(folder / "new") in str(error)
    assert list(folder.iterdir()) == []


def test_a_directory_that_may_not_be_made_is_refused_by_name(folder: Path) -> None:
    folder.chmod(0o555)
    error, named, _ = put_as_nobody(folder / "deeper" / "new")
    assert isinstance(error, QueueStoreError), error
    assert named == str(folder / "deeper" / "new") and str(folder / "deeper" / "new") in str(error)
    assert list(folder.iterdir()) == []


def test_a_store_that_others_have_open_is_read_only_for_those_who_may_only_read(folder: Path, path: Path) -> None:
    folder.chmod(0o777)
    with SQLiteQueueStore(path) as store:
        path.chmod(0o444)
        for journal in folder.glob("store-*"):
            journal.chmod(0o444)
        store.put_one("jobs", "in the journal", None)
        error, named, _ = put_as_nobody(path)
        assert isinstance(error, QueueStoreReadOnlyError), error
        assert named == str(path)
        store.put_one("jobs", "more", None)
        assert [message.payload for message in store.scan("jobs")] == ["kept", "in the journal", "more"]
    path.chmod(0o644)
