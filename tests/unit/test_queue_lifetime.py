"""Where a queue lives, when its store is opened, and who closes it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue, SQLiteQueueStore, open_store
from localqueue.contracts.steps import PATIENCE
from localqueue.errors import QueueStoreClosedError
from localqueue.message import QueueStats
from localqueue.stores.default import configure


def test_the_default_file_is_in_the_xdg_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with PersistentQueue("jobs") as queue:
        queue.put("x")
    assert (tmp_path / "data" / "localqueue" / "queue.sqlite3").is_file()


@pytest.mark.parametrize("unset", ["missing", "empty"])
def test_without_xdg_the_file_is_below_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unset: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if unset == "missing":
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_DATA_HOME", "")
    with PersistentQueue("jobs") as queue:
        queue.put("x")
    assert (tmp_path / ".local" / "share" / "localqueue" / "queue.sqlite3").is_file()


def test_the_store_is_made_by_the_first_write(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "q.db"
    queue: PersistentQueue[str] = PersistentQueue("jobs", store_path=path)
    assert not path.parent.exists()
    queue.put("x")
    assert path.is_file()
    queue.close()


def test_looking_at_a_queue_of_a_store_that_was_never_made_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "q.db"
    with PersistentQueue[str]("jobs", store_path=path, maxsize=1) as queue:
        assert (queue.qsize(), queue.empty(), queue.full()) == (0, True, False)
        assert queue.stats() == QueueStats()
        assert (queue.messages(), queue.dead_letters(), queue.events()) == ([], [], [])
        assert queue.inspect("0" * 32) is None
        assert queue.count_dead_letters_older_than(older_than=0) == 0
        assert not queue.is_paused()
        assert (queue.run("r"), queue.run_messages("r"), queue.waits_for("0" * 32)) == (None, [], [])
        assert not (tmp_path / "deep").exists()
        with PersistentQueue[str]("jobs", store_path=path) as other:
            other.put("x")
        assert (queue.qsize(), queue.full()) == (1, True)
    with pytest.raises(QueueStoreClosedError):
        queue.qsize()


@pytest.mark.parametrize("url", ["sqlite:///{}/q.db", "lmdb:///{}/q.lmdb", "memory://"])
def test_looking_at_the_store_of_the_process_makes_none(url: str, tmp_path: Path) -> None:
    configure(url=url.format(tmp_path))
    try:
        with PersistentQueue[str]("jobs") as queue, PersistentQueue[str]("jobs") as other:
            assert queue.qsize() == 0
            assert list(tmp_path.iterdir()) == []
            other.put("x")
            assert queue.qsize() == 1
    finally:
        configure()


def test_the_environment_is_read_when_the_store_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue: PersistentQueue[str] = PersistentQueue("jobs")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with queue:
        queue.put("x")
    assert (tmp_path / "localqueue" / "queue.sqlite3").is_file()


def test_threads_that_use_a_new_queue_at_once_share_one_store(tmp_path: Path) -> None:
    queue: PersistentQueue[int] = PersistentQueue("jobs", store_path=tmp_path / "q.db")
    together = threading.Barrier(8)
    stores: list[Any] = []

    def use() -> None:
        together.wait(PATIENCE)
        stores.append(queue.store)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(stores) == 8
    assert len({id(store) for store in stores}) == 1
    queue.close()


def test_messages_survive_the_queue_object(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    with PersistentQueue("jobs", store_path=path) as queue:
        put = queue.put({"n": 1})
    with PersistentQueue("jobs", store_path=str(path)) as queue:
        message = queue.get_message(block=False)
    assert (message.id, message.value) == (put.id, {"n": 1})


def test_queues_of_one_store_do_not_see_each_other() -> None:
    with MemoryQueueStore() as store:
        jobs: PersistentQueue[str] = PersistentQueue("jobs", store=store)
        mails: PersistentQueue[str] = PersistentQueue("mails", store=store)
        message = jobs.put("x")
        assert mails.empty()
        assert mails.inspect(message.id) is None
        assert mails.ack(message.id) is False
        assert jobs.qsize() == 1


def test_leaving_the_with_block_closes_a_store_that_the_queue_opened(tmp_path: Path) -> None:
    with PersistentQueue("jobs", store_path=tmp_path / "q.db") as queue:
        store = queue.store
    with pytest.raises(QueueStoreClosedError):
        store.qsize("jobs")


def test_the_with_block_closes_after_an_exception_too(tmp_path: Path) -> None:
    with pytest.raises(KeyError), PersistentQueue("jobs", store_path=tmp_path / "q.db") as queue:
        queue.put("x")
        raise KeyError
    with pytest.raises(QueueStoreClosedError):
        queue.qsize()


@pytest.mark.parametrize("used", [True, False], ids=["used", "never used"])
def test_a_closed_queue_refuses_every_operation(tmp_path: Path, used: bool) -> None:
    queue: PersistentQueue[str] = PersistentQueue("jobs", store_path=tmp_path / "q.db")
    message = queue.put("x") if used else "0" * 32
    queue.close()
    queue.close()
    for call in (
        lambda: queue.put("y"),
        lambda: queue.put("y", delay=1),
        lambda: queue.get_message(block=False),
        lambda: queue.ack(message),
        lambda: queue.qsize(),
        lambda: queue.stats(),
        lambda: queue.purge(),
        lambda: queue.store,
    ):
        with pytest.raises(QueueStoreClosedError, match="closed"):
            call()


def test_a_store_that_was_passed_in_stays_open() -> None:
    with MemoryQueueStore() as store:
        with PersistentQueue("jobs", store=store) as queue:
            queue.put("x")
        with pytest.raises(QueueStoreClosedError):
            queue.put("y")
        other: PersistentQueue[str] = PersistentQueue("jobs", store=store)
        assert other.get_nowait() == "x"


def test_a_closed_store_closes_its_queues() -> None:
    store = MemoryQueueStore()
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store)
    queue.put("x")
    store.close()
    with pytest.raises(QueueStoreClosedError):
        queue.put("y")


def test_closing_the_store_ends_a_blocked_get(tmp_path: Path) -> None:
    store = SQLiteQueueStore(tmp_path / "q.db")
    queue: PersistentQueue[str] = PersistentQueue("jobs", store=store)
    listening, ended = threading.Event(), threading.Event()
    listen = store.listen

    def listen_and_tell(queues: Any, **options: Any) -> Any:
        waiter = listen(queues, **options)
        listening.set()
        return waiter

    store.listen = listen_and_tell  # type: ignore[method-assign]

    def consume() -> None:
        with pytest.raises(QueueStoreClosedError):
            queue.get(timeout=2 * PATIENCE)
        ended.set()

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    assert listening.wait(PATIENCE)
    store.close()
    assert ended.wait(PATIENCE)
    thread.join(PATIENCE)


def test_a_queue_says_its_name_and_where_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "q.db"
    assert repr(PersistentQueue("jobs", store_path=path)) == f"PersistentQueue('jobs', store={str(path)!r})"
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert repr(PersistentQueue("jobs")) == "PersistentQueue('jobs', store='/data/localqueue/queue.sqlite3')"
    with MemoryQueueStore() as store:
        assert "MemoryQueueStore" in repr(PersistentQueue("jobs", store=store))
    assert not path.exists()


@pytest.mark.parametrize(("durability", "synchronous"), [(None, 1), ("process", 1), ("power", 2)])
def test_durability_is_the_stores_synchronous_setting(tmp_path: Path, durability: Any, synchronous: int) -> None:
    with PersistentQueue("jobs", store_path=tmp_path / "q.db", durability=durability) as queue:
        store = queue.store
        assert isinstance(store, SQLiteQueueStore)
        assert store.durability == (durability or "process")
        assert store._writer.connection.execute("PRAGMA synchronous").fetchone()[0] == synchronous
        queue.put("x")
        assert queue.get_nowait() == "x"


def test_a_store_is_opened_by_its_address(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/q.db") as store:  # type: ignore[attr-defined]
        PersistentQueue("jobs", store=store).put("x")
    with PersistentQueue("jobs", store_path=tmp_path / "q.db") as queue:
        assert queue.get_nowait() == "x"
    memory = open_store("memory://")
    assert PersistentQueue("jobs", store=memory).empty()
    memory.close()
