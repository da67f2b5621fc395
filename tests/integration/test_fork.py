"""A store that was open when the process forked works in both: nothing is lost, nothing is stored twice."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from localqueue import AsyncQueue, PersistentQueue
from localqueue.stores.port import Changes, LeaseRequest, NewMessage
from localqueue.stores.sqlite import MemoryQueueStore
from tests.crash.children import Child
from tests.crash.stores import OPENERS, open_store

pytestmark = pytest.mark.multiprocess

PUTS = 100
PATIENCE = 30.0


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a fork of this process; its process id. It exits with 0 when the work raised nothing."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def exit_code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def put_all(store: Any, who: str) -> None:
    for n in range(PUTS):
        store.put_one("jobs", f"{who}-{n}", None)


def names(*who: str) -> list[str]:
    return sorted(f"{one}-{n}" for one in who for n in range(PUTS))


def payloads(store: Any) -> list[str]:
    return sorted(str(message.payload) for message in store.scan("jobs"))


def use_in_both(connection: Connection, kind: str, path: str) -> None:
    store = open_store(kind, path)
    put_all(store, "before")
    assert not store.listen(["nothing"]).wait(0)  # so that the connection that watches the file is open too
    children = [forked(lambda n=n: put_all(store, f"child{n}")) for n in range(3)]
    put_all(store, "parent")
    connection.send([exit_code_of(pid) for pid in children])
    put_all(store, "after")
    connection.send(payloads(store))
    connection.send(store.check().problems)
    store.close()


@pytest.mark.parametrize("kind", OPENERS)
def test_an_inherited_store_works_in_parent_and_children_at_once(kind: str, tmp_path: Path) -> None:
    codes, held, problems = Child(use_in_both, kind, str(tmp_path / "store")).reports()
    assert codes == [0, 0, 0]
    assert held == names("before", "parent", "after", "child0", "child1", "child2")
    assert problems == ()
    with open_store(kind, tmp_path / "store") as store:
        assert payloads(store) == held


def wait_and_put_on_loops(connection: Connection, kind: str, path: str) -> None:
    """Fork while a coroutine of another thread waits, and have each child wait on a loop of its own."""
    store = open_store(kind, path)
    waits = threading.Event()

    async def wait_here() -> None:
        async with AsyncQueue[str]("parent", store=store) as queue:
            getting = asyncio.ensure_future(queue.get())
            with pytest.raises(Empty):
                await queue.get_message(timeout=0.1)
            waits.set()
            connection.send(await getting)

    async def wait_there(n: int) -> None:
        async with asyncio.timeout(PATIENCE), AsyncQueue[str](f"child{n}", store=store) as queue:
            getting = asyncio.ensure_future(queue.get())
            with pytest.raises(Empty):
                await queue.get_message(timeout=0.1)
            await queue.put("x")
            assert await getting == "x"

    thread = threading.Thread(target=asyncio.run, args=(wait_here(),))
    thread.start()
    assert waits.wait(PATIENCE)
    children = [forked(lambda n=n: asyncio.run(wait_there(n))) for n in range(3)]
    connection.send([exit_code_of(pid) for pid in children])
    PersistentQueue("parent", store=store).put("told")
    thread.join()
    store.close()


@pytest.mark.parametrize("kind", OPENERS)
def test_coroutines_wait_in_parent_and_children(kind: str, tmp_path: Path) -> None:
    codes, heard = Child(wait_and_put_on_loops, kind, str(tmp_path / "store")).reports()
    assert codes == [0, 0, 0]
    assert heard == "told"


def consume_in_both(connection: Connection, kind: str, path: str) -> None:
    store = open_store(kind, path)
    put_all(store, "m")
    reading, writing = os.pipe()

    def consume() -> None:
        while messages := store.lease(LeaseRequest("jobs")):
            assert store.ack_one("jobs", messages[0].id, messages[0].attempts)
            os.write(writing, f"{messages[0].payload!s}\n".encode())

    child = forked(consume)
    consume()
    code = exit_code_of(child)
    os.close(writing)
    with os.fdopen(reading) as lines:
        connection.send((code, lines.read().split(), payloads(store)))


@pytest.mark.parametrize("kind", OPENERS)
def test_parent_and_child_never_get_the_same_message(kind: str, tmp_path: Path) -> None:
    ((code, acked, left),) = Child(consume_in_both, kind, str(tmp_path / "store")).reports()
    assert code == 0
    assert sorted(acked) == names("m")
    assert left == []


def fork_during_a_write(connection: Connection, kind: str, path: str) -> None:
    """Fork while another thread is inside a long write transaction."""
    store = open_store(kind, path, timeout=2 * PATIENCE)
    put_all(store, "before")
    inside = threading.Event()
    store._writer.on_edge = lambda edge: inside.set() if edge == "begun" else None
    ids = store.mint(20_000)
    batch = Changes(enqueue=[NewMessage(i, "batch", "x" * 100, priority=n % 3) for n, i in enumerate(ids)])
    thread = threading.Thread(target=store.commit, args=(batch,))
    thread.start()
    assert inside.wait(PATIENCE)
    child = forked(lambda: put_all(store, "child"))
    put_all(store, "parent")
    thread.join()
    connection.send((exit_code_of(child), payloads(store), store.qsize("batch"), store.check().problems))


@pytest.mark.parametrize("kind", OPENERS)
def test_a_fork_while_another_thread_writes_leaves_both_with_a_working_store(kind: str, tmp_path: Path) -> None:
    ((code, held, batch, problems),) = Child(fork_during_a_write, kind, str(tmp_path / "store")).reports()
    assert code == 0
    assert held == names("before", "child", "parent")
    assert batch == 20_000
    assert problems == ()


def close_in_child(connection: Connection, kind: str, path: str) -> None:
    store = open_store(kind, path)
    put_all(store, "before")
    code = exit_code_of(forked(store.close))
    put_all(store, "parent")
    with open_store(kind, path) as second:
        put_all(second, "second")
        connection.send((code, payloads(store), payloads(second), second.check().problems))


@pytest.mark.parametrize("kind", OPENERS)
def test_a_child_that_closes_the_store_does_not_close_the_parents(kind: str, tmp_path: Path) -> None:
    ((code, held, seen, problems),) = Child(close_in_child, kind, str(tmp_path / "store")).reports()
    assert code == 0
    assert held == seen == names("before", "parent", "second")
    assert problems == ()


def child_outlives_parent(connection: Connection, kind: str, path: str) -> None:
    """The parent closes its store while the child goes on: the child's locks must be its own."""
    store = open_store(kind, path)
    put_all(store, "before")
    reading, writing = os.pipe()

    def go_on() -> None:
        store.put_one("jobs", "child-first", None)
        os.close(writing)
        assert os.read(reading, 1) == b""  # the parent has closed
        put_all(store, "child")

    child = forked(go_on)
    store.close()
    with open_store(kind, path) as other:
        put_all(other, "other")
    os.close(writing)
    connection.send(exit_code_of(child))


@pytest.mark.parametrize("kind", OPENERS)
def test_a_child_goes_on_after_the_parent_closed_the_store(kind: str, tmp_path: Path) -> None:
    assert Child(child_outlives_parent, kind, str(tmp_path / "store")).reports() == [0]
    with open_store(kind, tmp_path / "store") as store:
        assert payloads(store) == sorted([*names("before", "child", "other"), "child-first"])
        assert store.check().problems == ()


def fork_memory(connection: Connection) -> None:
    store = MemoryQueueStore()
    put_all(store, "before")

    def in_child() -> None:
        put_all(store, "child")
        assert payloads(store) == names("before", "child")

    code = exit_code_of(forked(in_child))
    put_all(store, "parent")
    connection.send((code, payloads(store)))


def test_a_memory_store_is_copied_by_a_fork() -> None:
    ((code, held),) = Child(fork_memory).reports()
    assert code == 0
    assert held == names("before", "parent")
