"""The event loop is never blocked by the store: no call of the worker's reaches it from the loop's thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from localqueue import EffectivelyOnceDelivery, PersistentQueue, SQLiteQueueStore
from localqueue.contracts import FakeClock
from localqueue.contracts.steps import PATIENCE
from localqueue.workers import AsyncWorker, current_job
from tests.unit.worker_steps import Log

#: What a store does without touching a file, a lock or a connection that another thread could hold for long.
INSTANT = {"mint", "url", "namespace", "as_store", "capabilities"}


class Witness:
    """Stands before a store and notes which of its methods are called in which thread."""

    def __init__(self, store: SQLiteQueueStore, loop_thread: int) -> None:
        self._store = store
        self._loop_thread = loop_thread
        self.calls: Counter[str] = Counter()
        self.on_the_loop: list[str] = []

    def _note(self, name: str) -> None:
        self.calls[name] += 1
        if threading.get_ident() == self._loop_thread and name not in INSTANT:
            self.on_the_loop.append(name)

    def __getattr__(self, name: str) -> Any:
        self._note(name)
        found = getattr(self._store, name)
        return self._wrapped(name, found) if name.startswith("listen") else found

    def _wrapped(self, name: str, listen: Any) -> Any:
        def listening(*arguments: Any, **options: Any) -> Any:
            return _WaiterWitness(listen(*arguments, **options), self)

        return listening


class _WaiterWitness:
    def __init__(self, waiter: Any, witness: Witness) -> None:
        self._waiter = waiter
        self._witness = witness

    def heard(self, timeout: float | None = None) -> bool:
        self._witness._note("wait")
        return bool(self._waiter.heard(timeout))

    def interrupt(self) -> None:
        self._waiter.interrupt()

    def close(self) -> None:
        self._waiter.close()


@pytest.mark.parametrize("policy", [None, EffectivelyOnceDelivery()], ids=["at-least-once", "effectively-once"])
def test_no_call_of_the_store_is_made_in_the_loops_thread(tmp_path: Path, policy: Any) -> None:
    with SQLiteQueueStore(tmp_path / "jobs.sqlite3", clock=FakeClock()) as real:  # by which no lease runs out
        witness = Witness(real, threading.get_ident())
        options = {} if policy is None else {"delivery_policy": policy}
        queue = PersistentQueue[Any]("jobs", store=witness, lease_timeout=0.15, **options)  # type: ignore[arg-type]
        keyed = {} if policy is None else {"dedupe_key": "a"}
        log = Log()

        async def handler(value: str) -> None:
            if value == "fails":
                raise ValueError("no")
            if value == "first":
                current_job().put("follow-up", **({} if policy is None else {"dedupe_key": "b"}))
                while not witness.calls["renew"]:
                    await asyncio.sleep(0.01)

        async def main() -> None:
            worker = AsyncWorker(queue, handler, max_tries=1, on_settled=log)
            task = asyncio.create_task(worker.run())
            async with asyncio.timeout(PATIENCE):
                while not witness.calls["wait"]:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(queue.put, "first", **keyed)
                await asyncio.to_thread(queue.put, "fails", **({} if policy is None else {"dedupe_key": "c"}))
                while len(log.settled) < 3:
                    await asyncio.sleep(0.01)
                worker.stop()
                await task

        asyncio.run(main())
    assert witness.on_the_loop == []
    assert {"lease", "commit", "renew", "heartbeat", "wait"} <= set(witness.calls)
    assert sorted(log.states) == ["acked", "acked", "dead-lettered"]


def test_the_loop_goes_on_while_another_program_has_the_store_locked(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite3"
    with SQLiteQueueStore(path) as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        queue.put("x")
        foreign = sqlite3.connect(path, isolation_level=None)
        turns = 0

        async def main() -> None:
            nonlocal turns
            started, locked = asyncio.Event(), asyncio.Event()

            async def handler(value: str) -> None:
                started.set()
                await locked.wait()

            worker = AsyncWorker(queue, handler)
            task = asyncio.create_task(worker.run())
            await started.wait()
            foreign.execute("BEGIN IMMEDIATE")
            locked.set()  # from here on the worker wants to settle and to lease
            for _ in range(200):
                await asyncio.sleep(0.001)
                turns += 1
            assert not task.done()
            foreign.execute("ROLLBACK")
            worker.stop()
            counts = await asyncio.wait_for(task, PATIENCE)
            assert counts.acked == 1

        asyncio.run(main())
        foreign.close()
    assert turns == 200
