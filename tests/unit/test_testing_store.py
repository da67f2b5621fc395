"""`memory_store` and `use_store`: what stands for the store of the process, and what is back when the block ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, SQLiteQueueStore, configure
from localqueue.errors import QueueStoreClosedError
from localqueue.retry.default_store import StoreOfProcess, current
from localqueue.stores import default
from localqueue.testing import Clock, memory_store, use_store


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    yield
    configure()
    assert default._open == [], "a test left a queue open"


def test_a_queue_without_a_store_lives_in_memory_and_makes_no_file() -> None:
    with memory_store() as store, PersistentQueue[Any]("jobs") as queue:
        queue.put(1)

        assert queue.store is store
        assert isinstance(store, MemoryQueueStore)
    assert not default.default_store_path().exists()


def test_each_block_begins_with_an_empty_store() -> None:
    for _ in range(2):
        with memory_store(), PersistentQueue[Any]("jobs") as queue:
            assert queue.qsize() == 0
            queue.put(1)


def test_a_queue_of_the_module_moves_from_block_to_block_and_back_to_its_file() -> None:
    with PersistentQueue[Any]("jobs") as queue:
        queue.put("kept in the file")
        for number in range(2):
            with memory_store() as store:
                queue.put(number)
                assert queue.store is store
                assert [message.value for message in queue.messages()] == [number]

        assert [message.value for message in queue.messages()] == ["kept in the file"]


def test_a_queue_that_was_only_looked_at_moves_too() -> None:
    with PersistentQueue[Any]("jobs") as queue:
        assert queue.empty()
        with memory_store():
            queue.put(1)
            assert queue.qsize() == 1
        assert queue.empty()


def test_it_goes_before_what_is_configured_and_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALQUEUE_URL", "sqlite:///environment.db")
    configure(url="sqlite:///configured.db")
    with memory_store() as store, PersistentQueue[Any]("jobs") as queue:
        assert queue.store is store


def test_what_is_configured_in_the_block_counts_after_it(tmp_path: Path) -> None:
    with PersistentQueue[Any]("jobs") as queue:
        with memory_store() as store:
            configure(url=f"sqlite:///{tmp_path / 'configured.db'}")
            assert queue.store is store

        assert queue.store.url == f"sqlite:///{tmp_path / 'configured.db'}"
        configure()


def test_a_queue_with_a_store_of_its_own_stays_there(tmp_path: Path) -> None:
    with (
        MemoryQueueStore() as own,
        PersistentQueue[Any]("jobs", store=own) as given,
        PersistentQueue[Any]("jobs", store_path=tmp_path / "own.db") as filed,
    ):
        filed.put(1)
        with memory_store():
            assert given.store is own
            assert filed.qsize() == 1
        assert filed.get_nowait() == 1


def test_a_queue_that_asks_for_durability_lives_in_memory_all_the_same() -> None:
    with memory_store() as store, PersistentQueue[Any]("jobs", durability="power") as queue:
        assert queue.store is store


def test_blocks_may_be_nested() -> None:
    with PersistentQueue[Any]("jobs") as queue, memory_store() as outer:
        queue.put("outer")
        with memory_store() as inner:
            assert queue.store is inner
            assert queue.empty()
        assert queue.store is outer
        assert queue.get_nowait() == "outer"


def test_everything_is_back_when_the_block_fails() -> None:
    with PersistentQueue[Any]("jobs") as queue:
        with pytest.raises(RuntimeError), memory_store() as store:
            queue.put(1)
            raise RuntimeError
        with pytest.raises(QueueStoreClosedError):
            store.queues()
        assert queue.empty()


def test_a_queue_that_was_closed_stays_closed() -> None:
    queue = PersistentQueue[Any]("jobs")
    with memory_store():
        queue.put(1)
        queue.close()
    with pytest.raises(QueueStoreClosedError):
        queue.put(2)


def test_attempts_are_counted_in_it_too() -> None:
    with memory_store() as store:
        source = current()
        assert isinstance(source, StoreOfProcess)
        source.open()
        assert default.shared() is not None
        assert default.shared().store() is store  # type: ignore[union-attr]


def test_another_store_can_be_that_of_the_process(tmp_path: Path) -> None:
    clock = Clock()
    with SQLiteQueueStore(tmp_path / "jobs.db", clock=clock) as store:
        with use_store(store) as used, PersistentQueue[Any]("jobs") as queue:
            assert used is store
            queue.put(1, delay=60)
            clock.advance(60)
            assert queue.get_nowait() == 1
        assert store.queues() == ["jobs"], "it belongs to who opened it"
