"""A process that is killed between two attempts loses none of those it made."""

from __future__ import annotations

import asyncio
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_none

from localqueue.contracts.steps import PATIENCE
from localqueue.retry import (
    LMDBAttemptStore,
    PersistentAsyncRetrying,
    PersistentRetrying,
    QueueAttemptStore,
    SQLiteAttemptStore,
)
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.processes import context

MAX_TRIES = 5


def open_store(kind: str, path: str) -> Any:
    match kind:
        case "sqlite":
            return SQLiteAttemptStore(path)
        case "lmdb":
            return LMDBAttemptStore(path)
        case _:
            return AttemptsWithQueueStore(SQLiteQueueStore(path))


class AttemptsWithQueueStore(QueueAttemptStore):
    def __init__(self, store: SQLiteQueueStore) -> None:
        super().__init__(store)
        self._owned = store

    def close(self) -> None:
        self._owned.close()


def fail_until_killed(connection: Connection, kind: str, path: str, mode: str, tries: int) -> None:
    """Fail, report each call, and die in the sleep after `tries` of them."""
    made = 0

    def work() -> None:
        nonlocal made
        made += 1
        connection.send("called")
        raise ConnectionError

    async def work_async() -> None:
        work()

    def sleep(seconds: float) -> None:
        if made == tries:
            os.kill(os.getpid(), signal.SIGKILL)

    settings: dict[str, Any] = {"key": "k", "max_tries": MAX_TRIES, "wait": wait_none(), "sleep": sleep}
    store = open_store(kind, path)
    if mode == "sync":
        PersistentRetrying(store=store, **settings)(work)
    else:
        asyncio.run(PersistentAsyncRetrying(store=store, **settings)(work_async))  # type: ignore[arg-type]


@pytest.mark.crash
@pytest.mark.multiprocess
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("kind", ["sqlite", "lmdb", "queue"])
def test_the_next_process_goes_on_counting(tmp_path: Path, kind: str, mode: str) -> None:
    path = str(tmp_path / "attempts")
    for tries in (2, 1):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=fail_until_killed, args=(theirs, kind, path, mode, tries), daemon=True)
        process.start()
        theirs.close()
        process.join(PATIENCE * 2)
        assert process.exitcode == -signal.SIGKILL
        assert [ours.recv() for _ in range(tries)] == ["called"] * tries
        ours.close()
    calls = 0

    def work() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionError

    with open_store(kind, path) as store:
        with pytest.raises(ConnectionError):
            PersistentRetrying(store=store, key="k", max_tries=MAX_TRIES, wait=wait_none())(work)
        assert calls == MAX_TRIES - 3
        assert store.load("k").exhausted
