"""taskiq on taskiq-redis: the stream broker, which acknowledges, or with `lists` the list broker, which does not.

The receiver has the settings that its command line gives it; there is no result backend.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from taskiq.api import run_receiver_task
from taskiq_redis import ListQueueBroker, RedisStreamBroker

logging.getLogger("taskiq").setLevel(logging.ERROR)


class Adapter:
    def __init__(self, url: str, *, lists: bool = False) -> None:
        self.tally: Any = None
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.broker = (ListQueueBroker if lists else RedisStreamBroker)(url=url)

        @self.broker.task(task_name="bench")
        async def work(item: dict[str, Any]) -> None:
            self.tally()

        self.task = work
        self.loop.run_until_complete(self.broker.startup())

    def put_each(self, items: list[dict[str, Any]], laps: list[float]) -> None:
        async def put() -> None:
            for item in items:
                before = time.perf_counter()
                await self.task.kiq(item)
                laps.append(time.perf_counter() - before)

        self.loop.run_until_complete(put())

    def work_with(self, tally: Any) -> None:
        self.tally = tally

        async def work() -> None:
            receiver = asyncio.create_task(run_receiver_task(self.broker, max_async_tasks=100))
            while not tally.done.is_set() and not receiver.done():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)  # for the acknowledgement of the last
            receiver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await receiver

        self.loop.run_until_complete(work())

    def close(self) -> None:
        self.loop.run_until_complete(self.broker.shutdown())
        self.loop.close()
