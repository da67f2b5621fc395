"""taskiq on the stream broker of taskiq-redis, which acknowledges, and its result backend on Redis where wanted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

logging.getLogger("taskiq").setLevel(logging.ERROR)


class Adapter:
    def __init__(self, url: str, *, results: bool, concurrency: int) -> None:
        self.tally: Any = None
        self.concurrency = concurrency
        self.jobs: list[Any] = []
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.broker: Any = RedisStreamBroker(url=url)
        if results:
            self.broker = self.broker.with_result_backend(RedisAsyncResultBackend(redis_url=url, result_ex_time=3600))
            self.fetch = self._fetch

        @self.broker.task(task_name="measure_text")
        async def measure_text(number: int, text: str) -> int:
            self.tally()
            return number + len(text)

        self.task = measure_text
        self.loop.run_until_complete(self.broker.startup())

    def put_each(self, items: list[dict[str, Any]], laps: list[float]) -> None:
        async def put() -> None:
            for item in items:
                before = time.perf_counter()
                self.jobs.append(await self.task.kiq(item["n"], item["path"]))
                laps.append(time.perf_counter() - before)

        self.loop.run_until_complete(put())

    def work_with(self, tally: Any) -> None:
        self.tally = tally

        async def work() -> None:
            receiver = asyncio.create_task(run_receiver_task(self.broker, max_async_tasks=self.concurrency))
            while not tally.done.is_set() and not receiver.done():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)  # for the acknowledgement of the last
            receiver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await receiver

        self.loop.run_until_complete(work())

    def _fetch(self) -> list[bool]:
        async def fetch() -> list[bool]:
            return [(await job.get_result()).return_value is not None for job in self.jobs]

        return self.loop.run_until_complete(fetch())

    def forget(self) -> None:
        self.jobs.clear()

    def close(self) -> None:
        self.loop.run_until_complete(self.broker.shutdown())
        self.loop.close()
