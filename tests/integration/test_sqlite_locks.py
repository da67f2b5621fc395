"""A file that somebody else has locked: wait as long as was asked for, then say who and where."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import pytest

from localqueue.errors import QueueStoreLockedError
from localqueue.stores.port import LeaseRequest
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.crash.children import Child, reports_of

MODES = ("IMMEDIATE", "EXCLUSIVE")
PATIENCE = 20
DEFAULT_TIMEOUT = 15  # seconds that are waited for when nothing was asked for

T = TypeVar("T")


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of another program to the same file."""
    connection = sqlite3.connect(tmp_path / "store", isolation_level=None, check_same_thread=False)
    yield connection
    connection.close()


def release_when_waited_for(foreign: sqlite3.Connection, begun: threading.Event, operation: Callable[[], T]) -> T:
    """The foreign lock goes away when the operation, in another thread, has begun to wait for it."""
    outcome: list[T] = []
    thread = threading.Thread(target=lambda: outcome.append(operation()), daemon=True)
    thread.start()
    assert begun.wait(PATIENCE)
    assert not outcome
    foreign.execute("ROLLBACK")
    thread.join(PATIENCE)
    (result,) = outcome
    return result


def begun_opening(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the store has its first connection: what it does with it next needs the lock."""
    begun = threading.Event()
    connect = sqlite3.connect

    def announced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        begun.set()
        return connection

    monkeypatch.setattr(sqlite3, "connect", announced)
    return begun


@pytest.mark.parametrize("mode", MODES)
def test_a_put_into_a_file_that_stays_locked_names_it_after_the_timeout(
    mode: str, tmp_path: Path, foreign: sqlite3.Connection
) -> None:
    path = tmp_path / "store"
    with SQLiteQueueStore(path, timeout=0.2) as store:
        store.put_one("jobs", "before", None)
        foreign.execute(f"BEGIN {mode}")
        started = time.monotonic()
        with pytest.raises(QueueStoreLockedError, match="locked by another process") as raised:
            store.put_one("jobs", "refused", None)
        assert 0.2 <= time.monotonic() - started < DEFAULT_TIMEOUT
        assert raised.value.path == str(path) and str(path) in str(raised.value)
        assert [message.payload for message in store.scan("jobs")] == ["before"], "a read waited for the writer"
        foreign.execute("ROLLBACK")
        store.put_one("jobs", "after", None)
        assert [message.payload for message in store.scan("jobs")] == ["before", "after"]


@pytest.mark.parametrize("mode", MODES)
def test_a_put_waits_for_a_lock_that_goes_away_in_time(mode: str, tmp_path: Path, foreign: sqlite3.Connection) -> None:
    with SQLiteQueueStore(tmp_path / "store", timeout=30) as store:
        store.put_one("jobs", "a", None)
        foreign.execute(f"BEGIN {mode}")
        begun = threading.Event()
        store._writer.connection.set_trace_callback(lambda statement: begun.set())
        release_when_waited_for(foreign, begun, lambda: store.put_one("jobs", "b", None))
        assert store.qsize("jobs") == 2


@pytest.mark.parametrize("mode", MODES)
def test_making_a_store_in_a_file_that_stays_locked_names_it_after_the_timeout(
    mode: str, tmp_path: Path, foreign: sqlite3.Connection
) -> None:
    path = tmp_path / "store"
    foreign.execute(f"BEGIN {mode}")
    started = time.monotonic()
    with pytest.raises(QueueStoreLockedError) as raised:
        SQLiteQueueStore(path, timeout=0.2)
    assert 0.2 <= time.monotonic() - started < DEFAULT_TIMEOUT
    assert raised.value.path == str(path) and str(path) in str(raised.value)
    foreign.execute("ROLLBACK")
    SQLiteQueueStore(path, timeout=0.2).close()


@pytest.mark.parametrize("mode", MODES)
def test_making_a_store_waits_for_a_lock_that_goes_away_in_time(
    mode: str, tmp_path: Path, foreign: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign.execute(f"BEGIN {mode}")
    begun = begun_opening(monkeypatch)
    with release_when_waited_for(foreign, begun, lambda: SQLiteQueueStore(tmp_path / "store", timeout=30)) as store:
        store.put_one("jobs", "x", None)
        assert store.qsize("jobs") == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_restored_backup_that_is_locked_is_waited_for_and_named(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLiteQueueStore(tmp_path / "original") as store:
        store.put_one("jobs", "x", None)
        store.backup(tmp_path / "store")
    foreign = sqlite3.connect(tmp_path / "store", isolation_level=None, check_same_thread=False)
    foreign.execute(f"BEGIN {mode}")
    with pytest.raises(QueueStoreLockedError) as raised:
        SQLiteQueueStore(tmp_path / "store", timeout=0.2)
    assert raised.value.path == str(tmp_path / "store")
    begun = begun_opening(monkeypatch)
    with release_when_waited_for(foreign, begun, lambda: SQLiteQueueStore(tmp_path / "store", timeout=30)) as store:
        assert store.qsize("jobs") == 1
    foreign.close()


@pytest.mark.parametrize("mode", MODES)
def test_an_existing_store_opens_and_reads_while_another_program_writes(
    mode: str, tmp_path: Path, foreign: sqlite3.Connection
) -> None:
    with SQLiteQueueStore(tmp_path / "store") as store:
        store.put_one("jobs", "x", None)
        foreign.execute(f"BEGIN {mode}")
        with SQLiteQueueStore(tmp_path / "store", timeout=0.2) as second:
            assert second.qsize("jobs") == 1
            assert second.check().ok
            with pytest.raises(QueueStoreLockedError):
                second.pause("jobs")
        foreign.execute("ROLLBACK")
        assert not store.paused("jobs")


def work_on(store: Any, who: str, rounds: int) -> list[str]:
    """Put, lease and ack; the payloads acked."""
    acked = []
    for n in range(rounds):
        store.put_one("jobs", f"{who}-{n}", None)
        store.qsize("jobs")
        for message in store.lease(LeaseRequest("jobs")):
            assert store.ack_one("jobs", message.id, message.attempts)
            acked.append(str(message.payload))
    return acked


def work_in_process(connection: Connection, path: str, who: str, rounds: int) -> None:
    with SQLiteQueueStore(path) as store:
        connection.send(work_on(store, who, rounds))


@pytest.mark.slow
@pytest.mark.multiprocess
def test_eight_threads_and_four_processes_never_see_a_busy_file(tmp_path: Path) -> None:
    path, rounds = str(tmp_path / "store"), 60
    acked: list[list[str]] = []
    errors: list[BaseException] = []

    def work(who: str) -> None:
        try:
            acked.append(work_on(store, who, rounds))
        except BaseException as error:
            errors.append(error)

    with SQLiteQueueStore(path) as store:
        children = [Child(work_in_process, path, f"p{n}", rounds) for n in range(4)]
        threads = [threading.Thread(target=work, args=(f"t{n}",), daemon=True) for n in range(8)]
        for thread in threads:
            thread.start()
        reports = reports_of(children)
        for thread in threads:
            thread.join(60)
        assert errors == []
        assert [len(report) for report in reports] == [1] * 4, "a process failed"
        done = [name for names in (*acked, *(report[0] for report in reports)) for name in names]
        left = [str(message.payload) for message in store.scan("jobs")]
        everyone = [f"t{n}" for n in range(8)] + [f"p{n}" for n in range(4)]
        assert sorted(done + left) == sorted(f"{who}-{n}" for who in everyone for n in range(rounds))
        assert store.check().problems == ()
