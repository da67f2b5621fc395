"""Dispatchers and processes: a kill loses nothing, and a fork works on its own."""

from __future__ import annotations

import os
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, QueueMessage, SQLiteQueueStore, ThreadedDispatcher
from localqueue.contracts.dispatchers import Calls
from localqueue.contracts.steps import PATIENCE
from tests.processes import context

DEADLINE = 3 * PATIENCE  # for what another process does


def _die_in_a_handler(path: str, connection: Connection) -> None:
    def handle(message: QueueMessage[Any]) -> None:
        connection.send(message.value)
        if message.value == 2:
            os.kill(os.getpid(), 9)

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store_path=path, dispatch_policy=ThreadedDispatcher((handle,), maxsize=3)
    )
    queue.put_many(range(10))
    queue.dispatch_policy.drain()  # type: ignore[attr-defined]


@pytest.mark.crash
@pytest.mark.multiprocess
def test_messages_of_a_killed_dispatcher_are_delivered_by_the_next_one(tmp_path: Path) -> None:
    path = str(tmp_path / "q.db")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_die_in_a_handler, args=(path, theirs), daemon=True)
    process.start()
    theirs.close()
    process.join(DEADLINE)
    assert process.exitcode == -9
    handled = []
    while ours.poll():
        try:
            handled.append(ours.recv())
        except EOFError:
            break
    assert handled == [0, 1, 2]
    calls = Calls()
    dispatcher = ThreadedDispatcher((calls,))
    with (
        SQLiteQueueStore(path, clock=lambda: time.time() + 60) as store,  # when the leases have run out
        PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher) as queue,
    ):
        dispatcher.start()
        assert sorted(calls.values(8)) == list(range(2, 10))
        assert dispatcher.drain(PATIENCE)
        assert queue.stats().total == 0


def _fork_with_a_dispatcher(path: str, connection: Connection) -> None:
    calls = Calls()

    def where(message: QueueMessage[Any]) -> None:
        connection.send((message.value, os.getpid()))

    queue: PersistentQueue[Any] = PersistentQueue(
        "jobs", store_path=path, dispatch_policy=ThreadedDispatcher((where, calls))
    )
    queue.put("before")
    calls.next()
    queue.dispatch_policy.close()  # type: ignore[attr-defined]
    queue.dispatch_policy.bind(queue)  # type: ignore[attr-defined]
    queue.put("started")
    calls.next()
    queue.pause()  # so that the parent can not take what the child puts
    child = os.fork()
    if child == 0:
        code = 1
        try:
            queue.put("of the child")
            queue.resume()
            queue.dispatch_policy.drain(PATIENCE)  # type: ignore[attr-defined]
            queue.close()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    connection.send(("exit code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    queue.put("after")
    queue.dispatch_policy.drain(PATIENCE)  # type: ignore[attr-defined]
    queue.close()


@pytest.mark.multiprocess
def test_a_forked_child_starts_threads_of_its_own(tmp_path: Path) -> None:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_fork_with_a_dispatcher, args=(str(tmp_path / "q.db"), theirs), daemon=True)
    process.start()
    theirs.close()
    told: dict[str, int] = {}
    while ours.poll(DEADLINE):
        try:
            what, number = ours.recv()
        except EOFError:
            break
        told[what] = number
    process.join(DEADLINE)
    assert process.exitcode == 0
    assert told["exit code"] == 0
    assert set(told) == {"before", "started", "of the child", "after", "exit code"}
    assert told["before"] == told["started"] == told["after"]
