"""RQ on Redis: its SimpleWorker, which runs jobs in its own process; the default one forks for each and is slower."""

from __future__ import annotations

import sys
from typing import Any

from redis import Redis
from rq import Queue, SimpleWorker

TALLY: Any = None


def bench(item: dict[str, Any]) -> None:
    TALLY()


class Adapter:
    def __init__(self, url: str) -> None:
        sys.modules["bench_adapter"].bench = bench  # type: ignore[attr-defined]
        self.client = Redis.from_url(url)
        self.queue = Queue(connection=self.client)

    def put(self, item: dict[str, Any]) -> None:
        self.queue.enqueue(bench, item)

    def work_with(self, tally: Any) -> None:
        global TALLY
        TALLY = tally
        SimpleWorker([self.queue], connection=self.client).work(burst=True, logging_level="WARNING")

    def close(self) -> None:
        self.client.close()
