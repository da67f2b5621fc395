"""Messages are for the eyes of their owner: new files have the mode 0600 and new directories 0700, whatever the umask.

What is there already keeps the mode it was given, and what belongs to it gets that mode too.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, open_store
from localqueue.cli.config import Config
from localqueue.idempotency import IdempotencyRecord, LMDBIdempotencyStore, SQLiteIdempotencyStore
from localqueue.results import LMDBResultStore, SQLiteResultStore
from localqueue.retry import LMDBAttemptStore, RetryRecord, SQLiteAttemptStore
from localqueue.stores import publication
from localqueue.stores.lmdb import LMDBQueueStore
from localqueue.stores.port import CheckReport
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.crash.children import Child
from tests.processes import become_nobody

FILES = ("sqlite", "lmdb")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """The mode of everything in a folder, by its path in it."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def assert_private(folder: Path, *expected: str) -> None:
    found = modes(folder)
    assert set(expected) <= set(found), found
    wrong = {name: oct(mode) for name, mode in found.items() if mode != (0o700 if (folder / name).is_dir() else 0o600)}
    assert wrong == {}


def queue_store(kind: str, path: Path) -> Any:
    store = open_store(f"{kind}:///{path}")
    store.put_one("jobs", "secret", None)
    store.stats("jobs")
    return store


COMPANIONS = {
    "sqlite": ("a/b/s", "a/b/s-wal", "a/b/s-shm"),
    "lmdb": ("a/b/s/data.mdb", "a/b/s/lock.mdb", "a/b/s/write.lock"),
}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("kind", FILES)
def test_a_new_store_can_be_read_by_its_owner_only(kind: str, mask: int, tmp_path: Path) -> None:
    with umask(mask), queue_store(kind, tmp_path / "a" / "b" / "s"):
        assert_private(tmp_path, "a", "a/b", *COMPANIONS[kind])


def test_a_store_behind_a_link_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with umask(0), queue_store("sqlite", tmp_path / "link"):
        assert_private(tmp_path, "there", "there-wal", "there-shm")


KEYED: dict[str, tuple[Callable[[Path], Any], Any]] = {
    "attempts-sqlite": (SQLiteAttemptStore, RetryRecord(1, 1.0, False)),
    "attempts-lmdb": (LMDBAttemptStore, RetryRecord(1, 1.0, False)),
    "ledger-sqlite": (SQLiteIdempotencyStore, IdempotencyRecord("pending", 1.0)),
    "ledger-lmdb": (LMDBIdempotencyStore, IdempotencyRecord("pending", 1.0)),
    "results-sqlite": (SQLiteResultStore, {"secret": 1}),
    "results-lmdb": (LMDBResultStore, {"secret": 1}),
}


@pytest.mark.parametrize("name", KEYED)
def test_a_new_file_of_records_can_be_read_by_its_owner_only(name: str, tmp_path: Path) -> None:
    make, record = KEYED[name]
    with umask(0), make(tmp_path / "a" / "s") as store:
        store.save("k", record)
        assert_private(tmp_path, "a", "a/s")


@pytest.mark.parametrize("backend", FILES)
def test_the_default_store_can_be_read_by_its_owner_only(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data" / "home"))
    monkeypatch.setenv("LOCALQUEUE_BACKEND", backend)
    with umask(0), PersistentQueue("jobs") as queue:
        queue.put("secret")
        assert_private(tmp_path, "data", "data/home", "data/home/localqueue")


def test_the_config_file_can_be_read_by_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    config = Config(store_url="postgresql://user:secret@host/database")
    with umask(0):
        path = config.save()
        assert_private(tmp_path, "config/localqueue/config.yaml")
        path.chmod(0o640)
        config.save()
        assert_private(tmp_path, "config/localqueue/config.yaml")


@pytest.mark.parametrize("kind", FILES)
def test_a_backup_can_not_be_read_by_others_while_it_is_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, int]] = []

    def look(report: CheckReport, path: str) -> None:
        assert_private(tmp_path / "copies")
        seen.append(modes(tmp_path / "copies"))

    module = __import__(f"localqueue.stores.{kind}.backup", fromlist=["backup"])
    monkeypatch.setattr(module, "require_sound", look)
    assert publication.require_sound is not look
    with queue_store(kind, tmp_path / "s") as store, umask(0):
        store.backup(str(tmp_path / "copies" / "copy"))
    assert seen and all(".part" in name for found in seen for name in found)
    assert_private(tmp_path / "copies", "copy")


@pytest.mark.parametrize("kind", FILES)
def test_what_is_there_keeps_the_mode_it_was_given_and_so_do_its_companions(kind: str, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o770)
    place = shared / "s"
    queue_store(kind, place).close()
    files = [place] if kind == "sqlite" else [place / "data.mdb"]
    for file in files:
        file.chmod(0o660)
    for companion in ("lock.mdb", "write.lock"):
        (place / companion).unlink() if kind == "lmdb" else None
    with umask(0o022), queue_store(kind, place) as store:
        assert store.qsize("jobs") == 2
        found = {name: mode for name, mode in modes(shared).items() if not (shared / name).is_dir()}
        assert len(found) == 3 and set(found.values()) == {0o660}, found
    assert stat.S_IMODE(shared.stat().st_mode) == 0o770


def test_a_directory_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    for store in (SQLiteQueueStore, LMDBQueueStore):
        folder = tmp_path / store.__name__
        folder.mkdir()
        folder.chmod(0o755)
        store(folder if store is LMDBQueueStore else folder / "s").close()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def put_as_nobody(connection: Connection, url: str) -> None:
    become_nobody()
    with open_store(url) as store:
        store.put_one("jobs", "theirs", None)
        connection.send(len(store.scan("jobs")))


@pytest.mark.multiprocess
@pytest.mark.parametrize("kind", FILES)
def test_a_store_that_its_owner_shares_is_written_by_others(kind: str) -> None:
    with tempfile.TemporaryDirectory() as made:  # which others can reach, unlike `tmp_path`
        folder = Path(made)
        place = folder if kind == "lmdb" else folder / "s"
        queue_store(kind, place).close()
        folder.chmod(0o777)
        for file in folder.iterdir():
            file.chmod(0o666)
        url = f"{kind}:///{place}"
        assert Child(put_as_nobody, url).reports() == [2]
        with queue_store(kind, place) as store:
            assert len(store.scan("jobs")) == 3
            assert Child(put_as_nobody, url).reports() == [4]
