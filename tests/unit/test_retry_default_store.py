"""Retryers without a store use the default store of the thread that calls them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_none

from localqueue.contracts.steps import Background
from localqueue.errors import QueueStoreClosedError
from localqueue.retry import (
    MemoryAttemptStore,
    PersistentAsyncRetrying,
    PersistentRetrying,
    RetryRecord,
    SQLiteAttemptStore,
    close_default_store,
    configure_default_store,
    configure_default_store_factory,
)


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    yield tmp_path
    configure_default_store_factory(None)
    close_default_store(all_threads=True)


def fail_once(key: str = "k") -> None:
    def work() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        PersistentRetrying(key=key, max_tries=1, wait=wait_none())(work)


def in_a_thread(work: Any, *arguments: Any) -> None:
    threads = Background()
    threads.start(work, *arguments)
    threads.join()


def test_the_default_is_a_file_of_the_user(data_home: Path) -> None:
    fail_once()
    with SQLiteAttemptStore(data_home / "localqueue" / "retries.sqlite3") as store:
        assert store.load("k") is not None


def test_nothing_is_opened_before_a_call(data_home: Path) -> None:
    PersistentRetrying(key="k")
    assert not (data_home / "localqueue").exists()


def test_threads_share_the_default_file(data_home: Path) -> None:
    in_a_thread(fail_once)
    record = PersistentRetrying().get_record("k")
    assert record is not None
    assert record.exhausted


def test_a_thread_can_use_a_store_of_its_own() -> None:
    mine = MemoryAttemptStore()
    configure_default_store(mine)
    fail_once("here")
    in_a_thread(fail_once, "there")
    assert mine.load("here") is not None
    assert mine.load("there") is None


def test_an_async_call_uses_the_default_of_the_thread_of_its_loop() -> None:
    mine = MemoryAttemptStore()
    configure_default_store(mine)

    async def work() -> None:
        raise ConnectionError

    async def main() -> None:
        with pytest.raises(ConnectionError):
            await PersistentAsyncRetrying(key="k", max_tries=1, wait=wait_none())(work)

    asyncio.run(main())
    assert mine.load("k") is not None


def test_none_closes_the_store_and_goes_back_to_the_file(data_home: Path) -> None:
    own = SQLiteAttemptStore(data_home / "own.sqlite3")
    configure_default_store(own)
    fail_once()
    configure_default_store(None)
    with pytest.raises(QueueStoreClosedError):
        own.load("k")
    assert PersistentRetrying().get_record("k") is None


def test_a_factory_makes_the_store_of_each_thread() -> None:
    made: list[MemoryAttemptStore] = []

    def factory() -> MemoryAttemptStore:
        made.append(MemoryAttemptStore())
        return made[-1]

    configure_default_store_factory(factory)
    assert made == []
    fail_once("here")
    in_a_thread(fail_once, "there")
    assert [[store.load("here") is not None, store.load("there") is not None] for store in made] == [
        [True, False],
        [False, True],
    ]
    fail_once("again")
    assert len(made) == 2


def test_closing_all_threads_closes_what_the_factory_made(data_home: Path) -> None:
    shared = SQLiteAttemptStore(data_home / "shared.sqlite3")
    configure_default_store_factory(lambda: shared)
    in_a_thread(fail_once)
    gc.collect()
    assert shared.load("k") is not None  # the end of a thread does not close what a factory may share
    fail_once("other")
    close_default_store(all_threads=True)
    with pytest.raises(QueueStoreClosedError):
        shared.load("k")


def test_a_closed_default_is_opened_again_by_the_next_call() -> None:
    PersistentRetrying().reset("k")
    close_default_store()
    close_default_store()
    fail_once()
    assert PersistentRetrying().get_record("k") == RetryRecord(
        1,
        PersistentRetrying().get_record("k").first_attempt_at,
        True,  # type: ignore[union-attr]
    )
