"""The store of a process: `configure`, the environment, and what queues without a store make of it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import localqueue
from localqueue import (
    LMDBQueueStore,
    MemoryQueueStore,
    PersistentQueue,
    PersistentRetrying,
    SQLiteQueueStore,
    configure,
    open_store,
)
from localqueue.errors import QueueStoreClosedError
from localqueue.retry import QueueAttemptStore
from localqueue.retry.default_store import close_default_store, configure_default_store_factory, current
from localqueue.stores import default


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in default._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    configure()
    close_default_store(all_threads=True)
    for name in default._VARIABLES:
        os.environ.pop(name, None)
    default.shared()
    assert default._open == [], "a test left a queue open"


def test_queues_without_a_store_share_the_one_that_is_configured() -> None:
    configure(db_backend="memory", namespace="tenant")
    with PersistentQueue[Any]("jobs") as jobs, PersistentQueue[Any]("others") as others:
        assert isinstance(jobs.store, MemoryQueueStore)
        assert jobs.store is others.store
        assert jobs.store.namespace == "tenant"
        jobs.put(1)
    with PersistentQueue[Any]("jobs") as again:
        assert again.get_nowait() == 1, "closing a queue does not close the store of the process"


@pytest.mark.parametrize(
    ("settings", "kind", "place"),
    [
        ({"db_backend": "sqlite"}, SQLiteQueueStore, "data/localqueue/queue.sqlite3"),
        ({"db_backend": "lmdb"}, LMDBQueueStore, "data/localqueue/queue.lmdb"),
        ({"url": "sqlite:///jobs.db"}, SQLiteQueueStore, "jobs.db"),
        ({"db_backend": "lmdb", "url": "lmdb:///jobs"}, LMDBQueueStore, "jobs"),
        ({"namespace": "tenant"}, SQLiteQueueStore, "data/localqueue/queue.sqlite3"),
    ],
    ids=["sqlite", "lmdb", "url", "both", "namespace"],
)
def test_a_backend_has_a_usual_place_and_a_url_says_the_backend(
    settings: dict[str, Any], kind: type, place: str, tmp_path: Path
) -> None:
    configure(**settings)
    with PersistentQueue[Any]("jobs") as queue:
        queue.put(1)
        assert type(queue.store) is kind
        assert queue.store.namespace == settings.get("namespace", "default")
    assert (tmp_path / place).exists()


@pytest.mark.parametrize(
    ("backend", "url"),
    [
        ("pg", "postgresql://localhost:5432"),
        ("redis", "redis://localhost:6379/0"),
        ("mongodb", "mongodb://localhost:27017"),
        ("memory", "memory://"),
    ],
)
def test_a_server_is_looked_for_on_this_machine_at_its_standard_port(backend: str, url: str) -> None:
    assert default.Settings.of(backend, None, None).url == url


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"db_backend": "oracle"}, "sqlite, lmdb, memory, pg, redis, mongodb"),
        ({"db_backend": "pg", "url": "redis://user:secret@host"}, "'redis'.*'pg'"),
        ({"url": "nosuch://user:secret@host"}, "nosuch"),
        ({"url": "jobs.db"}, "sqlite:///file.db"),
        ({"namespace": ""}, "namespace"),
    ],
)
def test_what_does_not_fit_together_is_refused_at_once(settings: dict[str, Any], said: str) -> None:
    configure(db_backend="memory")
    with pytest.raises(ValueError, match=said) as refused:
        configure(**settings)
    assert "secret" not in str(refused.value)
    with PersistentQueue[Any]("jobs") as queue:
        assert isinstance(queue.store, MemoryQueueStore), "what was configured before stays"


def test_options_go_to_the_store() -> None:
    configure(url="sqlite:///jobs.db", durability="power", timeout=3.0)
    with PersistentQueue[Any]("jobs") as queue:
        assert isinstance(queue.store, SQLiteQueueStore)
        assert queue.store.durability == "power"


def test_a_durability_of_the_queue_is_not_ignored() -> None:
    configure(db_backend="memory")
    with PersistentQueue[Any]("jobs", durability="power") as queue, pytest.raises(ValueError, match="durability"):
        queue.put(1)


def test_a_store_or_a_path_that_is_given_wins(tmp_path: Path) -> None:
    configure(db_backend="lmdb")
    with MemoryQueueStore() as store, PersistentQueue[Any]("jobs", store=store) as queue:
        assert queue.store is store
    with PersistentQueue[Any]("jobs", store_path=tmp_path / "mine.db") as queue:
        assert isinstance(queue.store, SQLiteQueueStore)
    assert not (tmp_path / "data").exists()


def test_another_configuration_is_for_new_queues() -> None:
    configure(db_backend="memory")
    with PersistentQueue[Any]("jobs") as old:
        old.put("old")
        first = old.store
        configure(db_backend="memory")
        with PersistentQueue[Any]("jobs") as new:
            assert new.empty()
            assert old.get_nowait() == "old"
        configure()
        with PersistentQueue[Any]("jobs") as unconfigured:
            assert isinstance(unconfigured.store, SQLiteQueueStore)
        assert old.task_done()
    with pytest.raises(QueueStoreClosedError):
        first.qsize("jobs")


def test_a_store_that_nobody_uses_any_more_is_closed() -> None:
    configure(db_backend="memory")
    with PersistentQueue[Any]("jobs") as queue:
        store = queue.store
    assert store.qsize("jobs") == 0
    configure()
    with pytest.raises(QueueStoreClosedError):
        store.qsize("jobs")


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    configure(url="sqlite:///jobs.db")
    queue = PersistentQueue[Any]("jobs")
    assert "the default store" in repr(queue)
    assert list(tmp_path.iterdir()) == []
    with queue:
        queue.put(1)
        assert "jobs.db" in repr(queue)
    assert (tmp_path / "jobs.db").exists()


def test_many_threads_open_one_store() -> None:
    configure(url="sqlite:///jobs.db")
    queues = [PersistentQueue[Any]("jobs") for _ in range(8)]
    barrier = threading.Barrier(len(queues))

    def use(queue: PersistentQueue[Any]) -> None:
        barrier.wait()
        queue.put(1)

    threads = [threading.Thread(target=use, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(queue.store) for queue in queues}) == 1
    assert queues[0].qsize() == 8
    for queue in queues:
        queue.close()


# the environment


def test_the_environment_decides_when_nothing_is_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCALQUEUE_URL", "lmdb:///jobs")
    monkeypatch.setenv("LOCALQUEUE_NAMESPACE", "tenant")
    with PersistentQueue[Any]("jobs") as queue:
        assert isinstance(queue.store, LMDBQueueStore)
        assert queue.store.namespace == "tenant"
        configure(db_backend="memory")
        with PersistentQueue[Any]("jobs") as configured:
            assert isinstance(configured.store, MemoryQueueStore)
        configure()
        monkeypatch.setenv("LOCALQUEUE_NAMESPACE", "another")
        with PersistentQueue[Any]("jobs") as another:
            assert another.store.namespace == "another"
        queue.put("still there")


def test_a_backend_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALQUEUE_BACKEND", "memory")
    with PersistentQueue[Any]("jobs") as one, PersistentQueue[Any]("jobs") as two:
        assert isinstance(one.store, MemoryQueueStore)
        assert one.store is two.store


def test_an_environment_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALQUEUE_BACKEND", "oracle")
    with PersistentQueue[Any]("jobs") as queue:
        assert "jobs" in repr(queue)
        with pytest.raises(ValueError, match="LOCALQUEUE_BACKEND"):
            queue.put(1)


def test_empty_variables_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in default._VARIABLES:
        monkeypatch.setenv(name, "")
    assert default.shared() is None


# retries


def test_retryers_without_a_store_count_in_the_store_of_the_process() -> None:
    configure(db_backend="memory")
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise ConnectionError

    retryer = PersistentRetrying(key="k", max_tries=1, reraise=True)
    with pytest.raises(ConnectionError):
        retryer(fail)
    with PersistentQueue[Any]("jobs") as queue:
        record = QueueAttemptStore(queue.store).load("k")
        assert record is not None
        assert record.attempts == 1
    configure()
    assert retryer.get_record("k") is None, "without a configuration it is the user's file again"


def test_a_factory_of_attempt_stores_wins() -> None:
    from localqueue.retry import MemoryAttemptStore

    configure(db_backend="memory")
    configure_default_store_factory(MemoryAttemptStore)
    try:
        assert isinstance(current().open(), MemoryAttemptStore)
    finally:
        configure_default_store_factory(None)


# processes

PROGRAM = """
import os
import localqueue
from localqueue import PersistentQueue, SQLiteQueueStore

close = SQLiteQueueStore.close
SQLiteQueueStore.close = lambda self: (print("closed"), close(self))
localqueue.configure(url="sqlite:///jobs.db")
queue = PersistentQueue("jobs")
queue.put("parent")
child = os.fork()
if child == 0:
    queue.put("child")
    PersistentQueue("jobs").put("child again")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(sorted(message.value for message in queue.messages()), flush=True)
"""


@pytest.mark.multiprocess
def test_the_store_of_a_process_is_carried_over_a_fork_and_closed_at_the_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["['child', 'child again', 'parent']", "closed"]


# addresses


@pytest.mark.parametrize(
    ("driver", "url", "extra"),
    [
        ("lmdb", "lmdb:///jobs", "localqueue[lmdb]"),
        ("psycopg", "postgresql://localhost/x", "localqueue[postgres]"),
        ("redis", "redis://localhost/0", "localqueue[redis]"),
        ("pymongo", "mongodb://localhost/x", "localqueue[mongodb]"),
    ],
)
@pytest.mark.multiprocess
def test_a_store_that_is_not_installed_says_how_to_install_it(driver: str, url: str, extra: str) -> None:
    code = textwrap.dedent(
        f"""
        import sys
        sys.modules[{driver!r}] = None
        import localqueue
        try:
            localqueue.open_store({url!r})
        except (ImportError, RuntimeError) as error:
            print(error)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert extra in done.stdout, done.stderr


@pytest.mark.parametrize("url", ["memory://name", "sqlite://jobs.db", "sqlite:///", "lmdb:", "", "://"])
def test_an_address_that_can_not_be_meant_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="can not open"):
        open_store(url)


def test_an_address_is_a_text() -> None:
    with pytest.raises(TypeError, match="address"):
        open_store(Path("jobs.db"))  # type: ignore[arg-type]


def test_configure_is_in_the_package() -> None:
    assert localqueue.configure is configure


def test_a_namespace_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="namespace must be a string, not 3"):
        configure(db_backend="memory", namespace=3)  # type: ignore[arg-type]
