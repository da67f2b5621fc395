"""Temporal: workflows and activities of its Python SDK against a development server; the end comes by a long poll.

With `local` the steps are local activities: they run inside the task of the workflow, and what they returned is stored
when that task is, not one by one.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker import Worker as TemporalWorker

QUEUE = "bench"


@activity.defn
async def first() -> int:
    return 1


@activity.defn
async def add_one(value: int) -> int:
    return value + 1


@activity.defn
async def add_two(value: int) -> int:
    return value + 2


@activity.defn
async def verify(one: int, other: int) -> int:
    return one + other


@activity.defn
async def transform(value: int) -> int:
    return value * 2


@activity.defn
async def audit(value: int) -> int:
    return value * 3


@activity.defn
async def finish(verified: int, transformed: int, audited: int) -> int:
    return verified + transformed + audited


STEPS = [first, add_one, add_two, verify, transform, audit, finish]


async def step(local: bool, function: Callable[..., Any], *values: int) -> int:
    execute: Any = workflow.execute_local_activity if local else workflow.execute_activity
    result: int = await execute(function, args=values, start_to_close_timeout=timedelta(seconds=60))
    return result


@workflow.defn(name="linear")
class Linear:
    @workflow.run
    async def run(self, local: bool) -> int:
        return await step(local, add_one, await step(local, add_one, await step(local, first)))


@workflow.defn(name="dag")
class Dag:
    @workflow.run
    async def run(self, local: bool) -> int:
        start = await step(local, first)
        left = asyncio.create_task(step(local, add_one, start))
        right = asyncio.create_task(step(local, add_two, start))

        async def after(function: Callable[..., Any], *upstream: asyncio.Task[int]) -> int:
            return await step(local, function, *[await one for one in upstream])

        return await step(
            local,
            finish,
            *await asyncio.gather(after(verify, left, right), after(transform, left), after(audit, right)),
        )


class Loop:
    """An event loop in a thread of its own, where connections live as long as their process."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Worker:
    def __init__(self, address: str, **_: Any) -> None:
        self.address = address
        self.loop = Loop()

    def start(self) -> None:
        self.loop.run(self._start())

    async def _start(self) -> None:
        client = await Client.connect(self.address)
        self.worker = TemporalWorker(
            client,
            task_queue=QUEUE,
            workflows=[Linear, Dag],
            activities=STEPS,
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        self.running = asyncio.create_task(self.worker.run())

    def stop(self) -> None:
        self.loop.run(self.worker.shutdown())
        self.loop.close()


class Starter:
    def __init__(self, address: str, *, local: bool) -> None:
        self.local = local
        self.numbers = itertools.count()
        self.loop = asyncio.new_event_loop()
        self.client = self.loop.run_until_complete(Client.connect(address))

    async def _run(self, shape: str) -> Any:
        return await self.client.execute_workflow(
            shape, self.local, id=f"{shape}-{os.getpid()}-{next(self.numbers)}", task_queue=QUEUE
        )

    def run(self, shape: str) -> Any:
        return self.loop.run_until_complete(self._run(shape))

    def run_many(self, shape: str, n: int) -> list[Any]:
        async def all_of_them() -> list[Any]:
            return await asyncio.gather(*(self._run(shape) for _ in range(n)))

        return self.loop.run_until_complete(all_of_them())

    def close(self) -> None:
        self.loop.close()
