"""streaq on Redis, with coredis: its worker with the default of 16 tasks at a time, results kept by default."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import anyio
from streaq import Worker


class Adapter:
    def __init__(self, url: str) -> None:
        self.tally: Any = None
        self.url = url
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)

    def _worker(self) -> tuple[Any, Any]:
        worker: Any = Worker(redis_url=self.url, handle_signals=False)

        @worker.task(name="bench")
        async def bench(item: dict[str, Any]) -> None:
            self.tally()

        return worker, bench

    def put_each(self, items: list[dict[str, Any]], laps: list[float]) -> None:
        async def put() -> None:
            worker, bench = self._worker()
            async with worker:
                for item in items:
                    before = time.perf_counter()
                    await bench.enqueue(item)
                    laps.append(time.perf_counter() - before)

        self.loop.run_until_complete(put())

    def work_with(self, tally: Any) -> None:
        self.tally = tally

        async def work() -> None:
            worker, _ = self._worker()
            async with anyio.create_task_group() as group:
                await group.start(worker.run_async)
                while not tally.done.is_set():
                    await anyio.sleep(0.01)
                await anyio.sleep(0.05)  # for the acknowledgement of the last
                group.cancel_scope.cancel()

        self.loop.run_until_complete(work())

    def close(self) -> None:
        self.loop.close()
