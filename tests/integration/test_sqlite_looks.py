"""Looking at a SQLite store: in directories that may not be written, beside logs, and while others write."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreError, QueueStoreMissingError, QueueStoreVersionError
from localqueue.stores.sqlite import SQLiteQueueStore
from localqueue.stores.sqlite.onlooker import Onlooker
from localqueue.stores.sqlite.schema import current_version
from localqueue.stores.url import open_store
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
    """A closed store with one message, that its owner lets others read."""
    path = folder / "store"
    with SQLiteQueueStore(path) as store:
        store.put_one("jobs", "kept", None)
    path.chmod(0o644)
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def payloads(store: Any) -> list[Any]:
    return [message.payload for message in store.scan("jobs")]


def look(path: Path) -> list[Any]:
    with SQLiteQueueStore(path, read_only=True) as store:
        assert store.check().problems == ()
        return payloads(store)


def _look_as_nobody(connection: Connection, path: str) -> None:
    become_nobody()
    try:
        connection.send(look(Path(path)))
    except QueueStoreError as error:
        connection.send(error)


def look_as_nobody(path: Path) -> Any:
    (found,) = Child(_look_as_nobody, str(path)).reports()
    return found


def _put_and_die(connection: Connection, path: str) -> None:
    SQLiteQueueStore(path).put_one("jobs", "in the log", None)
    os.kill(os.getpid(), signal.SIGKILL)


def kill_a_writer(path: Path) -> None:
    child = Child(_put_and_die, str(path))
    child.reports()
    assert child.exit_code == -signal.SIGKILL


@pytest.mark.parametrize("name", ["store", "deeper/store", "a file/store"])
def test_where_nothing_is_nothing_is_made(name: str, folder: Path) -> None:
    (folder / "a file").write_text("not a directory")
    with pytest.raises(QueueStoreMissingError, match=r"there is no store at 'sqlite:///.*store'") as raised:
        open_store(f"sqlite:///{folder / name}", read_only=True)
    assert raised.value.path == str(folder / name)
    assert names(folder) == ["a file"]


def test_an_empty_file_is_no_store_and_stays_empty(folder: Path) -> None:
    (folder / "store").touch()
    with pytest.raises(QueueStoreMissingError, match="there is no store at"):
        look(folder / "store")
    assert names(folder) == ["store"]
    assert (folder / "store").stat().st_size == 0


def test_a_folder_that_may_not_be_entered_is_not_called_missing(folder: Path, path: Path) -> None:
    folder.chmod(0o600)
    error = look_as_nobody(path)
    assert isinstance(error, QueueStoreError)
    assert not isinstance(error, QueueStoreMissingError)
    assert str(path) in str(error) and "Permission denied" in str(error)


def test_a_closed_store_is_looked_at_where_nothing_may_be_written(folder: Path, path: Path) -> None:
    path.chmod(0o444)
    folder.chmod(0o555)
    before = path.read_bytes()
    assert look_as_nobody(path) == ["kept"]
    assert names(folder) == ["store"]
    assert path.read_bytes() == before


def test_looking_leaves_no_log_where_it_could_make_one(folder: Path, path: Path) -> None:
    before = path.read_bytes()
    with SQLiteQueueStore(path, read_only=True) as store:
        assert payloads(store) == ["kept"]
        assert names(folder) == ["store"]
    assert names(folder) == ["store"]
    assert path.read_bytes() == before


def test_a_store_that_others_have_open_is_looked_at_where_nothing_may_be_written(folder: Path, path: Path) -> None:
    with SQLiteQueueStore(path) as store:
        store.put_one("jobs", "in the log", None)
        folder.chmod(0o555)
        assert look_as_nobody(path) == ["kept", "in the log"]
        store.put_one("jobs", "more", None)
        assert look_as_nobody(path) == ["kept", "in the log", "more"]


def test_what_a_killed_writer_left_is_looked_at_where_nothing_may_be_written(folder: Path, path: Path) -> None:
    kill_a_writer(path)
    assert names(folder) == ["store", "store-shm", "store-wal"]
    folder.chmod(0o555)
    assert look_as_nobody(path) == ["kept", "in the log"]
    assert names(folder) == ["store", "store-shm", "store-wal"]


@pytest.mark.parametrize("look", [look, look_as_nobody])
def test_a_log_without_its_index_is_read_and_left_alone(look: Any, folder: Path, path: Path) -> None:
    kill_a_writer(path)
    (folder / "store-shm").unlink()
    folder.chmod(0o555)
    before = [(folder / name).read_bytes() for name in ("store", "store-wal")]
    assert look(path) == ["kept", "in the log"]
    assert names(folder) == ["store", "store-wal"]
    assert [(folder / name).read_bytes() for name in ("store", "store-wal")] == before


def test_a_log_is_found_through_a_link(folder: Path, path: Path) -> None:
    (folder / "links").mkdir()
    link = folder / "links" / "link"
    link.symlink_to(path)
    with SQLiteQueueStore(path) as store:
        store.put_one("jobs", "in the log", None)
        assert look(link) == ["kept", "in the log"]
    assert names(folder / "links") == ["link"]


def test_who_looks_may_go_elsewhere(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(path.parent)
    with SQLiteQueueStore(path.name, read_only=True) as store:
        monkeypatch.chdir(tmp_path)
        assert payloads(store) == ["kept"]


@pytest.mark.parametrize("name", ["with space", "50%", "what?mode=rwc", "number#1", "ünï", "//store"])
def test_any_name_of_a_file_will_do(name: str, folder: Path) -> None:
    path = f"{folder}{name}" if name.startswith("//") else str(folder / name)
    with SQLiteQueueStore(path) as store:
        store.put_one("jobs", "kept", None)
    before = names(folder)
    assert look(Path(path)) == ["kept"]
    assert names(folder) == before


def test_who_looks_does_not_keep_the_log_from_being_put_away(folder: Path, path: Path) -> None:
    writer = SQLiteQueueStore(path)
    writer.put_one("jobs", "more", None)
    with SQLiteQueueStore(path, read_only=True) as store:
        assert payloads(store) == ["kept", "more"]
        writer.close()
        assert names(folder) == ["store"]
        assert payloads(store) == ["kept", "more"]
    assert names(folder) == ["store"]


def test_a_change_that_leaves_size_and_time_as_they_were_is_seen(path: Path) -> None:
    with SQLiteQueueStore(path, read_only=True) as store:
        assert payloads(store) == ["kept"]
        before = path.stat()
        with SQLiteQueueStore(path) as writer:
            writer.put_one("jobs", "more", None)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        assert payloads(store) == ["kept", "more"]


def test_a_file_put_in_the_place_of_another_is_seen(folder: Path, path: Path) -> None:
    with SQLiteQueueStore(path, read_only=True) as store:
        assert payloads(store) == ["kept"]
        shutil.copyfile(path, folder / "next")
        with SQLiteQueueStore(folder / "next") as writer:
            writer.put_one("jobs", "more", None)
        (folder / "next").replace(path)
        assert payloads(store) == ["kept", "more"]
        path.unlink()
        with pytest.raises(QueueStoreMissingError):
            payloads(store)


def test_a_read_during_which_the_file_changed_is_done_again(path: Path) -> None:
    seen = []

    def count(connection: sqlite3.Connection) -> int:
        found = connection.execute("SELECT count(*) FROM lq_messages").fetchone()[0]
        seen.append(found)
        if len(seen) == 1:
            with SQLiteQueueStore(path) as writer:
                writer.put_one("jobs", "more", None)
        return int(found)

    onlooker = Onlooker(str(path), 1.0)
    assert onlooker.run(count) == 2
    assert seen == [1, 2]
    onlooker.close()


def test_an_error_of_a_read_during_which_the_file_changed_is_not_believed(path: Path) -> None:
    calls = []

    def stumble(connection: sqlite3.Connection) -> str:
        calls.append(1)
        if len(calls) == 1:
            with SQLiteQueueStore(path) as writer:
                writer.put_one("jobs", "more", None)
            raise QueueStoreMissingError("what a torn read may look like")
        return "whole"

    onlooker = Onlooker(str(path), 1.0)
    assert onlooker.run(stumble) == "whole"
    onlooker.close()


def _put_pairs(connection: Connection, path: str, rounds: int) -> None:
    for _ in range(rounds):
        with SQLiteQueueStore(path) as store:
            store.put_batch("jobs", ["one", "other"], None)


@pytest.mark.slow
def test_what_is_written_meanwhile_is_seen_whole(folder: Path) -> None:
    path = folder / "store"
    SQLiteQueueStore(path).close()
    child = Child(_put_pairs, str(path), 40)
    counts = []
    with SQLiteQueueStore(path, read_only=True) as store:
        while child.process.is_alive():
            counts.append(store.stats("jobs").ready)
            assert store.check().problems == ()
            assert len(store.scan("jobs")) % 2 == 0
        counts.append(store.stats("jobs").ready)
    assert child.exit_code == 0
    assert counts == sorted(counts) and counts[-1] == 80
    assert all(count % 2 == 0 for count in counts)


def test_a_child_looks_on_after_a_fork(path: Path) -> None:
    with SQLiteQueueStore(path, read_only=True) as store:
        assert payloads(store) == ["kept"]
        child = os.fork()
        if child == 0:
            os._exit(0 if payloads(store) == ["kept"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert payloads(store) == ["kept"]


def set_version(path: Path, version: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_a_file_of_a_newer_release_says_what_to_do(folder: Path, path: Path) -> None:
    set_version(path, current_version() + 1)
    with pytest.raises(QueueStoreVersionError, match="upgrade this one"):
        look(path)
    assert names(folder) == ["store"]


def test_a_file_of_an_older_release_says_what_to_do(folder: Path, path: Path) -> None:
    set_version(path, 1)
    before = path.read_bytes()
    with pytest.raises(QueueStoreVersionError, match="open it once to write"):
        look(path)
    assert names(folder) == ["store"]
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused(folder: Path) -> None:
    connection = sqlite3.connect(folder / "store")
    connection.execute("CREATE TABLE things (name)")
    connection.close()
    with pytest.raises(QueueStoreVersionError, match="another program"):
        look(folder / "store")
    with pytest.raises(QueueStoreMissingError, match="there is no store at"):
        SQLiteQueueStore(folder / "store", shared=True, read_only=True)
    assert names(folder) == ["store"]


def test_a_backup_is_looked_at_where_nothing_may_be_written(folder: Path, path: Path) -> None:
    with SQLiteQueueStore(path, read_only=True) as store:
        store.backup(folder / "copy")
    (folder / "copy").chmod(0o644)
    folder.chmod(0o555)
    assert look_as_nobody(folder / "copy") == ["kept"]
    assert names(folder) == ["copy", "store"]
