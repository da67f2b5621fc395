"""What a SQLite store takes on the disk: its log ends somewhere, and what was large once does not stay so."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localqueue.stores.port import LeaseRequest
from localqueue.stores.sqlite import SQLiteQueueStore, space

HUGE = 50_000_000
A_LOOK = "SELECT count(*) FROM lq_messages"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def small_log(monkeypatch: pytest.MonkeyPatch) -> int:
    """Have logs be copied early, and say how large one gets."""
    monkeypatch.setattr(space, "LOG_PAGES", 200)
    monkeypatch.setattr(space, "LOG_SIZE", 1 << 20)
    monkeypatch.setattr(space, "PAUSE", 0.0)
    return 2 * space.LOG_SIZE


def size(path: Path) -> int:
    """Of the file and its log."""
    return sum(Path(f"{path}{suffix}").stat().st_size for suffix in ("", "-wal") if os.path.exists(f"{path}{suffix}"))


def log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def pass_through(store: Any, count: int, payload: str = "x") -> None:
    for _ in range(count):
        store.put_one("jobs", payload, None)
        (message,) = store.lease(LeaseRequest("jobs"))
        assert store.ack_one("jobs", message.id, message.attempts)


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


@pytest.mark.slow
def test_a_log_that_a_long_read_has_made_large_is_cut_when_the_reader_is_gone(path: Path, small_log: int) -> None:
    with SQLiteQueueStore(path) as store, closing(raw(path)) as reader:
        pass_through(store, 1)
        reader.execute("BEGIN")
        reader.execute(A_LOOK).fetchone()
        pass_through(store, 1000)
        assert log_size(path) > 2 * small_log, "the read was not long enough"
        reader.execute("COMMIT")
        pass_through(store, 1000)
        assert log_size(path) <= small_log


@pytest.fixture
def relay(path: Path) -> Iterator[Callable[[], None]]:
    """Starts two who read by turns, none of them for long, so that somebody always does."""
    stop = threading.Event()
    begun = [threading.Event(), threading.Event()]

    def read(me: int) -> None:
        with closing(raw(path)) as reader:
            while not stop.is_set():
                reader.execute("BEGIN")
                reader.execute(A_LOOK).fetchone()
                begun[me].set()
                begun[1 - me].wait(1)
                begun[1 - me].clear()
                reader.execute("COMMIT")

    threads = [threading.Thread(target=read, args=(me,)) for me in (0, 1)]

    def start() -> None:
        for thread in threads:
            thread.start()

    yield start
    stop.set()
    for one in begun:
        one.set()
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_a_log_ends_although_somebody_reads_at_every_moment(
    path: Path, small_log: int, relay: Callable[[], None]
) -> None:
    with SQLiteQueueStore(path) as store:
        pass_through(store, 1)
        relay()
        sizes = []
        for _ in range(3):
            pass_through(store, 250)
            sizes.append(log_size(path))
        assert sizes[-1] <= 2 * small_log, sizes


@pytest.mark.parametrize("megabytes", [20, 50])
def test_a_huge_message_that_was_acked_leaves_the_store_as_small_as_it_was(path: Path, megabytes: int) -> None:
    with SQLiteQueueStore(path) as store:
        pass_through(store, 200)
        before = size(path)
        pass_through(store, 1, "x" * megabytes * 1_000_000)
        pass_through(store, 200)
        assert size(path) < 3 * before
        assert store.check().ok


def test_a_huge_message_that_was_acked_just_before_the_store_is_closed_leaves_nothing(path: Path) -> None:
    with SQLiteQueueStore(path) as store:
        pass_through(store, 10)
    before = size(path)
    with SQLiteQueueStore(path) as store:
        pass_through(store, 1, "x" * HUGE)
    assert size(path) == before


@pytest.mark.slow
def test_what_a_reader_still_needs_is_given_back_when_it_is_gone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "PAUSE", 0.0)
    with SQLiteQueueStore(path) as store, closing(raw(path)) as reader:
        pass_through(store, 200)
        before = size(path)
        store.put_one("jobs", "x" * HUGE, None)
        reader.execute("BEGIN")
        reader.execute(A_LOOK).fetchone()
        (message,) = store.lease(LeaseRequest("jobs"))
        assert store.ack_one("jobs", message.id, message.attempts)
        pass_through(store, 200)
        assert size(path) > HUGE and reader.execute(A_LOOK).fetchone() == (1,)
        reader.execute("COMMIT")
        pass_through(store, 200)
        assert size(path) < 3 * before


def test_messages_of_every_kind_outlive_that_the_space_around_them_is_given_back(path: Path) -> None:
    with SQLiteQueueStore(path) as store, SQLiteQueueStore(path) as other:
        kept = [store.put_one("jobs", f"{n}", None)[0] for n in range(300)]
        leased = other.lease(LeaseRequest("jobs", 100))
        store.put_one("large", "x" * HUGE, None)
        assert store.purge("large") == 1
        for message in other.lease(LeaseRequest("jobs", 100)):
            assert store.ack_one("jobs", message.id, message.attempts)
        assert other.ack_one("jobs", leased[0].id, leased[0].attempts)
        assert size(path) < HUGE / 10
        assert [one.id for one in other.scan("jobs")] == kept[1:100] + kept[200:]
        assert store.check().ok and other.check().ok


def test_the_tables_of_an_application_are_not_touched(path: Path) -> None:
    """VACUUM may number the rows of a table anew."""
    with closing(raw(path)) as application:
        application.execute("CREATE TABLE orders (item TEXT)")
        application.executemany("INSERT INTO orders VALUES (?)", [("tea",), ("milk",), ("salt",)])
        application.execute("DELETE FROM orders WHERE item = 'tea'")
        rows = application.execute("SELECT rowid, item FROM orders").fetchall()
    with SQLiteQueueStore(path, shared=True) as store:
        pass_through(store, 1, "x" * HUGE)
        pass_through(store, 200)
    with closing(raw(path)) as application:
        assert application.execute("SELECT rowid, item FROM orders").fetchall() == rows
