"""SAQ on Redis: its worker with the default of ten jobs at a time, results kept for the default ten minutes."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from saq import Queue, Worker

logging.getLogger("saq").setLevel(logging.ERROR)


class Adapter:
    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.queue = Queue.from_url(url)
        self.loop.run_until_complete(self.queue.connect())

    def put_each(self, items: list[dict[str, Any]], laps: list[float]) -> None:
        async def put() -> None:
            for item in items:
                before = time.perf_counter()
                await self.queue.enqueue("bench", item=item)
                laps.append(time.perf_counter() - before)

        self.loop.run_until_complete(put())

    def work_with(self, tally: Any) -> None:
        async def bench(context: Any, *, item: dict[str, Any]) -> None:
            tally()

        async def work() -> None:
            worker = Worker(self.queue, functions=[("bench", bench)])
            running = asyncio.create_task(worker.start())
            while not tally.done.is_set() and not running.done():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)  # for what is written after the last
            worker.event.set()
            await running

        self.loop.run_until_complete(work())

    def close(self) -> None:
        self.loop.run_until_complete(self.queue.disconnect())
        self.loop.close()
