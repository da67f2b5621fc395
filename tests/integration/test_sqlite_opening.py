"""Opening a SQLite file: new, empty, foreign, older, newer, left behind by a killed process, or not a file at all."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreCorruptError, QueueStoreError, QueueStoreVersionError
from localqueue.stores.port import Changes, NewMessage
from localqueue.stores.sqlite import SQLiteQueueStore, schema
from tests.crash.children import DEADLINE, Child, context, reports_of
from tests.crash.stores import die

PROCESSES = 8
ROUNDS = 20


def payloads(store: Any, queue: str = "jobs") -> list[Any]:
    return [message.payload for message in store.scan(queue)]


def open_together(connection: Connection, folder: str, barrier: Any, who: int) -> None:
    try:
        for round_ in range(ROUNDS):
            barrier.wait(DEADLINE)
            with SQLiteQueueStore(f"{folder}/{round_}") as store:
                store.put_one("jobs", f"{who}", None)
    except BaseException:
        barrier.abort()  # the others need not wait for this one
        raise
    connection.send("opened all")


@pytest.mark.slow
@pytest.mark.multiprocess
def test_eight_processes_can_open_one_new_file_at_the_same_moment(tmp_path: Path) -> None:
    barrier = context.Barrier(PROCESSES)
    children = [Child(open_together, str(tmp_path), barrier, n) for n in range(PROCESSES)]
    assert reports_of(children) == [["opened all"]] * PROCESSES
    for round_ in range(ROUNDS):
        with SQLiteQueueStore(tmp_path / str(round_)) as store:
            assert sorted(payloads(store)) == [str(n) for n in range(PROCESSES)]
            assert store.check().problems == ()


def open_overtaken(path: str, nth: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Open a new file; before our nth statement somebody else turns it into a store. How many statements we ran."""
    connect = sqlite3.connect
    count = 0

    class Overtaken(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            nonlocal count
            count += 1
            if count == nth and not self.in_transaction:
                with monkeypatch.context() as patch:
                    patch.setattr(sqlite3, "connect", connect)
                    SQLiteQueueStore(path).close()
            return super().execute(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, factory=Overtaken, **options))
        with SQLiteQueueStore(path) as store:
            store.put_one("jobs", "x", None)
            assert payloads(store) == ["x"]
    return count


def test_a_store_that_another_process_makes_while_we_look_at_the_file_is_not_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = open_overtaken(str(tmp_path / "alone"), 0, monkeypatch)
    assert statements > 10
    for nth in range(1, statements + 1):
        open_overtaken(str(tmp_path / f"overtaken-{nth}"), nth, monkeypatch)


def open_interfered(path: str, nth: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Open a new file; the nth statement that needs a lock does not get it at once. How many need one."""
    connect = sqlite3.connect
    connections: list[sqlite3.Connection] = []
    count = 0

    class Interfered(sqlite3.Connection):
        def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
            nonlocal count
            settings = ("PRAGMA synchronous", "PRAGMA wal_autocheckpoint", "PRAGMA temp_store", "PRAGMA busy_timeout")
            if not self.in_transaction and not statement.startswith(settings):
                count += 1
                if count == nth:
                    busy = sqlite3.OperationalError("database is locked")
                    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
                    raise busy
            return super().execute(statement, *arguments)

    def connect_interfered(*arguments: Any, **options: Any) -> sqlite3.Connection:
        first = not connections  # the one that makes the store; the others find it made
        connections.append(connect(*arguments, factory=Interfered if first else sqlite3.Connection, **options))
        return connections[-1]

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_interfered)
        SQLiteQueueStore(path).close()
    return count


def test_a_lock_that_another_process_holds_for_a_moment_is_waited_out_at_every_step_of_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = open_interfered(str(tmp_path / "alone"), 0, monkeypatch)
    assert steps >= 4
    for nth in range(1, steps + 1):
        open_interfered(str(tmp_path / f"interfered-{nth}"), nth, monkeypatch)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.touch()
    with SQLiteQueueStore(path) as store:
        store.put_one("jobs", "x", None)
        assert store.check().problems == ()
    with SQLiteQueueStore(path) as store:
        assert payloads(store) == ["x"]


def test_a_text_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)
    with pytest.raises(QueueStoreCorruptError, match="not a SQLite database") as raised:
        SQLiteQueueStore(path)
    assert raised.value.path == str(path) and str(path) in str(raised.value)
    assert path.read_text() == "not a database\n" * 100


def test_a_directory_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(QueueStoreError, match=r"can not be opened") as raised:
        SQLiteQueueStore(tmp_path)
    assert raised.value.path == str(tmp_path) and str(tmp_path) in str(raised.value)


def test_a_path_below_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    path = tmp_path / "file" / "folder" / "store"
    with pytest.raises(QueueStoreError) as raised:
        SQLiteQueueStore(path)
    assert raised.value.path == str(path) and str(path) in str(raised.value)


def foreign_file(path: Path, *statements: str) -> bytes:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE theirs (x)"],
        ["PRAGMA user_version = 7"],
        ["PRAGMA application_id = 252006674", "CREATE TABLE theirs (x)"],
        ["PRAGMA journal_mode = WAL", "CREATE TABLE theirs (x)"],
        ["CREATE TABLE lq_messages (x)", "CREATE TABLE lq_queues (x)"],
    ],
)
def test_a_sqlite_file_of_another_program_is_refused_and_unchanged(statements: list[str], tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    before = foreign_file(path, *statements)
    with pytest.raises(QueueStoreVersionError, match="another program") as raised:
        SQLiteQueueStore(path)
    assert raised.value.path == str(path) and str(path) in str(raised.value)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["theirs.db"]


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_store_of_a_newer_release_is_refused_and_unchanged(journal: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    SQLiteQueueStore(path).close()
    before = foreign_file(
        path, f"PRAGMA user_version = {schema.current_version() + 1}", f"PRAGMA journal_mode = {journal}"
    )
    with pytest.raises(QueueStoreVersionError, match="newer localqueue") as raised:
        SQLiteQueueStore(path)
    assert raised.value.path == str(path) and str(path) in str(raised.value)
    assert path.read_bytes() == before


def test_an_older_store_is_migrated_and_keeps_its_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    with SQLiteQueueStore(path) as store:
        ids = [store.put_one("jobs", f"m{n}", None)[0] for n in range(50)]
    version = schema.current_version()
    steps = [
        "ALTER TABLE lq_queues ADD COLUMN colour TEXT;\nUPDATE lq_queues SET colour = name;",
        "CREATE TABLE extra (x);",
    ]
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, *steps])
    for _ in range(2):
        with SQLiteQueueStore(path) as store:
            assert payloads(store) == [f"m{n}" for n in range(50)]
            assert [message.id for message in store.scan("jobs")] == ids
            assert store.check().problems == ()
            migrated = store._writer.connection.execute("SELECT colour, (SELECT count(*) FROM extra) FROM lq_queues")
            assert migrated.fetchall() == [("jobs", 0)]
            assert store._writer.connection.execute("PRAGMA user_version").fetchone() == (version + 2,)


_VERSION_1_PUT = """
CREATE TRIGGER lq_journal_put AFTER INSERT ON lq_messages BEGIN
  INSERT INTO lq_journal (id, queue, type, at, key, payload, codec)
  SELECT id, queue, 1, NEW.created_at, NEW.key, NEW.payload, NEW.codec FROM lq_next_entry WHERE queue = NEW.queue;
END
"""


@pytest.mark.parametrize("enabled", [True, False])
def test_a_journal_of_version_1_goes_on_with_options(
    enabled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(store: SQLiteQueueStore) -> None:
        store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "x", priority=2)]))

    path = tmp_path / "store"
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [])
        with SQLiteQueueStore(path) as store:
            store.enable_journal()
            store._writer.connection.execute("DROP TRIGGER lq_journal_put")
            store._writer.connection.execute(_VERSION_1_PUT)
            put(store)
            if not enabled:
                store.disable_journal()
    with SQLiteQueueStore(path) as store:
        assert store.journal_enabled() == enabled
        assert [(event.payload, event.options) for event in store.events()] == [("x", None)]
        store.enable_journal()
        put(store)
        assert [event.options for event in store.events(after=1)] == [{"priority": 2}]
        assert store.journal_span() == (1, 2)
        assert store.check().problems == ()


def test_a_migration_that_fails_leaves_the_old_version_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    with SQLiteQueueStore(path) as store:
        store.put_one("jobs", "kept", None)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, "CREATE TABLE extra (x);\nALTER TABLE nowhere ADD y;"])
        with pytest.raises(QueueStoreError, match="nowhere") as raised:
            SQLiteQueueStore(path)
        assert raised.value.path == str(path)
    with SQLiteQueueStore(path) as store:
        assert payloads(store) == ["kept"]
        assert not store._writer.connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'extra'").fetchall()


def put_and_die(connection: Connection, path: str) -> None:
    store = SQLiteQueueStore(path)
    for n in range(100):
        store.put_one("jobs", f"m{n}", None)
    connection.send("put all")
    die()


@pytest.mark.crash
@pytest.mark.multiprocess
def test_the_journal_that_a_killed_process_left_is_recovered(tmp_path: Path) -> None:
    path = tmp_path / "store"
    child = Child(put_and_die, str(path))
    assert (child.reports(), child.exit_code) == (["put all"], -signal.SIGKILL)
    assert (tmp_path / "store-wal").stat().st_size > 0
    lonely = tmp_path / "without journal"
    shutil.copyfile(path, lonely)
    with SQLiteQueueStore(lonely) as store:
        assert len(payloads(store)) < 100, "the messages were not in the journal, so this test shows nothing"
    with SQLiteQueueStore(path) as store:
        assert payloads(store) == [f"m{n}" for n in range(100)]
        assert store.check().problems == ()


def test_a_store_can_live_beside_the_tables_of_an_application(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as app, app:
        app.execute("PRAGMA user_version = 42")
        app.execute("CREATE TABLE messages (text TEXT)")
        app.execute("INSERT INTO messages VALUES ('mine')")
    with pytest.raises(QueueStoreVersionError, match="shared=True"):
        SQLiteQueueStore(path)

    with SQLiteQueueStore(path, shared=True) as store:
        store.put_one("jobs", "1", None)
    with SQLiteQueueStore(path) as store:  # it has our tables now
        assert store.qsize("jobs") == 1
        assert store.check().ok
    with closing(sqlite3.connect(path)) as app:
        assert app.execute("SELECT text FROM messages").fetchall() == [("mine",)]
        assert app.execute("PRAGMA user_version").fetchone() == (42,)
        assert app.execute("PRAGMA application_id").fetchone() == (0,)


def test_a_newer_store_in_a_shared_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as app, app:
        app.execute("CREATE TABLE users (name TEXT)")
    SQLiteQueueStore(path, shared=True).close()
    with closing(sqlite3.connect(path)) as app, app:
        app.execute("UPDATE lq_schema SET version = 99")
    with pytest.raises(QueueStoreVersionError, match="newer localqueue"):
        SQLiteQueueStore(path)


def test_the_journal_of_an_older_store_lets_go_by_the_rule_of_this_release(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with SQLiteQueueStore(path) as store:
        store.enable_journal(keep_events=100)
    foreign_file(
        path,
        "DROP TRIGGER lq_journal_kept",
        "CREATE TRIGGER lq_journal_kept AFTER INSERT ON lq_journal BEGIN SELECT 1; END",
        f"PRAGMA user_version = {schema.current_version() - 1}",
    )
    with SQLiteQueueStore(path) as store:
        store.put_batch("jobs", ["x"] * 500, None)
        assert len(store.events()) < 500
