"""PgQueuer on asyncpg with uvloop, as its command line runs it; jobs are marked done in batches.

`batch_size` is how many jobs it takes at a time, 10 by default.
"""

from __future__ import annotations

import json
import time
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.models import Job
from pgqueuer.queries import Queries


class Adapter:
    def __init__(self, url: str, *, batch_size: int = 10) -> None:
        self.url = url
        self.batch_size = batch_size
        self.loop = uvloop.new_event_loop()
        self.connection = self.loop.run_until_complete(asyncpg.connect(url))
        self.queries = Queries(AsyncpgDriver(self.connection))
        self.loop.run_until_complete(self._install())

    async def _install(self) -> None:
        if not await self.queries.schema_is_installed():
            await self.queries.install()

    def put_each(self, items: list[dict[str, Any]], laps: list[float]) -> None:
        async def put() -> None:
            for item in items:
                before = time.perf_counter()
                await self.queries.enqueue("bench", json.dumps(item).encode())
                laps.append(time.perf_counter() - before)

        self.loop.run_until_complete(put())

    def put_many(self, items: list[dict[str, Any]]) -> None:
        payloads = [json.dumps(item).encode() for item in items]
        enqueue = self.queries.enqueue(["bench"] * len(items), payloads, [0] * len(items))
        self.loop.run_until_complete(enqueue)

    def work_with(self, tally: Any) -> None:
        async def work() -> None:
            connection = await asyncpg.connect(self.url)
            worker = PgQueuer(AsyncpgDriver(connection))

            @worker.entrypoint("bench")
            async def handle(job: Job) -> None:
                json.loads(job.payload or b"")
                tally()

            await worker.qm.run(mode=QueueExecutionMode.drain, batch_size=self.batch_size)
            await connection.close()

        self.loop.run_until_complete(work())

    def close(self) -> None:
        self.loop.run_until_complete(self.connection.close())
        self.loop.close()
