"""arq on Redis, with hiredis: its worker with the default of ten jobs at a time, results kept for the default hour.

An idle look for jobs is due every half second by default, and a burst ends when no job is left.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func


class Adapter:
    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.settings = RedisSettings.from_dsn(url)
        self.pool = self.loop.run_until_complete(create_pool(self.settings))

    def put_each(self, items: list[dict[str, Any]], laps: list[float]) -> None:
        async def put() -> None:
            for item in items:
                before = time.perf_counter()
                await self.pool.enqueue_job("bench", item)
                laps.append(time.perf_counter() - before)

        self.loop.run_until_complete(put())

    def work_with(self, tally: Any) -> None:
        async def bench(context: Any, item: dict[str, Any]) -> None:
            tally()

        async def work() -> None:
            functions = [func(bench, name="bench")]
            worker = Worker(functions, redis_settings=self.settings, burst=True, handle_signals=False)
            await worker.async_run()
            await worker.close()

        self.loop.run_until_complete(work())

    def close(self) -> None:
        self.loop.run_until_complete(self.pool.aclose())
        self.loop.close()
