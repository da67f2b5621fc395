"""What is particular to the LMDB store; what it shares with the others is in the contract suite."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts.steps import PATIENCE
from localqueue.errors import (
    QueueStoreClosedError,
    QueueStoreCorruptError,
    QueueStoreError,
    QueueStoreFullError,
    QueueStoreLockedError,
    QueueStoreReadOnlyError,
    QueueStoreVersionError,
)
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, RecordWrite

lmdb = pytest.importorskip("lmdb")

from localqueue.stores.lmdb import LMDBQueueStore, connection, keys, schema  # noqa: E402

Open = Callable[..., LMDBQueueStore]
STRANGE = ("", "\x00", "a\x00b", "🦊" * 7, "ключ", "k" * 10_000, "k" * 9_999 + "l", "é" * 201, " ")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queues"


@pytest.fixture
def open_store(path: Path) -> Iterator[Open]:
    opened: list[LMDBQueueStore] = []

    def open_store(at: Path = path, **options: Any) -> LMDBQueueStore:
        opened.append(LMDBQueueStore(at, **options))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


def put(store: LMDBQueueStore, queue: str = "jobs", payload: str | bytes = "x", **options: Any) -> str:
    (message_id,) = store.mint()
    store.commit(Changes(enqueue=[NewMessage(message_id, queue, payload, **options)]))
    return message_id


def in_child(work: Callable[[], None]) -> int:
    """Exit code of a forked child that does `work`."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"in the child: {error!r}\n".encode())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_missing_driver_is_named_with_the_way_to_install_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(RuntimeError) as refused:
        LMDBQueueStore(path)
    expected = 'LMDB support requires the optional dependency; install with `pip install "localqueue[lmdb]"`'
    assert str(refused.value) == expected
    assert not path.exists()


def test_importing_the_store_does_not_import_the_driver() -> None:
    code = "import sys; import localqueue.stores.lmdb; assert 'lmdb' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


@pytest.mark.parametrize("wrong", [{"durability": "none"}, {"namespace": ""}, {"map_size": 0}])
def test_options_that_make_no_sense_are_refused(path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        LMDBQueueStore(path, **wrong)


def test_the_map_grows_beyond_its_initial_size(open_store: Open) -> None:
    store = open_store(map_size=64 * 1024)
    payload = os.urandom(50_000)
    ids = [put(store, payload=payload) for _ in range(40)]
    (large,) = store.mint()
    store.commit(Changes(enqueue=[NewMessage(large, "jobs", payload * 100)]))
    assert [message.id for message in store.scan("jobs")] == [*ids, large]
    assert store.check().ok


def test_the_map_grows_while_other_threads_read(open_store: Open) -> None:
    store = open_store(map_size=64 * 1024)
    first = put(store)
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                assert store.get("jobs", first) is not None
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(60):
        put(store, payload=os.urandom(50_000))
    stop.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert store.qsize("jobs") == 61


def test_a_store_that_may_not_grow_any_more_is_full_and_unchanged(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LARGEST_MAP", 256 * 1024)
    store = open_store(map_size=64 * 1024)
    kept = put(store)
    with pytest.raises(QueueStoreFullError, match="full"):
        put(store, payload=os.urandom(1_000_000))
    assert [message.id for message in store.scan("jobs")] == [kept]
    put(store)
    assert store.check().ok


@pytest.mark.multiprocess
def test_a_full_disk_changes_nothing_and_the_store_goes_on_when_there_is_room(open_store: Open, path: Path) -> None:
    store = open_store()
    put(store, payload="kept")
    size = (path / "data.mdb").stat().st_size

    def child() -> None:  # a limit on the size of files fails the same system call as a full disk
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, hard))
        with pytest.raises(QueueStoreFullError):
            put(store, payload=os.urandom(1_000_000))
        assert store.qsize("jobs") == 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        put(store, payload=os.urandom(1_000_000))

    assert in_child(child) == 0
    assert store.qsize("jobs") == 2
    assert store.check().ok


def test_an_existing_store_opens_with_a_smaller_map_than_it_has(open_store: Open) -> None:
    with open_store() as store:
        put(store, payload=os.urandom(3_000_000))
    again = open_store(map_size=4096)
    put(again, payload=os.urandom(3_000_000))
    assert again.qsize("jobs") == 2


def test_namespaces_share_one_environment_until_the_last_is_closed(open_store: Open, path: Path) -> None:
    one, other = open_store(namespace="one"), open_store(path / ".." / path.name, namespace="other")
    put(one, payload="of one")
    assert (one.qsize("jobs"), other.qsize("jobs")) == (1, 0)
    one.close()
    put(other, payload="of other")
    assert [message.payload for message in other.lease(LeaseRequest("jobs"))] == ["of other"]
    other.close()
    lmdb.open(str(path)).close()  # the driver refuses an environment that is still open in this process


def test_a_store_that_was_dropped_without_closing_it_leaves_nothing_open(path: Path) -> None:
    store = LMDBQueueStore(path)
    put(store)
    del store
    lmdb.open(str(path)).close()


def test_a_closed_store_says_so(open_store: Open) -> None:
    store, other = open_store(), open_store(namespace="other")
    store.close()
    store.close()
    for call in (
        lambda: put(store),
        lambda: store.qsize("jobs"),
        store.check,
        lambda: store.lease(LeaseRequest("jobs")),
    ):
        with pytest.raises(QueueStoreClosedError):
            call()
    put(other)


def test_a_waiter_of_a_store_that_closes_ends(open_store: Open) -> None:
    store = open_store()
    put(store, "other")
    waiter = store.listen(["jobs"])
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            waiter.wait(2 * PATIENCE)
        except QueueStoreClosedError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    store.close()
    thread.join(PATIENCE)
    assert len(ended) == 1


@pytest.mark.parametrize("text", STRANGE)
def test_strange_and_long_texts_come_back_as_they_were(open_store: Open, text: str) -> None:
    store = open_store(namespace=text or "default")
    queue = text or "jobs"
    headers = json.dumps({text: text}, ensure_ascii=False)
    message_id = put(
        store, queue, "x" + text, dedupe_key=text, ordering_key=text, headers=headers, run_id=text, codec=text or None
    )
    (again,) = store.mint()
    duplicate = store.commit(Changes(enqueue=[NewMessage(again, queue, "y", dedupe_key=text)])).enqueued[0]
    assert duplicate.outcome == "duplicate"
    (message,) = store.lease(LeaseRequest(queue, leased_by=text))
    assert message.id == message_id
    assert (message.payload, message.dedupe_key, message.ordering_key) == ("x" + text, text, text)
    assert (message.headers, message.run_id, message.leased_by) == (headers, text, text)
    assert store.queues() == [queue]
    assert store.stats(queue).by_worker_id == {text: 1}
    assert store.subscribe(queue, text)
    assert store.subscriptions(queue).subscribers == (text,)
    assert store.check().ok


def test_records_with_strange_and_long_keys_are_listed_in_order(open_store: Open) -> None:
    store = open_store()
    wanted = sorted((*STRANGE[1:], *("k" * 400 + str(n) for n in range(30)), "k" * 400), key=str.encode)
    store.commit(Changes(records=[RecordWrite("kind", key, key.encode()) for key in reversed(wanted)]))
    store.commit(Changes(records=[RecordWrite("kind2", "other", b"")]))
    assert [record.key for record in store.records("kind")] == wanted
    paged: list[str] = []
    while page := store.records("kind", after=paged[-1] if paged else "", limit=4):
        paged += [record.key for record in page]
    assert paged == wanted


@pytest.mark.parametrize("priorities", [[-(1 << 63), -1, 0, 1, (1 << 63) - 1]])
def test_priorities_of_any_size_are_claimed_in_order(open_store: Open, priorities: list[int]) -> None:
    store = open_store()
    for priority in priorities:
        put(store, priority=priority)
    claimed = store.lease(LeaseRequest("jobs", limit=10))
    assert [message.priority for message in claimed] == sorted(priorities, reverse=True)
    with pytest.raises(OverflowError):
        put(store, priority=1 << 63)


@pytest.mark.parametrize("number", [0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, float("inf"), float("-inf")])
def test_floats_sort_as_keys_like_they_do_as_numbers(number: float) -> None:
    assert keys.unordered(keys.ordered(number)) == number
    for other in (-1e9, 0.0, 1e9):
        assert (keys.ordered(number) < keys.ordered(other)) == (number < other)


@pytest.mark.multiprocess
def test_a_store_is_usable_on_both_sides_of_a_fork(open_store: Open) -> None:
    store = open_store()
    put(store, payload="before")

    def child() -> None:
        (message,) = store.lease(LeaseRequest("jobs"))
        assert message.payload == "before"
        put(store, payload="from the child")

    assert in_child(child) == 0
    put(store, payload="from the parent")
    claimed = store.lease(LeaseRequest("jobs", limit=5))
    assert [message.payload for message in claimed] == ["from the child", "from the parent"]
    assert store.check().ok


@pytest.mark.multiprocess
def test_forks_in_the_middle_of_the_work_of_threads_lose_and_repeat_nothing(open_store: Open) -> None:
    store = open_store()
    put(store)
    stop = threading.Event()
    done: list[str] = []

    def work() -> None:
        while not stop.is_set():
            done.append(put(store))
            store.stats("jobs")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = [in_child(lambda: put(store, "children") and None) for _ in range(10)]
    stop.set()
    for thread in threads:
        thread.join()
    assert codes == [0] * 10
    assert store.qsize("jobs") == len(done) + 1
    assert store.qsize("children") == 10
    assert store.check().ok


@pytest.mark.multiprocess
def test_processes_follow_each_other_when_the_map_grows(open_store: Open, path: Path) -> None:
    store = open_store(map_size=64 * 1024)
    put(store)
    script = (
        "import sys, os\n"
        "from localqueue.stores.lmdb import LMDBQueueStore\n"
        "from localqueue.stores.port import *\n"
        "store = LMDBQueueStore(sys.argv[1], map_size=64 * 1024)\n"
        "for _ in range(30):\n"
        "    store.put_one('jobs', os.urandom(50_000), None)\n"
        "    assert store.qsize('jobs')\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    others = [subprocess.Popen(command, env=environ) for _ in range(2)]
    for _ in range(30):
        put(store, payload=os.urandom(50_000))
        assert store.qsize("jobs") > 0
    assert [other.wait(60) for other in others] == [0, 0]
    assert store.qsize("jobs") == 91
    assert store.check().ok


def test_a_map_that_another_process_grows_while_it_is_opened_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, tries = lmdb.open, iter([lmdb.MapResizedError("grown meanwhile")])

    def open_late(*arguments: Any, **options: Any) -> Any:
        for error in tries:
            raise error
        return opened(*arguments, **options)

    monkeypatch.setattr(lmdb, "open", open_late)
    with LMDBQueueStore(path) as store:
        store.put_one("jobs", "x", None)
        assert (store.qsize("jobs"), next(tries, None)) == (1, None)


@pytest.mark.parametrize("first", ["power", "process"])
def test_threads_commit_together_with_power_durability(open_store: Open, first: str) -> None:
    open_store(durability=first, namespace="first")
    store = open_store(durability="power")
    commits: list[str] = []
    store._writer.on_edge = commits.append
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(25):
            put(store)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store._environment.handle().flags()["sync"] is True
    assert store.qsize("jobs") == 100
    assert commits.count("committed") == commits.count("begun") <= 100
    assert store.check().ok


def test_one_of_a_group_that_fails_takes_nothing_with_it(open_store: Open) -> None:
    store = open_store()
    (taken,) = store.mint()
    store.commit(Changes(enqueue=[NewMessage(taken, "jobs", "x")]))
    results: dict[int, object] = {}

    def work(n: int) -> None:
        try:
            results[n] = put(store, "new") if n else store.commit(Changes(enqueue=[NewMessage(taken, "jobs", "y")]))
        except Exception as error:
            results[n] = error

    threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
    with store._writer.lock:  # all of them wait, and become one group
        for thread in threads:
            thread.start()
        while len(store._writer._waiting) < 5:
            pass
    for thread in threads:
        thread.join()
    assert type(results[0]).__name__ == "IdTaken"
    assert store.qsize("new") == 4
    assert store.check().ok


@pytest.mark.multiprocess
def test_a_lock_that_another_process_holds_is_reported_after_the_timeout(open_store: Open, path: Path) -> None:
    store = open_store(timeout=0.05)
    put(store)
    script = (
        "import sys\nfrom localqueue.stores.lmdb import LMDBQueueStore\n"
        "store = LMDBQueueStore(sys.argv[1])\n"
        "store._writer.on_edge = lambda edge: (print(edge, flush=True), sys.stdin.readline())\n"
        "store.put_one('jobs', 'x', None)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with other:
        assert other.stdout is not None and other.stdin is not None
        other.stdout.readline()
        with pytest.raises(QueueStoreLockedError) as refused:
            put(store)
        assert str(refused.value) == (
            f"LMDB queue store at {str(path.resolve())!r} is locked by another process; "
            "use a different store_path/db path or stop the competing process"
        )
        assert store.qsize("jobs") == 1
        other.stdin.write(b"\n\n\n")
        other.stdin.close()
        assert other.wait(30) == 0
    put(store)
    assert store.qsize("jobs") == 3


def test_an_environment_of_another_program_is_refused_and_left_alone(open_store: Open, path: Path) -> None:
    foreign = lmdb.open(str(path))
    with foreign.begin(write=True) as txn:
        txn.put(b"theirs", b"data")
    foreign.close()
    with pytest.raises(QueueStoreVersionError, match="another program"):
        open_store()
    foreign = lmdb.open(str(path))
    with foreign.begin() as txn:
        assert list(txn.cursor()) == [(b"theirs", b"data")]
    foreign.close()


def test_a_store_of_a_newer_release_is_refused(open_store: Open, path: Path) -> None:
    open_store().close()
    raw = lmdb.open(str(path))
    with raw.begin(write=True) as txn:
        txn.put(keys.META, schema.MAGIC + (7).to_bytes(4, "big"))
    raw.close()
    with pytest.raises(QueueStoreVersionError, match=f"schema version: 7; expected at most {schema.current_version()}"):
        open_store()


def test_a_store_of_an_older_release_is_migrated_in_one_transaction(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store() as store:
        put(store)

    def fails(txn: Any) -> None:
        txn.put(b"\x00half", b"done")
        raise RuntimeError("crash")

    ours = schema.MIGRATIONS
    monkeypatch.setattr(schema, "MIGRATIONS", [*ours, fails])
    with pytest.raises(RuntimeError, match="crash"):
        open_store()
    monkeypatch.setattr(schema, "MIGRATIONS", [*ours, lambda txn: txn.put(b"\x00migrated", b"yes")])
    migrated = open_store()
    assert migrated._environment.read(lambda txn: (txn.get(b"\x00half"), txn.get(b"\x00migrated"))) == (None, b"yes")
    assert migrated.qsize("jobs") == 1


def test_a_file_that_is_not_lmdb_is_refused_and_left_alone(open_store: Open, path: Path) -> None:
    path.mkdir()
    (path / "data.mdb").write_bytes(b"not lmdb at all " * 1000)
    with pytest.raises(QueueStoreCorruptError):
        open_store()
    assert (path / "data.mdb").read_bytes() == b"not lmdb at all " * 1000


def test_a_path_that_is_a_file_is_refused(open_store: Open, path: Path) -> None:
    path.write_text("a file")
    with pytest.raises(QueueStoreError, match="is a file"):
        open_store()


@pytest.mark.multiprocess
def test_a_file_that_was_cut_is_reported_instead_of_killing_the_process(open_store: Open, path: Path) -> None:
    with open_store() as store:
        for _ in range(200):
            put(store, payload=os.urandom(2000))
    data = path / "data.mdb"
    os.truncate(data, data.stat().st_size // 2)

    def child() -> None:
        with pytest.raises(QueueStoreCorruptError), LMDBQueueStore(path) as store:
            report = store.check()
            assert not report.ok
            raise QueueStoreCorruptError(report.problems[0])

    assert in_child(child) == 0


@pytest.mark.multiprocess
def test_a_directory_that_can_not_be_written_is_reported_as_read_only(path: Path) -> None:
    LMDBQueueStore(path).close()

    def child() -> None:
        if os.geteuid() == 0:
            os.setuid(65534)
        with pytest.raises(QueueStoreReadOnlyError):
            LMDBQueueStore(path)

    for directory in (path.parent.parent, path.parent):
        directory.chmod(0o755)
    path.chmod(0o555)
    for file in path.iterdir():
        file.chmod(0o444)
    try:
        assert in_child(child) == 0
    finally:
        path.chmod(0o755)


def test_check_finds_what_does_not_agree(open_store: Open, path: Path) -> None:
    with open_store() as store:
        put(store, ordering_key="k")
        put(store, ordering_key="k")
    raw = lmdb.open(str(path))
    with raw.begin(write=True) as txn:
        (ready,) = list(keys.walk_keys(txn, b"r"))
        txn.delete(ready)
        txn.put(keys.ready(1, 5, 1.0, 99), b"")
        (head,) = list(keys.walk_keys(txn, b"H"))
        txn.delete(head)
    raw.close()
    problems = " ".join(open_store().check().problems)
    assert "does not list message" in problems
    assert "nobody holds" in problems


def test_a_backup_that_fails_its_check_is_not_kept(open_store: Open, path: Path, tmp_path: Path) -> None:
    with open_store() as store:
        put(store)
    raw = lmdb.open(str(path))
    with raw.begin(write=True) as txn:
        txn.put(keys.pair(keys.RUN_MEMBERS, 1, 1), b"")
    raw.close()
    with pytest.raises(QueueStoreCorruptError, match="not kept"):
        open_store().backup(tmp_path / "copy")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["queues"]
