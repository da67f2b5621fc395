"""The files of attempt, idempotency and result stores: what is refused, what survives, and how it says so."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from localqueue.errors import (
    AttemptStoreLockedError,
    IdempotencyStoreLockedError,
    QueueStoreClosedError,
    QueueStoreCorruptError,
    QueueStoreLockedError,
    QueueStoreVersionError,
    ResultStoreLockedError,
)
from localqueue.idempotency import (
    IdempotencyRecord,
    LMDBIdempotencyStore,
    MemoryIdempotencyStore,
    SQLiteIdempotencyStore,
)
from localqueue.results import LMDBResultStore, MemoryResultStore, SQLiteResultStore
from localqueue.retry import LMDBAttemptStore, MemoryAttemptStore, RetryRecord, SQLiteAttemptStore
from localqueue.stores.lmdb import LMDBQueueStore
from localqueue.stores.sqlite import SQLiteQueueStore


class Family(NamedTuple):
    name: str
    memory: Callable[..., Any]
    sqlite: Callable[..., Any]
    lmdb: Callable[..., Any]
    value: Any
    locked: type[QueueStoreLockedError]


FAMILIES = [
    Family(
        "attempt",
        MemoryAttemptStore,
        SQLiteAttemptStore,
        LMDBAttemptStore,
        RetryRecord(1, 5.0, True),
        AttemptStoreLockedError,
    ),
    Family(
        "idempotency",
        MemoryIdempotencyStore,
        SQLiteIdempotencyStore,
        LMDBIdempotencyStore,
        IdempotencyRecord("succeeded", 4.0, 5.0, None, {"a": [1]}),
        IdempotencyStoreLockedError,
    ),
    Family("result", MemoryResultStore, SQLiteResultStore, LMDBResultStore, {"a": [1]}, ResultStoreLockedError),
]


@pytest.fixture(params=FAMILIES, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=["memory", "sqlite", "lmdb"])
def store(family: Family, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = {
        "memory": family.memory,
        "sqlite": lambda: family.sqlite(tmp_path / "s.sqlite3"),
        "lmdb": lambda: family.lmdb(tmp_path / "s.lmdb"),
    }
    with made[request.param]() as store:
        yield store


@pytest.fixture(params=["sqlite", "lmdb"])
def opener(family: Family, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    make, path = getattr(family, request.param), tmp_path / "deep" / "store"
    return lambda **options: make(path, **options)


def test_what_was_saved_is_there_after_reopening(opener: Callable[..., Any], family: Family) -> None:
    for durability in ("process", "power"):
        with opener(durability=durability) as store:
            store.save(durability, family.value)
    with opener() as store:
        assert [store.load(key) for key in ("process", "power")] == [family.value] * 2


def test_a_closed_store_says_so(opener: Callable[..., Any], family: Family) -> None:
    store = opener()
    store.close()
    store.close()
    for use in (lambda: store.load("a"), lambda: store.save("a", family.value), lambda: store.delete("a")):
        with pytest.raises(QueueStoreClosedError, match=f"the {family.name} store at .* is closed"):
            use()


def test_keys_that_no_store_could_hold_are_refused(store: Any, family: Family) -> None:
    with pytest.raises(ValueError, match="key cannot be empty"):
        store.load("")
    with pytest.raises(TypeError, match="key must be a string, not 7"):
        store.save(7, family.value)
    with pytest.raises(ValueError, match="not valid Unicode"):
        store.delete("\ud800")
    with pytest.raises(ValueError, match="NUL"):
        store.load("a\0b")


def test_settings_that_can_not_be_are_refused(opener: Callable[..., Any], family: Family, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="durability must be 'process' or 'power', not 'hope'"):
        opener(durability="hope")
    with pytest.raises(ValueError, match="map_size must be positive"):
        family.lmdb(tmp_path / "x", map_size=0)


def test_a_newer_sqlite_file_is_refused_and_left_alone(family: Family, tmp_path: Path) -> None:
    for name in ("made-by-us", "blank"):
        path = tmp_path / name
        if name == "made-by-us":
            family.sqlite(path).close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 99")
        message = f"unsupported SQLite {family.name} schema version: 99; expected at most 1"
        with pytest.raises(ValueError, match=message) as caught:
            family.sqlite(path)
        assert isinstance(caught.value, QueueStoreVersionError)
        assert caught.value.path == str(path)


@pytest.mark.parametrize("place", ["sqlite", "lmdb"])
def test_a_file_is_made_by_the_first_save_and_not_by_reading(family: Family, place: str, tmp_path: Path) -> None:
    path = tmp_path / "deeper" / f"s.{place}"
    make = getattr(family, place)
    with make(path) as store, make(path) as other:
        assert store.load("a") is None
        store.delete("a")
        if hasattr(store, "keys"):
            assert store.keys() == []
        for name in ("count_exhausted_older_than", "prune_exhausted", "count_completed_older_than", "prune_completed"):
            if hasattr(store, name):
                assert getattr(store, name)(older_than=0, now=1.0) == 0
        assert list(tmp_path.iterdir()) == []
        other.save("a", family.value)
        assert path.exists()
        assert store.load("a") == family.value


@pytest.mark.parametrize("place", ["sqlite", "lmdb"])
def test_a_store_that_made_no_file_is_closed_like_any_other(family: Family, place: str, tmp_path: Path) -> None:
    store = getattr(family, place)(tmp_path / f"s.{place}")
    store.close()
    for use in (lambda: store.load("a"), lambda: store.save("a", family.value), lambda: store.delete("a")):
        with pytest.raises(QueueStoreClosedError):
            use()
    assert list(tmp_path.iterdir()) == []


def test_files_of_other_kinds_are_refused(family: Family, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "foreign.sqlite3")) as connection:
        connection.execute("CREATE TABLE t (a)")
    SQLiteQueueStore(tmp_path / "queue.sqlite3").close()
    LMDBQueueStore(tmp_path / "queue.lmdb").close()
    for other in FAMILIES:
        if other is not family:
            for make, suffix in ((other.sqlite, "sqlite3"), (other.lmdb, "lmdb")):
                with make(tmp_path / f"{other.name}.{suffix}") as made:
                    made.save("a", other.value)
    files = sorted(tmp_path.glob("*.sqlite3")) + sorted(tmp_path.glob("*.lmdb"))
    assert len(files) == 7
    for path in files:
        with pytest.raises(QueueStoreVersionError, match=f"choose another path for the {family.name} store"):
            (family.sqlite if path.suffix == ".sqlite3" else family.lmdb)(path)


def test_damage_is_reported_as_of_this_store(family: Family, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(QueueStoreCorruptError, match=f"SQLite {family.name} store at .* is not a SQLite database"):
        family.sqlite(path)


def test_a_sqlite_file_that_another_process_holds_is_reported_locked(family: Family, tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    with family.sqlite(path) as store:
        store.save("before", family.value)
    with family.sqlite(path, 0.01) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.load("a") is None
        with pytest.raises(family.locked, match=f"SQLite {family.name} store at .* is locked") as caught:
            store.save("a", family.value)
        assert caught.value.path == str(path)
        other.execute("ROLLBACK")
        store.save("a", family.value)
        assert store.load("a") == family.value


def test_an_lmdb_directory_that_another_process_holds_is_reported_locked(family: Family, tmp_path: Path) -> None:
    path = tmp_path / "s.lmdb"
    with family.lmdb(path) as store:
        store.save("before", family.value)
    with family.lmdb(path, timeout=0.01) as store, open(path / "write.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(family.locked, match=f"LMDB {family.name} store at .* is locked") as caught:
            store.save("a", family.value)
        assert caught.value.path == os.path.realpath(path)
        fcntl.flock(lock, fcntl.LOCK_UN)
        store.save("a", family.value)


def test_an_lmdb_store_grows_beyond_its_first_map(tmp_path: Path) -> None:
    with LMDBResultStore(tmp_path / "s.lmdb", map_size=64 * 1024) as store:
        for n in range(40):
            store.save(f"k{n}", "x" * 10_000)
        assert store.keys() == sorted(f"k{n}" for n in range(40))


def test_a_save_in_sqlite_is_one_statement(family: Family, tmp_path: Path) -> None:
    with family.sqlite(tmp_path / "s.sqlite3") as store:
        store.save("before", family.value)
        seen: list[str] = []
        store._records._connection.set_trace_callback(seen.append)
        store.save("a", family.value)
        store._records._connection.set_trace_callback(None)
    assert len(seen) == 1
    assert seen[0].startswith("INSERT")


@pytest.mark.parametrize("family", FAMILIES[:2], ids=lambda family: family.name)
def test_pruning_in_sqlite_walks_an_index(family: Family, tmp_path: Path) -> None:
    with family.sqlite(tmp_path / "s.sqlite3") as store:
        store.save("a", family.value)
        records = store._records
        (plan,) = records._connection.execute(f"EXPLAIN QUERY PLAN {records._prune}", (1.0,)).fetchall()
    assert "INDEX" in plan[-1]
    assert "SCAN" not in plan[-1]


@pytest.mark.multiprocess
def test_a_store_may_be_carried_over_a_fork(store: Any, family: Family) -> None:
    store.save("before", family.value)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if store.load("before") == family.value:
                store.save("child", family.value)
                status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.save("parent", family.value)
    assert store.load("parent") == family.value
    in_memory = type(store).__name__.startswith("Memory")
    assert store.load("child") == (None if in_memory else family.value)


def test_a_store_says_what_and_where_it_is(store: Any) -> None:
    assert repr(store).startswith(type(store).__name__ + "(")
