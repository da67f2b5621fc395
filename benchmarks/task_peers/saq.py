"""SAQ on Redis with a coroutine function of two arguments; without results its jobs have a ttl of -1."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from saq import Queue, Worker

logging.getLogger("saq").setLevel(logging.ERROR)


class Adapter:
    def __init__(self, url: str, *, results: bool, concurrency: int) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.queue = Queue.from_url(url)
        self.loop.run_until_complete(self.queue.connect())
        self.options: dict[str, Any] = {} if results else {"ttl": -1}
        self.concurrency = concurrency
        self.jobs: list[Any] = []
        if results:
            self.fetch = self._fetch

    def put_each(self, items: list[dict[str, Any]], laps: list[float]) -> None:
        async def put() -> None:
            for item in items:
                before = time.perf_counter()
                job = await self.queue.enqueue("measure_text", number=item["n"], text=item["path"], **self.options)
                self.jobs.append(job)
                laps.append(time.perf_counter() - before)

        self.loop.run_until_complete(put())

    def work_with(self, tally: Any) -> None:
        async def measure_text(context: Any, *, number: int, text: str) -> int:
            tally()
            return number + len(text)

        async def work() -> None:
            worker = Worker(self.queue, functions=[("measure_text", measure_text)], concurrency=self.concurrency)
            running = asyncio.create_task(worker.start())
            while not tally.done.is_set() and not running.done():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)  # for what is written after the last
            worker.event.set()
            await running

        self.loop.run_until_complete(work())

    def _fetch(self) -> list[bool]:
        async def fetch() -> list[bool]:
            for job in self.jobs:
                await job.refresh()
            return [job.result is not None for job in self.jobs]

        return self.loop.run_until_complete(fetch())

    def forget(self) -> None:
        self.jobs.clear()

    def close(self) -> None:
        self.loop.run_until_complete(self.queue.disconnect())
        self.loop.close()
