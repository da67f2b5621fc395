"""An LMDB store that is opened to look."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreError, QueueStoreMissingError, QueueStoreReadOnlyError
from localqueue.stores.lmdb import LMDBQueueStore, schema
from localqueue.stores.port import Changes, Lease, LeaseRequest, NewMessage, RecordWrite
from localqueue.stores.url import open_store
from tests.processes import become_nobody, context

lmdb = pytest.importorskip("lmdb")

DEADLINE = 60.0


class Other:
    """Another process, which runs `work(connection, *arguments)`."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def says(self) -> Any:
        assert self.connection.poll(DEADLINE), "the other process says nothing"
        return self.connection.recv()

    def ends(self) -> bool:
        self.connection.send("go on")
        self.process.join(DEADLINE)
        return self.process.exitcode == 0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike `tmp_path`."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for entry in (folder, *folder.iterdir()):
        entry.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def path(folder: Path) -> Path:
    """A closed store with one message."""
    path = folder / "queues"
    with LMDBQueueStore(path) as store:
        store.put_one("jobs", "kept", None)
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir() if entry.name != "lock.mdb"}


def look(path: Path, **options: Any) -> LMDBQueueStore:
    return LMDBQueueStore(path, read_only=True, **options)


def test_where_there_is_no_store_nothing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "queues"
    with pytest.raises(QueueStoreMissingError, match=f"there is no store at 'lmdb:///{path}'"):
        look(path)
    with pytest.raises(QueueStoreMissingError):
        open_store(f"lmdb:///{path}", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_nobody_has_written_to_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    lmdb.open(str(tmp_path / "empty")).close()
    for name in ("file", "empty"):
        with pytest.raises(QueueStoreMissingError, match="there is no store"):
            look(tmp_path / name)


def test_a_namespace_that_nobody_has_used_is_not_made(path: Path) -> None:
    before = contents(path)
    with pytest.raises(QueueStoreMissingError, match="there is no namespace 'other' in the store at"):
        look(path, namespace="other")
    assert contents(path) == before


def test_a_store_of_an_older_schema_is_not_migrated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(path)
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, lambda txn: None])
    with pytest.raises(QueueStoreError, match="older"):
        look(path)
    assert contents(path) == before


def test_looking_changes_no_byte(path: Path) -> None:
    before = contents(path)
    with look(path) as store:
        assert [message.payload for message in store.scan("jobs")] == ["kept"]
        assert (store.qsize("jobs"), store.stats("nobody").total, store.queues()) == (1, 0, ["jobs"])
        assert store.check().ok
    assert contents(path) == before


def test_a_copy_without_a_lock_file_gets_none(path: Path) -> None:
    for name in ("lock.mdb", "write.lock"):
        (path / name).unlink()
    with look(path) as store:
        assert store.qsize("jobs") == 1
        assert store.listen(["jobs"]).wait(1)
    assert [entry.name for entry in path.iterdir()] == ["data.mdb"]


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.put_one("jobs", "x", None),
        lambda store: store.put_batch("jobs", ["x"], None),
        lambda store: store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "x")])),
        lambda store: store.commit(Changes(records=[RecordWrite("kind", "key", b"")])),
        lambda store: store.lease(LeaseRequest("jobs")),
        lambda store: store.lease(LeaseRequest("nobody")),
        lambda store: store.ack_one("jobs", store.scan("jobs")[0].id, 1),
        lambda store: store.renew([Lease("jobs", store.scan("jobs")[0].id, 1)], timeout=1.0),
        lambda store: store.requeue("jobs"),
        lambda store: store.purge("jobs"),
        lambda store: store.prune("jobs", state="dead", older_than=0.0),
        lambda store: store.pause("jobs"),
        lambda store: store.subscribe("jobs", "me"),
        lambda store: store.heartbeat("jobs", "me"),
        lambda store: store.cancel_run("run"),
        lambda store: store.enable_journal(),
        lambda store: store.prune_events(older_than=0.0),
    ],
)
def test_every_write_is_refused_with_the_reason(path: Path, write: Callable[[LMDBQueueStore], object]) -> None:
    before = contents(path)
    with look(path) as store, pytest.raises(QueueStoreReadOnlyError, match="opened to look"):
        write(store)
    assert contents(path) == before


@pytest.mark.parametrize("looks_first", [True, False])
def test_who_looks_sees_what_others_of_the_process_write(path: Path, looks_first: bool) -> None:
    opened = [look, LMDBQueueStore] if looks_first else [LMDBQueueStore, look]
    stores = [opener(path) for opener in opened]
    onlooker, writer = stores if looks_first else reversed(stores)
    writer.put_one("jobs", "new", None)
    assert [message.payload for message in onlooker.scan("jobs")] == ["kept", "new"]
    with pytest.raises(QueueStoreReadOnlyError):
        onlooker.put_one("jobs", "x", None)
    writer.close()
    assert onlooker.qsize("jobs") == 2
    onlooker.close()


def scan_as_nobody(connection: Connection, path: str) -> None:
    """Report what a user sees who may not write there, twice: the second time others have written in between."""
    become_nobody()
    with look(Path(path)) as store:
        for _ in range(2):
            connection.send([message.payload for message in store.scan("jobs")])
            connection.recv()


@pytest.mark.multiprocess
def test_a_store_that_may_not_be_written_is_looked_at_while_others_write(path: Path) -> None:
    path.chmod(0o555)
    for entry in path.iterdir():
        entry.chmod(0o444)
    other = Other(scan_as_nobody, str(path))
    assert other.says() == ["kept"]
    with LMDBQueueStore(path) as store:
        store.put_one("jobs", "new", None)
    other.connection.send("again")
    assert other.says() == ["kept", "new"]
    assert other.ends()


def hold_a_read(connection: Connection, path: str) -> None:
    with look(Path(path)) as store:
        store._read(lambda txn: (connection.send("reading"), connection.recv()))


@pytest.mark.multiprocess
def test_writers_wait_for_a_reader_that_is_in_no_table_of_readers(path: Path) -> None:
    (path / "lock.mdb").unlink()
    other = Other(hold_a_read, str(path))
    assert other.says() == "reading"
    with pytest.raises(QueueStoreError, match="locked"), LMDBQueueStore(path, timeout=0.05) as store:
        store.put_one("jobs", "new", None)
    assert other.ends()
    with LMDBQueueStore(path) as store:
        store.put_one("jobs", "new", None)
