"""DBOS: workflows of steps on its system database.

From another process a workflow is put on a queue by `DBOSClient`; the queue is polled, and so is the result, because
neither has a push. Both intervals are far below their default of a second. With `own_process` the starter runs the
workflows itself, which is how DBOS is usually embedded: then nothing is polled.

Steps of a workflow are told apart by the order in which they were called, so steps that run at the same time are called
in layers: T, which needs only L, is called when R is done too.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig

QUEUE = "bench"


@DBOS.step()
def first() -> int:
    return 1


@DBOS.step()
def add_one(value: int) -> int:
    return value + 1


@DBOS.workflow(name="linear")
def linear() -> int:
    return add_one(add_one(first()))


@DBOS.step()
async def init() -> int:
    return 1


@DBOS.step()
async def left(value: int) -> int:
    return value + 1


@DBOS.step()
async def right(value: int) -> int:
    return value + 2


@DBOS.step()
async def verify(one: int, other: int) -> int:
    return one + other


@DBOS.step()
async def transform(value: int) -> int:
    return value * 2


@DBOS.step()
async def audit(value: int) -> int:
    return value * 3


@DBOS.step()
async def finish(verified: int, transformed: int, audited: int) -> int:
    return verified + transformed + audited


@DBOS.workflow(name="dag")
async def dag() -> int:
    start = await init()
    one, other = await asyncio.gather(left(start), right(start))
    return await finish(*await asyncio.gather(verify(one, other), transform(one), audit(other)))


def use_wal() -> None:
    """Reach into the connections to SQLite, which DBOS leaves as they are: a rollback journal and a sync a commit."""

    @sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")


def launch(address: str) -> None:
    DBOS(config=DBOSConfig(name="bench", system_database_url=address, log_level="ERROR", application_version="1"))
    DBOS.launch()


class Worker:
    def __init__(self, address: str, *, poll: float, wal: bool = False, **_: Any) -> None:
        self.address, self.poll = address, poll
        if wal:
            use_wal()

    def start(self) -> None:
        launch(self.address)
        DBOS.register_queue(QUEUE, polling_interval_sec=self.poll, on_conflict="always_update")

    def stop(self) -> None:
        DBOS.destroy()


class Starter:
    def __init__(
        self, address: str, *, poll: float, threads: int, wal: bool = False, own_process: bool = False
    ) -> None:
        if wal:
            use_wal()
        self.own_process, self.poll = own_process, poll
        self.pool = ThreadPoolExecutor(threads)
        if own_process:
            launch(address)
        else:
            self.client = DBOSClient(system_database_url=address)

    def start(self, shape: str) -> Any:
        if self.own_process:
            return DBOS.start_workflow({"linear": linear, "dag": dag}[shape])
        return self.client.enqueue({"workflow_name": shape, "queue_name": QUEUE, "app_version": "1"})

    def run(self, shape: str) -> Any:
        return self.start(shape).get_result(polling_interval_sec=self.poll)

    def run_many(self, shape: str, n: int) -> list[Any]:
        handles = list(self.pool.map(lambda _: self.start(shape), range(n)))
        return [handle.get_result(polling_interval_sec=self.poll) for handle in handles]

    def close(self) -> None:
        self.pool.shutdown()
        if self.own_process:
            DBOS.destroy()
        else:
            self.client.destroy()
